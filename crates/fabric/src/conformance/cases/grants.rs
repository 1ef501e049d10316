//! Grants are revoked, withdrawn and changed, for one peer or for all.

use crate::conformance::Harness;
use crate::conformance::support::{Site, one_region};
use crate::region::Rights;
use crate::{OpenError, OperationError, RemoteRegion};
use barn_layout::RegionId;

const ONE: RegionId = RegionId(1);

/// Every operation under the grant gives this error.
async fn all_refused(remote: &RemoteRegion, error: OperationError) {
    let mut into = [0; 8];
    assert_eq!(remote.read(0, &mut into).await, Err(error), "read");
    assert_eq!(remote.write(0, &into).await, Err(error), "write");
    assert_eq!(remote.compare_swap(0, 0, 1).await, Err(error), "compare-swap");
    assert_eq!(remote.fetch_add(0, 1).await, Err(error), "fetch-add");
    assert_eq!(remote.read_versioned(0, &mut into).await, Err(error), "versioned read");
}

pub(crate) async fn revoking_ends_one_peers_grants_only(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, _) = one_region(&site, 4096).await;
    let again = client.open(ONE, Rights::ALL).await.unwrap();
    let other = site.client().await;
    let others = other.open(ONE, Rights::ALL).await.unwrap();
    site.region(2, 4096, Rights::ALL);
    let elsewhere = client.open(RegionId(2), Rights::READ).await.unwrap();
    site.registry.revoke(ONE, client.peer());
    all_refused(&one, OperationError::Revoked).await;
    all_refused(&again, OperationError::Revoked).await;
    assert_eq!(others.fetch_add(0, 1).await, Ok(0), "the other peer's grant was revoked, too");
    assert_eq!(elsewhere.read(0, &mut [0; 8]).await, Ok(()), "another region's grant was revoked, too");
}

pub(crate) async fn a_revoked_peer_may_open_again(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, region) = one_region(&site, 4096).await;
    for round in 0..20u8 {
        site.registry.revoke(ONE, client.peer());
        all_refused(&one, OperationError::Revoked).await;
        region.words().store(0, &[round; 8]).unwrap();
        let again = client.open(ONE, Rights::READ).await.expect("it may open again");
        let mut into = [0; 8];
        again.read(0, &mut into).await.unwrap();
        assert_eq!(into, [round; 8]);
    }
    all_refused(&one, OperationError::Revoked).await;
}

pub(crate) async fn withdrawing_ends_everyones_grants(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, _) = one_region(&site, 4096).await;
    let other = site.client().await;
    let two = other.open(ONE, Rights::ALL).await.unwrap();
    assert!(site.registry.withdraw(ONE).is_some());
    all_refused(&one, OperationError::Revoked).await;
    all_refused(&two, OperationError::Revoked).await;
    let refused = client.open(ONE, Rights::READ).await.unwrap_err();
    assert!(matches!(refused, OpenError::NoSuchRegion(ONE)), "{refused:?}");
    assert!(site.registry.withdraw(ONE).is_none());
}

pub(crate) async fn a_number_registered_again_gives_the_new_bytes(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, region) = one_region(&site, 4096).await;
    region.words().store(0, b"old olds").unwrap();
    site.registry.withdraw(ONE).unwrap();
    let new = site.region(1, 8192, Rights::READ);
    new.words().store(0, b"new news").unwrap();
    all_refused(&one, OperationError::Revoked).await;
    let again = client.open(ONE, Rights::READ).await.unwrap();
    assert_eq!(again.bytes(), 8192);
    let mut into = [0; 8];
    again.read(0, &mut into).await.unwrap();
    assert_eq!(&into, b"new news");
    all_refused(&one, OperationError::Revoked).await;
}

pub(crate) async fn one_peer_may_be_allowed_more_than_the_others(harness: &dyn Harness) {
    let site = Site::start(harness);
    site.region(1, 4096, Rights::READ);
    let (one, two) = (site.client().await, site.client().await);
    assert!(one.open(ONE, Rights::WRITE).await.is_err());
    site.registry.allow(ONE, one.peer(), Rights::ALL).unwrap();
    let remote = one.open(ONE, Rights::ALL).await.expect("this peer was allowed everything");
    assert_eq!(remote.write(0, &[1; 8]).await, Ok(()));
    let refused = two.open(ONE, Rights::WRITE).await.unwrap_err();
    assert!(matches!(refused, OpenError::NoRight { .. }), "{refused:?}");
}

pub(crate) async fn one_peer_may_be_allowed_less_than_the_others(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (one, remote, _) = one_region(&site, 4096).await;
    let two = site.client().await;
    let others = two.open(ONE, Rights::ALL).await.unwrap();
    site.registry.allow(ONE, one.peer(), Rights::READ).unwrap();
    all_refused(&remote, OperationError::Revoked).await;
    let refused = one.open(ONE, Rights::WRITE).await.unwrap_err();
    assert!(matches!(refused, OpenError::NoRight { .. }), "{refused:?}");
    one.open(ONE, Rights::READ).await.expect("it may still read");
    assert_eq!(others.write(0, &[1; 8]).await, Ok(()), "the other peer lost its rights, too");
}

pub(crate) async fn revoking_a_closed_region_leaves_the_one_opened_since(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, one, _) = one_region(&site, 4096).await;
    site.region(2, 4096, Rights::ALL);
    drop(one);
    // Opened in the place, if places are used again, that the closed one had.
    let two = client.open(RegionId(2), Rights::ALL).await.unwrap();
    site.registry.revoke(ONE, client.peer());
    assert_eq!(two.fetch_add(0, 1).await, Ok(0), "revoking a closed region revoked another");
    site.registry.withdraw(ONE).unwrap();
    assert_eq!(two.fetch_add(0, 1).await, Ok(1), "withdrawing a closed region revoked another");
}
