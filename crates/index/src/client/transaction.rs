//! Keys of `hopscotch` tables in transactions, together with objects and other tables.

use super::roots::Roots;
use super::table::Table;
use super::update::Put;
use crate::error::TableError;
use crate::hopscotch;
use crate::hopscotch::NotDone;
use crate::key::{Found, Key};
use crate::node::Decision;
use crate::options::Kind;
use crate::wire::{self, Method};
use barn_transaction::{ClientError, Transaction};
use std::borrow::Cow;
use std::sync::Arc;

/// What transactions do with tables.
pub trait TableTransaction {
    /// The value of a key, as this transaction has left it.
    fn table_get(
        &mut self,
        table: &Table,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Vec<u8>>, TableError>> + Send;

    /// Gives a key a value.
    fn table_put(
        &mut self,
        table: &Table,
        key: &[u8],
        value: &[u8],
        put: Put,
    ) -> impl Future<Output = Result<(), TableError>> + Send;

    /// Removes a key; false if it was not there.
    fn table_delete(
        &mut self,
        table: &Table,
        key: &[u8],
    ) -> impl Future<Output = Result<bool, TableError>> + Send;
}

impl TableTransaction for Transaction {
    async fn table_get(&mut self, table: &Table, key: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        let table = &*table.current();
        let key = table.key(key)?;
        let mut found = Found::default();
        let roots = table.hopscotch_roots(self, key).await?;
        let seed = table.inner.options.seed;
        let got = table.of(&roots)?.get_within(self, seed, key, &mut found).await;
        let there = table.settle(self, key, got).await?;
        Ok((there && !found.is_expired(super::read::now_ms())).then_some(found.value))
    }

    async fn table_put(
        &mut self,
        table: &Table,
        key: &[u8],
        value: &[u8],
        put: Put,
    ) -> Result<(), TableError> {
        let table = &*table.current();
        table.check_value(value)?;
        let key = table.key(key)?;
        let roots = table.hopscotch_roots(self, key).await?;
        let seed = table.inner.options.seed;
        let mut decide =
            |_: Option<&Found>| Decision::Store { value: Cow::Borrowed(value), expires: put.expires };
        let done = table.of(&roots)?.change_within(self, seed, key, &mut decide).await;
        table.settle(self, key, done).await.map(|_| ())
    }

    async fn table_delete(&mut self, table: &Table, key: &[u8]) -> Result<bool, TableError> {
        let table = &*table.current();
        let key = table.key(key)?;
        let roots = table.hopscotch_roots(self, key).await?;
        let seed = table.inner.options.seed;
        let (mut was_there, now) = (false, super::read::now_ms());
        let mut decide = |found: Option<&Found>| {
            was_there = found.is_some_and(|found| !found.is_expired(now));
            Decision::Remove
        };
        let done = table.of(&roots)?.change_within(self, seed, key, &mut decide).await;
        table.settle(self, key, done).await?;
        Ok(was_there)
    }
}

impl Table {
    /// The roots of a key's shard, in the transaction's own session. Where there are none, the
    /// transaction is to be run again: with the next session, or with the table that came after.
    async fn hopscotch_roots(
        &self,
        transaction: &mut Transaction,
        key: Key<'_>,
    ) -> Result<Arc<Roots>, TableError> {
        if self.kind() != Kind::Hopscotch {
            return Err(TableError::Unsupported { what: "take part in a transaction", kind: self.kind() });
        }
        let shard = self.shard(key);
        let session = transaction.session();
        let failed = match shard.known(session) {
            Some(roots) => return Ok(roots),
            None => match self.fetch_roots(shard, transaction.left()).await {
                Ok(_) => match shard.known(session) {
                    Some(roots) => return Ok(roots),
                    None => ClientError::SessionLost.into(),
                },
                Err(error) => error,
            },
        };
        match &failed {
            TableError::Client(ClientError::AnotherCluster) => {
                let mut waits = self.client.attempts();
                if self.again(&failed, &mut waits).await? {
                    transaction.stumble(ClientError::SessionLost);
                }
            }
            TableError::Client(error) if error.is_passing() => transaction.stumble(error.clone()),
            _ => {}
        }
        Err(failed)
    }

    fn of<'a>(&self, roots: &'a Arc<Roots>) -> Result<&'a hopscotch::Roots, TableError> {
        match &**roots {
            Roots::Hopscotch(roots) => Ok(roots),
            _ => Err(TableError::Unsupported { what: "take part in a transaction", kind: self.kind() }),
        }
    }

    /// Mends what was in the way of a transaction, which is then to be run again.
    async fn settle<T>(
        &self,
        transaction: &mut Transaction,
        key: Key<'_>,
        done: Result<T, NotDone>,
    ) -> Result<T, TableError> {
        let shard = self.shard(key);
        match done {
            Ok(done) => return Ok(done),
            Err(NotDone::Client(error)) => return Err(error.into()),
            Err(NotDone::Stale) => self.renew_roots(shard, key, transaction.left()).await?,
            Err(NotDone::Crowded) => {
                let (mut message, mut answer) = (Vec::new(), Vec::new());
                wire::begin(&mut message, shard.part.table, shard.part.shard, 0);
                message.extend_from_slice(&key.hash.to_le_bytes());
                self.ask(shard, Method::Grow, &message, &mut answer, transaction.left()).await?;
                self.renew_roots(shard, key, transaction.left()).await?;
            }
        }
        transaction.stumble(ClientError::SessionLost);
        Err(TableError::Contended)
    }
}
