//! Running a transaction again until it goes through.

use super::backoff::Backoff;
use super::{Client, ClientStats, Retry, Transaction};
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
    /// What the last attempt stumbled over, if not over another transaction.
    stumbled: Option<ClientError>,
    /// How often the cluster was looked for.
    searches: u32,
}

impl Attempts {
    /// None has been made; the time counts from now.
    pub fn new(client: &Client, options: RunOptions) -> Self {
        let now = client.inner.at_latest();
        Self { options, backoff: Backoff::new(now, options.deadline), stumbled: None, searches: 0 }
    }

    /// When there is no time left, on the client's clock.
    pub(super) fn ends(&self) -> Duration {
        self.backoff.ends()
    }

    /// How much time is left for all that is still to be done.
    fn left(&self, client: &Client) -> Duration {
        self.backoff.left(client.now())
    }

    /// Waits before the next; if there is to be none, what stood in the way of the last: a node
    /// that is gone is no other transaction.
    pub async fn next<E>(&mut self, client: &Client) -> Result<(), RunError<E>> {
        let attempts = self.backoff.attempts + 1;
        let stays = client.retry() == Retry::Never && self.stumbled.is_some();
        let left = self.left(client);
        if attempts < self.options.attempts_max && !stays && !left.is_zero() {
            // A node that is gone is looked for where the cluster was found first.
            if self.stumbled.as_ref().is_some_and(ClientError::is_absence) {
                ClientStats::add(&client.inner.stats.retries, 1);
                client.inner.recover(left).await;
                let pause = Duration::from_millis(1 << self.searches.min(5));
                self.searches += 1;
                super::backoff::pause(&client.inner.environment, pause.min(self.left(client))).await;
            }
            if self.backoff.wait(&client.inner).await {
                return Ok(());
            }
        }
        Err(match self.stumbled.take() {
            Some(error) => RunError::Commit(error.into()),
            None => RunError::Contended { attempts },
        })
    }
}

/// Whether an error says that something other than a transaction is in the way.
fn is_no_contention(error: &ClientError) -> bool {
    !matches!(error, ClientError::Contended { .. })
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
        let mut attempts = Attempts::new(self, options);
        loop {
            let mut transaction = self.begin_attempt(&attempts);
            let outcome = body(&mut transaction).await;
            if let Some(done) = self.finish(&mut transaction, outcome, &mut attempts).await {
                return done;
            }
            drop(transaction);
            Box::pin(attempts.next(self)).await?;
        }
    }

    /// Ends one attempt: commits if the closure was content. `None` if it has to be made again. Nothing is to be
    /// done with the transaction afterwards.
    pub async fn finish<T, E: From<ClientError>>(
        &self,
        transaction: &mut Transaction,
        outcome: Result<T, E>,
        attempts: &mut Attempts,
    ) -> Option<Result<T, RunError<E>>> {
        attempts.stumbled = None;
        match outcome {
            Ok(value) => match transaction.end().await {
                Ok(_) => {
                    // ORDER: Relaxed: a counter.
                    self.inner.stats.attempts_max.fetch_max(attempts.backoff.attempts + 1, Ordering::Relaxed);
                    Some(Ok(value))
                }
                Err(CommitError::Conflict { .. }) => None,
                Err(CommitError::Failed(error)) if error.is_passing() => {
                    attempts.stumbled = Some(error).filter(is_no_contention);
                    None
                }
                Err(error) => Some(Err(RunError::Commit(error))),
            },
            Err(_) if transaction.stumbled.is_some() => {
                attempts.stumbled = transaction.stumbled.clone().filter(is_no_contention);
                None
            }
            Err(error) => Box::pin(is_true(transaction)).await.then_some(Err(RunError::Own(error))),
        }
    }
}

/// Whether what a transaction has read was true in one moment: an error that a closure came to from values that
/// never stood side by side is not its answer.
async fn is_true(transaction: &mut Transaction) -> bool {
    transaction.forget_changes();
    transaction.end().await.is_ok()
}
