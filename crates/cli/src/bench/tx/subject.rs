//! What is measured: Barn's client or a peer's, through the same two operations.

use std::io;

use super::peer::Peer;

/// What a client has needed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Attempts that met a conflict and were repeated.
    pub(crate) aborts: u64,
    /// Messages sent to nodes, without READs.
    pub(crate) messages: u64,
    /// READs of objects.
    pub(crate) reads: u64,
    /// READs of versions, by which commits validate.
    pub(crate) version_reads: u64,
}

impl Counters {
    /// What was added since an earlier look.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            aborts: self.aborts - before.aborts,
            messages: self.messages - before.messages,
            reads: self.reads - before.reads,
            version_reads: self.version_reads - before.version_reads,
        }
    }

    /// The sum with another client's.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            aborts: self.aborts + other.aborts,
            messages: self.messages + other.messages,
            reads: self.reads + other.reads,
            version_reads: self.version_reads + other.version_reads,
        }
    }
}

/// One client. An operation returns when it has been committed, however often it had to be tried.
pub(crate) trait Subject: Send {
    /// Reads two different objects, adds one to the counter of each, writes both.
    fn rmw_2(&mut self, i: u32, j: u32) -> io::Result<()>;

    /// Reads four different objects, consistently; the sum of their counters.
    fn read_4(&mut self, at: [u32; 4]) -> io::Result<u64>;

    /// Many of [`Self::rmw_2`], several under way at once, if it can; the times of some of them.
    fn rmw_2_pipelined(&mut self, pairs: &[(u32, u32)], latencies_ns: &mut Vec<u64>) -> io::Result<()> {
        let _ = latencies_ns;
        pairs.iter().try_for_each(|(i, j)| self.rmw_2(*i, *j))
    }

    /// How many it has under way at once.
    fn window(&self) -> usize {
        1
    }

    /// What it has needed so far.
    fn counters(&self) -> Counters;
}

/// A peer's client as what is measured.
pub(crate) fn of_peer(peer: Box<dyn Peer>) -> Box<dyn Subject> {
    Box::new(PeerSubject(peer))
}

struct PeerSubject(Box<dyn Peer>);

impl Subject for PeerSubject {
    fn rmw_2(&mut self, i: u32, j: u32) -> io::Result<()> {
        self.0.rmw_2(i, j).map_err(io::Error::other)
    }

    fn read_4(&mut self, at: [u32; 4]) -> io::Result<u64> {
        self.0.read_4(at).map_err(io::Error::other)
    }

    fn counters(&self) -> Counters {
        Counters { aborts: self.0.conflicts(), ..Counters::default() }
    }
}
