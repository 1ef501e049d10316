//! Maps in the client's own process: the limit without any store, without a network and without another
//! process. Values are copied out, as from everybody else.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, RwLock};

use super::{Kind, Scanned, Shape, Stamps, Store, Tally, cannot_modify, cannot_scan, check, missing};

type Bytes = Box<[u8]>;

/// A map of bytes that threads share.
pub(crate) trait Map: Send + Sync {
    /// Its name in rows.
    const NAME: &'static str;

    /// With room for so many.
    fn new(entries: usize) -> Self;

    /// Copies a value out; false if the key is not there.
    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> bool;

    /// Gives a key a value.
    fn write(&self, key: &[u8], value: &[u8]);

    /// Copies out what is at `from` and after it in the order of the keys, so many at most; false if there is no
    /// order.
    fn scan(&self, _from: &[u8], _keys: usize, _into: &mut Vec<(Vec<u8>, Vec<u8>)>) -> bool {
        false
    }
}

/// A `BTreeMap` behind one `RwLock`: what the standard library has, shared in the obvious way.
pub(crate) struct LockedBTree(RwLock<BTreeMap<Bytes, Bytes>>);

impl Map for LockedBTree {
    const NAME: &'static str = "btreemap-rwlock";

    fn new(_entries: usize) -> Self {
        Self(RwLock::default())
    }

    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> bool {
        let map = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = map.get(key);
        if let Some(value) = found {
            into.extend_from_slice(value);
        }
        found.is_some()
    }

    fn write(&self, key: &[u8], value: &[u8]) {
        let mut map = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        match map.get_mut(key) {
            Some(there) if there.len() == value.len() => there.copy_from_slice(value),
            _ => drop(map.insert(key.into(), value.into())),
        }
    }

    fn scan(&self, from: &[u8], keys: usize, into: &mut Vec<(Vec<u8>, Vec<u8>)>) -> bool {
        let map = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let from = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        into.extend(map.range::<[u8], _>(from).take(keys).map(|(key, value)| (key.to_vec(), value.to_vec())));
        true
    }
}

/// dashmap with ahash.
#[cfg(feature = "peers")]
pub(crate) struct Dashmap(dashmap::DashMap<Bytes, Bytes, ahash::RandomState>);

#[cfg(feature = "peers")]
impl Map for Dashmap {
    const NAME: &'static str = "dashmap";

    fn new(entries: usize) -> Self {
        Self(dashmap::DashMap::with_capacity_and_hasher(entries, ahash::RandomState::new()))
    }

    fn read(&self, key: &[u8], into: &mut Vec<u8>) -> bool {
        let found = self.0.get(key);
        if let Some(value) = &found {
            into.extend_from_slice(value);
        }
        found.is_some()
    }

    fn write(&self, key: &[u8], value: &[u8]) {
        if let Some(mut there) = self.0.get_mut(key)
            && there.len() == value.len()
        {
            return there.copy_from_slice(value);
        }
        self.0.insert(key.into(), value.into());
    }
}

/// One thread's view of a map.
pub(crate) struct MapStore<M> {
    map: Arc<M>,
    shape: Shape,
    stamps: Stamps,
    key: Vec<u8>,
    value: Vec<u8>,
    scanned: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<M: Map> MapStore<M> {
    /// Of a map that is loaded.
    pub(crate) fn of(map: Arc<M>, shape: Shape, thread: u64) -> Self {
        let stamps = Stamps::of(thread);
        Self { map, shape, stamps, key: Vec::new(), value: Vec::new(), scanned: Vec::new() }
    }

    /// A map with so many records.
    pub(crate) fn load(shape: Shape, records: u64) -> Arc<M> {
        let map = M::new(records as usize);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for number in 0..records {
            shape.key(number, &mut key);
            shape.value(number, 0, &mut value);
            map.write(&key, &value);
        }
        Arc::new(map)
    }
}

impl<M: Map> Store for MapStore<M> {
    fn carry_out(&mut self, group: &[(Kind, u64)], tally: &mut Tally) -> io::Result<()> {
        for (kind, number) in group {
            self.shape.key(*number, &mut self.key);
            match kind {
                Kind::Read => {
                    self.value.clear();
                    if !self.map.read(&self.key, &mut self.value) {
                        return Err(missing(*number));
                    }
                    check(self.shape, *number, &self.value)?;
                }
                Kind::Update | Kind::Insert => {
                    self.shape.value(*number, self.stamps.next(), &mut self.value);
                    self.map.write(&self.key, &self.value);
                }
                Kind::ReadModifyWrite => return Err(cannot_modify(M::NAME)),
                Kind::Scan(keys) => {
                    self.scanned.clear();
                    if !self.map.scan(&self.key, usize::from(*keys), &mut self.scanned) {
                        return Err(cannot_scan(M::NAME));
                    }
                    let mut scanned = Scanned::from(self.shape, &self.key);
                    for (key, value) in &self.scanned {
                        scanned.take(key, value)?;
                    }
                    scanned.end(*keys, tally)?;
                }
            }
        }
        Ok(())
    }
}
