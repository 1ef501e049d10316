//! Remembers what words held before, so that the simulated transport can tear READs.
//!
//! A simulated READ takes time: it starts at one moment and ends at another, and each of its
//! words is read at some moment between, in no order. In one thread nothing else can happen
//! *during* a copy, so the copy is made afterwards: the journal holds every store since the
//! oldest READ in flight began, and each word's value is looked up at its own moment. So a READ
//! can see any state between two word stores, which is what a CPU on another core could see.

use std::sync::Mutex;

/// The stores since some moment, each with what it replaced.
#[derive(Debug, Default)]
pub struct Journal {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the first entry of `stores`.
    first: u64,
    /// Word index and the value before the store.
    stores: Vec<(usize, u64)>,
    /// Moments at which READs in flight began.
    open: Vec<u64>,
}

/// A moment in a journal: how many stores had been made.
pub type Moment = u64;

impl Journal {
    /// Notes that `word` is about to be replaced, and what it holds now.
    pub(super) fn note(&self, word: usize, old: u64) {
        let mut state = self.lock();
        if state.open.is_empty() {
            // Nobody looks back: only the count goes on.
            state.first += 1;
        } else {
            state.stores.push((word, old));
        }
    }

    /// Starts looking back: the moment now.
    pub fn begin(&self) -> Moment {
        let mut state = self.lock();
        let now = state.first + state.stores.len() as u64;
        state.open.push(now);
        now
    }

    /// The moment now.
    pub fn now(&self) -> Moment {
        let state = self.lock();
        state.first + state.stores.len() as u64
    }

    /// What `word` held at `moment`, given what it holds now.
    pub fn value_at(&self, word: usize, moment: Moment, now: u64) -> u64 {
        let state = self.lock();
        let from = moment.saturating_sub(state.first) as usize;
        // The first store after the moment replaced what the word held at the moment.
        state
            .stores
            .get(from..)
            .unwrap_or_default()
            .iter()
            .find(|(at, _)| *at == word)
            .map_or(now, |(_, old)| *old)
    }

    /// Stops looking back to `moment`, which [`Self::begin`] gave.
    pub fn end(&self, moment: Moment) {
        let mut state = self.lock();
        if let Some(at) = state.open.iter().position(|open| *open == moment) {
            state.open.swap_remove(at);
        }
        if state.open.is_empty() {
            state.first += state.stores.len() as u64;
            state.stores.clear();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_as_it_was_at_any_moment() {
        let journal = Journal::default();
        journal.note(0, 99);
        let start = journal.begin();
        let mut word = 1u64;
        let mut history = vec![word];
        for value in [5, 6, 7] {
            journal.note(3, word);
            word = value;
            history.push(word);
        }
        for (step, held) in history.iter().enumerate() {
            assert_eq!(journal.value_at(3, start + step as u64, word), *held);
        }
        assert_eq!(journal.value_at(2, start, 42), 42, "a word nobody stored is as it is");
        journal.end(start);
        assert_eq!(journal.value_at(3, start, word), word);
    }
}
