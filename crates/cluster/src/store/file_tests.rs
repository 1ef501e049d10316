//! The file through crashes, failures, torn writes and other damage.

use super::conformance::sample;
use super::{ConfigurationStore, FileStore, StoreError};
use barn_fabric::block_on;
use barn_fabric::seam::Disk;
use barn_fabric::simulated::SimulatedDisk;
use std::io::ErrorKind;
use std::sync::Arc;

/// Large enough for several sectors, so that a write can be torn.
const MEMBERS: u32 = 20;

fn open(disk: &SimulatedDisk) -> Result<FileStore, StoreError> {
    FileStore::open(Arc::new(disk.clone()))
}

fn version(store: &FileStore) -> u64 {
    block_on(store.load()).unwrap().map_or(0, |configuration| configuration.version)
}

/// A disk with version 1.
fn begun(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    block_on(open(&disk).unwrap().replace(0, &sample(1, MEMBERS))).unwrap();
    disk
}

fn rewrite(disk: &SimulatedDisk, bytes: &[u8]) {
    disk.remove("cluster").unwrap();
    disk.create("cluster").unwrap().write_at(0, bytes).unwrap();
}

fn content(disk: &SimulatedDisk) -> Vec<u8> {
    let file = disk.open("cluster").unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_failure_at_any_step_and_a_crash_leave_the_old_or_the_new() {
    // As many calls as a replacement makes, and none.
    let disk = begun(0);
    let store = open(&disk).unwrap();
    let before = disk.calls();
    block_on(store.replace(1, &sample(2, MEMBERS))).unwrap();
    let calls = disk.calls() - before;
    assert!(calls >= 5, "a replacement makes {calls} calls");
    let (mut old, mut new) = (0, 0);
    for step in (0..calls).chain([u64::MAX / 2]) {
        for seed in 0..60 {
            let disk = begun(seed);
            let store = open(&disk).unwrap();
            disk.fail_call(disk.calls() + step, ErrorKind::Other);
            let replaced = block_on(store.replace(1, &sample(2, MEMBERS)));
            if replaced.is_err() {
                assert!(matches!(block_on(store.load()), Err(StoreError::Stopped)));
                assert!(matches!(block_on(store.replace(1, &sample(2, 1))), Err(StoreError::Stopped)));
            }
            disk.crash();
            let found =
                version(&open(&disk).unwrap_or_else(|error| panic!("step {step}, seed {seed}: {error}")));
            match replaced {
                Ok(()) => assert_eq!(found, 2, "an acknowledged configuration is lost"),
                Err(_) => assert!((1..=2).contains(&found)),
            }
            if replaced.is_err() {
                old += u32::from(found == 1);
                new += u32::from(found == 2);
            }
            // What a crash left behind is in nobody's way.
            let store = open(&disk).unwrap();
            block_on(store.replace(found, &sample(found + 1, 2))).unwrap();
            disk.crash();
            assert_eq!(version(&open(&disk).unwrap()), found + 1);
        }
    }
    assert!(old > 0 && new > 0, "failures left the old {old} times, the new {new} times");
}

#[test]
fn what_was_seen_once_is_there_after_a_crash() {
    for seed in 0..60 {
        let disk = begun(seed);
        let store = open(&disk).unwrap();
        // The rename is made, and syncing the name fails.
        disk.fail_call(disk.calls() + 4, ErrorKind::Other);
        let _ = block_on(store.replace(1, &sample(2, MEMBERS)));
        let seen = version(&open(&disk).unwrap());
        disk.crash();
        assert_eq!(version(&open(&disk).unwrap()), seen, "seed {seed}");
    }
}

#[test]
fn a_full_disk_stops_the_store_and_keeps_the_old() {
    let disk = begun(1);
    let store = open(&disk).unwrap();
    disk.set_capacity(content(&disk).len() + 100);
    assert!(matches!(block_on(store.replace(1, &sample(2, MEMBERS))), Err(StoreError::Disk { .. })));
    disk.crash();
    assert_eq!(version(&open(&disk).unwrap()), 1);
}

#[test]
fn a_file_cut_off_anywhere_is_damaged() {
    let disk = begun(2);
    let whole = content(&disk);
    for length in 0..whole.len() {
        rewrite(&disk, &whole[..length]);
        assert!(matches!(open(&disk), Err(StoreError::Damaged { .. })), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn a_bit_flipped_anywhere_is_noticed() {
    let disk = begun(3);
    let whole = content(&disk);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            rewrite(&disk, &flipped);
            match open(&disk) {
                Err(StoreError::Damaged { .. } | StoreError::NewerFormat { .. }) => {}
                // Hexadecimal digits mean the same in capitals.
                Ok(store) if bit == 5 && whole[at].is_ascii_alphabetic() => assert_eq!(version(&store), 1),
                other => panic!("bit {bit} of byte {at}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_newer_format_is_named() {
    let disk = begun(4);
    rewrite(&disk, b"barn-cluster 2 whatever this may be\nbytes");
    let error = open(&disk).unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { found: 2, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("newer Barn"), "{error}");
}

#[test]
fn damage_says_what_to_do() {
    let disk = begun(5);
    rewrite(&disk, b"something else\n");
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("put back a copy") && error.contains("`cluster`"), "{error}");
}

#[test]
fn a_whole_file_that_cannot_be_right_is_damaged() {
    let disk = begun(6);
    let json = serde_json::to_vec(&sample(0, 1)).unwrap();
    let head = format!("barn-cluster 1 {:016x} {}\n", crate::checksum::crc64(&json), json.len());
    rewrite(&disk, &[head.as_bytes(), &json].concat());
    assert!(matches!(open(&disk), Err(StoreError::Damaged { .. })));
}
