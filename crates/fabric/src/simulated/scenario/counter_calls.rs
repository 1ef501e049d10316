//! Clients call a counter on a node that crashes, restarts, pauses and is cut off.
//!
//! Checked: every acknowledged increment was counted exactly once, in the life of the node that
//! acknowledged it, with the value that was given; every reply answers its own request; no call
//! outlives its deadline; one-way messages arrive at most once and in order, both ways.

use super::{Checker, Report, options, up_to};
use crate::connection::Connection;
use crate::error::CallError;
use crate::registry::PeerId;
use crate::seam::{Random, Seeded};
use crate::service::{Deferred, Sender};
use crate::simulated::{Boot, FaultPlan, Handle, NodeId, RunEnd, World};
use crate::{Reply, Request, Service};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const CLIENTS: u64 = 3;
const CALLS_PER_CLIENT: u64 = 30;
const INCREMENT: u16 = 1;

/// Which request: the client and its count.
type Id = (u64, u64);

/// What an observer outside the world has seen the node do, life by life.
#[derive(Default)]
struct Seen {
    increments: BTreeMap<u32, Vec<Id>>,
}

struct Counter {
    incarnation: u32,
    seen: Rc<RefCell<Seen>>,
    checker: Checker,
    random: Seeded,
    world: Handle,
    node: NodeId,
    sender: Sender,
    pushed: BTreeMap<PeerId, u64>,
    told: BTreeMap<PeerId, u64>,
}

fn pack(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn unpack<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    if bytes.len() != N * 8 {
        return None;
    }
    for (number, chunk) in numbers.iter_mut().zip(bytes.chunks(8)) {
        *number = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    Some(numbers)
}

async fn answer_later(world: Handle, delay: Duration, reply: Deferred, body: Vec<u8>) {
    world.sleep(delay).await;
    reply.done(body);
}

impl Service for Counter {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        let Some([client, count]) = unpack(request.body).filter(|_| request.method == INCREMENT) else {
            return reply.unknown_method();
        };
        let value = {
            let mut seen = self.seen.borrow_mut();
            let increments = seen.increments.entry(self.incarnation).or_default();
            increments.push((client, count));
            increments.len() as u64
        };
        let body = pack(&[client, count, u64::from(self.incarnation), value]);
        match self.random.below(3) {
            0 => {
                let delay = up_to(&mut self.random, 300);
                let later = answer_later(self.world.clone(), delay, reply.later(), body);
                self.world.spawn_background(self.node, later);
            }
            _ => reply.done(&body),
        }
        let pushed = self.pushed.entry(request.peer).or_default();
        *pushed += 1;
        self.sender.send(request.peer, pack(&[*pushed]));
    }

    fn message(&mut self, peer: PeerId, body: &[u8]) {
        let told = self.told.entry(peer).or_default();
        let [number] = unpack(body).unwrap_or_default();
        self.checker
            .check(number == *told + 1, || format!("message {number} of {peer} came after message {told}"));
        *told = number;
    }

    fn gone(&mut self, peer: PeerId) {
        self.pushed.remove(&peer);
        self.told.remove(&peer);
    }
}

/// One client: calls, several at a time, over a connection that it makes anew when it breaks.
struct Client {
    world: Handle,
    me: NodeId,
    number: u64,
    seen: Rc<RefCell<Seen>>,
    checker: Checker,
}

impl Client {
    async fn call(&self, connection: &Connection, deadline: Duration, count: u64) -> Result<(), CallError> {
        let (start, paused) = (self.world.now(), self.world.paused(self.me));
        let mut reply = Vec::new();
        let called = connection.call(INCREMENT, &pack(&[self.number, count]), &mut reply).await;
        let took = self.world.now() - start;
        let (stopped, pauses) = self.world.paused(self.me);
        // 60 µs: the longest that a task that was woken waits for a CPU here, and a little; it
        // waits again after each pause.
        let most = deadline + (stopped - paused.0) + Duration::from_micros(60) * (1 + pauses - paused.1);
        self.checker.check(took <= most, || {
            format!("a call of client {} took {took:?} with a deadline of {deadline:?}", self.number)
        });
        if called.is_ok() {
            self.check_reply(&reply, count);
        }
        called
    }

