//! Copy-on-write ranges on the simulated world: nodes that pause and are cut off, READs that are torn,
//! writers that are killed at any instant, all from one seed.
//!
//! What is checked: a version is of one word throughout, and of the same for every reader; no reader sees
//! an older version than it has seen, nor one older than the last that was acknowledged before it looked;
//! when everybody is gone but one, one version is left, and nothing else is held.

use barn_fabric::seam::{Random, Seeded};
use barn_fabric::simulated::{Handle, RunEnd, WorldOptions};
use barn_space::client::{RangeHandle, Space, Spaces, Writer};
use barn_space::message::{CHUNK_BYTES_MIN, Role};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

mod simulation;

use simulation::{Cluster, LEASE};

const CHUNK: u64 = CHUNK_BYTES_MIN;
const VERSION_BYTES: u64 = 3 * CHUNK;
const NAME: &str = "versions";

/// What all who are watched have seen and done.
#[derive(Debug, Default)]
struct Record {
    /// The word of each version that somebody has seen or made.
    words: BTreeMap<u64, u64>,
    /// The last version whose commit was acknowledged.
    acknowledged: u64,
    commits: u64,
    reads: u64,
    refused: u64,
    killed: u64,
    wrong: Option<String>,
}

impl Record {
    fn say(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }

    fn is(&mut self, version: u64, word: u64) {
        let known = *self.words.entry(version).or_insert(word);
        if known != word {
            self.say(format!("version {version} is {known:x} to one and {word:x} to another"));
        }
    }
}

type Shared = Rc<RefCell<Record>>;

/// Joins the space and holds the range, however often it takes.
async fn hold(spaces: &Spaces, world: &Handle, address: u64) -> (Space, RangeHandle) {
    loop {
        if let Ok(space) = spaces.join(NAME, None).await
            && let Ok(range) = space.init(address, VERSION_BYTES).await
        {
            return (space, range);
        }
        world.sleep(Duration::from_millis(20)).await;
    }
}

/// Commits version after version, each of one word throughout.
async fn write(spaces: Spaces, world: Handle, address: u64, number: u64, record: Shared) {
    let mut random = world.random(&format!("writer {number}"));
    let mut stamp = number << 32;
    loop {
        let (_space, mut range) = hold(&spaces, &world, address).await;
        while one_commit(&mut range, &mut stamp, &mut random, &record).await.is_some() {
            world.sleep(Duration::from_micros(random.below(3_000))).await;
            if range.refresh().await.is_err() {
                break;
            }
        }
        world.sleep(Duration::from_millis(1 + random.below(20))).await;
    }
}

/// One version; nothing if the range is best held anew.
async fn one_commit(
    range: &mut RangeHandle,
    stamp: &mut u64,
    random: &mut Seeded,
    record: &Shared,
) -> Option<()> {
    *stamp += 1;
    let bytes: Vec<u8> = stamp.to_le_bytes().repeat(VERSION_BYTES as usize / 8);
    let lease = Duration::from_millis(50 + random.below(1_000));
    let Ok(mut writer) = range.lease(Some(lease)).await else {
        record.borrow_mut().refused += 1;
        return Some(());
    };
    if random.below(4) == 0 {
        return touch(writer, random).await;
    }
    // Two pieces whose border is anywhere, in either order; now and then the writer gives up half-way.
    let cut = random.below(VERSION_BYTES) as usize;
    let mut pieces = [(0, cut), (cut, bytes.len())];
    if random.below(2) == 0 {
        pieces.reverse();
    }
    for (from, to) in pieces {
        writer.write(from as u64, &bytes[from..to]).await.ok()?;
        if random.below(16) == 0 {
            return writer.abandon().await.ok();
        }
    }
    writer.commit().await.ok()?;
    let (mut record, version) = (record.borrow_mut(), range.version());
    record.commits += 1;
    record.is(version, *stamp);
    // The answer to an earlier one may come later.
    record.acknowledged = record.acknowledged.max(version);
    Some(())
}

