//! Running a transaction again until it goes through.

use super::backoff::Backoff;
use super::{Client, Transaction};
use crate::error::{ClientError, CommitError, RunError};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a transaction is run again.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// At most so often.
    pub attempts_max: u64,
    /// And for at most so long.
    pub deadline: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { attempts_max: 10_000, deadline: Duration::from_secs(10) }
    }
}

/// Counts the attempts of a transaction.
#[derive(Debug)]
pub struct Attempts {
    options: RunOptions,
    backoff: Backoff,
}

impl Attempts {
    /// None has been made.
    pub fn new(options: RunOptions) -> Self {
        Self { options, backoff: Backoff::new(options.deadline) }
    }

    /// Waits before the next; an error, with how many there were, if there is to be none.
    pub async fn next(&mut self, client: &Client) -> Result<(), u64> {
        if self.backoff.attempts + 1 >= self.options.attempts_max || !self.backoff.wait(&client.inner).await {
            return Err(self.backoff.attempts + 1);
        }
        Ok(())
    }
}

impl Client {
    /// Runs a transaction, and again while others are in its way: `body` reads and writes through
    /// the transaction it is given, and must do nothing else that cannot be done twice.
    ///
    /// An outcome that could not be found out ends it: a commit is never repeated blindly.
    pub async fn run<T, E: From<ClientError>>(
        &self,
        options: RunOptions,
        mut body: impl AsyncFnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        let mut attempts = Attempts::new(options);
        loop {
            let mut transaction = self.begin();
            let outcome = body(&mut transaction).await;
            if let Some(done) = self.finish(transaction, outcome, &attempts).await {
                return done;
            }
            attempts.next(self).await.map_err(|attempts| RunError::Contended { attempts })?;
        }
    }

    /// Ends one attempt: commits if the closure was content. `None` if it has to be made again.
    pub async fn finish<T, E: From<ClientError>>(
        &self,
        transaction: Transaction,
        outcome: Result<T, E>,
        attempts: &Attempts,
    ) -> Option<Result<T, RunError<E>>> {
        match outcome {
            Ok(value) => match transaction.commit().await {
                Ok(_) => {
                    // ORDER: Relaxed: a counter.
                    self.inner.stats.attempts_max.fetch_max(attempts.backoff.attempts + 1, Ordering::Relaxed);
                    Some(Ok(value))
                }
                Err(CommitError::Conflict { .. }) => None,
                Err(CommitError::Failed(error)) if error.is_passing() => None,
                Err(error) => Some(Err(RunError::Commit(error))),
            },
            Err(_) if transaction.has_stumbled() => None,
            Err(error) => self.is_true(transaction).await.then_some(Err(RunError::Own(error))),
        }
    }

    /// Whether what a transaction has read was true in one moment: an error that a closure came to
    /// from values that never stood side by side is not its answer.
    async fn is_true(&self, mut transaction: Transaction) -> bool {
        transaction.forget_changes();
        transaction.commit().await.is_ok()
    }
}
