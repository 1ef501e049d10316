//! One-sided operations at the node: what a NIC would do, over virtual time.
//!
//! What always holds:
//! - the operations of one connection are carried out one after another; each word of a READ
//!   is taken from a moment not before the READ arrived, nor before the last moment of the
//!   operation before it ([`Guarantees::BY_CPU`](crate::Guarantees));
//! - a WRITE's words are stored one by one, in any order, with other events between; an atomic
//!   happens at one instant;
//! - the grant is looked up when an operation begins and again at each step of it: once it is
//!   revoked, no word is read or stored any more.

use super::connection::{Channel, Frame, Side};
use super::net::{Event, Net, within};
use super::trace::Trace;
use crate::error::OperationError;
use crate::region::journal::{Journal, Moment};
use crate::region::{Ordering, Words};
use crate::registry::Grant;
use crate::seam::{Random, Seeded};
use crate::slots::Answer;
use crate::verb::Verb;
use barn_layout::frame::Outcome;
use barn_layout::limits::WORD_BYTES;
use barn_layout::planted;
use std::ops::Range;
use std::sync::Arc;

/// A verb with its bytes.
#[derive(Debug)]
pub(super) enum Owned {
    Read { offset: u64, into: Vec<u8> },
    Write { offset: u64, from: Vec<u8> },
    CompareSwap { offset: u64, expected: u64, new: u64 },
    FetchAdd { offset: u64, add: u64 },
}

impl Owned {
    pub(super) fn of(verb: &Verb<'_>) -> Self {
        match verb {
            Verb::Read { offset, into } => Self::Read { offset: *offset, into: vec![0; into.len()] },
            Verb::Write { offset, from } => Self::Write { offset: *offset, from: from.to_vec() },
            Verb::CompareSwap { offset, expected, new } => {
                Self::CompareSwap { offset: *offset, expected: *expected, new: *new }
            }
            Verb::FetchAdd { offset, add } => Self::FetchAdd { offset: *offset, add: *add },
        }
    }

    fn borrow(&mut self) -> Verb<'_> {
        match self {
            Self::Read { offset, into } => Verb::Read { offset: *offset, into },
            Self::Write { offset, from } => Verb::Write { offset: *offset, from },
            Self::CompareSwap { offset, expected, new } => {
                Verb::CompareSwap { offset: *offset, expected: *expected, new: *new }
            }
            Self::FetchAdd { offset, add } => Verb::FetchAdd { offset: *offset, add: *add },
        }
    }

    pub(super) fn note(&self, trace: &mut Trace) {
        match self {
            Self::Read { offset, into } => trace.note_all(&[1, *offset, into.len() as u64]),
            Self::Write { offset, from } => {
                trace.note_all(&[2, *offset]);
                trace.note_bytes(from);
            }
            Self::CompareSwap { offset, expected, new } => trace.note_all(&[3, *offset, *expected, *new]),
            Self::FetchAdd { offset, add } => trace.note_all(&[4, *offset, *add]),
        }
    }
}

/// An operation that has arrived.
#[derive(Debug)]
pub(super) struct Operation {
    ticket: u64,
    key: u64,
    verb: Owned,
    /// A READ's view of the past: the journal, and the moment at which it arrived.
    looking: Option<(Arc<Journal>, Moment)>,
    /// The first moment that a READ may see.
    from: Moment,
    /// The pieces of a WRITE that are left, the next one last: where, and which of its bytes.
    pieces: Vec<(u64, Range<usize>)>,
    /// A planted bug's mark: that its grant was checked.
    begun: bool,
    /// A planted bug's half of an atomic.
    half: Option<u64>,
}

impl Operation {
    pub(super) fn stop_looking(self) {
        if let Some((journal, moment)) = self.looking {
            journal.end(moment);
        }
    }
}

fn outcome_of(error: OperationError) -> Outcome {
    match error {
        OperationError::NoRight { .. } => Outcome::NoRight,
        OperationError::OutOfBounds { .. } => Outcome::OutOfBounds,
        OperationError::Misaligned { .. } => Outcome::Misaligned,
        OperationError::TooLong { .. } => Outcome::TooLong,
        _ => Outcome::BadKey,
    }
}

