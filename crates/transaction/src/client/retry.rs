//! Running a transaction again until it goes through.

use super::backoff::Backoff;
use super::{Client, ClientStats, Transaction};
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

impl Client {
    /// Runs a transaction, and again while others are in its way: `body` reads and writes through
    /// the transaction it is given, and must do nothing else that cannot be done twice.
    ///
    /// An outcome that could not be found out ends it: a commit is never repeated blindly.
    pub async fn run<T, E>(
        &self,
        options: RunOptions,
        mut body: impl AsyncFnMut(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, RunError<E>>
    where
        E: From<ClientError>,
        for<'a> &'a E: Into<Option<&'a ClientError>>,
    {
        let mut backoff = Backoff::new(options.deadline);
        loop {
            let mut transaction = self.begin();
            let passing = match body(&mut transaction).await {
                Ok(value) => match transaction.commit().await {
                    Ok(_) => {
                        // ORDER: Relaxed: a counter.
                        self.inner.stats.attempts_max.fetch_max(backoff.attempts + 1, Ordering::Relaxed);
                        return Ok(value);
                    }
                    Err(CommitError::Conflict { .. }) => true,
                    Err(CommitError::Failed(error)) if self.is_passing(&error) => true,
                    Err(error) => return Err(RunError::Commit(error)),
                },
                Err(error) => {
                    let own: Option<&ClientError> = (&error).into();
                    let stale = own.is_some_and(|own| self.is_passing(own)) || !self.is_true(transaction).await;
                    if !stale {
                        return Err(RunError::Own(error));
                    }
                    true
                }
            };
            debug_assert!(passing);
            if backoff.attempts + 1 >= options.attempts_max || !backoff.wait(&self.inner).await {
                ClientStats::add(&self.inner.stats.conflicts, 0);
                return Err(RunError::Contended { attempts: backoff.attempts });
            }
        }
    }

    fn is_passing(&self, error: &ClientError) -> bool {
        error.is_passing()
    }

    /// Whether what a transaction has read was true in one moment: an error that a closure came to
    /// from values that never stood side by side is not its answer.
    async fn is_true(&self, mut transaction: Transaction) -> bool {
        transaction.forget_changes();
        transaction.commit().await.is_ok()
    }
}
