//! Going on after a node was lost: an operation is tried again until its deadline, and a table that
//! is in another cluster now is found there by its name.
//!
//! What always holds:
//! - what is not the same when it is done twice is sent again only if it is known not to have been
//!   done; otherwise it ends as [`TableError::Indeterminate`];
//! - a number of one cluster is never used in another: what was learned of a table is dropped with
//!   its cluster, and only its name is kept.

use super::table::{Inner, Table};
use crate::error::TableError;
use barn_layout::planted;
use barn_transaction::{ClientError, Retry, Unanswered, Waits};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

/// The table of the same name in a later cluster, once it was looked for.
#[derive(Default)]
pub(super) struct Successor {
    /// Whether there is one: all that an operation looks at in the common case.
    there: AtomicBool,
    newest: RwLock<Option<Arc<Inner>>>,
}

/// An attempt that came to nothing.
#[derive(Debug)]
pub(super) struct Unheard {
    pub(super) error: TableError,
    /// Whether it may have been carried out all the same.
    pub(super) unknown: bool,
}

impl From<Unanswered> for Unheard {
    fn from(unanswered: Unanswered) -> Self {
        Self { error: unanswered.error.into(), unknown: unanswered.unknown }
    }
}

impl From<TableError> for Unheard {
    /// Of something that is known not to have been done.
    fn from(error: TableError) -> Self {
        Self { error, unknown: false }
    }
}

impl From<Unheard> for TableError {
    /// Of something that changes nothing.
    fn from(unheard: Unheard) -> Self {
        unheard.error
    }
}

impl Table {
    /// Whether another came after it, which [`Self::current`] gives.
    #[inline]
    pub(super) fn is_followed(&self) -> bool {
        // SYNC: pairs with the Release in `follow`: who sees the mark finds the successor.
        self.inner.successor.there.load(Ordering::Acquire)
    }

    /// The table as it is now: this handle's own, or what came after it.
    pub(super) fn current(&self) -> Cow<'_, Self> {
        if !self.is_followed() {
            return Cow::Borrowed(self);
        }
        let newest =
            self.inner.successor.newest.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        match newest {
            Some(inner) => Cow::Owned(Self { inner, ..self.clone() }),
            None => Cow::Borrowed(self),
        }
    }

    /// Finds the table by its name in the cluster that the client is at now.
    async fn follow(&self, waits: &Waits<'_>) -> Result<(), TableError> {
        let current = self.current();
        if !self.client.refresh(waits.left()).await {
            // Nobody says which tables there are: the next attempt asks again.
            return Ok(());
        }
        let configuration = self.client.directory().configuration();
        if configuration.cluster == current.inner.cluster {
            return Ok(());
        }
        let Some(placed) = configuration.table_named(self.name()) else {
            return Err(TableError::NoTable(self.name().to_string()));
        };
        let mut found = Self::new(self.client.clone(), placed.clone())?;
        if found.inner.cluster != configuration.cluster {
            // Yet another one, meanwhile: the next attempt finds out.
            return Ok(());
        }
        // What is counted is counted on.
        if let Some(inner) = Arc::get_mut(&mut found.inner) {
            inner.counts = self.inner.counts.clone();
        }
        let successor = &self.inner.successor;
        *successor.newest.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(found.inner);
        // SYNC: pairs with the Acquire in `current`.
        successor.there.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether to try again after an error, once whatever can be done about it has been done.
    pub(super) async fn again(&self, error: &TableError, waits: &mut Waits<'_>) -> Result<bool, TableError> {
        match error {
            TableError::Client(ClientError::AnotherCluster) if self.client.retry() != Retry::Never => {
                self.follow(waits).await?;
                // A follower that finds nothing new does not go round for ever.
                Ok(waits.next().await)
            }
            TableError::Client(error) => Ok(waits.again(error).await),
            _ => Ok(false),
        }
    }

    /// Runs an operation that changes nothing, again while a node or the link to it is lost.
    pub(super) async fn reading<T>(
        &self,
        mut attempt: impl AsyncFnMut(&Self, &mut Waits<'_>) -> Result<T, TableError>,
    ) -> Result<T, TableError> {
        let mut waits = self.client.attempts();
        loop {
            let error = match attempt(&self.current(), &mut waits).await {
                Err(error) => error,
                done => return done,
            };
            if !self.again(&error, &mut waits).await? {
                return Err(error);
            }
        }
    }

    /// Runs an operation that changes something. `idempotent`: whether it comes to the same end when
    /// it is done twice.
    pub(super) async fn changing<T>(
        &self,
        idempotent: bool,
        mut attempt: impl AsyncFnMut(&Self, &mut Waits<'_>) -> Result<T, Unheard>,
    ) -> Result<T, TableError> {
        let mut waits = self.client.attempts();
        let repeats = idempotent && self.client.retry() == Retry::Idempotent || planted("increment_repeated");
        let mut unknown = false;
        loop {
            let unheard = match attempt(&self.current(), &mut waits).await {
                Ok(done) => return Ok(done),
                Err(unheard) => unheard,
            };
            unknown |= unheard.unknown;
            // Done in part or not at all, or done: whoever asked has to look.
            let end = |error| if unknown { TableError::Indeterminate } else { error };
            if unknown && !repeats {
                return Err(TableError::Indeterminate);
            }
            match self.again(&unheard.error, &mut waits).await {
                Ok(true) => {}
                Ok(false) => return Err(end(unheard.error)),
                Err(error) => return Err(end(error)),
            }
        }
    }
}
