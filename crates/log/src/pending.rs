//! Records on their way from the owner to the writer: a queue of batches.
//!
//! What always holds: the batches come out in the order in which they went in; one that is as long as is written at
//! once is never copied, and its memory goes round, so that a log in full use touches the same few megabytes again
//! and again.

use crate::frame::Batch;
use crate::shared::NONE;
use std::collections::VecDeque;

/// So many empty batches are kept: the owner's next ones. 5: as much as may wait (the window); what a disk that was
/// away for a moment leaves behind is not given back, only to be asked for again, full of zeros.
const SPARES_MAX: usize = 5;

/// What the writer has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Each with the time at which its first record was appended.
    batches: VecDeque<(u64, Batch)>,
    bytes: usize,
    /// The one that was used last is the next: it is still in the cache.
    spares: Vec<Batch>,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How long all records are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the oldest was appended.
    pub(crate) fn born(&self) -> u64 {
        self.batches.front().map_or(NONE, |(born, _)| *born)
    }

    /// Takes a batch's records and leaves it empty; they go with the last that waits if both together have at most
    /// `joined_max` bytes.
    pub(crate) fn push(&mut self, batch: &mut Batch, born: u64, joined_max: usize) {
        self.bytes += batch.len();
        match self.batches.back_mut() {
            Some((_, last)) if last.len() + batch.len() <= joined_max => {
                last.append(batch.bytes(), batch.records());
                batch.clear();
            }
            _ => {
                let empty = self.spares.pop().unwrap_or_default();
                self.batches.push_back((born, std::mem::replace(batch, empty)));
            }
        }
    }

    /// The oldest batch, for the memory of one that was written.
    pub(crate) fn pop(&mut self, written: &mut Batch) {
        if let Some((_, batch)) = self.batches.pop_front() {
            self.bytes -= batch.len();
            self.spare(std::mem::replace(written, batch));
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
        self.bytes = 0;
    }

    fn spare(&mut self, mut batch: Batch) {
        batch.clear();
        if self.spares.len() < SPARES_MAX {
            self.spares.push(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ones_are_joined_and_long_ones_are_not_copied() {
        let (mut pending, mut batch, mut taken) = (Pending::default(), Batch::default(), Batch::default());
        let mut put = |pending: &mut Pending, bytes: usize, born: u64| {
            batch.append(&vec![born as u8; bytes], 1);
            let at = batch.bytes().as_ptr();
            pending.push(&mut batch, born, 100);
            assert!(batch.is_empty());
            at
        };
        put(&mut pending, 30, 1);
        put(&mut pending, 70, 2);
        let long = put(&mut pending, 90, 3);
        put(&mut pending, 11, 4);
        assert_eq!((pending.bytes(), pending.born()), (201, 1));
        pending.pop(&mut taken);
        assert_eq!((taken.len(), taken.records()), (100, 2));
        assert_eq!((pending.bytes(), pending.born()), (101, 3));
        pending.pop(&mut taken);
        assert_eq!((taken.bytes().as_ptr(), taken.records()), (long, 1), "where it was");
        pending.pop(&mut taken);
        assert!(pending.is_empty() && pending.bytes() == 0 && pending.born() == NONE);
        assert_eq!(taken.bytes(), [4; 11]);
        pending.pop(&mut taken);
        assert_eq!(taken.len(), 11, "nothing came");
    }
}
