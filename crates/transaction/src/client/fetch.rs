//! How objects come into a transaction.
//!
//! Where memory is mapped here, by loads, without a future: an object that is whole and nobody's needs
//! nothing else. Whatever is in the way of that is left to the long way, which begins from the start.
//!
//! What always holds: an entry is made of an object that was whole when it was read, by an operation that is
//! not too old; the arena holds the bytes of entries, and nothing else once a read has ended.

use super::ClientStats;
use super::phase::all;
use super::table::Table;
use super::transaction::{Entry, Transaction};
use crate::error::ClientError;
use crate::id::Pointer;
use barn_fabric::Fetching;
use barn_heap::object::read_bytes;
use barn_heap::{HEADER_BYTES, Seen, inspect};
use barn_layout::limits::OPERATION_BYTES_MAX;
use barn_layout::transaction::Change;
use std::sync::Arc;
use std::time::Duration;

impl Transaction {
    /// The entry of an object that the transaction has touched, if it has.
    #[inline]
    pub(super) fn known(&self, pointer: Pointer) -> Result<Option<usize>, ClientError> {
        let Some(at) = self.find(pointer.address) else { return Ok(None) };
        let entry = &self.entries[at];
        if entry.pointer.incarnation != pointer.incarnation
            || entry.pointer.bytes != pointer.bytes
            || entry.change == Some(Change::Free)
        {
            return Err(ClientError::Freed { pointer });
        }
        Ok(Some(at))
    }

    pub(super) fn check_age(&self) -> Result<(), ClientError> {
        let inner = &self.client.inner;
        if inner.activity.is_doomed(&self.guard) {
            return Err(ClientError::TooOld { age_max: inner.options.age_max });
        }
        Ok(())
    }

    /// The entry of an object that is not [`known`](Self::known), which is read.
    pub(super) async fn entry(&mut self, pointer: Pointer) -> Result<usize, ClientError> {
        if self.prefetch(pointer) {
            Fetching::default().await;
            if let Some(at) = self.load(pointer) {
                return Ok(at);
            }
        }
        // A box for what is rare, or travels: the future of a transaction is moved about, and would have
        // room for it all the time.
        Box::pin(self.read_entry(pointer)).await
    }

    /// Reads objects, all of them at once: they travel together, or, where memory is mapped here, are fetched into
    /// the cache together. A [`read`](Self::read) of one of them then has nothing left to wait for.
    pub async fn fetch(&mut self, pointers: &[Pointer]) -> Result<(), ClientError> {
        if self.prefetch_all(pointers)? {
            Fetching::default().await;
            if self.load_all(pointers)? {
                return Ok(());
            }
        }
        Box::pin(self.read_entries(pointers)).await
    }

    /// The same without a future, if that takes loads and nothing is in the way; false if not: then
    /// [`fetch`](Self::fetch) is for the rest. Others on this thread do not run meanwhile.
    pub fn fetch_at_once(&mut self, pointers: &[Pointer]) -> Result<bool, ClientError> {
        Ok(self.prefetch_all(pointers)? && self.load_all(pointers)?)
    }

    /// Asks for the memory of those that are not known; says whether any of it is mapped here, or nothing is left to
    /// ask for.
    fn prefetch_all(&mut self, pointers: &[Pointer]) -> Result<bool, ClientError> {
        let (mut asked, mut mapped) = (false, false);
        for pointer in pointers {
            if self.known(*pointer)?.is_none() {
                asked = true;
                mapped |= self.prefetch(*pointer);
            }
        }
        Ok(mapped || !asked)
    }

    /// Reads those that are not known and mapped here; says whether all are known now.
    fn load_all(&mut self, pointers: &[Pointer]) -> Result<bool, ClientError> {
        let mut all = true;
        for pointer in pointers {
            all &= self.known(*pointer)?.is_some() || self.load(*pointer).is_some();
        }
        Ok(all)
    }

    /// Reads an object without a future, if it was read before or takes a load and nothing is in the way; false
    /// if not: then [`read`](Self::read) is for it. Others on this thread do not run meanwhile.
    pub fn read_at_once(&mut self, pointer: Pointer) -> Result<bool, ClientError> {
        Ok(self.known(pointer)?.is_some() || self.prefetch(pointer) && self.load(pointer).is_some())
    }

    /// The bytes of an object that was read.
    pub fn bytes(&self, pointer: Pointer) -> Option<&[u8]> {
        self.find(pointer.address).map(|at| &self.arena[self.entries[at].body.clone()])
    }

    /// As [`write`](Self::write), of an object that was read.
    pub fn replace(&mut self, pointer: Pointer, body: &[u8]) -> Result<(), ClientError> {
        match self.known(pointer)? {
            _ if body.len() != pointer.bytes as usize => {
                Err(ClientError::Length { pointer, bytes: body.len() })
            }
            None => Err(ClientError::Freed { pointer }),
            Some(at) => {
                let entry = &mut self.entries[at];
                entry.change = entry.change.or(Some(Change::Update));
                self.arena[entry.body.clone()].copy_from_slice(body);
                Ok(())
            }
        }
    }

    /// Asks for an object's memory, if it is mapped here; says whether it is.
    #[inline]
    fn prefetch(&mut self, pointer: Pointer) -> bool {
        let inner = &*self.client.inner;
        let table = self.table.get_or_insert_with(|| inner.table());
        let Some(link) = table.region(pointer.address.region()) else { return false };
        link.remote.prefetch(u64::from(pointer.address.offset()), read_bytes(pointer.bytes as usize));
        link.remote.mapped().is_some()
    }

