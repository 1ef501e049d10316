//! An owner publishes a versioned value over and over; clients read it by one-sided READs.
//!
//! Checked: every body that [`read_versioned`](crate::RemoteRegion::read_versioned) accepts is
//! the whole body of exactly the version it gives, and no reader ever sees a version go back.

use super::{Checker, Report, options, up_to};
use crate::region::{Ordering, Region, Rights, versioned};
use crate::seam::Random;
use crate::simulated::{FaultPlan, Handle, NodeId, RunEnd, World};
use crate::{RegionId, RemoteRegion, Reply, Request, Service};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const VALUE: RegionId = RegionId(1);
const READERS: u64 = 3;
const READS_PER_READER: u64 = 40;
const PUBLISHED_PER_READ: u64 = 10;

struct Silent;

impl Service for Silent {
    fn call(&mut self, _: Request<'_>, reply: Reply<'_>) {
        reply.unknown_method();
    }
}

/// What the body of a version looks like: no two versions have a word in common.
fn body_of(version: u64, bytes: usize) -> Vec<u8> {
    let word = |index: u64| (version << 16 | index).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..).flat_map(word).take(bytes).collect()
}

/// Publishes as fast as the readers read: some values for each attempt, and then one in a while,
/// so that a long partition does not fill a run with values that nobody looks at.
async fn publish(world: Handle, region: Region, bytes: usize, pace_ns: u64, attempts: Rc<Cell<u64>>) {
    let mut random = world.random("publish");
    for published in 0u64.. {
        // ORDER: Relaxed: a world has one thread.
        let version = region.words().load_word(0, Ordering::Relaxed).unwrap_or_default() + 2;
        let _ = versioned::publish(region.words(), 0, &body_of(version, bytes));
        let ahead = published > (attempts.get() + 4) * PUBLISHED_PER_READ;
        let pace = if ahead { pace_ns + 200_000 } else { pace_ns };
        world.sleep(Duration::from_nanos(random.below(pace + 1))).await;
    }
}

async fn open(world: &Handle, me: NodeId, node: NodeId) -> Option<RemoteRegion> {
    let connection = world.connect(me, node).await.ok()?;
    connection.open(VALUE, Rights::READ).await.ok()
}

async fn read(
    world: Handle,
    (me, node): (NodeId, NodeId),
    bytes: usize,
    attempts: Rc<Cell<u64>>,
    checker: Checker,
) {
    let mut random = world.random(&format!("reader {}", me.0));
    let (mut newest, mut region, mut body) = (0, None, vec![0; bytes]);
    let mut left = READS_PER_READER;
    while left > 0 && !checker.failed() {
        let Some(value) = &region else {
            region = open(&world, me, node).await;
            world.sleep(up_to(&mut random, 100)).await;
            continue;
        };
        left -= 1;
        attempts.set(attempts.get() + 1);
        match value.read_versioned(0, &mut body).await {
            Ok(Some(version)) => {
                checker.check(version >= newest, || {
                    format!("{me:?} saw version {version} after version {newest}")
                });
                checker.check(version == 0 || body == body_of(version, bytes), || {
                    format!(
                        "{me:?} accepted a body that is not that of version {version}, which it was given"
                    )
                });
                newest = version;
                checker.count();
            }
            Ok(None) => {}
            Err(_) => region = None,
        }
        if random.below(3) == 0 {
            world.sleep(up_to(&mut random, 20)).await;
        }
    }
}

/// Runs it.
pub fn run(seed: u64) -> Report {
    let mut random = crate::seam::Seeded::new(seed ^ 0x0001);
    let options = options(&mut random, FaultPlan::without_crashes);
    // From several values during one READ to several READs of one value.
    let pace_ns = options.operation.1 * [1, 4, 16][random.below(3) as usize];
    let world = World::new(seed, options);
    let bytes = [8, 16, 64, 100, 256][random.below(5) as usize];
    let attempts = Rc::new(Cell::new(0));
    let (registry, region) = (world.registry(), world.region(8 + bytes, Rights::READ));
    let checker = Checker::default();
    if let Err(error) = registry.register(VALUE, region.clone(), Rights::READ) {
        checker.fail(|| error.to_string());
    }
    let node = world.start_node("owner", registry, Box::new(Silent));
    world.spawn_background(node, publish(world.handle(), region, bytes, pace_ns, attempts.clone()));
    for reader in 0..READERS {
        let me = world.start_client(&format!("reader {reader}"));
        world.spawn(me, read(world.handle(), (me, node), bytes, attempts.clone(), checker.clone()));
    }
    let end = world.run(Duration::from_secs(60));
    checker.check(end == RunEnd::Done, || format!("the readers did not finish: {end:?}"));
    checker.report("racing-readers", &world)
}
