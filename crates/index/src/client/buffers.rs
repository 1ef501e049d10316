//! A request and its answer in the making, or what a READ brings: memory that a thread uses again.

use std::cell::RefCell;

/// Buffers that one thread keeps: as many requests as it may well interleave.
const KEPT_MAX: usize = 64;
/// Longer ones are not kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: RefCell<Vec<(Vec<u8>, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

/// A message and the answer to it. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) message: Vec<u8>,
    pub(crate) answer: Vec<u8>,
}

impl Buffers {
    pub(crate) fn take() -> Self {
        let (message, answer) = KEPT.with(|kept| kept.borrow_mut().pop()).unwrap_or_default();
        Self { message, answer }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.message.capacity().max(self.answer.capacity()) > KEPT_BYTES_MAX {
            return;
        }
        let both = (std::mem::take(&mut self.message), std::mem::take(&mut self.answer));
        // A thread that ends has nothing to keep.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(both);
            }
        });
    }
}
