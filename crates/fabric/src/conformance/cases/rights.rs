//! An operation needs its right, on every combination of the others.

use crate::conformance::Harness;
use crate::conformance::support::Site;
use crate::region::{Ordering, Rights};
use crate::{OperationError, RemoteRegion};
use barn_layout::RegionId;

fn combinations() -> impl Iterator<Item = Rights> {
    (1..=Rights::ALL.to_bits()).map(Rights::from_bits)
}

/// Each operation with the right that it needs and how it went.
async fn try_each(remote: &RemoteRegion) -> Vec<(Rights, Result<(), OperationError>)> {
    let mut into = [0; 8];
    vec![
        (Rights::READ, remote.read(0, &mut into).await),
        (Rights::WRITE, remote.write(8, &[9; 8]).await),
        (Rights::ATOMIC, remote.compare_swap(16, 0, 9).await.map(|_| ())),
        (Rights::ATOMIC, remote.fetch_add(24, 9).await.map(|_| ())),
        (Rights::READ, remote.read_versioned(32, &mut into).await.map(|_| ())),
    ]
}

pub(crate) async fn each_missing_right_is_refused_for_each_operation(harness: &dyn Harness) {
    let site = Site::start(harness);
    site.region(1, 4096, Rights::ALL);
    let client = site.client().await;
    for has in combinations() {
        let remote = client.open(RegionId(1), has).await.unwrap();
        for (needs, result) in try_each(&remote).await {
            let expected =
                if has.contains(needs) { Ok(()) } else { Err(OperationError::NoRight { needs, has }) };
            assert_eq!(result, expected, "{needs} under a grant of {has}");
        }
    }
}

pub(crate) async fn a_grant_has_what_was_asked_for_and_no_more(harness: &dyn Harness) {
    let site = Site::start(harness);
    for (number, everyone) in combinations().enumerate() {
        site.region(number as u32, 4096, everyone);
    }
    let client = site.client().await;
    for (number, everyone) in combinations().enumerate() {
        for asked in combinations() {
            match client.open(RegionId(number as u32), asked).await {
                Ok(remote) => {
                    assert!(everyone.contains(asked), "{asked} was granted where everyone has {everyone}");
                    assert_eq!(remote.rights(), asked);
                }
                Err(error) => assert!(!everyone.contains(asked), "{asked} of {everyone}: {error}"),
            }
        }
    }
}

pub(crate) async fn a_refused_operation_changes_nothing(harness: &dyn Harness) {
    let site = Site::start(harness);
    let region = site.region(1, 4096, Rights::READ);
    let client = site.client().await;
    let remote = client.open(RegionId(1), Rights::READ).await.unwrap();
    let _ = try_each(&remote).await;
    assert!(remote.write(4090, &[9; 8]).await.is_err());
    for word in 0..512u64 {
        assert_eq!(region.words().load_word(word * 8, Ordering::Relaxed), Ok(0), "word {word}");
    }
}
