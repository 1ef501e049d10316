//! Makes of a history what the search works on: small numbers, and times as narrow as they can be.
//!
//! Who saw a value returned after its writer was called, and was called, as far as the order matters,
//! no earlier than its writer. A writer whose client never heard of it happened if somebody saw its
//! value, and before that one returned.

use super::meaning::{Effect, NEVER, NOTHING, Requires, meaning};
use super::memo::Mixed;
use super::operation::{Call, Expected, History, Outcome};
use super::verdict::Why;
use super::zones::misplaced;
use std::collections::HashMap;

/// Nobody wrote the value.
const NOBODY: u32 = u32::MAX;
/// The value was there from the beginning.
const INITIAL: u32 = u32::MAX - 1;

/// Numbers for the values of a history, from 1 on, and the versions that belong to them.
pub(super) struct Names {
    values: HashMap<u64, u32, Mixed>,
    versions: HashMap<u64, u32, Mixed>,
    /// The value of each number.
    pub(super) names: Vec<u64>,
}

impl Names {
    /// Gives numbers to all values that are written; where that cannot be, which operation is to
    /// blame and why.
    pub(super) fn new(history: &History) -> Result<Self, NameError> {
        let mut names =
            Self { values: HashMap::default(), versions: HashMap::default(), names: vec![u64::MAX] };
        if let Some((value, _)) = history.initial {
            names.add(value);
        }
        for (at, operation) in history.operations.iter().enumerate() {
            if let Some(value) = operation.call.writes()
                && !names.add(value)
            {
                return Err(NameError::WrittenTwice(at));
            }
        }
        names.add_versions(history)?;
        Ok(names)
    }

    fn add(&mut self, value: u64) -> bool {
        let number = self.names.len() as u32;
        self.names.push(value);
        self.values.insert(value, number).is_none()
    }

    fn add_versions(&mut self, history: &History) -> Result<(), NameError> {
        let mut version_of: Vec<u64> = vec![0; self.names.len()];
        let mut learn = |value: u64, version: u64| {
            let number = self.number(value);
            if version == 0 || number == NEVER {
                return true;
            }
            let known = std::mem::replace(&mut version_of[number as usize], version);
            (known == 0 || known == version) && *self.versions.entry(version).or_insert(number) == number
        };
        if let Some((value, version)) = history.initial {
            learn(value, version);
        }
        for (operation, each) in history.operations.iter().enumerate() {
            let learned = match (each.call, each.outcome) {
                (Call::Get, Outcome::Found { value, version }) => Some((value, version)),
                (call, Outcome::Done { version }) => call.writes().map(|value| (value, version)),
                _ => None,
            };
            if let Some((value, version)) = learned
                && !learn(value, version)
            {
                return Err(NameError::TwoVersions { operation, value, version });
            }
        }
        Ok(())
    }

    fn number(&self, value: u64) -> u32 {
        self.values.get(&value).copied().unwrap_or(NEVER)
    }

    fn expected(&self, call: &Call) -> u32 {
        match *call {
            Call::Swap { expected, .. } | Call::DeleteIf(expected) => match expected {
                Expected::Value(value) => self.number(value),
                Expected::Version(version) => self.versions.get(&version).copied().unwrap_or(NEVER),
            },
            Call::Get | Call::Put(_) | Call::Insert(_) | Call::Delete => NEVER,
        }
    }
}

/// Why values cannot be given numbers.
#[derive(Debug)]
pub(super) enum NameError {
    /// This operation writes what another wrote.
    WrittenTwice(usize),
    /// A version had two values, or a value two versions.
    TwoVersions { operation: usize, value: u64, version: u64 },
}

/// An operation, as the search sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) invoked: u64,
    pub(super) returned: u64,
    pub(super) requires: Requires,
    pub(super) effect: Effect,
    /// It may as well never happen.
    pub(super) optional: bool,
    /// Which of the history's operations it is.
    source: u32,
}

/// What the search works on.
pub(super) struct Prepared {
    pub(super) steps: Vec<Step>,
    pub(super) initial: u32,
    pub(super) lossy: bool,
    /// Of each value: how many of the steps that have to happen need the state to be it.
    pub(super) demanded: Vec<u32>,
    writer: Vec<u32>,
}

