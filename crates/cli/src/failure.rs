//! What went wrong, what to do about it, and the exit code: for people and for programs.
//!
//! What always holds: a failure is one line of text on standard error, or with --json one object
//! { "error", "hint", "code" } on one line; `code` is what the process ends with.

use std::fmt;
use std::io;
use std::sync::OnceLock;

use barn::space::futures::role_name;
use barn::space::{Refusal as Refused, SpaceError};
use barn::{ClientError, Error, TableError};
use barn_fabric::ConnectError;
use barn_layout::handshake::Refusal;
use serde_json::json;

/// What to do where no node is.
const NO_NODE_HINT: &str = "start one with `barn serve`, or say where one is (--node ADDRESS, or BARN_NODE)";

/// It failed.
pub const FAILED: u8 = 1;
/// The command line, or the configuration, was not understood.
pub const USAGE: u8 = 2;
/// The node could not be reached, or lets nobody in.
pub const NO_NODE: u8 = 4;

/// A failure, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong.
    pub error: String,
    /// What to do next.
    pub hint: Option<String>,
    /// What the process ends with.
    pub code: u8,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}: {hint}", self.error),
            None => f.write_str(&self.error),
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        io::Error::other(failure)
    }
}

impl Failure {
    /// A failure with a hint.
    pub fn new(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { error: error.into(), hint: Some(hint.into()), code: FAILED }
    }

    /// A failure with nothing to add.
    pub fn plain(error: impl Into<String>) -> Self {
        Self { error: error.into(), hint: None, code: FAILED }
    }

    /// A command line that parses, and means nothing.
    pub fn usage(error: impl Into<String>) -> Self {
        Self { error: error.into(), hint: None, code: USAGE }
    }

    /// The failure inside of an error, whatever command it comes from.
    pub fn of(error: &io::Error) -> Self {
        let Some(inner) = error.get_ref() else { return Self::plain(error.to_string()) };
        if let Some(failure) = inner.downcast_ref::<Failure>() {
            return failure.clone();
        }
        if let Some(error) = inner.downcast_ref::<ConnectError>() {
            return connecting(error);
        }
        match inner.downcast_ref::<Error>() {
            Some(Error::Connect(error)) => connecting(error),
            Some(Error::Table(TableError::NoTable(name))) => no_table(name, None),
            Some(
                Error::Client(ClientError::Unreachable { .. })
                | Error::Table(TableError::Client(ClientError::Unreachable { .. })),
            ) => Self { code: NO_NODE, ..Self::plain(error.to_string()) },
            Some(Error::Space(SpaceError::Refused(refusal))) => space(refusal, error),
            _ => Self::plain(error.to_string()),
        }
    }

    /// Says it on standard error.
    pub fn say(&self) {
        match is_json() {
            true => anstream::eprintln!(
                "{}",
                json!({ "error": self.error, "hint": self.hint, "code": self.code })
            ),
            false => anstream::eprintln!("barn: {self}"),
        }
    }
}

/// A table that is not there, and the one that was probably meant.
pub fn no_table(name: &str, nearest: Option<&str>) -> Failure {
    let hint = match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? `barn table list` shows what there is"),
        None => format!("`barn table list` shows what there is, `barn table create {name}` makes it"),
    };
    Failure::new(format!("no table `{name}`"), hint)
}

/// What the master of spaces refused, and what to do about it here.
fn space(refusal: &Refused, error: &io::Error) -> Failure {
    match refusal {
        Refused::NoSpace { name } => {
            Failure::new(format!("no space `{name}`"), "`barn space list` shows what there is")
        }
        Refused::BadKey => Failure::new(
            "the key is none of this space's",
            "give the one that `barn space create` printed (--key, or BARN_SPACE_KEY)",
        ),
        Refused::NotAllowed { needed, .. } => Failure::new(
            format!("that takes the key of {}", role_name(*needed)),
            "give it with --key, or as BARN_SPACE_KEY",
        ),
        _ => Failure::plain(error.to_string()),
    }
}

fn connecting(error: &ConnectError) -> Failure {
    let (said, hint) = match error {
        ConnectError::Address { address } => {
            return Failure {
                error: format!("`{address}` is no address"),
                hint: Some("write shm:PATH or tcp://HOST:PORT".into()),
                code: USAGE,
            };
        }
        ConnectError::NoNode { address, cause } if cause.kind() == io::ErrorKind::PermissionDenied => {
            (format!("no way to the node at {address} ({cause})"), Some("run as the node's user"))
        }
        ConnectError::NoNode { address, cause } => {
            (format!("no node at {address} ({cause})"), Some(NO_NODE_HINT))
        }
        ConnectError::Refused { refusal: Refusal::BadToken, .. } => (
            "the token is not the node's".into(),
            Some("name the token file that the node was started with (--token-file)"),
        ),
        ConnectError::NodeUnproved => (
            "the node at that address does not know the token".into(),
            Some("it may not be yours: check the address"),
        ),
        ConnectError::Deadline => (
            "the node did not answer within the deadline".into(),
            Some("give it longer (--deadline-ms), or look whether it is stopped"),
        ),
        other => (other.to_string(), None),
    };
    Failure { error: said, hint: hint.map(str::to_owned), code: NO_NODE }
}

static JSON: OnceLock<bool> = OnceLock::new();

/// Says once, at the start, which form failures have.
pub fn speak_json(json: bool) {
    // Whoever is first is right: there is one command line.
    let _ = JSON.set(json);
}

/// Whether failures are said in JSON.
pub fn is_json() -> bool {
    JSON.get().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_all_layers_come_with_what_to_do_next() {
        let nobody =
            || ConnectError::NoNode { address: "shm:/x".into(), cause: io::Error::from_raw_os_error(2) };
        for error in [io::Error::other(nobody()), io::Error::other(Error::Connect(nobody()))] {
            let failure = Failure::of(&error);
            assert_eq!(failure.code, NO_NODE);
            assert_eq!(failure.hint.as_deref(), Some(NO_NODE_HINT));
            assert!(failure.to_string().starts_with("no node at shm:/x (No such file"), "{failure}");
        }
        let failure = Failure::of(&io::Error::other(Error::Table(TableError::NoTable("t".into()))));
        assert_eq!(
            failure.to_string(),
            "no table `t`: `barn table list` shows what there is, `barn table create t` makes it"
        );
        let cause = String::from("Connection refused");
        let gone = ClientError::Unreachable { member: barn::MemberId(2), cause };
        let failure = Failure::of(&io::Error::other(Error::Table(TableError::Client(gone))));
        assert_eq!(failure.code, NO_NODE, "{failure}");
        let failure = Failure::of(&Failure::usage("what?").into());
        assert_eq!((failure.to_string().as_str(), failure.code), ("what?", USAGE));
        assert_eq!(Failure::of(&io::Error::from_raw_os_error(28)).code, FAILED);
        assert!(no_table("user", Some("users")).to_string().contains("did you mean `users`?"));
    }
}
