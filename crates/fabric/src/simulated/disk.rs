//! A disk in memory that forgets at a crash what was not synced, as the seed decides.
//!
//! What always holds: synced bytes and names survive; of the rest, each 512-byte sector of each
//! write survives or not by itself, and names survive up to some point in the order in which
//! they were changed. A `sync` that was made to fail leaves its bytes in the cache and anything
//! of them on the disk, and a later `sync` does not write them again (as Linux does).

mod faults;

use crate::seam::{Disk, DiskFile, DiskLock, Random, Seeded};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk writes whole.
const SECTOR_BYTES: usize = 512;

#[derive(Clone)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Length(bytes) => to.resize(*bytes, 0),
            Self::Write { offset, bytes } => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
        }
    }

    /// Applies what a crash leaves of it: any of its sectors.
    fn apply_torn(&self, to: &mut Vec<u8>, random: &mut Seeded) {
        let Self::Write { offset, bytes } = self else {
            if random.below(2) == 0 {
                self.apply(to);
            }
            return;
        };
        let mut at = 0;
        while at < bytes.len() {
            let next = (SECTOR_BYTES - (offset + at) % SECTOR_BYTES + at).min(bytes.len());
            if random.below(2) == 0 {
                Self::Write { offset: offset + at, bytes: bytes[at..next].to_vec() }.apply(to);
            }
            at = next;
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    durable: Vec<u8>,
    cached: Vec<u8>,
    unsynced: Vec<Change>,
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.unsynced.push(change);
    }

    /// Puts on the disk what happens to get there.
    fn tear(&mut self, random: &mut Seeded) {
        for change in std::mem::take(&mut self.unsynced) {
            change.apply_torn(&mut self.durable, random);
        }
    }
}

type Names = BTreeMap<String, usize>;

struct State {
    files: Vec<Content>,
    names: Names,
    /// The durable names, and the state after each change since.
    durable: Names,
    changes: Vec<Names>,
    random: Seeded,
    calls: u64,
    fail: Option<(u64, io::ErrorKind)>,
    fail_per_million: u32,
    capacity_bytes: usize,
    /// The call from which on nothing is done any more: the process that asks is dead.
    dead_from: u64,
    /// A write that fails does a part of it first.
    short_writes: bool,
    /// Syncs of bytes or names that were tried.
    syncs: u64,
    locked: BTreeSet<String>,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimulatedDisk({} files)", self.lock().names.len())
    }
}

impl State {
    /// Nothing is there, and nothing fails.
    fn empty(seed: u64) -> Self {
        Self {
            files: Vec::new(),
            names: Names::new(),
            durable: Names::new(),
            changes: Vec::new(),
            random: Seeded::new(seed),
            calls: 0,
            fail: None,
            fail_per_million: 0,
            capacity_bytes: usize::MAX,
            dead_from: u64::MAX,
            short_writes: false,
            syncs: 0,
            locked: BTreeSet::new(),
        }
    }
}

impl SimulatedDisk {
    /// An empty disk whose faults follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::empty(seed))) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many calls have changed or synced something: the sites at which one can fail.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Makes the changing or syncing call number `call` (from 0) fail.
    pub fn fail_call(&self, call: u64, kind: io::ErrorKind) {
        self.lock().fail = Some((call, kind));
    }

    /// Makes so many of a million changing or syncing calls fail, as after EIO.
    pub fn fail_by_chance(&self, per_million: u32) {
        self.lock().fail_per_million = per_million;
    }

    /// Bounds the bytes of all files: past it, writes fail as after ENOSPC.
    pub fn set_capacity(&self, bytes: usize) {
        self.lock().capacity_bytes = bytes;
    }

    /// The power fails: what was not synced is lost, or partly kept.
    pub fn crash(&self) {
        self.lock().crash();
    }
}

impl State {
    /// Counts a call that changes or syncs something, and fails it if it is to fail.
    fn site(&mut self) -> io::Result<()> {
        let call = self.calls;
        self.calls += 1;
        if call >= self.dead_from {
            return Err(io::Error::other("the process is dead"));
        }
        if let Some((at, kind)) = self.fail
            && at == call
        {
            return Err(kind.into());
        }
        if self.fail_per_million > 0 && self.random.chance(self.fail_per_million) {
            return Err(io::Error::other("input/output error"));
        }
        Ok(())
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn renamed(&mut self) {
        self.changes.push(self.names.clone());
    }

    fn used_bytes(&self) -> usize {
        self.names.values().map(|index| self.files[*index].cached.len()).sum()
    }

    fn make(&mut self, name: &str) -> io::Result<usize> {
        if self.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let index = self.files.len();
        self.files.push(Content::default());
        self.names.insert(name.to_string(), index);
        self.renamed();
        Ok(index)
    }

    fn crash(&mut self) {
        for file in &mut self.files {
            file.tear(&mut self.random);
            file.cached.clone_from(&file.durable);
        }
        let kept = self.random.below(self.changes.len() as u64 + 1) as usize;
        if kept > 0 {
            self.durable = self.changes.swap_remove(kept - 1);
        }
        self.changes.clear();
        self.names.clone_from(&self.durable);
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    index: usize,
}

impl Disk for SimulatedDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let index = self.lock().find(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), index }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.site()?;
        let index = state.make(name)?;
        Ok(Box::new(SimulatedFile { disk: self.clone(), index }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.site()?;
        let index = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_string(), index);
        state.renamed();
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.site()?;
        state.find(name)?;
        state.names.remove(name);
        state.renamed();
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.syncs += 1;
        state.site()?;
        state.durable = state.names.clone();
        state.changes.clear();
        Ok(())
    }

