//! The one table of a node's settings.
//!
//! Flags, environment variables, `barn.toml`, help and documentation all follow from it: to add a
//! setting, add a row here and a field to [`ServerOptions`].
//!
//! What always holds: a row's key in upper case with `BARN_` before it is its environment variable;
//! with dashes for underscores and `--` before it, it is its flag.

use super::bytes::Bytes;
use super::resolve::Defaults;
use super::{LEASE_MS_MAX, LEASE_MS_MIN, ServerOptions, WINDOW_MS_MAX};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The word for "not at all" where a setting may be left out.
pub const NONE: &str = "none";

/// The word for "half as much as another".
const HALF: &str = "half";

/// The shortest checkpoint that is worth its own cost: 1 MiB.
const CHECKPOINT_BYTES_MIN: u64 = 1 << 20;
/// An hour: whoever wants to sync less often wants `memory`.
const SYNC_INTERVAL_MS_MAX: u64 = 3_600_000;

/// How a value is written in TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal {
    /// In quotes.
    Text,
    /// As a number.
    Number,
    /// `true` or `false`.
    Switch,
}

/// What a setting is if nobody says anything.
#[derive(Clone, Copy)]
pub(super) enum Usual {
    /// Always the same.
    Fixed(&'static str),
    /// Depends on user and machine: what it is, and how to say so.
    Derived(fn(&Defaults) -> String, &'static str),
}

/// One setting.
pub struct Setting {
    /// Its key in `barn.toml`.
    pub key: &'static str,
    /// How it is written there.
    pub literal: Literal,
    /// What stands for its value in help.
    pub value_name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// A name that it had before, in flags and in the environment.
    pub once: Option<&'static str>,
    pub(super) usual: Usual,
    pub(super) apply: fn(&mut ServerOptions, &str) -> Result<(), String>,
}

impl std::fmt::Debug for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Setting({})", self.key)
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Setting {}

impl Setting {
    /// Its flag, without the dashes before it.
    pub fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Its environment variable.
    pub fn variable(&self) -> String {
        variable(self.key)
    }

    /// The environment variable that it had before.
    pub fn variable_once(&self) -> Option<String> {
        self.once.map(variable)
    }

    /// Its default, in words or as it is written.
    pub fn default_words(&self) -> &'static str {
        match self.usual {
            Usual::Fixed(text) => text,
            Usual::Derived(_, words) => words,
        }
    }

    /// Whether a value can be; if not, why, and what to write.
    pub fn check(&self, value: &str) -> Result<(), String> {
        (self.apply)(&mut ServerOptions::default(), value)
    }

    /// A value as it is written in TOML.
    pub fn written(&self, value: &str) -> String {
        match self.literal {
            Literal::Text => super::show::quoted(value),
            Literal::Number | Literal::Switch => value.to_owned(),
        }
    }

    pub(super) fn example(&self) -> String {
        let value = match (self.usual, self.key) {
            (Usual::Fixed(text), _) => text,
            (_, "memory") => "4GiB",
            _ => "/path/to/it",
        };
        format!("{} = {}", self.key, self.written(value))
    }

    pub(super) fn default_value(&self, defaults: &Defaults) -> String {
        match self.usual {
            Usual::Fixed(text) => text.to_owned(),
            Usual::Derived(value, _) => value(defaults),
        }
    }
}

fn variable(key: &str) -> String {
    format!("BARN_{}", key.to_ascii_uppercase().replace('-', "_"))
}

/// What is not `none`.
fn unless_none<T>(text: &str, some: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == NONE { Ok(None) } else { some(text).map(Some) }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err(format!("an empty path: write one, or \"{NONE}\"")) } else { Ok(text.into()) }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address: write ADDRESS:PORT, such as 127.0.0.1:7411, or {NONE}"))
}

fn node(text: &str) -> Result<String, String> {
    match ["shm:", "tcp://", "verbs://"]
        .iter()
        .any(|start| text.len() > start.len() && text.starts_with(start))
    {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is no node's address: write tcp://HOST:PORT or shm:PATH, or {NONE}")),
    }
}

fn milliseconds(text: &str, least: u64, most: u64) -> Result<Duration, String> {
    match u64::from_str(text) {
        Ok(number) if (least..=most).contains(&number) => Ok(Duration::from_millis(number)),
        _ => Err(format!("`{text}` is not a number of milliseconds from {least} to {most}")),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("`{text}` is neither true nor false"))
}

