//! What a history shows to have gone wrong, as a story to read.

use std::fmt;

use super::record::ObjectKey;

/// A transaction, as its client calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionName {
    /// Who ran it.
    pub client: u32,
    /// The client's own number for it.
    pub number: u64,
}

/// Who saw a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A transaction that read it.
    Read(TransactionName),
    /// A transaction that based a change upon it.
    BuiltUpon(TransactionName),
    /// The look at the final state.
    FinalState,
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// The other changed what the one had installed.
    WriteWrite,
    /// The other read what the one had installed.
    WriteRead,
    /// The other changed what the one had read.
    ReadWrite,
    /// The one had ended when the other started.
    RealTime,
}

/// A step of a cycle: this transaction comes before the next one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Who comes before.
    pub transaction: TransactionName,
    /// Why.
    pub kind: EdgeKind,
    /// On which object, and which of its versions the one installed or read; none in real time.
    pub object: Option<(ObjectKey, u64)>,
}

/// Transactions each of which must come before the next, and the last before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The steps; each leads to the next, the last to the first.
    pub edges: Vec<Edge>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The history itself is not one: its recorder is broken.
    Malformed {
        /// Where, if it is about one transaction.
        transaction: Option<TransactionName>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Somebody saw a version that nobody installed.
    NeverInstalled {
        /// Who saw it.
        witness: Witness,
        /// Of which object.
        object: ObjectKey,
        /// Which version.
        version: u64,
    },
    /// Somebody saw a version of a transaction that was aborted.
    AbortedSeen {
        /// Who saw it.
        witness: Witness,
        /// Who was aborted.
        writer: TransactionName,
        /// Which object.
        object: ObjectKey,
        /// Which version.
        version: u64,
    },
    /// Two acknowledged transactions installed the same version: one update is lost.
    LostUpdate {
        /// Which object.
        object: ObjectKey,
        /// Which version.
        version: u64,
        /// One of them.
        first: TransactionName,
        /// The other.
        second: TransactionName,
    },
    /// An object was created that was already there, or had been.
    BornTwice {
        /// Which object.
        object: ObjectKey,
        /// Who created it once more.
        by: TransactionName,
    },
    /// One write of a transaction was seen, another cannot have happened.
    HalfCommit {
        /// Whose.
        transaction: TransactionName,
        /// The version of it that was seen.
        seen: (ObjectKey, u64),
        /// Who saw it.
        witness: Witness,
        /// The version that cannot be its own.
        missing: (ObjectKey, u64),
        /// Whose that is.
        taken_by: Option<TransactionName>,
    },
    /// An object was read or changed after it had been freed.
    UseAfterFree {
        /// Who used it.
        witness: Witness,
        /// Which object.
        object: ObjectKey,
        /// The version used.
        version: u64,
        /// Who had freed it.
        freed_by: TransactionName,
    },
    /// A change that was acknowledged, or seen, is not in the final state.
    LostWrite {
        /// Whose change; none if it was there at first, or is of unknown outcome and was seen.
        writer: Option<TransactionName>,
        /// Of which object.
        object: ObjectKey,
        /// The version installed.
        version: u64,
        /// What was found instead.
        found: Option<u64>,
    },
    /// Somebody was told that an object is not there that somebody knew to be there, and that nobody can have freed
    /// by then.
    NotFound {
        /// Who was told so.
        witness: TransactionName,
        /// Which object.
        object: ObjectKey,
        /// Who had made it, or seen it.
        known_by: TransactionName,
    },
    /// No order of the transactions explains what they saw.
    Cycle(Cycle),
    /// Too many transactions of unknown outcome claim the same versions: not all choices were tried.
    Undecided {
        /// How many versions have several claimants.
        versions: usize,
    },
}

impl fmt::Display for TransactionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.client, self.number)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)?;
        if self.incarnation > 0 { write!(f, "/{}", self.incarnation) } else { Ok(()) }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(who) => write!(f, "{who} read"),
            Self::BuiltUpon(who) => write!(f, "{who} built upon"),
            Self::FinalState => write!(f, "the final state holds"),
        }
    }
}