/// An operation that no order explains, whatever the others did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Impossible {
    pub(super) why: Why,
    pub(super) operation: usize,
}

impl Prepared {
    /// The history up to a moment: what has not returned by then is of unknown outcome.
    pub(super) fn new(history: &History, names: &Names, until: u64) -> Result<Self, Impossible> {
        let values = names.names.len();
        let mut this = Self {
            steps: Vec::with_capacity(history.operations.len()),
            initial: history.initial.map_or(NOTHING, |(value, _)| names.number(value)),
            lossy: history.lossy,
            demanded: vec![0; values],
            writer: vec![NOBODY; values],
        };
        if this.initial != NOTHING {
            this.writer[this.initial as usize] = INITIAL;
        }
        for (source, each) in history.operations.iter().enumerate().filter(|(_, each)| each.invoked <= until)
        {
            let is_open = each.outcome == Outcome::Unknown || each.returned > until;
            let outcome = if is_open { Outcome::Unknown } else { each.outcome };
            let found =
                meaning(&each.call, &outcome, |value| names.number(value), names.expected(&each.call));
            let Some((requires, effect)) = found else { continue };
            if let Effect::Set(value) = effect {
                this.writer[value as usize] = this.steps.len() as u32;
            }
            let returned = if is_open { u64::MAX } else { each.returned };
            let (invoked, source) = (each.invoked, source as u32);
            this.steps.push(Step { invoked, returned, requires, effect, optional: is_open, source });
        }
        let earliest = this.settle(names)?;
        this.narrow(names, &earliest)?;
        match misplaced(&this) {
            Some(step) => Err(this.impossible(step, NEVER, names)),
            None => Ok(this),
        }
    }

    /// Who wrote a value; nothing if it was there from the beginning.
    pub(super) fn writer(&self, value: u32) -> Option<u32> {
        let writer = self.writer.get(value as usize).copied()?;
        (writer < INITIAL).then_some(writer)
    }

    fn impossible(&self, step: u32, value: u32, names: &Names) -> Impossible {
        let why = match names.names.get(value as usize) {
            Some(&value) => Why::NeverWritten { value },
            None => Why::NoOrder,
        };
        Impossible { why, operation: self.steps[step as usize].source as usize }
    }

    /// Counts who needs which value, and finds the unknown operations that must have happened. Gives
    /// when each value was seen for certain.
    fn settle(&mut self, names: &Names) -> Result<Vec<u64>, Impossible> {
        let mut earliest = vec![u64::MAX; self.demanded.len()];
        let mut open: Vec<u32> = (0..self.steps.len() as u32).collect();
        open.retain(|&step| !self.steps[step as usize].optional);
        while let Some(number) = open.pop() {
            let step = self.steps[number as usize];
            let Requires::Is(value) = step.requires else { continue };
            if value == NEVER || self.writer[value as usize] == NOBODY {
                return Err(self.impossible(number, value, names));
            }
            self.demanded[value as usize] += 1;
            earliest[value as usize] = earliest[value as usize].min(step.returned);
            if let Some(writer) = self.writer(value) {
                let seen = &mut self.steps[writer as usize];
                if seen.optional {
                    (seen.optional, seen.returned) = (false, step.returned);
                    open.push(writer);
                }
            }
        }
        Ok(earliest)
    }

    fn narrow(&mut self, names: &Names, earliest: &[u64]) -> Result<(), Impossible> {
        for number in 0..self.steps.len() as u32 {
            let step = self.steps[number as usize];
            if step.optional {
                continue;
            }
            let mut narrowed = step;
            if let Requires::Is(value) = step.requires
                && let Some(writer) = self.writer(value)
            {
                narrowed.invoked = step.invoked.max(self.steps[writer as usize].invoked);
                if narrowed.invoked > step.returned {
                    return Err(self.impossible(number, value, names));
                }
            }
            if let Effect::Set(value) = step.effect {
                narrowed.returned = step.returned.min(earliest[value as usize]);
            }
            if narrowed.invoked > narrowed.returned {
                return Err(self.impossible(number, NEVER, names));
            }
            self.steps[number as usize] = narrowed;
        }
        Ok(())
    }
}
