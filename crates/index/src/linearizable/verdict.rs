//! What a history shows, as a story to read.

use super::operation::Operation;
use std::fmt;

/// What was found out about a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains it.
    Linearizable,
    /// No order explains it.
    Violation(Box<Violation>),
    /// Nobody knows: the search was given up.
    Undecided {
        /// After so many steps.
        steps: u64,
    },
    /// It is not a history: its recorder is broken.
    Malformed {
        /// Where.
        operation: Operation,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Why no order explains a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody saw a value that nobody wrote before he returned.
    NeverWritten {
        /// The value.
        value: u64,
    },
    /// One version had two values, or one value two versions.
    TwoVersions {
        /// The value.
        value: u64,
        /// The version.
        version: u64,
    },
    /// All orders were tried.
    NoOrder,
}

/// What no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Why not.
    pub why: Why,
    /// The operation that cannot be: all that had returned before it did fits together.
    pub culprit: Operation,
    /// How many operations had been called by then.
    pub operations: usize,
    /// Who wrote what the culprit saw, then what happened at its time and shortly before, in order of
    /// calls.
    pub around: Vec<Operation>,
}

impl Verdict {
    /// Whether some order explains the history.
    pub fn is_linearizable(&self) -> bool {
        *self == Self::Linearizable
    }

    /// The violation, if it is one.
    pub fn violation(&self) -> Option<&Violation> {
        match self {
            Self::Violation(violation) => Some(violation),
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverWritten { value } => write!(f, "value {value} was seen before anybody wrote it"),
            Self::TwoVersions { value, version } => {
                write!(f, "value {value} and version {version} do not belong to each other alone")
            }
            Self::NoOrder => write!(f, "no order explains this operation"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable: {}:", self.why)?;
        writeln!(f, "  {}", self.culprit)?;
        write!(f, "the first {} operations show it; those around it:", self.operations)?;
        for operation in &self.around {
            let mark = if *operation == self.culprit { ">" } else { " " };
            write!(f, "\n{mark} {operation}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable => write!(f, "linearizable"),
            Self::Violation(violation) => violation.fmt(f),
            Self::Undecided { steps } => write!(f, "undecided after {steps} steps: raise `steps_max`"),
            Self::Malformed { operation, why } => write!(f, "not a history: {operation}: {why}"),
        }
    }
}
