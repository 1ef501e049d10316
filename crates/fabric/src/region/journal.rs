//! Remembers what words held before, so that the simulated transport can tear READs.
//!
//! A simulated READ takes time: it starts at one moment and ends at another, and each of its
//! words is read at some moment between, in no order. In one thread nothing else can happen
//! *during* a copy, so the copy is made afterwards: the journal holds every store since the
//! oldest READ in flight began, and each word's value is looked up at its own moment. So a READ
//! can see any state between two word stores, which is what a CPU on another core could see.
//!
//! What always holds: a moment that [`Journal::begin`] gave can be looked back to until
//! [`Journal::end`]; nothing older than the oldest such moment is kept.

use std::collections::VecDeque;
use std::ops::Range;
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
    stores: VecDeque<(usize, u64)>,
    /// Moments at which READs in flight began.
    open: Vec<u64>,
}

/// A moment in a journal: how many stores had been made.
pub type Moment = u64;

/// What a READ found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The words.
    pub words: Vec<u64>,
    /// Whether they were never all there at one moment.
    pub torn: bool,
}

impl Journal {
    /// Notes that `word` is about to be replaced, and what it holds now.
    pub(super) fn note(&self, word: usize, old: u64) {
        let mut state = self.lock();
        if state.open.is_empty() {
            // Nobody looks back: only the count goes on.
            state.first += 1;
        } else {
            state.stores.push_back((word, old));
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
        state.stores.iter().skip(from).find(|(at, _)| *at == word).map_or(now, |(_, old)| *old)
    }

    /// Reads a run of words, each as it was at the moment that `pick` chooses for it; every
    /// choice lies in `from..=to`. `now` says what a word holds now.
    pub fn read(
        &self,
        words: Range<usize>,
        (from, to): (Moment, Moment),
        now: impl Fn(usize) -> u64,
        mut pick: impl FnMut(usize) -> Moment,
    ) -> Seen {
        let state = self.lock();
        let skip = from.saturating_sub(state.first) as usize;
        let numbered = state.stores.iter().enumerate().skip(skip);
        // Every store since `from` to a word that is read: word, moment just before, old value.
        let mut stores: Vec<(usize, Moment, u64)> = numbered
            .filter(|(_, (word, _))| words.contains(word))
            .map(|(at, (word, old))| (*word, state.first + at as u64, *old))
            .collect();
        drop(state);
        if stores.is_empty() {
            return Seen { words: words.map(now).collect(), torn: false };
        }
        let in_order = stores.clone();
        stores.sort_unstable();
        let held = |word: usize, moment: Moment| {
            let next = stores.partition_point(|(at, when, _)| (*at, *when) < (word, moment));
            stores.get(next).filter(|(at, _, _)| *at == word).map_or_else(|| now(word), |(_, _, old)| *old)
        };
        let seen: Vec<u64> = words.clone().map(|word| held(word, pick(word).clamp(from, to))).collect();
        // Go back from `to` store by store: was any state between what we saw?
        let mut state: Vec<u64> = words.clone().map(|word| held(word, to)).collect();
        let mut differ = state.iter().zip(&seen).filter(|(one, other)| one != other).count();
        let mut whole = differ == 0;
        for (word, _, old) in in_order.iter().rev().filter(|(_, when, _)| *when < to) {
            let at = word - words.start;
            differ -= usize::from(state[at] != seen[at]);
            state[at] = *old;
            differ += usize::from(state[at] != seen[at]);
            whole |= differ == 0;
        }
        Seen { words: seen, torn: !whole }
    }

    /// Stops looking back to `moment`, which [`Self::begin`] gave.
    pub fn end(&self, moment: Moment) {
        let mut state = self.lock();
        if let Some(at) = state.open.iter().position(|open| *open == moment) {
            state.open.swap_remove(at);
        }
        let now = state.first + state.stores.len() as u64;
        let oldest = state.open.iter().copied().min().unwrap_or(now);
        let past = oldest.saturating_sub(state.first) as usize;
        state.stores.drain(..past);
        state.first += past as u64;
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

    #[test]
    fn a_read_finds_each_word_at_its_moment_and_knows_whether_it_is_torn() {
        let journal = Journal::default();
        let mut words = [0u64; 4];
        let first = journal.begin();
        let mut store = |word: usize, value| {
            journal.note(word, words[word]);
            words[word] = value;
        };
        store(1, 10);
        store(2, 20);
        let second = journal.begin();
        store(1, 11);
        let last = journal.now();
        let read = |from, moments: [u64; 2]| {
            journal.read(1..3, (from, last), |word| words[word], |word| first + moments[word - 1])
        };
        assert_eq!(read(first, [0, 0]), Seen { words: vec![0, 0], torn: false });
        assert_eq!(read(first, [1, 1]), Seen { words: vec![10, 0], torn: false });
        assert_eq!(read(first, [3, 0]), Seen { words: vec![11, 0], torn: true });
        assert_eq!(read(first, [0, 2]), Seen { words: vec![0, 20], torn: true });
        journal.end(first);
        assert_eq!(read(second, [2, 2]), Seen { words: vec![10, 20], torn: false });
        assert_eq!(read(second, [3, 3]), Seen { words: vec![11, 20], torn: false });
        journal.end(second);
        assert_eq!(read(last, [3, 3]).words, [11, 20], "nothing is kept, and nothing is lost");
    }
}
