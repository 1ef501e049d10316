//! Scheduling: who runs a task, and who wakes a sleeper.
//!
//! Code that starts tasks of its own does it through [`Schedule`], so that a simulated world
//! can decide in which order they run and what time it is when they do.

use crate::drive;
use std::fmt;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A task, or a wait.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks.
pub trait Schedule: Send + Sync {
    /// Runs a task to its end, beside the others.
    fn spawn(&self, task: Task);

    /// A wait of at least so long.
    fn sleep(&self, time: Duration) -> Task;
}

/// A thread for each task: for the few long-lived tasks of a process.
#[derive(Clone, Copy, Default)]
pub struct Threads;

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Threads")
    }
}

impl Schedule for Threads {
    /// Where the system has no thread left, the task runs here and now.
    fn spawn(&self, task: Task) {
        let shared = std::sync::Arc::new(std::sync::Mutex::new(Some(task)));
        let run = |shared: &std::sync::Mutex<Option<Task>>| {
            let task = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
            task.into_iter().for_each(drive::block_on);
        };
        let theirs = shared.clone();
        if std::thread::Builder::new().name("barn-task".into()).spawn(move || run(&theirs)).is_err() {
            run(&shared);
        }
    }

    fn sleep(&self, time: Duration) -> Task {
        let mut until = None;
        Box::pin(std::future::poll_fn(move |cx| {
            let now = Instant::now();
            let until = *until.get_or_insert(now + time);
            if now >= until {
                return Poll::Ready(());
            }
            match drive::reactor::reactor() {
                Ok(reactor) => {
                    reactor.wake_at(until, cx.waker().clone());
                }
                // No reactor, no timer: sleep here rather than never wake.
                Err(_) => {
                    std::thread::sleep(until - now);
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_task_runs_and_sleeps_as_long_as_it_was_told() {
        let (tell, told) = mpsc::channel();
        let start = Instant::now();
        Threads.spawn(Box::pin(async move {
            Threads.sleep(Duration::from_millis(20)).await;
            let _ = tell.send(start.elapsed());
        }));
        assert!(told.recv().unwrap() >= Duration::from_millis(20));
    }
}
