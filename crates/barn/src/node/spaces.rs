//! A node's part in spaces, on its poll loop: the master, where it coordinates the cluster, and the gate to
//! its chunks. Its keeper has a thread of its own.
//!
//! What always holds: nothing here waits; an answer that comes later goes to whoever asked, once.

use barn_cluster::Configuration;
use barn_fabric::seam::Random;
use barn_fabric::{Deferred, PeerId, Reply, Request};
use barn_layout::space::Method;
use barn_space::keeper::{ChunkCounts, ChunkUsage, Gate};
use barn_space::master::{Answer, Master, MasterOptions, Ticket};
use barn_space::message::{Refusal, Response};
use barn_space::wire;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A node's part in spaces.
pub(super) struct SpaceService {
    gate: Arc<Gate>,
    counts: Arc<ChunkCounts>,
    master: Option<Master>,
    /// Who waits for an answer of the master.
    waiting: HashMap<Ticket, Deferred>,
}

/// Numbers that nobody can guess.
struct Unpredictable;

impl Random for Unpredictable {
    fn next(&mut self) -> u64 {
        super::random()
    }
}

impl SpaceService {
    /// With a master whose sessions have this lease, if the node coordinates its cluster.
    pub(super) fn new(gate: Arc<Gate>, counts: Arc<ChunkCounts>, lease: Option<Duration>) -> Self {
        let master = lease.map(|lease| {
            Master::new(MasterOptions { lease, ..MasterOptions::default() }, Box::new(Unpredictable))
        });
        Self { gate, counts, master, waiting: HashMap::new() }
    }

    /// What the node's chunks come to.
    pub(super) fn usage(&self) -> ChunkUsage {
        self.counts.now()
    }

    /// Answers a request about spaces.
    pub(super) fn call(&mut self, now: Duration, request: Request<'_>, reply: Reply<'_>) {
        match Method::from_bits(request.method) {
            Some(Method::Enter) => match self.gate.enter(request.peer, request.body) {
                Ok(()) => reply.done(&[]),
                Err(error) => reply.refuse(&error.to_string()),
            },
            Some(Method::Master) => self.master(now, request, reply),
            None => reply.unknown_method(),
        }
    }

    fn master(&mut self, now: Duration, request: Request<'_>, reply: Reply<'_>) {
        let refuse = |refusal| wire::encode_response(&Response::Refused(refusal));
        let Some(master) = &mut self.master else { return reply.done(&refuse(Refusal::NotMaster)) };
        match wire::decode_request(request.body) {
            Err(error) => return reply.refuse(&error.to_string()),
            Ok(asked) => match master.handle(now, request.peer.0, asked) {
                Answer::Now(response) => reply.done(&wire::encode_response(&response)),
                Answer::Later(ticket) => drop(self.waiting.insert(ticket, reply.later())),
            },
        }
        self.answer();
    }

    /// Gives the answers that have become due.
    fn answer(&mut self) {
        let Some(master) = &mut self.master else { return };
        for (ticket, response) in master.take_answers() {
            if let Some(deferred) = self.waiting.remove(&ticket) {
                deferred.done(wire::encode_response(&response));
            }
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Duration, configuration: &Configuration) {
        if let Some(master) = &mut self.master {
            master.tick(now, configuration);
            self.answer();
        }
    }

    /// A peer is gone.
    pub(super) fn gone(&mut self, peer: PeerId) {
        if let Some(master) = &mut self.master {
            master.gone(peer.0);
            self.answer();
        }
    }
}
