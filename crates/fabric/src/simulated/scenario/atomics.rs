//! Clients and the owner add to the same words, by fetch-and-add and by compare-and-swap.
//!
//! Checked: no addition is lost or done twice; no two clients are given the same number; only
//! an addition whose outcome was unknown may or may not have been done.

use super::{Checker, Report, options, up_to};
use crate::region::{Ordering, Region, Rights};
use crate::seam::{Random, Seeded};
use crate::simulated::{FaultPlan, Handle, NodeId, RunEnd, World};
use crate::{OperationError, RegionId, RemoteRegion, Reply, Request, Service};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

const COUNTERS: RegionId = RegionId(1);
const CLIENTS: u64 = 3;
const ADDITIONS_PER_CLIENT: u64 = 30;
const OWN_ADDITIONS: u64 = 30;
/// Where the two counters are.
const ADDED: u64 = 0;
const SWAPPED: u64 = 64;

struct Silent;

impl Service for Silent {
    fn call(&mut self, _: Request<'_>, reply: Reply<'_>) {
        reply.unknown_method();
    }
}

#[derive(Default)]
struct Tally {
    /// Numbers that fetch-and-add gave, and that compare-and-swap replaced.
    given: [BTreeSet<u64>; 2],
    done: [u64; 2],
    unknown: [u64; 2],
}

impl Tally {
    fn note(&mut self, which: usize, result: &Result<u64, OperationError>, checker: &Checker) {
        match result {
            Ok(before) => {
                self.done[which] += 1;
                checker.check(self.given[which].insert(*before), || {
                    format!("counter {which}: {before} was given to two")
                });
                checker.count();
            }
            Err(_) => self.unknown[which] += 1,
        }
    }
}

async fn open(world: &Handle, me: NodeId, node: NodeId) -> Option<RemoteRegion> {
    let connection = world.connect(me, node).await.ok()?;
    connection.open(COUNTERS, Rights::ALL).await.ok()
}

/// Adds one by compare-and-swap; gives what was replaced.
async fn swap_in(region: &RemoteRegion, guess: &mut u64) -> Result<u64, OperationError> {
    loop {
        let found = region.compare_swap(SWAPPED, *guess, *guess + 1).await?;
        let expected = std::mem::replace(guess, found);
        if found == expected {
            return Ok(found);
        }
    }
}

async fn add(world: Handle, me: NodeId, node: NodeId, tally: Rc<RefCell<Tally>>, checker: Checker) {
    let mut random = world.random(&format!("client {}", me.0));
    let (mut region, mut left, mut guess) = (None, ADDITIONS_PER_CLIENT, 0);
    while left > 0 && !checker.failed() {
        let Some(counters) = &region else {
            region = open(&world, me, node).await;
            world.sleep(up_to(&mut random, 100)).await;
            continue;
        };
        left -= 1;
        let added = counters.fetch_add(ADDED, 1).await;
        tally.borrow_mut().note(0, &added, &checker);
        let swapped = swap_in(counters, &mut guess).await;
        tally.borrow_mut().note(1, &swapped, &checker);
        if added.is_err() || swapped.is_err() {
            region = None;
        }
        if random.below(2) == 0 {
            world.sleep(up_to(&mut random, 30)).await;
        }
    }
}

/// The owner adds by its own CPU.
async fn add_here(world: Handle, region: Region, tally: Rc<RefCell<Tally>>, checker: Checker) {
    let mut random = world.random("owner");
    for _ in 0..OWN_ADDITIONS {
        let added = region.words().fetch_add(ADDED, 1).map_err(OperationError::from);
        tally.borrow_mut().note(0, &added, &checker);
        world.sleep(up_to(&mut random, 50)).await;
    }
}

/// Runs it.
pub fn run(seed: u64) -> Report {
    let mut random = Seeded::new(seed ^ 0x0003);
    let world = World::new(seed, options(&mut random, FaultPlan::without_crashes));
    let (registry, region) = (world.registry(), world.region(128, Rights::ALL));
    let (tally, checker): (Rc<RefCell<Tally>>, Checker) = Default::default();
    if let Err(error) = registry.register(COUNTERS, region.clone(), Rights::ALL) {
        checker.fail(|| error.to_string());
    }
    let node = world.start_node("owner", registry, Box::new(Silent));
    world.spawn(node, add_here(world.handle(), region.clone(), tally.clone(), checker.clone()));
    for client in 0..CLIENTS {
        let me = world.start_client(&format!("client {client}"));
        world.spawn(me, add(world.handle(), me, node, tally.clone(), checker.clone()));
    }
    let end = world.run(Duration::from_secs(60));
    checker.check(end == RunEnd::Done, || format!("an addition hangs: {end:?}"));
    let tally = tally.borrow();
    for (which, offset) in [ADDED, SWAPPED].into_iter().enumerate() {
        // ORDER: Relaxed: a world has one thread.
        let value = region.words().load_word(offset, Ordering::Relaxed).unwrap_or_default();
        let (done, unknown) = (tally.done[which], tally.unknown[which]);
        checker.check((done..=done + unknown).contains(&value), || {
            format!("counter {which} is {value} after {done} additions and {unknown} of unknown outcome")
        });
    }
    checker.report("atomics", &world)
}
