//! The node's service: one method, one arm.

use crate::method::Method;
use crate::status::Status;
use barn_fabric::{NodeStats, Reply, Request, Service};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a node answers.
#[derive(Debug)]
pub(crate) struct NodeService {
    status: Status,
    stats: Arc<NodeStats>,
}

impl NodeService {
    pub(crate) fn new(status: Status, stats: Arc<NodeStats>) -> Self {
        Self { status, stats }
    }

    pub(crate) fn status(&self) -> Status {
        Status { peers: self.stats.peers.load(Ordering::Relaxed), ..self.status.clone() }
    }
}

impl Service for NodeService {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match Method::from_bits(request.method) {
            Some(Method::Ping) => reply.done(&[]),
            Some(Method::Echo) => reply.done(request.body),
            Some(Method::Status) => match serde_json::to_vec(&self.status()) {
                Ok(status) => reply.done(&status),
                Err(error) => reply.refuse(&error.to_string()),
            },
            None => reply.unknown_method(),
        }
    }
}