    fn check_reply(&self, reply: &[u8], count: u64) {
        let asked = (self.number, count);
        let Some([client, answered, incarnation, value]) = unpack(reply) else {
            return self.checker.fail(|| format!("request {asked:?} got a reply of {} bytes", reply.len()));
        };
        self.checker.check((client, answered) == asked, || {
            format!("request {asked:?} got the reply to request {:?}", (client, answered))
        });
        let seen = self.seen.borrow();
        let increments = seen.increments.get(&(incarnation as u32)).map_or(&[][..], |all| all);
        let counted = value.checked_sub(1).and_then(|at| increments.get(at as usize));
        self.checker.check(counted == Some(&asked), || {
            format!("increment {asked:?} was acknowledged as number {value} of life {incarnation}, which is {counted:?}")
        });
        self.checker.count();
    }

    async fn run(self, node: NodeId, deadline: Duration) {
        let client = Rc::new(self);
        let mut random = client.world.random(&format!("client {}", client.number));
        let mut count = 0;
        while count < CALLS_PER_CLIENT && !client.checker.failed() {
            let Ok(connection) = client.world.connect_within(client.me, node, deadline).await else {
                client.world.sleep(up_to(&mut random, 500)).await;
                continue;
            };
            client.world.spawn_background(client.me, listen(connection.clone(), client.checker.clone()));
            let mut told = 0;
            while count < CALLS_PER_CLIENT && connection.is_open() {
                // A second call at the same time, from a task of its own.
                if random.below(2) == 0 {
                    count += 1;
                    let (other, connection, number) = (client.clone(), connection.clone(), count);
                    let beside = async move { drop(other.call(&connection, deadline, number).await) };
                    client.world.spawn(client.me, beside);
                }
                count += 1;
                let _ = client.call(&connection, deadline, count).await;
                told += 1;
                if connection.send(&pack(&[told])).await.is_err() {
                    break;
                }
                client.world.sleep(up_to(&mut random, 50)).await;
            }
        }
    }
}

/// Takes what the node sends by itself, until the connection ends.
async fn listen(connection: Connection, checker: Checker) {
    let (mut last, mut body) = (0, Vec::new());
    loop {
        match connection.receive(&mut body).await {
            Ok(()) => {
                let [number] = unpack(&body).unwrap_or_default();
                checker
                    .check(number == last + 1, || format!("the node's message {number} came after {last}"));
                last = number;
            }
            Err(CallError::Deadline) if connection.is_open() => {}
            Err(_) => return,
        }
    }
}

/// Runs it.
pub fn run(seed: u64) -> Report {
    let mut random = Seeded::new(seed ^ 0x0002);
    let options = options(&mut random, FaultPlan::all);
    let deadline = options.deadline;
    let world = World::new(seed, options);
    let (seen, checker): (Rc<RefCell<Seen>>, Checker) = Default::default();
    let (boots_seen, boots_checker) = (seen.clone(), checker.clone());
    let node = world.start_restartable("counter", move |boot: Boot| {
        Box::new(Counter {
            incarnation: boot.incarnation,
            seen: boots_seen.clone(),
            checker: boots_checker.clone(),
            random: boot.world.random(&format!("counter {}", boot.incarnation)),
            node: boot.node,
            sender: boot.sender,
            world: boot.world,
            pushed: BTreeMap::new(),
            told: BTreeMap::new(),
        })
    });
    for number in 0..CLIENTS {
        let me = world.start_client(&format!("client {number}"));
        let (seen, checker) = (seen.clone(), checker.clone());
        let client = Client { world: world.handle(), me, number, seen, checker };
        world.spawn(me, client.run(node, deadline));
    }
    let end = world.run(Duration::from_secs(60));
    checker.check(end == RunEnd::Done, || format!("a call hangs: {end:?}"));
    let mut times: BTreeMap<Id, u32> = BTreeMap::new();
    seen.borrow().increments.values().flatten().for_each(|id| *times.entry(*id).or_default() += 1);
    for (id, times) in times {
        checker.check(times == 1, || format!("increment {id:?} was sent once and counted {times} times"));
    }
    checker.report("counter-calls", &world)
}