impl Channel {
    /// The grant of the operation at hand, if it covers it.
    fn check_first(&mut self) -> Result<Grant, Outcome> {
        let operation = self.operations.front_mut().ok_or(Outcome::BadKey)?;
        let grant = self.grants.get(&operation.key).ok_or(Outcome::BadKey)?;
        let live = grant.standing.is_live()
            || planted("simulated_grant_unchecked")
            || planted("simulated_grant_checked_once") && operation.begun;
        if !live {
            return Err(Outcome::Revoked);
        }
        operation.verb.borrow().check(grant.rights, grant.region.bytes()).map_err(outcome_of)?;
        Ok(grant.clone())
    }

    /// Readies the operation at hand, which has been checked.
    fn begin_first(&mut self, tear: &mut Seeded) {
        let Some(operation) = self.operations.front_mut() else { return };
        operation.begun = true;
        match &operation.verb {
            Owned::Read { .. } => {
                let Some((journal, arrived)) = &operation.looking else { return };
                operation.from = match &self.ended {
                    Some((same, moment)) if Arc::ptr_eq(same, journal) => (*moment).max(*arrived),
                    // At once, or after an operation elsewhere that has just ended.
                    _ => journal.now(),
                };
                if planted("simulated_operations_out_of_order") {
                    operation.from = *arrived;
                }
            }
            Owned::Write { offset, from } => operation.pieces = pieces(*offset, from.len(), tear),
            Owned::CompareSwap { .. } | Owned::FetchAdd { .. } => {}
        }
    }
}

/// The words of a WRITE in the order in which they will be stored, the first one last.
fn pieces(offset: u64, bytes: usize, tear: &mut Seeded) -> Vec<(u64, Range<usize>)> {
    let mut pieces = Vec::with_capacity(bytes.div_ceil(WORD_BYTES) + 1);
    let mut at = 0;
    while at < bytes {
        let word_end = WORD_BYTES - (offset as usize + at) % WORD_BYTES;
        let next = (at + word_end).min(bytes);
        pieces.push((offset + at as u64, at..next));
        at = next;
    }
    match tear.below(4) {
        0 => {}
        1 => {
            for last in (1..pieces.len()).rev() {
                pieces.swap(last, tear.below(last as u64 + 1) as usize);
            }
        }
        _ => pieces.reverse(),
    }
    pieces
}

/// Chooses the moment at which each word of a READ is read: all at one, a cut somewhere, one
/// word apart from the rest, or each by itself.
fn moments(
    words: &Range<usize>,
    (from, to): (Moment, Moment),
    tear: &mut Seeded,
) -> impl FnMut(usize) -> Moment + use<> {
    let mut own = Seeded::new(tear.next());
    let moment = move |random: &mut Seeded| from + random.below(to - from + 1);
    let (one, other) = (moment(&mut own), moment(&mut own));
    let at = words.start + own.below(words.len().max(1) as u64) as usize;
    let shape = own.below(8);
    move |word| match shape {
        0 => one,
        1 | 2 if word < at => one,
        3 if word == at => one,
        1..=3 => other,
        _ => moment(&mut own),
    }
}

/// Reads as a CPU on another core could: gives the last moment that was looked at, and whether
/// the words were never all there at one.
fn read(
    words: &Words,
    offset: u64,
    into: &mut [u8],
    from: Moment,
    tear: &mut Seeded,
) -> (Option<Moment>, bool) {
    let Some(journal) = words.journal() else {
        // The bounds were checked; and plain memory has no past to look back to.
        let _ = words.load(offset, into);
        return (None, false);
    };
    let now = journal.now().max(from);
    let to = if tear.below(2) == 0 { now } else { from + tear.below(now - from + 1) };
    let first = offset as usize / WORD_BYTES;
    let range = first..(offset as usize + into.len()).div_ceil(WORD_BYTES);
    let pick = moments(&range, (from, to), tear);
    // ORDER: Relaxed: a world has one thread.
    let value =
        |word: usize| words.load_word((word * WORD_BYTES) as u64, Ordering::Relaxed).unwrap_or_default();
    let seen = journal.read(range, (from, to), value, pick);
    let bytes: Vec<u8> = seen.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let skip = offset as usize % WORD_BYTES;
    into.copy_from_slice(&bytes[skip..skip + into.len()]);
    (Some(to), seen.torn)
}

