//! Memory is given another shape while somebody may be reading it: the client's count of its
//! operations, the node's sessions and the heap's quarantine together (FaRM section 3.5).

use super::activity::{Activity, Epochs};
use super::node::{LEASE, Node, Place, Update};
use barn_fabric::seam::Clock;
use barn_layout::transaction::{Change, PREPARE_ALONE, Renew, Renewed, TransactionId, Verdict};
use barn_transaction::wire::Method;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool as Point, Ordering};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Two sizes, and how many of each are asked for side by side: three of the one do not fit where two
/// of the other do, so that the block has to be divided anew each time.
const SIZES: [(u32, u32); 2] = [(342_000, 3), (515_000, 1)];
/// The peer that makes and frees objects; readers' numbers follow.
const WRITER: u64 = 1;
/// Schedules that share a node.
const SCHEDULES_PER_NODE: usize = 4096;
/// Words that a read takes: enough for everybody else to come to the end meanwhile.
const WORDS: usize = 12;

/// A node whose only block has the shape of one size and holds one object.
struct Memory {
    node: Node,
    place: Place,
    /// Which of [`SIZES`] the block is divided for.
    size: usize,
    schedules: u64,
    number: u64,
}

impl Memory {
    fn new() -> Self {
        let node = Node::new(0);
        node.hello(WRITER, 0);
        let place = node.reserve(WRITER, SIZES[0].0, SIZES[0].1).expect("an empty heap has room");
        let mut memory = Self { node, place, size: 0, schedules: 0, number: 0 };
        memory.change(place, 0, Change::Create);
        memory
    }

    fn change(&mut self, place: Place, version: u64, change: Change) {
        self.number += 1;
        let id = TransactionId { session: WRITER.into(), number: self.number.into() };
        let body: &[u8] = if change == Change::Create { &[7; 16] } else { &[] };
        let update = Update { place, version, change, body };
        assert_eq!(self.node.prepare(id, &[0], PREPARE_ALONE, &[update]), Verdict::Yes);
    }
}

/// What the threads of one schedule share.
struct Run {
    memory: Mutex<Memory>,
    activity: Activity,
    reader: u64,
    /// Whether the object can be found.
    linked: AtomicBool,
    /// Until when the client may believe what it reads, in nanoseconds.
    valid_until: AtomicU64,
    /// Where the scheduler chooses.
    point: Point,
}

impl Run {
    fn point(&self) {
        // ORDER: SeqCst: shuttle knows no other.
        self.point.load(Ordering::SeqCst);
    }

    fn memory<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.memory.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Operations of the client: each finds the object, and reads it word by word. One that is
    /// stuck never ends.
    fn read(&self, operations: usize, stuck: bool) {
        for _ in 0..operations {
            let guard = self.activity.enter();
            self.point();
            // ORDER: Relaxed, here and below: one thread at a time runs.
            if self.linked.load(Ordering::Relaxed) {
                let (place, capacity) = self.memory(|memory| {
                    let capacity = memory.node.lock().heap().capacity(memory.place.address);
                    (memory.place, capacity.expect("an object that can be found"))
                });
                for _ in 0..WORDS {
                    self.point();
                    if stuck {
                        return;
                    }
                    let (now, shape) = self.memory(|memory| {
                        let shape = memory.node.lock().heap().capacity(place.address);
                        (memory.node.clock.now().as_nanos() as u64, shape)
                    });
                    // After the bytes, in this order.
                    let doomed = self.activity.is_doomed(&guard);
                    if doomed || now >= self.valid_until.load(Ordering::Relaxed) {
                        break;
                    }
                    let same = shape.map_or(true, |shape| shape == capacity);
                    assert!(same, "the block has another shape while it is read");
                }
            }
            self.activity.leave(&guard);
        }
    }

