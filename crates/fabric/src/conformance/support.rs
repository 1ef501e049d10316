//! What the cases share: a node with its service, waiting with a bound, futures side by side.

use super::service::{Methods, Seen};
use super::{Boxed, Harness};
use crate::region::{Region, Rights};
use crate::{CallError, Connection, Registry, RemoteRegion};
use barn_layout::RegionId;
use std::pin::Pin;
use std::sync::MutexGuard;
use std::task::{Context, Poll};
use std::time::Duration;

/// Longer than anything takes on a loaded machine; a wait this long is a failure. An emulated processor
/// whose host is loaded has been seen to take a minute for the longest message.
pub(super) fn patience() -> Duration {
    Duration::from_secs(if super::rounds_one_in() > 1 { 180 } else { 30 })
}
/// A deadline that is meant to pass.
pub(super) const SHORT: Duration = Duration::from_millis(60);

/// So many rounds of what is repeated only to be repeated: fewer where the environment says that the
/// machine is slow, and some always. What passes a limit, or must be long, is never cut.
pub(super) fn rounds(usual: u64) -> u64 {
    usual.div_ceil(super::rounds_one_in()).max(usual.min(ROUNDS_MIN))
}

/// Enough for every place of a window of 16 to come round.
const ROUNDS_MIN: u64 = 20;

/// A node that runs, with its service.
pub(super) struct Site<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) number: u32,
    pub(super) registry: Registry,
    service: Methods,
}

impl<'a> Site<'a> {
    /// Starts node 0.
    pub(super) fn start(harness: &'a dyn Harness) -> Self {
        let service = Methods::default();
        let registry = harness.start(0, service.clone());
        Self { harness, number: 0, registry, service }
    }

    /// A client of it.
    pub(super) async fn client(&self) -> Connection {
        self.harness.connect(self.number, patience()).await.expect("the node lets a client in")
    }

    /// A region of it, which peers may be granted anything on and everyone gets `everyone`.
    pub(super) fn region(&self, id: u32, bytes: u64, everyone: Rights) -> Region {
        let region = self.harness.region(bytes, Rights::ALL);
        self.registry.register(RegionId(id), region.clone(), everyone).expect("the number is free");
        region
    }

    /// What the service has seen.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.service.seen()
    }

    /// Waits until something holds.
    pub(super) async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        until(self.harness, what, holds).await;
    }

    /// Waits until the node has so many peers.
    pub(super) async fn until_peers(&self, peers: u64) {
        let now = || self.harness.peers(self.number);
        self.until(&format!("{peers} peers"), || now() == peers).await;
    }

    pub(super) fn stop(&self) {
        self.harness.stop(self.number);
    }
}

/// Waits until something holds, but no longer than [`patience`].
pub(super) async fn until(harness: &dyn Harness, what: &str, holds: impl Fn() -> bool) {
    let step = Duration::from_millis(2);
    for _ in 0..patience().as_millis() / step.as_millis() {
        if holds() {
            return;
        }
        harness.sleep(step).await;
    }
    panic!("waited too long for {what}");
}

/// A client, and a region that it may do everything with, of so many bytes.
pub(super) async fn one_region(site: &Site<'_>, bytes: u64) -> (Connection, RemoteRegion, Region) {
    let region = site.region(1, bytes, Rights::ALL);
    let client = site.client().await;
    let remote = client.open(RegionId(1), Rights::ALL).await.expect("the region opens");
    (client, remote, region)
}

/// Calls and gives the answer.
pub(super) async fn call(client: &Connection, method: u16, request: &[u8]) -> Result<Vec<u8>, CallError> {
    let mut reply = Vec::new();
    client.call(method, request, &mut reply).await.map(|()| reply)
}

/// A call under way, in a box.
pub(super) type Calling<'a> = Boxed<'a, Result<Vec<u8>, CallError>>;

/// A call to be run beside others.
pub(super) fn calling<'a>(client: &'a Connection, method: u16, request: &'a [u8]) -> Calling<'a> {
    Box::pin(call(client, method, request))
}

/// Bytes of which no two runs look alike.
pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251 + i / 65_521) as u8).collect()
}

/// A pattern that also depends on a number.
pub(super) fn numbered(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (number as usize * 31 + i * 7 + i / 251) as u8).collect()
}

/// Runs futures side by side; gives their results in order.
pub(super) async fn join_all<'a, T>(futures: Vec<Boxed<'a, T>>) -> Vec<T> {
    let mut waiting: Vec<Option<Boxed<'a, T>>> = futures.into_iter().map(Some).collect();
    let mut results: Vec<Option<T>> = waiting.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (place, result) in waiting.iter_mut().zip(&mut results) {
            let Some(future) = place else { continue };
            match future.as_mut().poll(cx) {
                Poll::Ready(value) => {
                    *result = Some(value);
                    *place = None;
                }
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// Polls a future a few times and then drops it; what it gave, if it was done by then.
pub(super) async fn poll_and_drop<T>(future: impl Future<Output = T>, polls: u32) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    poll_once_more(&mut left, future.as_mut()).await
}

async fn poll_once_more<F: Future>(left: &mut u32, mut future: Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx: &mut Context<'_>| {
        while *left > 0 {
            *left -= 1;
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
        }
        Poll::Ready(None)
    })
    .await
}

/// Polls several futures once each, and keeps them.
pub(super) async fn poll_each<T>(futures: &mut [Boxed<'_, T>]) {
    std::future::poll_fn(|cx| {
        for future in futures.iter_mut() {
            assert!(future.as_mut().poll(cx).is_pending(), "it was done at the first poll");
        }
        Poll::Ready(())
    })
    .await;
}
