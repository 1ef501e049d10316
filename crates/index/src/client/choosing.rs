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
/// For how long a decision holds, if lookups are that quick. 20 µs: to decide and to time a lookup takes as long as
/// two or three of the quickest, of which 150 come in that time.
const HOLDS: Duration = Duration::from_micros(20);
/// For how many lookups it holds at the most.
const HOLDS_MAX: u64 = 256;

/// A selector, and its last decision.
pub(super) struct Choosing {
    selector: SharedSelector,
    /// READs of a lookup: m.
    reads: f32,
    /// Lookups for which the last decision still holds.
    held: AtomicU32,
    by_request: AtomicBool,
    /// What was decided on, and could not be done at once: whoever goes the long way does it. 0 if nothing.
    postponed: AtomicU8,
}

/// A decision that is postponed: these bits, if it is to ask, and if it only explores.
const POSTPONED: u8 = 1;
const ASKS: u8 = 2;
const EXPLORES: u8 = 4;

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
            postponed: AtomicU8::new(0),
        }
    }

    /// The way of the next lookup, if what was decided last still holds: most lookups need no more than that.
    #[inline(always)]
    pub(super) fn held(&self) -> Option<Choice> {
        // ORDER: Relaxed, here and below: hints that stand alone; of two threads one may count for both.
        let held = self.held.load(Ordering::Relaxed);
        if held == 0 {
            return None;
        }
        self.held.store(held - 1, Ordering::Relaxed);
        let by_request = self.by_request.load(Ordering::Relaxed);
        Some(if by_request { Choice::Request } else { Choice::OneSided })
    }

    /// Chooses a way for the next lookup.
    #[inline]
    pub(super) fn choose(&self, client: &Client) -> Sent {
        if let Some(choice) = self.held() {
            return Sent { choice, began: None };
        }
        let now = client.now();
        // ORDER: Relaxed: as in `held`.
        let postponed = self.postponed.load(Ordering::Relaxed);
        if postponed != 0 {
            // ORDER: Relaxed: as above.
            self.postponed.store(0, Ordering::Relaxed);
            let choice = if postponed & ASKS != 0 { Choice::Request } else { Choice::OneSided };
            return Sent { choice, began: Some((now, postponed & EXPLORES != 0)) };
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
        if self.postponed.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let now = client.now();
        let chosen = self.selector.choose(now, self.reads);
        let sent = Sent { choice: chosen.choice, began: Some((now, chosen.explores)) };
        if sent.choice == Choice::Request {
            self.postpone(&sent);
            return None;
        }
        Some(sent)
    }

    /// What was chosen could not be done at once: whoever calls [`Choosing::choose`] next does it, so that a run of the
    /// selector's is as long as it is meant to be.
    #[cold]
    pub(super) fn postpone(&self, sent: &Sent) {
        let Some((_, explores)) = sent.began else { return };
        let asks = if sent.choice == Choice::Request { ASKS } else { 0 };
        let explores = if explores { EXPLORES } else { 0 };
        // ORDER: Relaxed: as in `choose`.
        self.postponed.store(POSTPONED | asks | explores, Ordering::Relaxed);
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
            self.held.store(holds.min(HOLDS_MAX) as u32, Ordering::Relaxed);
        }
    }
}
