//! The service that conformance nodes run, and what it has seen.

use crate::PeerId;
use crate::service::{Deferred, Reply, Request, Service};
use std::sync::{Arc, Mutex, MutexGuard};

/// Answers with what was sent.
pub(super) const ECHO: u16 = 1;
/// Refuses, for the reason that was sent.
pub(super) const REFUSE: u16 = 2;
/// Is busy.
pub(super) const BUSY: u16 = 3;
/// Gives no answer.
pub(super) const SILENT: u16 = 4;
/// Keeps the request, to be answered later.
pub(super) const HOLD: u16 = 5;
/// Answers with as many bytes as the request's four bytes say: [`super::support::pattern`].
pub(super) const SIZE: u16 = 6;
/// Answers with the request's length and a sum of its bytes.
pub(super) const SUM: u16 = 7;
/// A method that nobody has.
pub(super) const UNKNOWN: u16 = 999;

/// What a conformance node has seen. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Methods {
    seen: Arc<Mutex<Seen>>,
}

/// Everything that happened to the service.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) joined: Vec<PeerId>,
    pub(super) gone: Vec<PeerId>,
    pub(super) messages: Vec<(PeerId, Vec<u8>)>,
    pub(super) held: Vec<(Vec<u8>, Deferred)>,
}

impl Methods {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A length and a sum that depends on every byte and its place.
pub(super) fn sum(bytes: &[u8]) -> [u8; 16] {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5);
    }
    for byte in chunks.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut both = [0; 16];
    both[..8].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    both[8..].copy_from_slice(&hash.to_le_bytes());
    both
}

impl Service for Methods {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        match request.method {
            ECHO => reply.done(request.body),
            REFUSE => reply.refuse(&String::from_utf8_lossy(request.body)),
            BUSY => reply.busy(),
            SILENT => drop(reply),
            HOLD => {
                let held = (request.body.to_vec(), reply.later());
                self.seen().held.push(held);
            }
            SIZE => {
                let mut bytes = [0; 4];
                bytes.copy_from_slice(&request.body[..4]);
                reply.done(&super::support::pattern(u32::from_le_bytes(bytes) as usize));
            }
            SUM => reply.done(&sum(request.body)),
            _ => reply.unknown_method(),
        }
    }

    fn message(&mut self, peer: PeerId, body: &[u8]) {
        self.seen().messages.push((peer, body.to_vec()));
    }

    fn joined(&mut self, peer: PeerId) {
        self.seen().joined.push(peer);
    }

    fn gone(&mut self, peer: PeerId) {
        self.seen().gone.push(peer);
    }
}