/// Writes again what is there, in some places: the next version is as this one, and readers will say so.
async fn touch(mut writer: Writer<'_>, random: &mut Seeded) -> Option<()> {
    let from = random.below(VERSION_BYTES);
    let mut bytes = vec![0; random.below(VERSION_BYTES - from) as usize + 1];
    writer.read(from, &mut bytes).await.ok()?;
    writer.write(from, &bytes).await.ok()?;
    writer.commit().await.ok()
}

/// Reads whole versions until it is over. Where nothing `breaks`, what is mapped can be read.
async fn read(
    spaces: Spaces,
    world: Handle,
    address: u64,
    number: u64,
    record: Shared,
    (over, breaks): (Rc<Cell<bool>>, bool),
) {
    let mut random = world.random(&format!("reader {number}"));
    let mut bytes = vec![0; VERSION_BYTES as usize];
    let mut last = 0;
    while !over.get() {
        let mut least = record.borrow().acknowledged;
        let (_space, mut range) = hold(&spaces, &world, address).await;
        while !over.get() {
            let Ok(mapping) = range.map().await else { break };
            for _ in 0..1 + random.below(3) {
                if let Err(error) = mapping.read(0, &mut bytes).await {
                    if !breaks {
                        record.borrow_mut().say(format!("what is mapped cannot be read: {error}"));
                    }
                    break;
                }
                world.sleep(Duration::from_micros(random.below(20_000))).await;
                let (version, word) = (mapping.version(), &bytes[..8]);
                let mut record = record.borrow_mut();
                if let Some(at) = bytes.chunks(8).position(|other| other != word) {
                    record.say(format!("version {version} is mixed at {}", at * 8));
                }
                if version < least.max(last) {
                    record.say(format!("version {version} was read after {}", least.max(last)));
                }
                record.is(version, u64::from_le_bytes(word.try_into().unwrap()));
                record.reads += 1;
                last = version;
            }
            drop(mapping);
            world.sleep(Duration::from_micros(random.below(5_000))).await;
            least = record.borrow().acknowledged;
            if range.refresh().await.is_err() {
                break;
            }
        }
    }
}

/// Starts a writer, kills it after a while, and starts the next.
async fn kill_writers(cluster: Rc<Cluster>, address: u64, record: Shared, over: Rc<Cell<bool>>, lane: u64) {
    let world = cluster.world.handle();
    let mut random = world.random(&format!("lives of writers {lane}"));
    let mut number = lane << 16;
    while !over.get() {
        number += 1;
        let (node, spaces) = cluster.client(&format!("writer-{number}"));
        let work = write(spaces, world.clone(), address, number, record.clone());
        world.spawn_background(node, work);
        world.sleep(Duration::from_micros(1_000 + random.below(400_000))).await;
        world.kill(node);
        record.borrow_mut().killed += 1;
    }
}

/// Makes the space and its range, however often it takes.
async fn make(owner: Spaces, world: Handle, made: Rc<RefCell<Option<(Space, u64)>>>) {
    let joined = loop {
        match owner.create(NAME, CHUNK, Role::Writer).await {
            Ok(joined) => break joined.space,
            Err(_) => world.sleep(Duration::from_millis(50)).await,
        }
        if let Ok(space) = owner.join(NAME, None).await {
            break space;
        }
    };
    while joined.stat().await.is_ok_and(|info| info.reserved_bytes < 40 * CHUNK) {
        let _ = joined.reserve(CHUNK).await;
    }
    loop {
        if let Ok(range) = joined.alloc_copy_on_write(VERSION_BYTES).await {
            *made.borrow_mut() = Some((joined, range.address()));
            return;
        }
        world.sleep(Duration::from_millis(50)).await;
    }
}

