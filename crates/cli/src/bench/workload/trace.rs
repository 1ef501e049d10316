//! The operations of one thread, drawn in advance: choosing takes as long as a lookup in one's own
//! process, and would be measured with it.
//!
//! What always holds: a record that is named was loaded, or was inserted before by whoever follows the
//! trace. For that, each thread inserts numbers of its own, and `latest` means the newest of what was
//! loaded and of its own inserts.

use std::sync::Arc;

use barn_fabric::seam::{Random, Seeded};
use barn_layout::planted;

use super::choose::{Chooser, Law};
use super::mix::{Kind, Mix};

/// One operation. The record is a number, or how far back from the newest where the law is `latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) record: u32,
}

/// Operations in order, and where a thread is in them. Clones share the operations.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    steps: Arc<[Step]>,
    latest: bool,
    at: usize,
}

/// Which numbers a thread inserts: from `first` on, every `stride`-th, so that no two threads meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inserts {
    /// Records that were loaded: the numbers below this.
    pub(crate) loaded: u64,
    pub(crate) thread: u64,
    pub(crate) threads: u64,
    /// Inserts that were begun.
    pub(crate) begun: u64,
    /// Of those, how many have ended: what is read is among these, as YCSB's acknowledged counter has it.
    pub(crate) done: u64,
}

impl Inserts {
    /// Of a thread, before it has inserted anything.
    pub(crate) fn none(loaded: u64, thread: u64, threads: u64) -> Self {
        Self { loaded, thread, threads, begun: 0, done: 0 }
    }

    /// The number of the next record.
    pub(crate) fn next(&mut self) -> u64 {
        let number = self.number(self.begun);
        self.begun += 1;
        number
    }

    /// All that were begun have ended.
    pub(crate) fn ended(&mut self) {
        self.done = self.begun;
    }

    fn number(&self, insert: u64) -> u64 {
        self.loaded + self.thread + insert * self.threads
    }

    /// The record so far back from the newest.
    pub(crate) fn back(&self, rank: u64) -> u64 {
        match rank < self.done {
            true => self.number(self.done - 1 - rank),
            // A trace that was drawn with more inserts than have ended may look past the oldest.
            false => self.loaded.saturating_sub(1 + rank - self.done),
        }
    }
}

impl Trace {
    /// So many operations of a workload over so many records.
    pub(crate) fn draw(mix: Mix, law: Law, records: u64, steps: usize, seed: u64) -> Self {
        let mut chooser = Chooser::new(law, records, seed);
        let mut random = Seeded::new(!seed);
        let (most, of_hundred, other) = mix.parts();
        let one = |_| match if random.below(100) < of_hundred { most } else { other } {
            Kind::Insert => {
                chooser.inserted();
                Step { kind: Kind::Insert, record: 0 }
            }
            Kind::Scan(longest) => {
                let kind = Kind::Scan(1 + random.below(u64::from(longest)) as u8);
                Step { kind, record: chooser.next() as u32 }
            }
            kind => Step { kind, record: chooser.next() as u32 },
        };
        Self { steps: (0..steps).map(one).collect(), latest: law == Law::Latest, at: 0 }
    }

    /// Goes to a part of the trace that no other window of eight begins with.
    pub(crate) fn begin(&mut self, round: usize) {
        self.at = round % 8 * (self.steps.len() / 8);
    }

    /// The next operation, and the record's number; the trace begins again where it ends.
    pub(crate) fn next(&mut self, inserts: &mut Inserts) -> (Kind, u64) {
        let step = self.steps[self.at];
        self.at = if self.at + 1 == self.steps.len() { 0 } else { self.at + 1 };
        let record = u64::from(step.record);
        let number = match step.kind {
            Kind::Insert => inserts.next(),
            _ if self.latest && planted("latest_is_oldest") => record,
            _ if self.latest => inserts.back(record),
            _ => record,
        };
        (step.kind, number)
    }

