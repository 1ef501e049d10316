//! The harness of the simulated transport: one thread, one seed, virtual time.
//!
//! The case itself stands outside the world and drives it: whenever the case has nothing to do,
//! the world runs until something wakes the case.

use super::{Boxed, Harness, Job, Methods, Pause, Style};
use crate::error::ConnectError;
use crate::region::{Region, Rights};
use crate::seam::Schedule;
use crate::simulated::{NodeId, RunEnd, World, WorldOptions, region};
use crate::{Connection, Registry, Sender};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Far more virtual time than any case has waits for.
const CASE_TIME_MAX: Duration = Duration::from_secs(3_600);
/// What a pause lasts: about as long as one operation.
const PAUSE: Duration = Duration::from_micros(2);

/// A harness over a simulated world.
#[derive(Debug)]
pub struct Simulated {
    world: World,
    client: NodeId,
    nodes: RefCell<HashMap<u32, Site>>,
}

#[derive(Debug)]
struct Site {
    id: NodeId,
    /// The service of the node's next life.
    service: Rc<RefCell<Methods>>,
}

impl Simulated {
    /// A harness over the world of `seed`, in which nothing breaks by itself.
    pub fn new(seed: u64) -> Self {
        let world = World::new(seed, WorldOptions::default());
        let client = world.start_client("client");
        Self { world, client, nodes: RefCell::default() }
    }

    fn id(&self, node: u32) -> NodeId {
        let mut nodes = self.nodes.borrow_mut();
        let nobody = || Site { id: self.world.start_client("nobody"), service: Rc::default() };
        nodes.entry(node).or_insert_with(nobody).id
    }
}

/// Wakes the case, which is no task of the world: the task that stands for it ends.
#[derive(Default)]
struct Door {
    state: Mutex<(bool, Option<Waker>)>,
}

impl Door {
    fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if std::mem::take(&mut state.0) {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Wake for Door {
    fn wake(self: Arc<Self>) {
        let waker = {
            let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Harness for Simulated {
    fn name(&self) -> String {
        "simulated".to_string()
    }

    fn region(&self, bytes: u64, remote: Rights) -> Region {
        region(bytes as usize, remote)
    }

    fn start(&self, node: u32, service: Methods) -> Registry {
        let known = self.nodes.borrow().get(&node).map(|site| (site.id, site.service.clone()));
        let id = match known {
            Some((id, slot)) => {
                *slot.borrow_mut() = service;
                self.world.restart(id);
                id
            }
            None => {
                let slot = Rc::new(RefCell::new(service));
                let next = slot.clone();
                let name = format!("node-{node}");
                let id = self.world.start_restartable(&name, move |_| Box::new(next.borrow().clone()));
                self.nodes.borrow_mut().insert(node, Site { id, service: slot });
                id
            }
        };
        self.world.pass(Duration::from_nanos(1));
        self.world.registry_of(id)
    }

    fn stop(&self, node: u32) {
        self.world.kill(self.id(node));
        self.world.pass(Duration::from_nanos(1));
    }

    fn sender(&self, node: u32) -> Sender {
        self.world.sender(self.id(node))
    }

    fn peers(&self, node: u32) -> u64 {
        self.world.peers(self.id(node)) as u64
    }

    fn connect(&self, node: u32, deadline: Duration) -> Boxed<'static, Result<Connection, ConnectError>> {
        Box::pin(self.world.connect_within(self.client, self.id(node), deadline))
    }

    fn sleep(&self, time: Duration) -> Boxed<'static, ()> {
        Box::pin(self.world.sleep(time))
    }

    fn pause(&self) -> Pause {
        let scheduler = self.world.scheduler(self.client);
        Arc::new(move || scheduler.sleep(PAUSE))
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn parallel(&self, _style: Style, jobs: Vec<Job>) -> Boxed<'_, ()> {
        let left = Arc::new(Mutex::new((jobs.len(), None::<Waker>)));
        for job in jobs {
            let (task, left) = (job(), left.clone());
            self.world.spawn_background(self.client, async move {
                task.await;
                let mut left = left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                left.0 -= 1;
                left.1.take().into_iter().for_each(Waker::wake);
            });
        }
        Box::pin(std::future::poll_fn(move |cx| {
            let mut left = left.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            left.1 = Some(cx.waker().clone());
            if left.0 == 0 { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    fn run(&self, mut case: Boxed<'_, ()>) {
        let door = Arc::new(Door::default());
        let waker = door.clone().into();
        while case.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            let woken = door.clone();
            self.world.spawn(self.client, std::future::poll_fn(move |cx| woken.poll(cx)));
            let end = self.world.run(CASE_TIME_MAX);
            assert_eq!(end, RunEnd::Done, "nothing wakes the case; {:?}", self.world.handle());
        }
    }
}
