//! Regions are opened, closed and opened again.

use crate::conformance::support::{Site, join_all, one_region, pattern, poll_and_drop};
use crate::conformance::{Boxed, Harness};
use crate::region::Rights;
use crate::{OpenError, RemoteRegion};
use barn_layout::RegionId;
use barn_layout::limits::REGIONS_PER_PEER_MAX;

pub(crate) async fn a_missing_region_is_not_opened(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for number in [0, 1, 77, u32::MAX] {
        let refused = client.open(RegionId(number), Rights::READ).await.unwrap_err();
        assert!(
            matches!(refused, OpenError::NoSuchRegion(RegionId(named)) if named == number),
            "{refused:?}"
        );
    }
}

pub(crate) async fn a_region_is_not_opened_without_the_right(harness: &dyn Harness) {
    let site = Site::start(harness);
    site.region(1, 4096, Rights::READ);
    let client = site.client().await;
    for asked in [Rights::WRITE, Rights::ATOMIC, Rights::READ | Rights::WRITE, Rights::ALL, Rights::NONE] {
        let refused = client.open(RegionId(1), asked).await.unwrap_err();
        assert!(matches!(refused, OpenError::NoRight { asked: named } if named == asked), "{refused:?}");
    }
    assert!(client.open(RegionId(1), Rights::READ).await.is_ok(), "the right one");
}

pub(crate) async fn one_region_too_many_is_refused_and_a_closed_one_makes_room(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, first, _) = one_region(&site, 4096).await;
    let other = site.client().await;
    let mut held = vec![first];
    // Many at once, as an impatient client does it.
    let opens: Vec<Boxed<'_, Result<RemoteRegion, OpenError>>> = (1..REGIONS_PER_PEER_MAX)
        .map(|_| Box::pin(client.open(RegionId(1), Rights::READ)) as Boxed<'_, _>)
        .collect();
    for opened in join_all(opens).await {
        held.push(opened.expect("a region within the bound opens"));
    }
    assert_eq!(held.len(), REGIONS_PER_PEER_MAX);
    for _ in 0..3 {
        let refused = client.open(RegionId(1), Rights::READ).await.unwrap_err();
        assert!(matches!(refused, OpenError::TooManyRegions), "{refused:?}");
    }
    assert!(other.open(RegionId(1), Rights::READ).await.is_ok(), "another peer has room of its own");
    held.truncate(1);
    let opens: Vec<Boxed<'_, Result<RemoteRegion, OpenError>>> = (1..REGIONS_PER_PEER_MAX)
        .map(|_| Box::pin(client.open(RegionId(1), Rights::READ)) as Boxed<'_, _>)
        .collect();
    for opened in join_all(opens).await {
        held.push(opened.expect("closed regions made room"));
    }
    held[0].read(0, &mut [0; 8]).await.expect("the first is still open");
}

pub(crate) async fn a_region_opens_again_more_often_than_a_peer_may_hold(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, first, region) = one_region(&site, 4096).await;
    drop(first);
    for round in 0..REGIONS_PER_PEER_MAX + 200 {
        region.words().store(8, &round.to_le_bytes()).unwrap();
        let remote = client.open(RegionId(1), Rights::READ).await.expect("it opens again");
        let mut into = [0; 8];
        remote.read(8, &mut into).await.unwrap();
        assert_eq!(usize::from_le_bytes(into), round);
    }
}

pub(crate) async fn two_handles_on_a_region_live_apart(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, _) = one_region(&site, 4096).await;
    let two = client.open(RegionId(1), Rights::READ).await.unwrap();
    one.write(0, b"from one").await.unwrap();
    drop(one);
    for _ in 0..100 {
        let mut into = [0; 8];
        two.read(0, &mut into).await.expect("the other handle still stands");
        assert_eq!(&into, b"from one");
    }
}

pub(crate) async fn a_clone_keeps_the_grant(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, _) = one_region(&site, 4096).await;
    let two = one.clone();
    drop(one);
    two.write(8, &[5; 8]).await.expect("a clone holds the grant");
    // A request after it: whatever the close would have done has been done.
    client.open(RegionId(1), Rights::READ).await.unwrap();
    two.write(8, &[6; 8]).await.expect("a clone holds the grant");
}

pub(crate) async fn many_regions_keep_their_own_bytes(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let bytes = pattern(64 * 8);
    for number in 0..64u32 {
        let region = site.region(number, 4096, Rights::READ);
        region.words().store(0, &bytes[number as usize * 8..][..8]).unwrap();
    }
    let mut held = Vec::new();
    for number in 0..64u32 {
        held.push(client.open(RegionId(number), Rights::READ).await.unwrap());
    }
    for (number, remote) in held.iter().enumerate() {
        assert_eq!(remote.id(), RegionId(number as u32));
        let mut into = [0; 8];
        remote.read(0, &mut into).await.unwrap();
        assert_eq!(into, bytes[number * 8..][..8]);
    }
}

pub(crate) async fn cancelled_opens_leave_no_grant_behind(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, first, _) = one_region(&site, 4096).await;
    drop(first);
    for round in 0..REGIONS_PER_PEER_MAX as u32 + 100 {
        drop(poll_and_drop(client.open(RegionId(1), Rights::READ), 1 + round % 3).await);
        if round % 64 == 0 {
            // Lets the answers come, so that some are dropped before and some after.
            client.open(RegionId(1), Rights::READ).await.expect("there is room");
        }
    }
    client.open(RegionId(1), Rights::READ).await.expect("there is room");
}
