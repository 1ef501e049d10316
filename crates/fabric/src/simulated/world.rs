//! The world: runs tasks and services one step at a time, in an order that the seed decides.
//!
//! What always holds: one thread; a task is polled only after it was woken, and at a time that
//! the seed chose; services and tasks run while nothing is locked, so they may use the world.

use super::NodeId;
use super::handle::Handle;
use super::net::{Effect, Net, Step, lock};
use super::options::WorldOptions;
use crate::registry::{PeerId, Registry};
use crate::service::{Outgoing, Reply, ReplySink, Request, Sender, Service};
use barn_layout::message::Status;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// What a node is started with, each time.
#[derive(Debug)]
pub struct Boot {
    /// The world, to start tasks in.
    pub world: Handle,
    /// The node.
    pub node: NodeId,
    /// Which of its lives this is, from 1.
    pub incarnation: u32,
    /// Its regions, none yet.
    pub registry: Registry,
    /// Sends messages to its peers.
    pub sender: Sender,
}

pub(super) type Factory = Box<dyn FnMut(Boot) -> Box<dyn Service>>;

struct TaskState {
    node: NodeId,
    background: bool,
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Waker,
    scheduled: bool,
}

/// The part of a world that stays in its thread.
#[derive(Default)]
pub(super) struct Local {
    tasks: RefCell<BTreeMap<u64, TaskState>>,
    next_task: RefCell<u64>,
    woken: Arc<Mutex<Vec<u64>>>,
    pub(super) services: RefCell<BTreeMap<NodeId, Box<dyn Service>>>,
    pub(super) factories: RefCell<BTreeMap<NodeId, Factory>>,
}

struct TaskWaker {
    task: u64,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(self.task);
    }
}

impl Local {
    pub(super) fn add_task(
        &self,
        node: NodeId,
        background: bool,
        future: Pin<Box<dyn Future<Output = ()>>>,
    ) -> u64 {
        let task = {
            let mut next = self.next_task.borrow_mut();
            *next += 1;
            *next
        };
        let waker: Waker = Arc::new(TaskWaker { task, woken: self.woken.clone() }).into();
        waker.wake_by_ref();
        let state = TaskState { node, background, future: Some(future), waker, scheduled: false };
        self.tasks.borrow_mut().insert(task, state);
        task
    }

    fn foreground(&self) -> bool {
        self.tasks.borrow().values().any(|task| !task.background)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Every task that is not in the background has ended.
    Done,
    /// The time is up.
    TimeUp,
    /// Tasks are left that nothing will ever wake.
    Stuck,
}

/// A simulated world: nodes, clients, a network, disks and time, all from one seed.
///
/// What can be done in it is on [`Handle`], which tasks and services can hold too.
pub struct World {
    handle: Handle,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "World({:?})", self.handle)
    }
}

impl Deref for World {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for World {
    /// Tasks and services hold the world; they go first.
    fn drop(&mut self) {
        let local = &self.handle.local;
        drop(std::mem::take(&mut *local.factories.borrow_mut()));
        let tasks = std::mem::take(&mut *local.tasks.borrow_mut());
        drop(tasks);
        let services = std::mem::take(&mut *local.services.borrow_mut());
        drop(services);
        let spawned = std::mem::take(&mut lock(&self.handle.shared).spawned);
        drop(spawned);
    }
}

/// Gathers a service's answers.
struct Answers(Vec<(u64, Status, Vec<u8>)>);

impl ReplySink for Answers {
    fn reply(&mut self, id: u64, status: Status, body: &[u8]) {
        self.0.push((id, status, body.to_vec()));
    }
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64, options: WorldOptions) -> Self {
        let shared = Arc::new(Mutex::new(Net::new(seed, options)));
        Self { handle: Handle { shared, local: Rc::default() } }
    }

    /// A handle for tasks to hold.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Runs until every foreground task has ended, for at most so much virtual time.
    pub fn run(&self, limit: Duration) -> RunEnd {
        let limit = {
            let net = lock(&self.handle.shared);
            net.now.saturating_add(super::link::nanos(limit))
        };
        loop {
            self.settle();
            if !self.handle.local.foreground() {
                return RunEnd::Done;
            }
            let step = lock(&self.handle.shared).step(limit);
            match step {
                Step::Done(effect) => self.carry_out(effect),
                Step::Later => return RunEnd::TimeUp,
                Step::Empty => return RunEnd::Stuck,
            }
        }
    }

