//! Servers that Barn is compared with: started privately, stopped with the benchmark.
//!
//! `redis` and `memcached` each know how their server is started and what their protocol looks like;
//! what a benchmark does with them is its own.

use std::fmt;

use crate::report::Row;

pub(crate) mod link;
pub(crate) mod memcached;
pub(crate) mod process;
pub(crate) mod redis;

/// Why a peer could not do it.
#[derive(Debug)]
pub(crate) enum PeerError {
    /// It is not there; what to do about it.
    Absent {
        /// Which.
        peer: &'static str,
        /// The command that brings it.
        fix: String,
    },
    /// It failed.
    Failed {
        /// Which.
        peer: &'static str,
        /// What it said.
        why: String,
    },
}

impl PeerError {
    /// It said so.
    pub(crate) fn failed(peer: &'static str, why: impl fmt::Display) -> Self {
        Self::Failed { peer, why: why.to_string() }
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent { peer, fix } => write!(f, "{peer} is not there; {fix}"),
            Self::Failed { peer, why } => write!(f, "{peer}: {why}"),
        }
    }
}

impl std::error::Error for PeerError {}

impl From<PeerError> for std::io::Error {
    fn from(error: PeerError) -> Self {
        Self::other(error)
    }
}

/// Peers that are not there, each once, and what brings them.
#[derive(Debug, Default)]
pub(crate) struct Absent(Vec<(&'static str, String)>);

impl Absent {
    /// What was started; nothing, and a note, if it is not there.
    pub(crate) fn or_note<T>(
        &mut self,
        name: &'static str,
        started: Result<T, PeerError>,
    ) -> Result<Option<T>, PeerError> {
        match started {
            Ok(started) => Ok(Some(started)),
            Err(PeerError::Absent { fix, .. }) => {
                self.note(name, fix);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes one that is not there.
    pub(crate) fn note(&mut self, name: &'static str, fix: String) {
        if self.0.iter().all(|(other, _)| *other != name) {
            self.0.push((name, fix));
        }
    }

    /// A row for each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> {
        self.0.iter().map(|(name, fix)| absent_row(name, fix))
    }
}

/// The command that builds the peers in.
#[cfg(not(feature = "peers"))]
pub(crate) const BUILD_THEM_IN: &str = "cargo build --release -p barn-cli --features peers";

/// The row of a peer that could not be measured, with what to do about it.
pub(crate) fn absent_row(name: &str, fix: &str) -> Row {
    Row::rate(format!("peer/{name}/absent: {fix}"), &[]).with("absent", fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_there_is_noted_once_and_who_fails_is_an_error() {
        let gone = || Err::<u8, _>(PeerError::Absent { peer: "Redis", fix: "install it".into() });
        let mut absent = Absent::default();
        assert!(absent.or_note("redis", gone()).is_ok_and(|started| started.is_none()));
        assert!(absent.or_note("redis", gone()).is_ok_and(|started| started.is_none()));
        assert!(absent.or_note("memcached", Ok(7)).is_ok_and(|started| started == Some(7)));
        assert!(absent.or_note::<u8>("memcached", Err(PeerError::failed("memcached", "broken"))).is_err());
        let rows: Vec<Row> = absent.rows().collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].extra["absent"], "install it");
    }
}