    /// Reads an object that is mapped here and gives its entry; `None` if anything is in the way.
    #[inline]
    fn load(&mut self, pointer: Pointer) -> Option<usize> {
        let (inner, bytes) = (&*self.client.inner, read_bytes(pointer.bytes as usize));
        let link = self.table.as_ref()?.region(pointer.address.region())?;
        if link.remote.mapped().is_none() || bytes > OPERATION_BYTES_MAX {
            return None;
        }
        ClientStats::add(&inner.stats.reads, 1);
        let start = self.arena.len();
        self.arena.resize(start + bytes, 0);
        let buffer = &mut self.arena[start..];
        let read = link.remote.read_confirmed(u64::from(pointer.address.offset()), buffer).wait();
        let seen =
            read.map(|confirmed| inspect(pointer.address, Some(pointer.incarnation), buffer, confirmed));
        let (node, body) =
            (link.node_at, start + HEADER_BYTES..start + HEADER_BYTES + pointer.bytes as usize);
        match seen {
            Ok(Seen::Whole(view)) if view.bytes == body.len() && !inner.activity.is_doomed(&self.guard) => {
                self.last_is_latest = true;
                Some(self.push(Entry { pointer, version: view.version, node, body, change: None }))
            }
            _ => {
                ClientStats::add(&inner.stats.read_retries, 1);
                self.arena.truncate(start);
                None
            }
        }
    }

    /// How long a read may take.
    fn read_limit(&self) -> Duration {
        // Where nothing is ever waited for, the clock need not be looked at.
        match self.table.as_ref().is_some_and(|table| table.regions_are_mapped()) {
            true => self.client.deadline,
            false => self.left(),
        }
    }

    /// Reads an object, with patience for whoever is at it, and whatever else has to be done for it.
    async fn read_entry(&mut self, pointer: Pointer) -> Result<usize, ClientError> {
        let inner = &*self.client.inner;
        self.table.get_or_insert_with(|| inner.table());
        let left = self.read_limit();
        let start = self.arena.len();
        self.arena.resize(start + read_bytes(pointer.bytes as usize), 0);
        let table = self.table.get_or_insert_with(|| inner.table());
        let read = inner.read_object(table, pointer, &mut self.arena[start..], left).await;
        let node = table.region(pointer.address.region()).map(|link| link.node_at);
        let read = self.noting(read).and_then(|version| {
            self.check_age()?;
            Ok((version, node.ok_or(ClientError::SessionLost)?))
        });
        match read {
            Ok((version, node)) => {
                self.last_is_latest = true;
                let body = start + HEADER_BYTES..start + HEADER_BYTES + pointer.bytes as usize;
                Ok(self.push(Entry { pointer, version, node, body, change: None }))
            }
            Err(error) => {
                self.arena.truncate(start);
                Err(error)
            }
        }
    }

    /// The same of those of several that are not known: all are under way at once. The regions that are not open yet
    /// are opened first, one after another.
    async fn read_entries(&mut self, pointers: &[Pointer]) -> Result<(), ClientError> {
        let inner = self.client.inner.clone();
        let is_open =
            |table: &Arc<Table>, pointer: &Pointer| table.region(pointer.address.region()).is_some();
        let mut together = Vec::with_capacity(pointers.len());
        for pointer in pointers {
            if self.known(*pointer)?.is_some() || together.contains(pointer) {
                continue;
            }
            if self.table.as_ref().is_some_and(|table| is_open(table, pointer)) {
                together.push(*pointer);
            } else {
                self.read_entry(*pointer).await?;
            }
        }
        let Some(table) = self.table.clone().filter(|_| !together.is_empty()) else { return Ok(()) };
        let (start, left) = (self.arena.len(), self.read_limit());
        let bytes = together.iter().map(|pointer| read_bytes(pointer.bytes as usize)).sum::<usize>();
        self.arena.resize(start + bytes, 0);
        let (inner, table, mut rest) = (&*inner, &*table, &mut self.arena[start..]);
        let reads = together.iter().map(|pointer| {
            let (buffer, after) = std::mem::take(&mut rest).split_at_mut(read_bytes(pointer.bytes as usize));
            rest = after;
            async move {
                let link = table.region(pointer.address.region()).ok_or(ClientError::SessionLost)?;
                let read = inner.read_into(link, *pointer, buffer, left).await;
                let version = read.map_err(|failed| inner.unread(table.session, *pointer, failed))?;
                Ok((link.node_at, version))
            }
        });
        let read = all(reads).await;
        self.last_is_latest = together.len() == 1;
        let mut at = start;
        for (pointer, read) in together.iter().zip(read) {
            let read = self.noting(read).and_then(|read| self.check_age().map(|()| read));
            let body = at + HEADER_BYTES..at + HEADER_BYTES + pointer.bytes as usize;
            match read {
                Ok((node, version)) => {
                    self.push(Entry { pointer: *pointer, version, node, body, change: None });
                }
                Err(error) => {
                    self.arena.truncate(at);
                    return Err(error);
                }
            }
            at += read_bytes(pointer.bytes as usize);
        }
        Ok(())
    }
}