    /// One round of the client's keeper.
    fn keep(&self, epochs: &mut Epochs, dooms: bool) -> bool {
        let generation = self.activity.advance();
        if dooms {
            self.activity.doom_before(generation);
        }
        let renew = Renew { session: self.reader.into(), epoch: epochs.leave(&self.activity).into() };
        self.point();
        let (asked, answer) = self.memory(|memory| {
            let asked = memory.node.clock.now();
            (asked, memory.node.ask(self.reader, Method::Renew, renew.as_bytes()))
        });
        // The answer is under way.
        self.point();
        let Ok(answer) = answer else { return false };
        let until = (asked + LEASE).as_nanos() as u64;
        self.valid_until.fetch_max(until, Ordering::Relaxed);
        let renewed = Renewed::ref_from_bytes(&answer).expect("a renewal");
        epochs.heard(renewed.epoch.get(), generation);
        true
    }

    /// The object goes, and the writer wants the block for another size.
    fn reuse(&self, rounds: usize, time: Duration) {
        self.point();
        self.linked.store(false, Ordering::Relaxed);
        self.point();
        self.memory(|memory| {
            let version = memory.node.word(memory.place).version();
            memory.change(memory.place, version, Change::Free);
        });
        for _ in 0..rounds {
            self.point();
            if self.memory(|memory| try_reuse(memory, time)) {
                return;
            }
        }
    }
}

/// Asks for a place of the other size, and makes the object there; otherwise the node's round.
fn try_reuse(memory: &mut Memory, time: Duration) -> bool {
    let (bytes, count) = SIZES[1 - memory.size];
    if let Some(place) = memory.node.reserve(WRITER, bytes, count) {
        memory.change(place, 0, Change::Create);
        (memory.place, memory.size) = (place, 1 - memory.size);
        return true;
    }
    memory.node.clock.pass(time);
    // The writer lives, and reads nothing.
    let renew = Renew { session: WRITER.into(), epoch: u64::MAX.into() };
    memory.node.ask(WRITER, Method::Renew, renew.as_bytes()).expect("a session that is renewed in time");
    memory.node.lock().tick();
    false
}

/// A model whose node is used again by its schedules.
pub(crate) fn model() -> impl Fn() + Send + Sync + 'static {
    let kept: Mutex<Option<Memory>> = Mutex::new(None);
    move || {
        let known = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        let known = known.filter(|known| known.schedules < SCHEDULES_PER_NODE as u64);
        let mut memory = known.unwrap_or_else(Memory::new);
        memory.schedules += 1;
        let (reader, size, epoch) =
            (WRITER + memory.schedules, memory.size, memory.node.lock().heap().epoch());
        memory.node.hello(reader, 0);
        let valid_until = AtomicU64::new((memory.node.clock.now() + LEASE).as_nanos() as u64);
        let run = Arc::new(Run {
            memory: Mutex::new(memory),
            activity: Activity::default(),
            reader,
            linked: AtomicBool::new(true),
            valid_until,
            point: Point::new(false),
        });
        let chance = |of: u32| thread_rng().gen_range(0..of) == 0;
        // Sometimes the client's process stops: its keeper does no more, and perhaps a read neither.
        let (stuck, dooms, keeper_rounds) = (chance(4), chance(4), thread_rng().gen_range(0..8usize));
        let time = if chance(2) { Duration::ZERO } else { LEASE * 2 / 5 };
        let reading = run.clone();
        let reading = shuttle::thread::spawn(move || reading.read(2, stuck));
        let keeping = run.clone();
        let keeping = shuttle::thread::spawn(move || {
            let mut epochs = Epochs::new(epoch);
            for _ in 0..keeper_rounds {
                if !keeping.keep(&mut epochs, dooms) {
                    break;
                }
            }
        });
        run.reuse(8, time);
        reading.join().expect("a thread that panics ends the schedule");
        keeping.join().expect("a thread that panics ends the schedule");
        // A client that is gone holds memory for a lease, and no longer.
        for _ in 0..6 {
            if run.memory(|memory| memory.size != size || try_reuse(memory, LEASE * 2 / 5)) {
                break;
            }
        }
        run.memory(|memory| {
            assert_ne!(memory.size, size, "memory waits for a client whose lease is over");
            memory.node.clock.pass(LEASE * 2);
            let renew = Renew { session: WRITER.into(), epoch: u64::MAX.into() };
            memory.node.ask(WRITER, Method::Renew, renew.as_bytes()).expect("renewed before the node looks");
            memory.node.lock().tick();
        });
        if let Ok(run) = Arc::try_unwrap(run) {
            let memory = run.memory.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
            *kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(memory);
        }
    }
}
