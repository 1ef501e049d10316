//! Lets a bare peer spin only while it is measured, so that it does not take the node's core
//! while ours is.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};

/// Whose turn it is. The peer looks often; the measuring side says when.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    now: AtomicBool,
    over: AtomicBool,
    sleep: Mutex<()>,
    woken: Condvar,
}

impl Turn {
    /// The peer's look: whether to go on. Sleeps while it is not the peer's turn; false when the
    /// benchmark is over.
    pub(crate) fn go_on(&self) -> bool {
        if self.now.load(Ordering::Relaxed) {
            return true;
        }
        let mut guard = self.sleep.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !self.now.load(Ordering::Relaxed) && !self.over.load(Ordering::Relaxed) {
            guard = self.woken.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        !self.over.load(Ordering::Relaxed)
    }

    /// Runs `measured` with the peer awake.
    pub(crate) fn during<T>(&self, measured: impl FnOnce() -> T) -> T {
        self.set(&self.now, true);
        let result = measured();
        self.now.store(false, Ordering::Relaxed);
        result
    }

    /// The benchmark is over: the peer ends.
    pub(crate) fn end(&self) {
        self.now.store(false, Ordering::Relaxed);
        self.set(&self.over, true);
    }

    fn set(&self, flag: &AtomicBool, value: bool) {
        let _guard = self.sleep.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        flag.store(value, Ordering::Relaxed);
        self.woken.notify_all();
    }
}
