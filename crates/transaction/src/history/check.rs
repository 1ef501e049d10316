//! The verdict: builds the tables, chooses who happened, looks for an order, and tells why there is none.

use super::absent;
use super::cycle::Left;
use super::happened::{choose, see_final_states};
use super::order::Order;
use super::record::Outcome;
use super::store::History;
use super::tables::Tables;
use super::violation::Violation;

/// What a history that is in order consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions that were acknowledged.
    pub committed: usize,
    /// Transactions that were refused.
    pub aborted: usize,
    /// Transactions of unknown outcome that happened.
    pub unknown_happened: usize,
    /// Transactions of unknown outcome of which nobody saw anything.
    pub unknown_unseen: usize,
    /// Reads, of all transactions.
    pub reads: usize,
    /// Writes, of all transactions.
    pub writes: usize,
    /// Objects.
    pub objects: usize,
}

/// Whether one order of the transactions explains all that was seen, and agrees with the time.
pub fn check(history: &History) -> Result<Summary, Violation> {
    if let Some(malformed) = &history.malformed {
        return Err(malformed.clone());
    }
    absent::none_was_there(history)?;
    // Choices among those of unknown outcome that led to a cycle, and the story of the first.
    let mut refuted: Vec<Vec<u32>> = Vec::new();
    let mut first = None;
    loop {
        let mut tables = Tables::build(history)?;
        see_final_states(&mut tables)?;
        let happened = match (choose(&tables, &refuted), first.take()) {
            (Ok(happened), story) => {
                first = story;
                happened
            }
            (Err(undecided @ Violation::Undecided { .. }), _) => return Err(undecided),
            (Err(violation), story) => return Err(story.unwrap_or(violation)),
        };
        for &t in &happened {
            tables.install(t);
        }
        for &t in &happened {
            for read in history.reads_of(t) {
                tables.link(t, read);
            }
        }
        let mut order = Order::new(&tables, &happened);
        if order.find(&mut tables) {
            return Ok(summary(history, happened.len()));
        }
        let left = Left::new(&tables, &order);
        let steps = left.shortest();
        let story = left.use_after_free().unwrap_or_else(|| Violation::Cycle(left.tell(&steps)));
        let chosen: Vec<u32> =
            steps.iter().map(|step| step.0).filter(|t| happened.binary_search(t).is_ok()).collect();
        if chosen.is_empty() {
            return Err(story);
        }
        first.get_or_insert(story);
        refuted.push(chosen);
    }
}

fn summary(history: &History, unknown_happened: usize) -> Summary {
    let count = |outcome| history.transactions.iter().filter(|t| t.outcome == outcome).count();
    Summary {
        committed: count(Outcome::Committed),
        aborted: count(Outcome::Aborted),
        unknown_happened,
        unknown_unseen: count(Outcome::Unknown) - unknown_happened,
        reads: history.reads.len(),
        writes: history.writes.len(),
        objects: history.objects.len(),
    }
}