/// What is left when everybody else is gone.
async fn audit(space: Space, record: Shared) {
    let acknowledged = record.borrow().acknowledged;
    let said = match space.stat().await {
        Err(error) => Some(format!("the owner cannot look: {error}")),
        Ok(info) => match &info.ranges[..] {
            [range] if range.version < acknowledged => {
                Some(format!("version {acknowledged} was acknowledged, {} is left", range.version))
            }
            [range] if range.writer || info.used_bytes != VERSION_BYTES => {
                Some(format!("more is left than one version: {info:?}"))
            }
            [_] => None,
            _ => Some(format!("more is left than one range: {info:?}")),
        },
    };
    said.into_iter().for_each(|said| record.borrow_mut().say(said));
}

/// One run: what it is like follows from the seed.
fn run(seed: u64, time: Duration) -> (Record, u64) {
    let mut random = Seeded::new(seed ^ 0x7665_7273);
    let mut options = WorldOptions { deadline: LEASE / 2, ..WorldOptions::default() };
    options.operation.1 = [4_000, 400_000][random.below(2) as usize];
    let cluster = Rc::new(Cluster::start(seed, options, 1 + random.below(3) as u32, 64 * CHUNK));
    let world = cluster.world.handle();
    let (record, over): (Shared, Rc<Cell<bool>>) = Default::default();
    let (node, owner) = cluster.client("owner");
    let made: Rc<RefCell<Option<(Space, u64)>>> = Rc::default();
    world.spawn(node, make(owner.clone(), world.clone(), made.clone()));
    assert_eq!(cluster.world.run(Duration::from_secs(60)), RunEnd::Done, "seed {seed}: no space was made");
    let (space, address) = made.borrow_mut().take().unwrap();
    let breaks = random.below(3) != 0;
    for number in 0..2 {
        let (node, spaces) = cluster.client(&format!("reader-{number}"));
        let work = read(spaces, world.clone(), address, number, record.clone(), (over.clone(), breaks));
        world.spawn_background(node, work);
    }
    for lane in 1..=2 {
        let watcher = world.start_client(&format!("watcher-{lane}"));
        let work = kill_writers(cluster.clone(), address, record.clone(), over.clone(), lane);
        world.spawn(watcher, work);
    }
    if breaks {
        let breaker = world.start_client("breaker");
        let mut random = world.random("what breaks");
        let (world, over, nodes) = (world.clone(), over.clone(), cluster.nodes.clone());
        world.clone().spawn(breaker, async move {
            while !over.get() {
                world.sleep(Duration::from_millis(random.below(600))).await;
                let node = nodes[random.below(nodes.len() as u64) as usize];
                world.pause(node, random.below(2) == 0);
                world.sleep(Duration::from_millis(random.below(300))).await;
                world.resume(node);
            }
        });
    }
    cluster.world.pass(time);
    over.set(true);
    // Whoever is lost has been noticed by then, and what it held was let go.
    cluster.world.pass(LEASE * 8);
    world.spawn(node, audit(space, record.clone()));
    if cluster.world.run(Duration::from_secs(10)) != RunEnd::Done {
        record.borrow_mut().say("the audit did not end".into());
    }
    drop(owner);
    (record.take(), world.trace())
}

#[test]
fn readers_never_see_two_versions_at_once_whatever_breaks() {
    let seeds = std::env::var("BARN_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12);
    let mut total = Record::default();
    for seed in 1..=seeds {
        let (record, _) = run(seed, Duration::from_secs(2));
        assert_eq!(record.wrong, None, "seed {seed}");
        total.commits += record.commits;
        total.reads += record.reads;
        total.refused += record.refused;
        total.killed += record.killed;
    }
    let Record { commits, reads, refused, killed, .. } = total;
    println!(
        "{seeds} seeds: {commits} commits, {reads} reads, {refused} leases refused, {killed} writers killed"
    );
    assert!(commits > 10 * seeds && reads > 10 * seeds && killed > seeds, "too little happened: {total:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let once = || run(7, Duration::from_secs(1)).1;
    assert_eq!(once(), once());
}
