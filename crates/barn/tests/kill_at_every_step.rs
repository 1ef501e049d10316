//! A client that is killed, or stopped past its lease and continued, at each step of a commit: no
//! lock outlives it for long, both objects show the same outcome, and what the client was told is
//! what is there.
#![forbid(unsafe_code)]

mod common;

use barn::{Barn, CommitError, CommitStep, Connect, Error, Observer, Pointer};
use common::locks::Watcher;
use common::{Cluster, LEASE, Process, SCHEDULING, end_with_parent, signal_self, tell, told, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ADDRESS: &str = "BARN_TEST_ADDRESS";
const OBJECTS: &str = "BARN_TEST_OBJECTS";
const STEP: &str = "BARN_TEST_STEP";
const SIGNAL: &str = "BARN_TEST_SIGNAL";
const VALUE: &str = "BARN_TEST_VALUE";

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// Signals its own process at a step of the first commit that comes by.
struct AtStep {
    step: String,
    signal: Signal,
    done: AtomicBool,
}

impl Observer for AtStep {
    fn at(&self, step: CommitStep) -> bool {
        // ORDER: Relaxed: one thread commits here.
        if format!("{step:?}") == self.step && !self.done.swap(true, Ordering::Relaxed) {
            signal_self(self.signal);
        }
        true
    }
}

/// Sets two objects, having perhaps read a third; says what it was told of the commit.
#[test]
#[ignore = "a process of the other tests"]
fn role_client() {
    let Some(address) = told(ADDRESS) else { return };
    end_with_parent();
    let signal = if told(SIGNAL).as_deref() == Some("kill") { Signal::KILL } else { Signal::STOP };
    let step = told(STEP).expect("a step");
    let observer = AtStep { step, signal, done: AtomicBool::new(false) };
    let barn = Connect::new().observer(Arc::new(observer)).to(&address).expect("the node lets us in");
    let value: u64 = told(VALUE).and_then(|value| value.parse().ok()).expect("a value");
    let mut tx = barn.begin();
    for (at, object) in told(OBJECTS).expect("objects").split(' ').enumerate() {
        let pointer: Pointer = object.parse().expect("a pointer");
        tx.read(pointer).expect("the object is there");
        if at < 2 {
            tx.write(pointer, &value.to_le_bytes()).expect("it takes a value");
        }
    }
    tell(&match tx.commit() {
        Ok(_) => "committed".to_string(),
        Err(Error::Commit(CommitError::Indeterminate)) => "unknown".to_string(),
        Err(error) => format!("not committed: {error}"),
    });
}

/// What the two objects hold in one moment: the same.
fn both(barn: &Barn, objects: &[Pointer]) -> u64 {
    let seen = barn.read_all(&objects[..2]).expect("both can be read");
    let values: Vec<u64> =
        seen.iter().map(|object| u64::from_le_bytes(object[..].try_into().expect("8 bytes"))).collect();
    assert_eq!(values[0], values[1], "half a transaction is visible");
    values[0]
}

/// Two objects on different nodes, and one more.
fn objects(barn: &Barn) -> Vec<Pointer> {
    let home = |pointer: &Pointer| barn.client().directory().primary(pointer.address.region());
    let mut made = vec![barn.alloc(&[0; 8]).expect("room for an object")];
    until("objects on two nodes", || {
        let next = barn.alloc(&[0; 8]).expect("room for an object");
        if home(&next) != home(&made[0]) {
            made.push(next);
        }
        made.len() == 2
    });
    made.push(barn.alloc(&[0; 8]).expect("room for an object"));
    made
}

#[test]
fn a_client_is_lost_at_every_step() {
    let cluster = Cluster::start(2);
    let barn = cluster.connect();
    let objects = objects(&barn);
    let mut watcher = Watcher::new(barn.client().directory().clone(), objects.clone());
    let (mut value, mut longest) = (0, Duration::ZERO);
    println!("step       signal  by   reads   then        told                     unlocked after");
    for step in CommitStep::ALL {
        for signal in ["kill", "stop"] {
            for (transport, address) in [("shm", &cluster.nodes[0].shm), ("tcp", &cluster.nodes[0].tcp)] {
                for reads in [2, 3] {
                    let before = value;
                    value += 1;
                    let case = format!("{step:?} {signal} {transport}, {reads} read");
                    let listed: Vec<String> = objects[..reads].iter().map(Pointer::to_string).collect();
                    let orders = [
                        (ADDRESS, address.clone()),
                        (OBJECTS, listed.join(" ")),
                        (STEP, format!("{step:?}")),
                        (SIGNAL, signal.to_string()),
                        (VALUE, value.to_string()),
                    ];
                    let mut client = Process::start("role_client", &orders);
                    until("the client is lost", || client.has_ended() || client.is_stopped());
                    let lost = Instant::now();
                    until("no lock is left", || watcher.look() == 0);
                    let unlocked = lost.elapsed();
                    assert!(unlocked < LEASE * 2 + SCHEDULING, "{case}: locked for {unlocked:?}");
                    longest = longest.max(unlocked);
                    if signal == "stop" {
                        // Past its lease, also where it held no lock.
                        std::thread::sleep((LEASE * 3 / 2).saturating_sub(unlocked));
                        assert_eq!(watcher.look(), 0, "{case}: locked again");
                    }
                    let now = both(&barn, &objects);
                    // Nobody is told before all nodes have decided, and nothing is lost after that.
                    let happened = matches!(step, CommitStep::Decided | CommitStep::Applied);
                    assert_eq!(now, if happened { value } else { before }, "{case}: another outcome");
                    let mut heard = "-".to_string();
                    if signal == "stop" {
                        client.go_on();
                        heard = client.line();
                        let right = if happened { "committed" } else { "not committed" };
                        assert!(heard.starts_with(right), "{case}: the client was told `{heard}`");
                        assert_eq!(both(&barn, &objects), now, "{case}: the outcome has changed");
                        assert_eq!(watcher.look(), 0, "{case}: a lock came back");
                    }
                    println!(
                        "{:<10} {signal:<7} {transport:<4} {reads:<7} {:<11} {:<24} {:>4} ms",
                        format!("{step:?}"),
                        if happened { "carried out" } else { "never was" },
                        heard.split(':').next().unwrap_or_default(),
                        unlocked.as_millis()
                    );
                    value = now;
                }
            }
        }
    }
    println!("longest until unlocked: {} ms, with a lease of {} ms", longest.as_millis(), LEASE.as_millis());
}
