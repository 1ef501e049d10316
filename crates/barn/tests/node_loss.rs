//! A node that is killed in the midst of others' commits, and one that is stopped past its lease
//! and continued: nothing half committed or stale is ever read, no lock stays, and whoever needs
//! the node's objects hears that it is gone.
//!
//! Three objects, one on each node, always hold the same number.
#![forbid(unsafe_code)]

mod common;

use barn::{Barn, ClientError, CommitError, CommitStep, Connect, Error, Observer, Pointer, RunOptions};
use common::locks::Watcher;
use common::{Cluster, LEASE, PATIENCE, Process, SCHEDULING, end_with_parent, tell, told, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// An object on each node, in the order of the nodes.
fn one_on_each(barn: &Barn, cluster: &Cluster) -> Vec<Pointer> {
    let home = |pointer: Pointer| barn.client().directory().primary(pointer.address.region());
    let mut found: Vec<Option<Pointer>> = vec![None; cluster.nodes.len()];
    until("an object on each node", || {
        let next = barn.alloc(&[0; 8]).expect("room for an object");
        let at = cluster.nodes.iter().position(|node| home(next).is_some_and(|id| id.0 == node.member));
        found[at.expect("a member holds it")].get_or_insert(next);
        found.iter().all(Option::is_some)
    });
    found.into_iter().flatten().collect()
}

/// Adds one to each object, in one transaction.
fn increment(barn: &Barn, objects: &[Pointer], limit: Duration) -> Result<(), Error> {
    barn.transaction_with(RunOptions { deadline: limit, ..RunOptions::default() }, |tx| {
        for object in objects {
            let next = number(tx.read(*object)?) + 1;
            tx.write(*object, &next.to_le_bytes())?;
        }
        Ok(())
    })
}

/// Threads that go on until they are told to stop.
struct Crew {
    stop: Arc<AtomicBool>,
    /// What they have done.
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Crew {
    fn new() -> Self {
        Self { stop: Arc::default(), done: Arc::default(), threads: Vec::new() }
    }

    /// Does something again and again, and counts how often it went well.
    fn add(&mut self, mut work: impl FnMut() -> bool + Send + 'static) {
        let (stop, done) = (self.stop.clone(), self.done.clone());
        self.threads.push(std::thread::spawn(move || {
            // ORDER: Relaxed, here and below: a flag and a counter that stand alone.
            while !stop.load(Ordering::Relaxed) {
                done.fetch_add(u64::from(work()), Ordering::Relaxed);
            }
        }));
    }

    fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until they have done so much more.
    fn goes_on(&self, what: &str, more: u64) {
        let goal = self.count() + more;
        until(what, || self.count() >= goal);
    }

    fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("nothing wrong was seen"));
        self.count()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A client whose operations end soon.
fn hurried(address: &str) -> Barn {
    Connect::new().deadline(LEASE * 2).to(address).expect("the node lets a client in")
}

#[test]
fn a_node_dies_in_the_midst_of_commits() {
    let mut cluster = Cluster::start(3);
    let barn = cluster.connect();
    let objects = one_on_each(&barn, &cluster);
    let (mut writers, mut survivors) = (Crew::new(), Crew::new());
    let addresses = [cluster.nodes[0].shm.clone(), cluster.nodes[0].tcp.clone()];
    for address in &addresses {
        let (client, objects) = (hurried(address), objects.clone());
        writers.add(move || increment(&client, &objects, LEASE).is_ok());
    }
    // Snapshots of what survives: both, or neither.
    for address in &addresses {
        let (client, objects) = (hurried(address), objects.clone());
        survivors.add(move || {
            let Ok(seen) = client.read_all(&objects[..2]) else { return false };
            assert_eq!(number(&seen[0]), number(&seen[1]), "half a transaction is visible");
            true
        });
    }
    writers.goes_on("transactions on three nodes", 200);
    cluster.nodes[2].process.kill();
    let died = Instant::now();

    // Whoever needs its objects hears so, and soon.
    let told = hurried(&addresses[0]).read(objects[2]).expect_err("its memory is gone");
    let is_clear = |error: &Error| {
        let gone = |error: &ClientError| {
            matches!(error, ClientError::Unreachable { .. } | ClientError::NoRegion { .. })
        };
        matches!(error, Error::Client(error) | Error::Commit(CommitError::Failed(error)) if gone(error))
    };
    assert!(is_clear(&told), "a read of a lost object says `{told}`");
    until("a commit at the lost node is refused for what it is", || {
        let told = increment(&barn, &objects, LEASE).expect_err("one of three is gone");
        is_clear(&told)
    });

    let mut watcher = Watcher::new(barn.client().directory().clone(), objects[..2].to_vec());
    let is_settled = || {
        let configuration = barn.client().directory().configuration();
        configuration.members.len() == 2
    };
    until("the cluster does without it", is_settled);
    let expelled = died.elapsed();
    // The writers still lock the survivors' objects, for moments; what the dead node held up ends.
    writers.end();
    until("what it held up is ended", || watcher.look() == 0);
    let unlocked = died.elapsed();
    // Its lease, a lease for everybody to know, and the resolver's round.
    assert!(unlocked < LEASE * 4 + SCHEDULING, "locked for {unlocked:?} after the node's death");
    assert_eq!(watcher.look(), 0, "a lock came back");

    // The others go on, with one who has been there all along and with one who comes now.
    for client in [&barn, &hurried(&addresses[1])] {
        for _ in 0..20 {
            increment(client, &objects[..2], LEASE * 10).expect("two nodes are enough for their objects");
        }
        client.alloc(&[0; 8]).expect("there is room on the others");
    }
    survivors.goes_on("snapshots of the survivors", 20);
    let snapshots = survivors.end();
    println!(
        "a node died: expelled after {} ms, nothing locked after {} ms, {snapshots} snapshots right",
        expelled.as_millis(),
        unlocked.as_millis()
    );
}

/// Stops a node when a commit has come to a step, once for each time it is armed.
struct StopsNode {
    armed: AtomicBool,
    step: CommitStep,
    stop: Box<dyn Fn() + Send + Sync>,
}

impl Observer for StopsNode {
    fn at(&self, step: CommitStep) -> bool {
        // ORDER: Relaxed: a flag that stands alone.
        if step == self.step && self.armed.swap(false, Ordering::Relaxed) {
            (self.stop)();
        }
        true
    }
}

const NODE: &str = "BARN_TEST_NODE";
const OBJECTS: &str = "BARN_TEST_OBJECTS";

/// A client that prepares a transaction, and says so; it is to be killed then.
#[test]
#[ignore = "a process of the other tests"]
fn role_prepares() {
    let (Some(node), Some(objects)) = (told(NODE), told(OBJECTS)) else { return };
    end_with_parent();
    let observer = StopsNode {
        armed: AtomicBool::new(true),
        step: CommitStep::Prepared,
        stop: Box::new(|| {
            tell("prepared");
            std::thread::sleep(PATIENCE);
        }),
    };
    let connect = Connect::new().deadline(PATIENCE).observer(Arc::new(observer));
    let client = connect.to(&node).expect("the node lets a client in");
    let objects: Vec<Pointer> = objects.split(' ').map(|object| object.parse().expect("a pointer")).collect();
    let _ = increment(&client, &objects, PATIENCE);
}

/// A client's end and a node's at once, as when the machine of both stands still: what the client has
/// left cannot be ended without the node, and asking that one must not keep the cluster from seeing that
/// its lease ends.
#[test]
fn a_node_stands_still_with_a_lost_transaction_and_is_expelled_all_the_same() {
    let cluster = Cluster::start(2);
    let barn = cluster.connect();
    let objects = one_on_each(&barn, &cluster);
    let named: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let orders = [(NODE, cluster.nodes[0].shm.clone()), (OBJECTS, named.join(" "))];
    let mut client = Process::start("role_prepares", &orders);
    assert_eq!(client.line(), "prepared");
    cluster.nodes[1].process.stop();
    client.kill();
    // Whoever comes is told who is there. Seldom: to be asked reminds the cluster of the time, too.
    until("the cluster does without it", || {
        std::thread::sleep(LEASE * 2);
        cluster.connect().client().directory().configuration().members.len() == 1
    });
    let mut watcher = Watcher::new(barn.client().directory().clone(), objects[..1].to_vec());
    until("what it held up is ended", || watcher.look() == 0);
    cluster.nodes[1].process.go_on();
    until("the node is back, and all can be changed", || increment(&barn, &objects, LEASE).is_ok());
}

#[test]
fn a_node_is_stopped_past_its_lease_and_continued() {
    let cluster = Arc::new(Cluster::start(3));
    let barn = cluster.connect();
    let objects = one_on_each(&barn, &cluster);
    let mut readers = Crew::new();
    for address in [&cluster.nodes[0].shm, &cluster.nodes[0].tcp, &cluster.nodes[1].shm] {
        let (client, objects) = (hurried(address), objects.clone());
        let mut last = 0;
        readers.add(move || {
            if let Ok(seen) = client.read_all(&objects) {
                let all: Vec<u64> = seen.iter().map(|object| number(object)).collect();
                assert!(all.iter().all(|one| *one == all[0]), "half a transaction is visible: {all:?}");
                assert!(all[0] >= last, "a stale snapshot: {} after {last}", all[0]);
                last = all[0];
            }
            // One after another, each alone: none is older than what was seen before it.
            let mut went_well = false;
            for object in &objects {
                let Ok(seen) = client.read(*object) else { continue };
                assert!(number(&seen) >= last, "a stale read: {} after {last}", number(&seen));
                last = number(&seen);
                went_well = true;
            }
            went_well
        });
    }
    let (mut told, mut resumed) = (Vec::new(), Duration::ZERO);
    for round in 0..12 {
        let step = [CommitStep::Validated, CommitStep::Prepared, CommitStep::Decided][round % 3];
        let stopped = cluster.clone();
        let stops = StopsNode {
            armed: AtomicBool::new(true),
            step,
            stop: Box::new(move || stopped.nodes[2].process.stop()),
        };
        let connect = Connect::new().deadline(LEASE * 4).observer(Arc::new(stops));
        let writer = connect.to(&cluster.nodes[round % 2].shm).expect("the node lets a client in");
        let before = number(&barn.read(objects[0]).expect("the first object is there"));
        let mut tx = writer.begin();
        for object in &objects {
            tx.read(*object).expect("all are there");
            tx.write(*object, &(before + 1).to_le_bytes()).expect("they take numbers");
        }
        let outcome = tx.commit();
        // Past its lease, and past the lease after that, by which others decide without it.
        std::thread::sleep(LEASE * 3);
        cluster.nodes[2].process.go_on();
        let since = Instant::now();
        until("the node is back, and all can be changed", || increment(&barn, &objects, LEASE).is_ok());
        resumed = resumed.max(since.elapsed());
        let after = number(&barn.read(objects[0]).expect("the first object is there"));
        match &outcome {
            Ok(_) => assert!(after >= before + 2, "a transaction that was told committed is lost"),
            Err(Error::Commit(CommitError::Indeterminate)) => {}
            Err(_) => assert!(after > before, "a transaction is lost"),
        }
        told.push(format!(
            "{step:?}: {}",
            outcome.map_or_else(|error| error.to_string(), |_| "committed".into())
        ));
    }
    readers.goes_on("reads after all that", 50);
    let mut watcher = Watcher::new(barn.client().directory().clone(), objects.clone());
    until("nothing is locked", || watcher.look() == 0);
    let seen = barn.read_all(&objects).expect("all can be read");
    assert!(seen.iter().all(|object| number(object) == number(&seen[0])), "half a transaction is there");
    let reads = readers.end();
    told.sort_unstable();
    told.dedup();
    println!(
        "a node stood still 12 times: usable {} ms after it went on at the latest, {reads} reads right",
        resumed.as_millis()
    );
    told.iter().for_each(|told| println!("  {told}"));
}
