//! An owner revokes its clients' grants again and again while they read and write.
//!
//! Checked: an operation that starts after `revoke` or `withdraw` has returned does not succeed
//! under a grant from before; nothing that the owner stored since is read under such a grant;
//! and no WRITE under it lands any more, not even the rest of one that was under way.

use super::{Checker, Report, options, up_to};
use crate::region::{Ordering, Region, Rights};
use crate::registry::{PeerId, Registry};
use crate::seam::{Random, Seeded};
use crate::simulated::{FaultPlan, Handle, NodeId, RunEnd, World};
use crate::{RegionId, RemoteRegion, Reply, Request, Service};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const SHARED: RegionId = RegionId(1);
const REVOCATIONS: u64 = 25;
const CLIENTS: u64 = 2;
/// Where the owner says how often it has revoked.
const COUNT: u64 = 0;
/// The words that the clients write.
const AREA: u64 = 64;
const AREA_WORDS: u64 = 24;

/// What an observer outside the world knows: how many revocations have returned.
#[derive(Default)]
struct Known {
    revoked: u64,
    peers: BTreeSet<PeerId>,
    over: bool,
}

struct Peers(Rc<RefCell<Known>>);

impl Service for Peers {
    fn call(&mut self, _: Request<'_>, reply: Reply<'_>) {
        reply.unknown_method();
    }

    fn joined(&mut self, peer: PeerId) {
        self.0.borrow_mut().peers.insert(peer);
    }

    fn gone(&mut self, peer: PeerId) {
        self.0.borrow_mut().peers.remove(&peer);
    }
}

/// Fails if the area holds anything that was written under a grant older than `revoked`.
fn check_area(region: &Region, revoked: u64, checker: &Checker) {
    for word in 0..AREA_WORDS {
        // ORDER: Relaxed: a world has one thread.
        let stamp = region.words().load_word(AREA + word * 8, Ordering::Relaxed).unwrap_or_default();
        checker.check(stamp >= revoked, || {
            format!(
                "a WRITE under a grant from before revocation {} landed after revocation {revoked}",
                stamp + 1
            )
        });
    }
}

async fn revoke(
    world: Handle,
    registry: Registry,
    region: Region,
    known: Rc<RefCell<Known>>,
    checker: Checker,
) {
    let mut random = world.random("revoke");
    for revoked in 1..=REVOCATIONS {
        world.sleep(up_to(&mut random, 600)).await;
        check_area(&region, revoked - 1, &checker);
        if random.below(3) == 0 {
            registry.withdraw(SHARED);
            let again = registry.register(SHARED, region.clone(), Rights::ALL);
            checker.check(again.is_ok(), || format!("the region cannot be registered again: {again:?}"));
        } else {
            let peers = known.borrow().peers.clone();
            peers.into_iter().for_each(|peer| registry.revoke(SHARED, peer));
        }
        known.borrow_mut().revoked = revoked;
        // ORDER: Relaxed: a world has one thread.
        let _ = region.words().store_word(COUNT, revoked, Ordering::Relaxed);
        for word in 0..AREA_WORDS {
            let _ = region.words().store_word(AREA + word * 8, revoked, Ordering::Relaxed);
        }
    }
    known.borrow_mut().over = true;
}

/// Opens the region; gives it with how often had been revoked when it was there.
async fn open(
    world: &Handle,
    me: NodeId,
    node: NodeId,
    known: &RefCell<Known>,
) -> Option<(RemoteRegion, u64)> {
    let connection = world.connect(me, node).await.ok()?;
    let region = connection.open(SHARED, Rights::ALL).await.ok()?;
    Some((region, known.borrow().revoked))
}

async fn operate(world: Handle, me: NodeId, node: NodeId, known: Rc<RefCell<Known>>, checker: Checker) {
    let mut random = world.random(&format!("client {}", me.0));
    let mut opened = None;
    while !known.borrow().over && !checker.failed() {
        let Some((region, granted)) = &opened else {
            opened = open(&world, me, node, &known).await;
            world.sleep(up_to(&mut random, 30)).await;
            continue;
        };
        let before = known.borrow().revoked;
        let done = match random.below(3) {
            0 => {
                let mut count = [0; 8];
                let read = region.read(COUNT, &mut count).await.is_ok();
                let count = u64::from_le_bytes(count);
                checker.check(!read || count <= *granted, || {
                    format!("a READ under a grant from before revocation {} saw what was stored after revocation {count}", granted + 1)
                });
                read
            }
            1 => region.fetch_add(AREA + AREA_WORDS * 8, 1).await.is_ok(),
            _ => {
                let stamps: Vec<u8> = (0..AREA_WORDS).flat_map(|_| granted.to_le_bytes()).collect();
                region.write(AREA, &stamps).await.is_ok()
            }
        };
        checker.check(!(done && before > *granted), || {
            format!("an operation that started after revocation {before} succeeded under a grant from before revocation {}", granted + 1)
        });
        checker.count();
        // Now and then the dead grant is tried again.
        if !done && random.below(3) != 0 {
            opened = None;
        }
        if random.below(3) == 0 {
            world.sleep(up_to(&mut random, 40)).await;
        }
    }
}

/// Runs it.
pub fn run(seed: u64) -> Report {
    let mut random = Seeded::new(seed ^ 0x0004);
    let world = World::new(seed, options(&mut random, FaultPlan::without_crashes));
    let bytes = (AREA + AREA_WORDS * 8 + 8) as usize;
    let (registry, region) = (world.registry(), world.region(bytes, Rights::ALL));
    let (known, checker): (Rc<RefCell<Known>>, Checker) = Default::default();
    if let Err(error) = registry.register(SHARED, region.clone(), Rights::ALL) {
        checker.fail(|| error.to_string());
    }
    let node = world.start_node("owner", registry.clone(), Box::new(Peers(known.clone())));
    world.spawn(node, revoke(world.handle(), registry, region, known.clone(), checker.clone()));
    for client in 0..CLIENTS {
        let me = world.start_client(&format!("client {client}"));
        world.spawn(me, operate(world.handle(), me, node, known.clone(), checker.clone()));
    }
    let end = world.run(Duration::from_secs(60));
    checker.check(end == RunEnd::Done, || format!("an operation hangs: {end:?}"));
    checker.report("revocation", &world)
}