impl Cycle {
    /// The textbook's name for such a cycle, where it has one.
    pub fn anomaly(&self) -> &'static str {
        use EdgeKind::{ReadWrite, RealTime, WriteRead, WriteWrite};
        let kinds: Vec<EdgeKind> = self.edges.iter().map(|edge| edge.kind).collect();
        let count = |kind| kinds.iter().filter(|&&each| each == kind).count();
        match (kinds.len(), count(ReadWrite), count(RealTime), count(WriteRead), count(WriteWrite)) {
            (2, 2, ..) => "write skew",
            (2, 1, 1, ..) => "stale read",
            (2, 1, 0, 1, _) if self.edges[0].object.map(|o| o.0) == self.edges[1].object.map(|o| o.0) => {
                "non-repeatable read"
            }
            (2, 1, 0, 1, _) => "read skew",
            (_, 0, 0, ..) => "circular information flow",
            (_, 0, ..) => "effect before cause",
            (_, 1, 0, ..) => "anti-dependency cycle with one reader",
            (_, 1, ..) => "stale read, through others",
            _ => "anti-dependency cycle",
        }
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.anomaly())?;
        for (at, edge) in self.edges.iter().enumerate() {
            let next = self.edges[(at + 1) % self.edges.len()].transaction;
            let comma = if at == 0 { "" } else { "; " };
            write!(f, "{comma}{} ", edge.transaction)?;
            match (edge.kind, edge.object) {
                (EdgeKind::RealTime, _) | (_, None) => write!(f, "ended before {next} started")?,
                (EdgeKind::WriteRead, Some((o, v))) => write!(f, "installed {o} v{v}, which {next} read")?,
                (EdgeKind::WriteWrite, Some((o, v))) => {
                    write!(f, "installed {o} v{v}, which {next} replaced")?
                }
                (EdgeKind::ReadWrite, Some((o, v))) => write!(f, "read {o} v{v}, which {next} replaced")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { transaction: Some(name), why } => write!(f, "not a history: {name}: {why}"),
            Self::Malformed { transaction: None, why } => write!(f, "not a history: {why}"),
            Self::NeverInstalled { witness, object, version } => {
                write!(f, "{witness} {object} v{version}, which nobody installed")
            }
            Self::AbortedSeen { witness, writer, object, version } => {
                write!(f, "{witness} {object} v{version} of {writer}, which was aborted")
            }
            Self::LostUpdate { object, version, first, second } => {
                write!(f, "lost update: {first} and {second} both installed {object} v{version}")
            }
            Self::BornTwice { object, by } => write!(f, "{by} created {object}, which had been there"),
            Self::HalfCommit { transaction, seen, witness, missing, taken_by } => {
                write!(f, "half commit: {witness} {} v{} of {transaction}, ", seen.0, seen.1)?;
                write!(f, "whose {} v{} cannot have happened", missing.0, missing.1)?;
                taken_by.map_or(Ok(()), |who| write!(f, ": it is {who}'s"))
            }
            Self::UseAfterFree { witness, object, version, freed_by } => {
                write!(f, "use after free: {witness} {object} v{version}, freed by {freed_by}")
            }
            Self::LostWrite { writer, object, version, found } => {
                write!(f, "lost write: {object} v{version}")?;
                match writer {
                    Some(who) => write!(f, " of {who}")?,
                    None => write!(f, ", seen,")?,
                }
                match found {
                    Some(found) => write!(f, " is gone: v{found} was found in the end"),
                    None => write!(f, " is gone: nothing was found in the end"),
                }
            }
            Self::NotFound { witness, object, known_by } => {
                write!(
                    f,
                    "not found: {witness} was told that {object} is not there, of which {known_by} knew "
                )?;
                write!(f, "before, and which nobody had freed")
            }
            Self::Cycle(cycle) => cycle.fmt(f),
            Self::Undecided { versions } => {
                write!(f, "undecided: {versions} versions have several claimants of unknown outcome")
            }
        }
    }
}

impl std::error::Error for Violation {}
