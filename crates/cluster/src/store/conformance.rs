//! What every store must do, run against each.

use super::{ConfigurationStore, FileStore, MemoryStore, StoreError};
use crate::configuration::Configuration;
use crate::member::{Life, Member, MemberId};
use barn_fabric::block_on;
use barn_fabric::seam::SystemDisk;
use barn_fabric::simulated::SimulatedDisk;
use std::sync::Arc;
use std::time::Duration;

/// A configuration of a version, with so many members.
pub(super) fn sample(version: u64, members: u32) -> Configuration {
    let mut configuration = Configuration::new(Duration::from_secs(1), 16, 2);
    configuration.version = version;
    configuration.next_member = members + 1;
    configuration.members = (1..=members)
        .map(|id| Member {
            id: MemberId(id),
            life: Life(u64::from(id) << 40),
            addresses: vec![format!("tcp://host{id}:7000"), format!("shm:/run/\"barn\"/{id}")],
            host: format!("host{id}"),
            memory_bytes: 1 << 30,
        })
        .collect();
    configuration
}

fn an_empty_store_has_none(store: &dyn ConfigurationStore) {
    assert!(block_on(store.load()).unwrap().is_none());
    assert!(block_on(store.watch(0)).unwrap().is_none());
}

fn what_is_put_is_found(store: &dyn ConfigurationStore) {
    block_on(store.replace(0, &sample(1, 0))).unwrap();
    block_on(store.replace(1, &sample(2, 3))).unwrap();
    assert_eq!(block_on(store.load()).unwrap(), Some(sample(2, 3)));
    assert_eq!(block_on(store.watch(1)).unwrap(), Some(sample(2, 3)));
    assert_eq!(block_on(store.watch(2)).unwrap(), None);
}

fn of_two_replacements_one_succeeds(store: &dyn ConfigurationStore) {
    let conflict = |result, expected| match result {
        Err(StoreError::Conflict { current }) => assert_eq!(current, expected),
        other => panic!("no conflict but {other:?}"),
    };
    block_on(store.replace(0, &sample(1, 0))).unwrap();
    block_on(store.replace(1, &sample(2, 1))).unwrap();
    conflict(block_on(store.replace(1, &sample(2, 2))), 2);
    conflict(block_on(store.replace(0, &sample(9, 2))), 2);
    conflict(block_on(store.replace(3, &sample(4, 2))), 2);
    conflict(block_on(store.replace(2, &sample(2, 2))), 2);
    assert_eq!(block_on(store.load()).unwrap(), Some(sample(2, 1)));
}

fn what_cannot_be_right_is_not_stored(store: &dyn ConfigurationStore) {
    let mut twice = sample(1, 2);
    twice.members[1].id = MemberId(1);
    assert!(matches!(block_on(store.replace(0, &twice)), Err(StoreError::Invalid(_))));
    assert!(block_on(store.load()).unwrap().is_none());
}

fn leases_end_when_they_are_not_renewed(store: &dyn ConfigurationStore) {
    let (one, two, lease) = (MemberId(1), MemberId(2), Duration::from_millis(100));
    let at = Duration::from_millis;
    block_on(store.grant(one, at(0), lease)).unwrap();
    block_on(store.grant(two, at(0), lease)).unwrap();
    assert!(block_on(store.expired(at(99))).unwrap().is_empty());
    assert!(block_on(store.renew(one, at(99), lease)).unwrap());
    assert_eq!(block_on(store.expired(at(100))).unwrap(), [two]);
    assert!(!block_on(store.renew(two, at(100), lease)).unwrap(), "a lease that has ended was renewed");
    assert!(!block_on(store.renew(MemberId(3), at(100), lease)).unwrap());
    assert_eq!(block_on(store.ends_at(one)).unwrap(), Some(at(199)));
    block_on(store.release(two)).unwrap();
    assert!(block_on(store.expired(at(100))).unwrap().is_empty());
    assert_eq!(block_on(store.ends_at(two)).unwrap(), None);
    block_on(store.grant(one, at(50), lease)).unwrap();
    assert_eq!(block_on(store.ends_at(one)).unwrap(), Some(at(199)), "a grant made a lease shorter");
}

const CASES: [fn(&dyn ConfigurationStore); 5] = [
    an_empty_store_has_none,
    what_is_put_is_found,
    of_two_replacements_one_succeeds,
    what_cannot_be_right_is_not_stored,
    leases_end_when_they_are_not_renewed,
];

#[test]
fn the_memory_store_conforms() {
    CASES.iter().for_each(|case| case(&MemoryStore::new()));
}

#[test]
fn the_file_store_conforms_on_a_simulated_disk() {
    for (seed, case) in (0..).zip(CASES) {
        case(&FileStore::open(Arc::new(SimulatedDisk::new(seed))).unwrap());
    }
}

#[test]
fn the_file_store_conforms_on_the_systems_disk() {
    for (number, case) in CASES.iter().enumerate() {
        let path = std::env::temp_dir().join(format!("barn-cluster-{}-{number}", std::process::id()));
        let disk = Arc::new(SystemDisk::at(&path).unwrap());
        case(&FileStore::open(disk.clone()).unwrap());
        let again = FileStore::open(disk).unwrap();
        drop(block_on(again.load()).unwrap());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
