//! Hand-made stories, and thousands of random ones judged twice.

mod anomalies;
mod brute;
mod random;

use super::*;

/// An object by a small number.
fn o(number: u64) -> ObjectKey {
    ObjectKey { address: number, incarnation: 0 }
}

fn update(object: u64, before: u64) -> Write {
    Write { object: o(object), kind: WriteKind::Update, before, after: before + 1 }
}

fn create(object: u64, after: u64) -> Write {
    Write { object: o(object), kind: WriteKind::Create, before: 0, after }
}

fn free(object: u64, before: u64) -> Write {
    Write { object: o(object), kind: WriteKind::Free, before, after: before + 1 }
}

/// A story in the making: transactions are numbered by client, and have one each.
#[derive(Default)]
struct Story {
    history: History,
    clients: u32,
}

impl Story {
    /// Objects 0 to 3 are there, in version 1.
    fn new() -> Self {
        let mut story = Self::default();
        (0..4).for_each(|number| story.history.initial(o(number), 1));
        story
    }

    fn then(
        mut self,
        outcome: Outcome,
        time: std::ops::Range<u64>,
        reads: &[(u64, u64)],
        writes: &[Write],
    ) -> Self {
        let reads = reads.iter().map(|&(number, version)| (o(number), version)).collect();
        let (client, writes) = (self.clients, writes.to_vec());
        self.clients += 1;
        let record = Record { client, number: 0, start: time.start, end: time.end, outcome, reads, writes };
        self.history.push(record);
        self
    }

    fn committed(self, time: std::ops::Range<u64>, reads: &[(u64, u64)], writes: &[Write]) -> Self {
        self.then(Outcome::Committed, time, reads, writes)
    }

    fn aborted(self, time: std::ops::Range<u64>, reads: &[(u64, u64)], writes: &[Write]) -> Self {
        self.then(Outcome::Aborted, time, reads, writes)
    }

    fn unknown(self, start: u64, reads: &[(u64, u64)], writes: &[Write]) -> Self {
        self.then(Outcome::Unknown, start..u64::MAX, reads, writes)
    }

    fn finally(mut self, object: u64, found: Option<u64>) -> Self {
        self.history.final_state(o(object), found);
        self
    }

    fn absent(mut self, time: std::ops::Range<u64>, object: u64) -> Self {
        let by = TransactionName { client: self.clients, number: 0 };
        self.clients += 1;
        self.history.absent(by, (time.start, time.end), o(object));
        self
    }

    fn check(&self) -> Result<Summary, Violation> {
        check(&self.history)
    }

    /// The violation, in words.
    fn says(&self) -> String {
        self.check().expect_err("a violation").to_string()
    }
}
