//! A node that holds objects and nothing else.

use crate::participant::Participant;
use barn_cluster::{Directory, Request as ClusterRequest, Response, wire};
use barn_fabric::{PeerId, Reply, Request, Service};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The method by which test nodes give their configuration.
pub const CONFIGURATION_METHOD: u16 = 8;

/// A node's service, whose state a test can look at.
#[derive(Clone, Debug)]
pub struct TestNode {
    /// The node's side of transactions.
    pub participant: Rc<RefCell<Participant>>,
    /// Its configuration.
    pub directory: Arc<Directory>,
}

impl Service for TestNode {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        if request.method != CONFIGURATION_METHOD {
            return self.participant.borrow_mut().call(request, reply);
        }
        let Ok(ClusterRequest::Get { known_version }) = wire::decode_request(request.body) else {
            return reply.refuse("this node only gives its configuration");
        };
        let configuration = self.directory.configuration();
        let version = configuration.version;
        let newer = (version > known_version).then(|| (*configuration).clone());
        reply.done(&wire::encode_response(&Response::Current { version, configuration: newer }));
    }

    fn message(&mut self, peer: PeerId, body: &[u8]) {
        self.participant.borrow_mut().message(peer, body);
    }

    fn gone(&mut self, peer: PeerId) {
        self.participant.borrow_mut().gone(peer);
    }
}
