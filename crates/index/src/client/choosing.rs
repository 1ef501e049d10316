//! Choosing between the two ways to read, by what they have cost lately: Cell's selector.
//!
//! Over shm a lookup takes less than a microsecond, and asking the selector and the clock for each would
//! take a good part of that: there, one decision holds for the lookups of the next microseconds.

use crate::options::Kind;
use crate::selector::{Choice, SelectorOptions, SharedSelector};
use barn_transaction::Client;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::Duration;

/// Threads that choose without being in each other's way.
const THREADS: usize = 8;
/// For how long a decision holds, if lookups are that quick.
const HOLDS: Duration = Duration::from_micros(4);

/// A selector, and its last decision.
pub(super) struct Choosing {
    selector: SharedSelector,
    /// READs of a lookup: m.
    reads: f32,
    /// Lookups for which the last decision still holds.
    held: AtomicU32,
    by_request: AtomicBool,
    /// A request that was decided on, and is still to be made: none, one that seems better, one that explores.
    decided: AtomicU8,
}

const DECIDED_BETTER: u8 = 1;
const DECIDED_EXPLORES: u8 = 2;

impl fmt::Debug for Choosing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Choosing")
    }
}

/// A lookup that is sent one way.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) choice: Choice,
    /// When it began, if it is timed, and whether it only explores.
    began: Option<(Duration, bool)>,
}

impl Choosing {
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        Self {
            selector: SharedSelector::new(SelectorOptions::default(), seed, THREADS),
            reads: match kind {
                Kind::Hopscotch => 1.0,
                Kind::Cuckoo => 2.5,
                Kind::Cache => 2.0,
                // Over a network, inner nodes are remembered.
                Kind::Tree => 1.2,
            },
            held: AtomicU32::new(0),
            by_request: AtomicBool::new(false),
            decided: AtomicU8::new(0),
        }
    }

    /// Chooses a way for the next lookup.
    #[inline]
    pub(super) fn choose(&self, client: &Client) -> Sent {
        // ORDER: Relaxed, here and below: hints that stand alone; of two threads one may count for both.
        let held = self.held.load(Ordering::Relaxed);
        if held > 0 {
            self.held.store(held - 1, Ordering::Relaxed);
            let by_request = self.by_request.load(Ordering::Relaxed);
            let choice = if by_request { Choice::Request } else { Choice::OneSided };
            return Sent { choice, began: None };
        }
        let now = client.now();
        // ORDER: Relaxed: as above.
        let decided = self.decided.load(Ordering::Relaxed);
        if decided != 0 {
            // ORDER: Relaxed: as above.
            self.decided.store(0, Ordering::Relaxed);
            return Sent { choice: Choice::Request, began: Some((now, decided == DECIDED_EXPLORES)) };
        }
        let chosen = self.selector.choose(now, self.reads);
        Sent { choice: chosen.choice, began: Some((now, chosen.explores)) }
    }

    /// Chooses a way for the next lookup, of one who can only read for himself: nothing if the node is to be asked,
    /// which whoever calls [`Choosing::choose`] next does. What is timed is then the quick way that most lookups
    /// take, and not a longer one.
    #[inline]
    pub(super) fn choose_one_sided(&self, client: &Client) -> Option<Sent> {
        // ORDER: Relaxed, here and below: as in `choose`.
        let held = self.held.load(Ordering::Relaxed);
        if held > 0 {
            if self.by_request.load(Ordering::Relaxed) {
                return None;
            }
            self.held.store(held - 1, Ordering::Relaxed);
            return Some(Sent { choice: Choice::OneSided, began: None });
        }
        self.decide(client)
    }

    fn decide(&self, client: &Client) -> Option<Sent> {
        // ORDER: Relaxed, here and below: as in `choose`.
        if self.decided.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let now = client.now();
        let chosen = self.selector.choose(now, self.reads);
        if chosen.choice == Choice::Request {
            let decided = if chosen.explores { DECIDED_EXPLORES } else { DECIDED_BETTER };
            self.decided.store(decided, Ordering::Relaxed);
            return None;
        }
        Some(Sent { choice: Choice::OneSided, began: Some((now, chosen.explores)) })
    }

    /// Notes what a lookup of so many keys has cost.
    #[inline]
    pub(super) fn done(&self, client: &Client, sent: &Sent, keys: usize) {
        let Some((began, explores)) = sent.began else { return };
        let now = client.now();
        let took = now.saturating_sub(began);
        self.selector.measured(now, sent.choice, took / keys.max(1) as u32, self.reads as u32);
        if !explores {
            let holds = (HOLDS.as_nanos() as u64).checked_div(took.as_nanos() as u64).unwrap_or(0);
            // ORDER: Relaxed: as above.
            self.by_request.store(sent.choice == Choice::Request, Ordering::Relaxed);
            self.held.store(holds.min(64) as u32, Ordering::Relaxed);
        }
    }
}