    fn create_log(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        state.site()?;
        if state.used_bytes() + bytes as usize > state.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let index = state.make(name)?;
        state.files[index].change(Change::Length(bytes as usize));
        Ok(Box::new(SimulatedFile { disk: self.clone(), index }))
    }

    fn open_log(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open(name)
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        let mut state = SimulatedDisk::lock(self);
        if !state.locked.insert(name.to_string()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !state.names.contains_key(name) {
            state.make(name)?;
        }
        Ok(Box::new(SimulatedLock { disk: self.clone(), name: name.to_string() }))
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    name: String,
}

impl DiskLock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.lock().locked.remove(&self.name);
    }
}

impl DiskFile for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[self.index].cached.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let state = self.disk.lock();
        let all = &state.files[self.index].cached;
        let from = all.get(offset as usize..).unwrap_or_default();
        let bytes = from.len().min(into.len());
        into[..bytes].copy_from_slice(&from[..bytes]);
        Ok(bytes)
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        if let Err(error) = state.site() {
            if state.short_writes && state.calls <= state.dead_from {
                let part = state.random.below(from.len() as u64 + 1) as usize;
                let change = Change::Write { offset: offset as usize, bytes: from[..part].to_vec() };
                state.files[self.index].change(change);
            }
            return Err(error);
        }
        let used = state.used_bytes();
        let had = state.files[self.index].cached.len();
        let grown = (offset as usize + from.len()).saturating_sub(had);
        if used + grown > state.capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.files[self.index].change(Change::Write { offset: offset as usize, bytes: from.to_vec() });
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.site()?;
        state.files[self.index].change(Change::Length(bytes as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut guard = self.disk.lock();
        let state = &mut *guard;
        state.syncs += 1;
        let failed = state.site();
        let file = &mut state.files[self.index];
        if failed.is_err() {
            // A dead process syncs nothing, and so leaves open what the disk has of its writes.
            if state.calls <= state.dead_from {
                file.tear(&mut state.random);
            }
            return failed;
        }
        for change in std::mem::take(&mut file.unsynced) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
        let file = disk.open(name).unwrap();
        let mut into = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut into).unwrap();
        into
    }

    #[test]
    fn synced_bytes_survive_and_the_rest_is_torn_at_sectors() {
        let (mut torn, mut lost, mut kept) = (0, 0, 0);
        for seed in 0..200 {
            let disk = SimulatedDisk::new(seed);
            let file = disk.create("log").unwrap();
            disk.sync_names().unwrap();
            file.append(&[1; 1000]).unwrap();
            file.sync().unwrap();
            file.append(&[2; 3000]).unwrap();
            disk.crash();
            let found = content(&disk, "log");
            assert!(found[..1000].iter().all(|byte| *byte == 1), "seed {seed}: synced bytes changed");
            // Each sector of the rest is all there or not at all.
            let rest = &found[1000..];
            for sector in found.chunks(SECTOR_BYTES).skip(2) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "seed {seed}: torn in a sector");
            }
            let twos = rest.iter().filter(|byte| **byte == 2).count();
            match twos {
                0 => lost += 1,
                3000 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(torn > 100 && lost > 0 && kept > 0, "{torn} torn, {lost} lost, {kept} kept");
    }

    #[test]
    fn names_that_were_not_synced_may_be_lost_in_order() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let disk = SimulatedDisk::new(seed);
            disk.create("old").unwrap();
            disk.sync_names().unwrap();
            disk.create("new").unwrap();
            disk.rename("new", "old").unwrap();
            disk.crash();
            seen.insert(disk.list().unwrap().join(","));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["new,old", "old"]);
    }

    #[test]
    fn calls_fail_where_they_are_told_to() {
        let disk = SimulatedDisk::new(1);
        let file = disk.create("log").unwrap();
        disk.fail_call(2, io::ErrorKind::Other);
        file.append(b"x").unwrap();
        assert!(file.sync().is_err());
        // The next one has nothing left to write, and says nothing of it: the caller must stop.
        file.sync().unwrap();
        disk.set_capacity(4);
        assert_eq!(file.append(b"abcd").unwrap_err().kind(), io::ErrorKind::StorageFull);
        disk.fail_by_chance(1_000_000);
        assert!(file.append(b"y").is_err() && disk.sync_names().is_err());
        assert_eq!(disk.calls(), 7);
    }
}
