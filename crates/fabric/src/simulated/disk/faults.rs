//! What else can happen to a simulated disk: dead processes, copies as a crash would leave them,
//! short writes, bytes that rot.
//!
//! What always holds: a copy shares nothing with the disk that it was made from, which goes on as
//! if nothing had happened. So one run gives as many crash images as it has moments.

use super::{Content, SimulatedDisk, State};
use std::sync::{Arc, Mutex};

impl SimulatedDisk {
    /// From the changing or syncing call number `call` (from 0) on nothing is done, and every call
    /// fails: its process was killed there. What was done before stays in the cache.
    pub fn die_at(&self, call: u64) {
        self.lock().dead_from = call;
    }

    /// Makes writes that fail do a part of their work first.
    pub fn fail_short(&self) {
        self.lock().short_writes = true;
    }

    /// How many syncs, of bytes or of names, were tried.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// What another process finds if all others are killed now.
    pub fn after_kill(&self, seed: u64) -> Self {
        let state = self.lock();
        // Files that have no name any more, and cannot get one back, need not be copied.
        let named = |index: &usize| {
            let all = [&state.names, &state.durable];
            all.into_iter().chain(&state.changes).any(|names| names.values().any(|named| named == index))
        };
        let copied = |(index, file): (usize, &Content)| {
            if named(&index) { file.clone() } else { Content::default() }
        };
        let copy = State {
            files: state.files.iter().enumerate().map(copied).collect(),
            names: state.names.clone(),
            durable: state.durable.clone(),
            changes: state.changes.clone(),
            ..State::empty(seed)
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    /// What is found if the power fails now, as the seed decides.
    pub fn after_power_loss(&self, seed: u64) -> Self {
        let copy = self.after_kill(seed);
        copy.crash();
        copy
    }

    /// Changes the bytes of a file behind everybody's back, durably. Nothing if it is not there.
    pub fn rot(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.lock();
        let Some(index) = state.names.get(name).copied() else { return };
        let mut bytes = state.files[index].cached.clone();
        change(&mut bytes);
        state.files[index] = Content { durable: bytes.clone(), cached: bytes, unsynced: Vec::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Disk;
    use std::collections::BTreeSet;

    fn content(disk: &SimulatedDisk) -> Vec<u8> {
        let file = disk.open("log").unwrap();
        let mut into = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut into).unwrap();
        into
    }

    #[test]
    fn a_killed_process_leaves_its_writes_and_a_power_loss_its_syncs() {
        let disk = SimulatedDisk::new(1);
        let file = disk.create("log").unwrap();
        file.append(&[1; 512]).unwrap();
        file.sync().unwrap();
        disk.sync_names().unwrap();
        file.append(&[2; 512]).unwrap();
        disk.die_at(5);
        assert!(file.append(&[3; 512]).is_err() && file.sync().is_err() && disk.remove("log").is_err());
        assert_eq!(content(&disk.after_kill(1)).len(), 1024);
        let lengths: BTreeSet<usize> =
            (0..50).map(|seed| content(&disk.after_power_loss(seed)).len()).collect();
        assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [512, 1024]);
        assert_eq!(content(&disk).len(), 1024, "the disk itself went on");
        assert_eq!(disk.syncs(), 3);
    }

    #[test]
    fn writes_fail_short_and_bytes_rot() {
        let disk = SimulatedDisk::new(7);
        let file = disk.create("log").unwrap();
        disk.fail_short();
        disk.fail_call(1, std::io::ErrorKind::StorageFull);
        assert!(file.append(&[1; 4096]).is_err());
        let kept = file.len().unwrap();
        assert!(kept > 0 && kept < 4096, "{kept}");
        disk.rot("log", |bytes| bytes[0] ^= 1);
        disk.rot("none", |_| unreachable!());
        assert_eq!(content(&disk)[0], 0);
    }
}