    /// Lets so much virtual time pass, whether or not there are tasks.
    pub fn pass(&self, time: Duration) {
        let limit = {
            let net = lock(&self.handle.shared);
            net.now.saturating_add(super::link::nanos(time))
        };
        loop {
            self.settle();
            let step = lock(&self.handle.shared).step(limit);
            let Step::Done(effect) = step else { break };
            self.carry_out(effect);
        }
        lock(&self.handle.shared).now = limit;
    }

    /// Passes on what the last step left behind: new tasks, wakes, answers given later.
    fn settle(&self) {
        let local = &self.handle.local;
        let spawned = std::mem::take(&mut lock(&self.handle.shared).spawned);
        for (node, incarnation, task) in spawned {
            if self.handle.life(node) == (true, incarnation) {
                local.add_task(node, true, task);
            }
        }
        let mut net = lock(&self.handle.shared);
        let woken = std::mem::take(&mut *local.woken.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let mut tasks = local.tasks.borrow_mut();
        for task in woken {
            if let Some(state) = tasks.get_mut(&task)
                && !std::mem::replace(&mut state.scheduled, true)
            {
                net.schedule_poll(task);
            }
        }
        for node in 0..net.nodes.len() as u32 {
            let node = NodeId(node);
            for outgoing in net.node(node).outbox.clone().drain() {
                match outgoing {
                    Outgoing::Reply { peer, id, status, body } => {
                        net.answer_call(node, peer, id, status, body);
                    }
                    Outgoing::Message { peer, body } => net.push(node, peer, body),
                }
            }
        }
    }

    fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Poll(task) => self.poll(task),
            Effect::Joined { node, peer } => self.with_service(node, |service| service.joined(peer)),
            Effect::Gone { node, peer } => self.with_service(node, |service| service.gone(peer)),
            Effect::Message { node, peer, body } => {
                self.with_service(node, |service| service.message(peer, &body));
            }
            Effect::Idle(node) => self.with_service(node, |service| service.idle()),
            Effect::Call { node, peer, id, method, body } => self.call(node, peer, id, method, &body),
            Effect::Crashed(node) => self.bury(node),
            Effect::Restart(node) => self.handle.boot(node),
        }
    }

    fn with_service(&self, node: NodeId, call: impl FnOnce(&mut dyn Service)) {
        // Taken out while it runs, so that it may use the world.
        let Some(mut service) = self.handle.local.services.borrow_mut().remove(&node) else { return };
        call(&mut *service);
        self.handle.local.services.borrow_mut().insert(node, service);
    }

    fn call(&self, node: NodeId, peer: PeerId, id: u64, method: u16, body: &[u8]) {
        let outbox = lock(&self.handle.shared).node(node).outbox.clone();
        let mut answers = Answers(Vec::new());
        self.with_service(node, |service| {
            let reply = Reply::new(&mut answers, peer, id, &outbox);
            service.call(Request { peer, method, body }, reply);
        });
        let mut net = lock(&self.handle.shared);
        for (id, status, body) in answers.0 {
            net.answer_call(node, peer, id, status, body);
        }
    }

    fn poll(&self, task: u64) {
        let local = &self.handle.local;
        let (mut future, waker) = {
            let mut tasks = local.tasks.borrow_mut();
            let Some(state) = tasks.get_mut(&task) else { return };
            let mut net = lock(&self.handle.shared);
            let node = net.node(state.node);
            if node.paused.is_some() {
                node.stalled_polls.push(task);
                return;
            }
            state.scheduled = false;
            let Some(future) = state.future.take() else { return };
            (future, state.waker.clone())
        };
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut tasks = local.tasks.borrow_mut();
        match (polled, tasks.get_mut(&task)) {
            (Poll::Pending, Some(state)) => state.future = Some(future),
            _ => {
                let ended = tasks.remove(&task);
                drop(tasks);
                drop(ended);
            }
        }
    }

    /// A node has died: what ran on it is gone.
    fn bury(&self, node: NodeId) {
        let local = &self.handle.local;
        let dead: Vec<TaskState> = {
            let mut tasks = local.tasks.borrow_mut();
            let ids: Vec<u64> =
                tasks.iter().filter(|(_, task)| task.node == node).map(|(id, _)| *id).collect();
            ids.iter().filter_map(|id| tasks.remove(id)).collect()
        };
        drop(dead);
        let service = local.services.borrow_mut().remove(&node);
        drop(service);
    }
}
