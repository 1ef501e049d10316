//! Nodes and clients end, and everybody else notices and goes on.

use crate::conformance::service::{ECHO, HOLD};
use crate::conformance::support::{
    Calling, Site, call, calling, join_all, one_region, patience, poll_each, rounds, until,
};
use crate::conformance::{Boxed, Harness};
use crate::region::Rights;
use crate::{Batch, CallError, ConnectError, OpenError, OperationError};
use barn_layout::RegionId;

pub(crate) async fn a_stopped_node_ends_what_is_under_way(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, _remote, _) = one_region(&site, 4096).await;
    let mut into = Vec::new();
    let mut calls: Vec<Calling<'_>> = (0..20).map(|_| calling(&client, HOLD, b"held")).collect();
    calls.push(Box::pin(async {
        client.receive(&mut into).await?;
        Ok(Vec::new())
    }));
    poll_each(&mut calls).await;
    site.stop();
    for answer in join_all(calls).await {
        assert_eq!(answer, Err(CallError::PeerGone));
    }
    assert!(CallError::PeerGone.outcome_is_unknown());
}

pub(crate) async fn after_a_nodes_end_everything_says_so(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, remote, _) = one_region(&site, 4096).await;
    let gone = OperationError::PeerGone;
    site.stop();
    until(harness, "the end of the node", || !client.is_open()).await;
    let mut into = [0; 8];
    assert_eq!(remote.read(0, &mut into).await, Err(gone));
    assert_eq!(remote.write(0, &into).await, Err(gone));
    assert_eq!(remote.compare_swap(0, 0, 1).await, Err(gone));
    assert_eq!(remote.fetch_add(0, 1).await, Err(gone));
    assert_eq!(remote.read_versioned(0, &mut into).await, Err(gone));
    let mut batch = Batch::new();
    batch.push(remote.read(0, &mut into));
    assert_eq!(batch.await, Err(gone));
    assert_eq!(call(&client, ECHO, b"?").await, Err(CallError::PeerGone));
    assert_eq!(call(&client, ECHO, &vec![1; 3 << 20]).await, Err(CallError::PeerGone));
    assert_eq!(client.send(b"?").await, Err(CallError::PeerGone));
    assert_eq!(client.receive(&mut Vec::new()).await, Err(CallError::PeerGone));
    let open = client.open(RegionId(1), Rights::READ).await;
    assert!(matches!(open, Err(OpenError::PeerGone)), "{open:?}");
}

pub(crate) async fn a_dropped_client_is_freed_once(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (stays, leaves) = (site.client().await, site.client().await);
    site.until("both", || site.seen().joined.len() == 2).await;
    assert_ne!(stays.peer(), leaves.peer());
    let peer = leaves.peer();
    let clone = leaves.clone();
    drop(leaves);
    assert_eq!(call(&clone, ECHO, b"a clone").await.unwrap(), b"a clone", "a clone holds it open");
    assert_eq!(harness.peers(0), 2);
    drop(clone);
    site.until_peers(1).await;
    site.until("its end", || !site.seen().gone.is_empty()).await;
    for _ in 0..50 {
        assert_eq!(call(&stays, ECHO, b"on").await.unwrap(), b"on");
    }
    assert_eq!(site.seen().gone, [peer], "once, and nobody else");
    assert_eq!(site.seen().joined.len(), 2);
}

pub(crate) async fn a_client_dropped_in_the_middle_is_freed(harness: &dyn Harness) {
    let site = Site::start(harness);
    site.region(1, 4096, Rights::ALL);
    let stays = site.client().await;
    let long = vec![3; 2 << 20];
    for round in 0..20 {
        let leaves = site.client().await;
        let remote = leaves.open(RegionId(1), Rights::ALL).await.unwrap();
        {
            let mut calls: Vec<Calling<'_>> = vec![
                calling(&leaves, HOLD, b"held"),
                calling(&leaves, ECHO, &long),
                calling(&leaves, HOLD, &long[..round * 100]),
            ];
            poll_each(&mut calls).await;
        }
        drop(remote);
        drop(leaves);
        assert_eq!(call(&stays, ECHO, b"undisturbed").await.unwrap(), b"undisturbed");
    }
    site.until_peers(1).await;
    site.until("20 ends", || site.seen().gone.len() == 20).await;
    site.seen().held.clear();
    assert_eq!(call(&stays, ECHO, b"undisturbed").await.unwrap(), b"undisturbed");
}