/// Every setting of a node.
pub static SETTINGS: &[Setting] = &[
    Setting {
        key: "socket",
        literal: Literal::Text,
        value_name: "PATH",
        about: "The Unix socket for clients of this host, which read the node's memory directly; none for no such clients.",
        once: Some("shm"),
        usual: Usual::Derived(
            |defaults| defaults.socket.display().to_string(),
            "barn/node.sock in the user's runtime directory, or in a private one under /tmp",
        ),
        apply: |options, text| unless_none(text, path).map(|socket| options.shm = socket),
    },
    Setting {
        key: "tcp",
        literal: Literal::Text,
        value_name: "ADDRESS:PORT",
        about: "The address for clients of any host; port 0 takes any free one, none listens for nobody.",
        once: None,
        usual: Usual::Fixed("127.0.0.1:7411"),
        apply: |options, text| unless_none(text, address).map(|tcp| options.tcp = tcp),
    },
    Setting {
        key: "verbs",
        literal: Literal::Text,
        value_name: "DEVICE",
        about: "Whether tcp clients may go over to RDMA verbs: off, auto (by the device that has the tcp address), or a device as DEVICE[:PORT[:GID-INDEX]]. Needs a binary that was built with verbs.",
        once: None,
        usual: Usual::Fixed("off"),
        apply: |options, text| {
            let verbs = text.parse().map_err(|error: barn_fabric::VerbsError| error.to_string())?;
            options.verbs = verbs;
            Ok(())
        },
    },
    Setting {
        key: "token_file",
        literal: Literal::Text,
        value_name: "FILE",
        about: "A file with the token that every tcp client must prove to know; none for no token.",
        once: None,
        usual: Usual::Fixed(NONE),
        apply: |options, text| unless_none(text, path).map(|file| options.token_file = file),
    },
    Setting {
        key: "allow_unauthenticated",
        literal: Literal::Switch,
        value_name: "BOOL",
        about: "Let tcp clients of other hosts in without a token. Whoever can reach the port can then read this node's memory; loopback needs no permission.",
        once: None,
        usual: Usual::Fixed("false"),
        apply: |options, text| switch(text).map(|allow| options.allow_unauthenticated = allow),
    },
    Setting {
        key: "memory",
        literal: Literal::Text,
        value_name: "BYTES",
        about: "Memory for tables and objects, such as 64MiB or 4GiB. It is taken when the node starts.",
        once: None,
        usual: Usual::Derived(
            |defaults| super::bytes::written(defaults.memory_bytes),
            "a quarter of the machine's or the cgroup's memory, whichever is less",
        ),
        apply: |options, text| Bytes::from_str(text).map(|bytes| options.memory_bytes = bytes.0),
    },
    Setting {
        key: "space_memory",
        literal: Literal::Text,
        value_name: "BYTES",
        about: "The most memory for spaces, beside `memory`, such as 1GiB; half for half as much as `memory`. It is taken when somebody reserves it.",
        once: None,
        usual: Usual::Fixed(HALF),
        apply: |options, text| match text {
            HALF => {
                options.space_memory_bytes = None;
                Ok(())
            }
            bytes => Bytes::from_str(bytes).map(|bytes| options.space_memory_bytes = Some(bytes.0)),
        },
    },
    Setting {
        key: "data",
        literal: Literal::Text,
        value_name: "DIRECTORY",
        about: "Where the node keeps what is to survive it; none for memory only. One node, one directory.",
        once: None,
        usual: Usual::Derived(
            |defaults| defaults.data.as_ref().map_or(NONE.into(), |data| data.display().to_string()),
            "barn in $XDG_STATE_HOME or ~/.local/state",
        ),
        apply: |options, text| unless_none(text, path).map(|data| options.data = data),
    },
    Setting {
        key: "durability",
        literal: Literal::Text,
        value_name: "WHEN",
        about: "When a write is answered that does not say: memory (there is no log, and a restart loses everything), logged (at once, while it is on its way to the log: see window_ms) or synced (once it is on the disk).",
        once: None,
        usual: Usual::Fixed("logged"),
        apply: |options, text| {
            let durability = text
                .parse()
                .map_err(|_| format!("`{text}` is no durability: write one of memory, logged, synced"))?;
            options.durability = durability;
            Ok(())
        },
    },
    Setting {
        key: "window_ms",
        literal: Literal::Number,
        value_name: "MS",
        about: "The loss window of what is `logged`: a process that dies has lost at most what it answered within so long. Once a write has waited so long, no more are answered before they are written.",
        once: None,
        usual: Usual::Fixed("100"),
        apply: |options, text| milliseconds(text, 1, WINDOW_MS_MAX).map(|window| options.window = window),
    },
    Setting {
        key: "sync_interval_ms",
        literal: Literal::Number,
        value_name: "MS",
        about: "How long what was written to the log waits for a sync that nobody asks for: the most that a loss of power takes beyond window_ms.",
        once: None,
        usual: Usual::Fixed("1000"),
        apply: |options, text| {
            milliseconds(text, 1, SYNC_INTERVAL_MS_MAX).map(|interval| options.sync_interval = interval)
        },
    },
    Setting {
        key: "checkpoint_bytes",
        literal: Literal::Text,
        value_name: "BYTES",
        about: "How long the log may grow before a checkpoint shortens it, and with it the next start.",
        once: None,
        usual: Usual::Fixed("1GiB"),
        apply: |options, text| match Bytes::from_str(text)?.0 {
            bytes if bytes < CHECKPOINT_BYTES_MIN => {
                Err(format!("`{text}` is too little: write 1MiB or more"))
            }
            bytes => {
                options.checkpoint_bytes = bytes;
                Ok(())
            }
        },
    },
    Setting {
        key: "accept_loss",
        literal: Literal::Switch,
        value_name: "BOOL",
        about: "Start though a part of the data is lost or damaged, with what is left. Better given once, as a flag, than kept in a file.",
        once: None,
        usual: Usual::Fixed("false"),
        apply: |options, text| switch(text).map(|accept| options.accept_loss = accept),
    },
    Setting {
        key: "join",
        literal: Literal::Text,
        value_name: "ADDRESS",
        about: "A node of the cluster to join, such as tcp://HOST:7411. With none the node begins a cluster and coordinates it.",
        once: None,
        usual: Usual::Fixed(NONE),
        apply: |options, text| unless_none(text, node).map(|join| options.join = join),
    },
    Setting {
        key: "lease_ms",
        literal: Literal::Number,
        value_name: "MS",
        about: "The lease of nodes and clients of a new cluster: whoever is silent for longer is taken for dead.",
        once: None,
        usual: Usual::Fixed("1000"),
        apply: |options, text| {
            milliseconds(text, LEASE_MS_MIN, LEASE_MS_MAX).map(|lease| options.lease = lease)
        },
    },
    Setting {
        key: "metrics",
        literal: Literal::Text,
        value_name: "ADDRESS:PORT",
        about: "Where figures for Prometheus are offered over HTTP, such as 127.0.0.1:7412; none for nowhere.",
        once: None,
        usual: Usual::Fixed(NONE),
        apply: |options, text| unless_none(text, address).map(|metrics| options.metrics = metrics),
    },
    Setting {
        key: "log_level",
        literal: Literal::Text,
        value_name: "LEVEL",
        about: "How much the node says on standard error: error, warn, info or debug.",
        once: None,
        usual: Usual::Fixed("info"),
        apply: |options, text| text.parse().map(|level| options.log_level = level),
    },
    Setting {
        key: "log_format",
        literal: Literal::Text,
        value_name: "FORMAT",
        about: "The form in which it says so: text, or json for an object in each line.",
        once: None,
        usual: Usual::Fixed("text"),
        apply: |options, text| text.parse().map(|format| options.log_format = format),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str) -> &'static Setting {
        SETTINGS.iter().find(|setting| setting.key == key).expect(key)
    }

    #[test]
    fn a_fixed_default_is_what_the_options_default_to() {
        for setting in SETTINGS {
            if let Usual::Fixed(text) = setting.usual {
                let mut options = ServerOptions::default();
                (setting.apply)(&mut options, text).expect(setting.key);
                assert_eq!(
                    format!("{options:?}"),
                    format!("{:?}", ServerOptions::default()),
                    "{}",
                    setting.key
                );
            }
        }
    }

    #[test]
    fn names_of_flags_and_variables_follow_from_the_key() {
        let lease = setting("lease_ms");
        assert_eq!((lease.flag(), lease.variable()), ("lease-ms".into(), "BARN_LEASE_MS".into()));
        assert_eq!(setting("socket").variable_once().as_deref(), Some("BARN_SHM"));
        let mut keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SETTINGS.len());
    }

    #[test]
    fn values_that_cannot_be_are_refused_with_what_to_write() {
        for (key, value, why) in [
            ("socket", "", "empty path"),
            ("tcp", "localhost", "ADDRESS:PORT"),
            ("tcp", "", "ADDRESS:PORT"),
            ("memory", "much", "64MiB"),
            ("lease_ms", "49", "from 50 to 600000"),
            ("lease_ms", "-1", "from 50"),
            ("window_ms", "1.5", "milliseconds"),
            ("durability", "eternal", "memory, logged, synced"),
            ("checkpoint_bytes", "4096", "1MiB or more"),
            ("accept_loss", "yes", "neither true nor false"),
            ("join", "somebody", "tcp://HOST:PORT"),
            ("join", "tcp://", "tcp://HOST:PORT"),
            ("log_level", "loud", "error, warn, info, debug"),
        ] {
            let said = setting(key).check(value).unwrap_err();
            assert!(said.contains(why), "{key}: {said}");
        }
        for (key, value) in [("socket", "none"), ("tcp", "[::1]:0"), ("data", "none"), ("join", "shm:/x")] {
            assert_eq!(setting(key).check(value), Ok(()), "{key}");
        }
    }
}
