//! Hand-made stories, and thousands of random ones judged twice.

mod anomalies;
mod brute;
mod random;

use super::*;

/// A story in the making: each operation has a client of its own.
#[derive(Default)]
struct Story(History);

impl Story {
    /// The key is not there.
    fn new() -> Self {
        Self::default()
    }

    /// The key has a value.
    fn with(value: u64) -> Self {
        Self(History { initial: Some((value, 0)), ..History::default() })
    }

    fn lossy(mut self) -> Self {
        self.0.lossy = true;
        self
    }

    fn then(mut self, time: std::ops::Range<u64>, call: Call, outcome: Outcome) -> Self {
        let client = self.0.operations.len() as u32;
        let (invoked, returned) = (time.start, time.end);
        self.0.operations.push(Operation { client, call, outcome, invoked, returned });
        self
    }

    fn done(self, time: std::ops::Range<u64>, call: Call) -> Self {
        self.then(time, call, Outcome::Done { version: 0 })
    }

    fn unknown(self, start: u64, call: Call) -> Self {
        self.then(start..u64::MAX, call, Outcome::Unknown)
    }

    fn found(self, time: std::ops::Range<u64>, value: u64) -> Self {
        self.then(time, Call::Get, Outcome::Found { value, version: 0 })
    }

    fn absent(self, time: std::ops::Range<u64>) -> Self {
        self.then(time, Call::Get, Outcome::Absent)
    }

    #[track_caller]
    fn explained(self) {
        let verdict = check(&self.0);
        assert!(verdict.is_linearizable(), "{verdict}");
        assert!(brute::is_explained(&self.0));
    }

    /// No order explains it, and this client's operation shows it first.
    #[track_caller]
    fn unexplained(self, culprit: u32) -> Violation {
        assert!(!brute::is_explained(&self.0));
        let verdict = check(&self.0);
        let violation = verdict.violation().unwrap_or_else(|| panic!("{verdict}"));
        assert_eq!(violation.culprit.client, culprit, "{violation}");
        violation.clone()
    }
}

/// A swap that compares values.
fn swap(expected: u64, new: u64) -> Call {
    Call::Swap { expected: Expected::Value(expected), new }
}

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