impl Net {
    /// An operation arrives: it waits for those before it.
    pub(super) fn enqueue_operation(&mut self, id: u64, ticket: u64, key: u64, verb: Owned) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let journal = channel.grants.get(&key).and_then(|grant| grant.region.words().journal());
        let looking = match verb {
            Owned::Read { .. } => journal.map(|journal| (journal.clone(), journal.begin())),
            _ => None,
        };
        channel.operations.push_back(Operation {
            ticket,
            key,
            verb,
            looking,
            from: 0,
            pieces: Vec::new(),
            begun: false,
            half: None,
        });
        if !channel.stepping {
            self.start_operation(id);
        }
    }

    /// Begins the next operation; those that are not allowed are answered at once.
    fn start_operation(&mut self, id: u64) {
        loop {
            let Some(channel) = self.channels.get_mut(&id) else { return };
            channel.stepping = !channel.operations.is_empty();
            if !channel.stepping {
                return;
            }
            match channel.check_first() {
                Err(outcome) => self.finish_first(id, outcome, Vec::new()),
                Ok(_) => {
                    channel.begin_first(&mut self.streams.tear);
                    return self.schedule_step(id);
                }
            }
        }
    }

    fn schedule_step(&mut self, id: u64) {
        let delay = within(&mut self.streams.tear, self.options.operation);
        self.after(delay, Event::Step { channel: id });
    }

    fn finish_first(&mut self, id: u64, outcome: Outcome, body: Vec<u8>) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let Some(operation) = channel.operations.pop_front() else { return };
        let answer = Answer { status: outcome as u8, body };
        let frame = Frame::Answer { ticket: operation.ticket, answer };
        operation.stop_looking();
        self.send(id, Side::Client, frame);
    }

    /// The operation at hand goes on.
    pub(super) fn step_operation(&mut self, id: u64) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let pause = self.nodes[channel.server.0 as usize].paused;
        if pause.is_some_and(|pause| !pause.reachable) {
            channel.step_stalled = true;
            return;
        }
        if channel.operations.is_empty() {
            return;
        }
        let grant = match channel.check_first() {
            Ok(grant) => grant,
            Err(outcome) => {
                self.finish_first(id, outcome, Vec::new());
                return self.start_operation(id);
            }
        };
        let Some(operation) = channel.operations.front_mut() else { return };
        let words = grant.region.words();
        let body = match &mut operation.verb {
            Owned::Read { offset, into } => {
                let (to, torn) = read(words, *offset, into, operation.from, &mut self.streams.tear);
                channel.ended = words.journal().cloned().zip(to);
                self.stats.reads += 1;
                self.stats.torn_reads += u64::from(torn);
                std::mem::take(into)
            }
            Owned::Write { from, .. } => {
                let most = (from.len() / WORD_BYTES / 3).max(1) as u64;
                for _ in 0..=self.streams.tear.below(most) {
                    let Some((offset, range)) = operation.pieces.pop() else { break };
                    // The bounds and the right were checked just now.
                    let _ = words.store(offset, &from[range]);
                }
                if !operation.pieces.is_empty() {
                    return self.schedule_step(id);
                }
                Vec::new()
            }
            Owned::FetchAdd { offset, add } if planted("simulated_atomic_in_two_steps") => {
                // ORDER: Relaxed: a world has one thread.
                let Some(half) = operation.half else {
                    operation.half = words.load_word(*offset, Ordering::Relaxed).ok();
                    return self.schedule_step(id);
                };
                let _ = words.store_word(*offset, half.wrapping_add(*add), Ordering::Relaxed);
                half.to_le_bytes().to_vec()
            }
            verb => verb.borrow().execute(words).unwrap_or_default().to_le_bytes().to_vec(),
        };
        if !matches!(operation.verb, Owned::Read { .. }) {
            channel.ended = words.journal().map(|journal| (journal.clone(), journal.now()));
        }
        self.finish_first(id, Outcome::Done, body);
        self.start_operation(id);
    }
}
