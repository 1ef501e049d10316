//! What a node's process answers for itself: one method, one arm.

use crate::activity::Activity;
use crate::method::Method;
use crate::status::{PurposeStatus, Status};
use barn::node::{NodeView, Rest};
use barn_fabric::{Reply, Request};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The methods of the process.
pub(crate) struct ProcessService {
    status: Arc<Mutex<Status>>,
    started: Instant,
}

impl ProcessService {
    pub(crate) fn new(status: Arc<Mutex<Status>>) -> Self {
        Self { status, started: Instant::now() }
    }

    fn status(&self, node: &NodeView) -> Status {
        let mut status = self.status.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).now();
        status.peers = node.peers;
        status.transactions = node.transactions.alone + node.transactions.applied;
        if let Some(usage) = &node.usage {
            status.memory = PurposeStatus::all(usage);
        }
        status.memory.extend(PurposeStatus::spaces(&node.spaces));
        // The coordinator knows of members and tables before its own node has heard of them.
        status.learn(&node.configuration);
        status.activity = Activity::of(node, self.started.elapsed().as_millis() as u64);
        status
    }
}

impl Rest for ProcessService {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>, node: &dyn Fn() -> NodeView) {
        match Method::from_bits(request.method) {
            Some(Method::Ping) => reply.done(&[]),
            Some(Method::Echo) => reply.done(request.body),
            Some(Method::Status) => match serde_json::to_vec(&self.status(&node())) {
                Ok(status) => reply.done(&status),
                Err(error) => reply.refuse(&error.to_string()),
            },
            None => reply.unknown_method(),
        }
    }
}