pub(crate) async fn a_node_that_starts_again_is_found_again(harness: &dyn Harness) {
    let mut before = Vec::new();
    for round in 0..3u8 {
        let site = Site::start(harness);
        let (client, remote, region) = one_region(&site, 4096).await;
        region.words().store(0, &[round; 8]).unwrap();
        let mut into = [0; 8];
        remote.read(0, &mut into).await.unwrap();
        assert_eq!(into, [round; 8]);
        assert_eq!(call(&client, ECHO, &[round]).await.unwrap(), [round]);
        for (old, old_remote) in &before {
            let old: &crate::Connection = old;
            let old_remote: &crate::RemoteRegion = old_remote;
            assert!(!old.is_open(), "an old connection came to life");
            assert_eq!(old_remote.read(0, &mut into).await, Err(OperationError::PeerGone));
        }
        site.stop();
        until(harness, "the end of the node", || !client.is_open()).await;
        before.push((client, remote));
    }
}

pub(crate) async fn a_connection_to_nobody_is_refused(harness: &dyn Harness) {
    let refused = harness.connect(9, patience()).await.unwrap_err();
    assert!(matches!(refused, ConnectError::NoNode { .. }), "{refused:?}");
    assert!(refused.to_string().contains("start one"), "{refused}");
    let site = Site::start(harness);
    let client = site.client().await;
    site.stop();
    until(harness, "the end of the node", || !client.is_open()).await;
    let refused = harness.connect(0, patience()).await.unwrap_err();
    assert!(matches!(refused, ConnectError::NoNode { .. }), "{refused:?}");
}

pub(crate) async fn a_hundred_connections_are_served(harness: &dyn Harness) {
    let site = Site::start(harness);
    site.region(1, 4096, Rights::ALL);
    let mut clients = Vec::new();
    for _ in 0..100 {
        let client = site.client().await;
        let remote = client.open(RegionId(1), Rights::ALL).await.unwrap();
        clients.push((client, remote));
    }
    site.until_peers(100).await;
    let mut peers: Vec<_> = clients.iter().map(|(client, _)| client.peer()).collect();
    peers.sort();
    peers.dedup();
    assert_eq!(peers.len(), 100, "two clients have one number");
    let work = clients.iter().enumerate().map(|(number, (client, remote))| {
        Box::pin(async move {
            for round in 0..20u8 {
                let sent = vec![round; number * 10];
                assert_eq!(call(client, ECHO, &sent).await.unwrap(), sent);
                remote.fetch_add(8, 1).await.unwrap();
            }
        }) as Boxed<'_, ()>
    });
    join_all(work.collect()).await;
    assert_eq!(clients[0].1.fetch_add(8, 0).await, Ok(2_000));
    drop(clients);
    site.until_peers(0).await;
    site.until("100 ends", || site.seen().gone.len() == 100).await;
}

pub(crate) async fn connections_come_and_go(harness: &dyn Harness) {
    let site = Site::start(harness);
    site.region(1, 4096, Rights::ALL);
    let stays = site.client().await;
    for round in 0..rounds(150) {
        let client = site.client().await;
        if round % 3 == 0 {
            let remote = client.open(RegionId(1), Rights::READ).await.unwrap();
            remote.read(0, &mut [0; 64]).await.unwrap();
        }
        if round % 2 == 0 {
            assert_eq!(call(&client, ECHO, &round.to_le_bytes()).await.unwrap(), round.to_le_bytes());
        }
        drop(client);
        assert_eq!(call(&stays, ECHO, b"undisturbed").await.unwrap(), b"undisturbed");
    }
    site.until_peers(1).await;
}