    /// Whether there is anything to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inserts(thread: u64, threads: u64) -> Inserts {
        Inserts::none(1000, thread, threads)
    }

    #[test]
    fn every_mix_has_its_proportions() {
        use std::mem::discriminant;
        for mix in Mix::ALL {
            let (most, of_hundred, other) = mix.parts();
            let trace = Trace::draw(mix, mix.law(), 1000, 200_000, 4);
            let share = |kind: Kind| {
                let same = |step: &&Step| discriminant(&step.kind) == discriminant(&kind);
                trace.steps.iter().filter(same).count() as f64 / trace.steps.len() as f64
            };
            let expected = of_hundred as f64 / 100.0;
            // Five standard deviations of 200,000 draws at a half are 0.0056.
            assert!((share(most) - expected).abs() < 0.0056, "{mix}: {}", share(most));
            let others = if other == most { 0.0 } else { share(other) };
            assert!((share(most) + others - 1.0).abs() < 1e-12, "{mix}: nothing else");
        }
    }

    #[test]
    fn scans_have_every_length_from_1_to_100_equally_often() {
        let trace = Trace::draw(Mix::E, Law::Zipfian, 1000, 200_000, 5);
        let mut lengths = [0u32; 256];
        for step in trace.steps.iter() {
            if let Kind::Scan(keys) = step.kind {
                lengths[usize::from(keys)] += 1;
            }
        }
        // 1900 of each; five standard deviations are 217.
        assert!(lengths[1..=100].iter().all(|count| (1683..2117).contains(count)), "{lengths:?}");
        assert_eq!(lengths[0] + lengths[101..].iter().sum::<u32>(), 0);
    }

    #[test]
    fn threads_insert_numbers_that_no_other_thread_does() {
        let mut seen = std::collections::HashSet::new();
        for thread in 0..3 {
            let mut inserts = inserts(thread, 3);
            assert!((0..100).all(|_| seen.insert(inserts.next())));
        }
        assert_eq!((seen.len(), seen.iter().min(), seen.iter().max()), (300, Some(&1000), Some(&1299)));
    }

    #[test]
    fn back_is_counted_over_own_inserts_and_then_over_what_was_loaded() {
        let mut inserts = inserts(1, 2);
        assert_eq!((inserts.back(0), inserts.back(999)), (999, 0));
        assert_eq!((inserts.next(), inserts.next()), (1001, 1003));
        assert_eq!(inserts.back(0), 999, "they are under way, and not there yet");
        inserts.ended();
        assert_eq!([0, 1, 2, 3].map(|rank| inserts.back(rank)), [1003, 1001, 999, 998]);
        assert_eq!(inserts.back(1001), 0, "the oldest");
    }

    #[test]
    fn what_latest_reads_is_there_and_mostly_new() {
        let mut trace = Trace::draw(Mix::D, Law::Latest, 1000, 20_000, 8);
        let mut inserts = inserts(0, 1);
        let (mut reads, mut young) = (0, 0);
        // Twice around: the second time there are more records than when it was drawn.
        for _ in 0..40_000 {
            let (kind, number) = trace.next(&mut inserts);
            inserts.ended();
            let there = inserts.loaded + inserts.done;
            assert!(number < there, "{number} of {there}");
            if kind == Kind::Read {
                (reads, young) = (reads + 1, young + u64::from(number + there / 10 >= there));
            }
        }
        assert!(young * 10 > reads * 6, "the newest tenth has most of the reads: {young} of {reads}");
    }

    #[test]
    fn windows_begin_apart_and_the_trace_goes_round() {
        let mut trace = Trace::draw(Mix::C, Law::Uniform, 1000, 80, 2);
        let mut inserts = inserts(0, 1);
        trace.begin(1);
        let first: Vec<_> = (0..80).map(|_| trace.next(&mut inserts)).collect();
        assert_eq!(trace.next(&mut inserts), first[0]);
        trace.begin(2);
        assert_eq!(trace.next(&mut inserts), first[10]);
    }
}
