//! READ, WRITE, compare-and-swap and fetch-and-add do what they say.

use crate::conformance::Harness;
use crate::conformance::support::{Site, one_region, pattern};
use crate::region::Ordering;
use barn_layout::limits::OPERATION_BYTES_MAX;

pub(crate) async fn reads_and_writes_at_every_alignment_and_length(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, region) = one_region(&site, 8192).await;
    let mut expected = pattern(8192);
    remote.write(0, &expected).await.unwrap();
    let lengths = [0usize, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 127, 255, 256, 257, 1000, 4096];
    for at in 0..17usize {
        for bytes in lengths {
            let mut into = vec![0xee; bytes];
            remote.read(at as u64, &mut into).await.unwrap();
            assert_eq!(into, expected[at..at + bytes], "read {at}+{bytes}");
            let new: Vec<u8> = into.iter().map(|byte| byte.wrapping_add(at as u8 + 1)).collect();
            remote.write(at as u64, &new).await.unwrap();
            expected[at..at + bytes].copy_from_slice(&new);
        }
    }
    let mut all = vec![0; 8192];
    remote.read(0, &mut all).await.unwrap();
    assert_eq!(all, expected, "as the client reads it");
    region.words().load(0, &mut all).unwrap();
    assert_eq!(all, expected, "as the owner has it");
}

pub(crate) async fn reading_and_writing_nothing_does_nothing(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, 4096).await;
    for offset in [0, 1, 4095, 4096] {
        remote.read(offset, &mut []).await.unwrap();
        remote.write(offset, &[]).await.unwrap();
    }
    assert!(remote.read(4097, &mut []).await.is_err(), "nothing, but past the end");
}

pub(crate) async fn one_byte_leaves_its_neighbours(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, region) = one_region(&site, 4096).await;
    let mut expected = pattern(64);
    region.words().store(0, &expected).unwrap();
    for at in 0..64 {
        remote.write(at as u64, &[0xa5]).await.unwrap();
        expected[at] = 0xa5;
        let mut all = [0; 64];
        remote.read(0, &mut all).await.unwrap();
        assert_eq!(all[..], expected[..], "after a byte at {at}");
    }
}

pub(crate) async fn the_longest_operation_is_whole(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, OPERATION_BYTES_MAX as u64 + 4096).await;
    let longest = pattern(OPERATION_BYTES_MAX);
    for offset in [0, 8, 4096] {
        remote.write(offset, &longest).await.unwrap();
        let mut into = vec![0; OPERATION_BYTES_MAX];
        remote.read(offset, &mut into).await.unwrap();
        assert!(into == longest, "at {offset}");
    }
}

pub(crate) async fn a_compare_swap_succeeds_and_fails(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, region) = one_region(&site, 4096).await;
    assert_eq!(remote.compare_swap(64, 0, 7).await, Ok(0), "it was there, and was swapped");
    assert_eq!(remote.compare_swap(64, 0, 9).await, Ok(7), "it was not there");
    assert_eq!(region.words().load_word(64, Ordering::Relaxed), Ok(7), "a failure changed it");
    assert_eq!(remote.compare_swap(64, 7, u64::MAX).await, Ok(7));
    assert_eq!(remote.compare_swap(64, u64::MAX, 1).await, Ok(u64::MAX));
    let mut around = [0; 24];
    remote.read(56, &mut around).await.unwrap();
    assert_eq!(around[..8], [0; 8], "the word before");
    assert_eq!(around[8..16], 1u64.to_le_bytes());
    assert_eq!(around[16..], [0; 8], "the word after");
}

pub(crate) async fn a_fetch_add_wraps_around(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, region) = one_region(&site, 4096).await;
    assert_eq!(remote.fetch_add(8, 5).await, Ok(0));
    assert_eq!(remote.fetch_add(8, u64::MAX - 5).await, Ok(5));
    assert_eq!(remote.fetch_add(8, 2).await, Ok(u64::MAX), "the largest word");
    assert_eq!(remote.fetch_add(8, 0).await, Ok(1), "past it is past zero");
    assert_eq!(region.words().load_word(8, Ordering::Relaxed), Ok(1));
}

pub(crate) async fn owner_and_client_see_each_others_stores(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, region) = one_region(&site, 4096).await;
    for round in 0..200u64 {
        region.words().store_word(128, round, Ordering::Relaxed).unwrap();
        let mut into = [0; 8];
        remote.read(128, &mut into).await.unwrap();
        assert_eq!(u64::from_le_bytes(into), round);
        remote.write(136, &(round * 3).to_le_bytes()).await.unwrap();
        assert_eq!(region.words().load_word(136, Ordering::Relaxed), Ok(round * 3));
    }
}

pub(crate) async fn atomics_reach_the_last_word(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, 4096).await;
    assert_eq!(remote.bytes(), 4096);
    assert_eq!(remote.fetch_add(4088, 3).await, Ok(0));
    assert_eq!(remote.compare_swap(4088, 3, 4).await, Ok(3));
    let mut last = [0; 8];
    remote.read(4088, &mut last).await.unwrap();
    assert_eq!(u64::from_le_bytes(last), 4);
}
