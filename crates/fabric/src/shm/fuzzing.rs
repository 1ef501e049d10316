//! A door for the fuzzers into the node's side of a shm connection; compiled for them alone.

use super::peer::ShmPeer;
use super::port::check_shape;
use crate::messaging::request_region::write_slot;
use crate::messaging::ring::{Place, Progress, RingWriter, piece_bytes_max};
use crate::region::{Ordering, Region, Rights};
use crate::registry::PeerId;
use crate::service::{Deferred, Outbox, Reply, Request, Service};
use barn_layout::channel::{ChannelShape, RING_BYTES_MIN};
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::MessageHeader;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::Arc;

/// Answers by method, in every way that there is; looks at what it is given.
#[derive(Default)]
struct Anything(Vec<Deferred>);

impl Service for Anything {
    fn call(&mut self, request: Request<'_>, reply: Reply<'_>) {
        assert!(request.body.len() <= MESSAGE_BYTES_MAX);
        match request.method % 5 {
            0 => reply.done(request.body),
            1 => reply.done(&[7; 3_000]),
            2 => self.0.push(reply.later()),
            3 => reply.refuse("no"),
            _ => drop(reply),
        }
    }
}

/// A client that says hello with anything, sends messages, and writes anything anywhere in its
/// half of the channel. The input is a hello, and then a list of 12-byte commands.
pub fn shm_peer(data: &[u8]) {
    let (hello, commands) = data.split_at(data.len().min(24));
    if let Ok(shape) = check_shape(hello, 1 << 20, 64) {
        assert!(shape.ring_bytes <= 1 << 20 && shape.window <= 64);
    }
    let window = usize::from(hello.first().copied().unwrap_or(0) % 4);
    let Some(shape) = ChannelShape::new(RING_BYTES_MIN, window) else { return };
    let (inbound, outbound) = (
        Region::on_heap(shape.inbound_bytes(), Rights::ALL),
        Region::on_heap(shape.outbound_bytes(), Rights::READ),
    );
    let descriptor = || eventfd(0, EventfdFlags::NONBLOCK).expect("a descriptor is left");
    let mut peer = ShmPeer::new(PeerId(1), descriptor(), shape, (&inbound, &outbound), descriptor());
    let (outbox, mut service) = (Arc::new(Outbox::new(None)), Anything::default());
    let words = inbound.words();
    let place = Place { words: words.clone(), base: shape.inbound_ring() as u64, bytes: shape.ring_bytes };
    let mut writer = RingWriter::new(place, Progress { words: outbound.words().clone(), at: 0 });
    for command in commands.as_chunks::<12>().0 {
        let at = u64::from(u16::from_le_bytes([command[2], command[3]]));
        let mut value = [0; 8];
        value.copy_from_slice(&command[4..]);
        let value = u64::from_le_bytes(value);
        // Totals and pieces that often fit each other, kinds and methods that often mean something.
        let header = |bytes: usize| {
            let total = if value & 1 == 0 { bytes as u64 } else { (value >> 8) & 0xffff };
            let offset = if value & 2 == 0 { 0 } else { (value >> 24) & 0xffff };
            let kind = (value >> 40) % 6;
            MessageHeader::from_words([value & 0xf0, total | offset << 32, (value >> 48) | kind << 16])
        };
        match command[0] % 5 {
            0 => {
                let body = vec![command[1]; at as usize % (piece_bytes_max(RING_BYTES_MIN) + 1)];
                let _ = writer.push(&header(body.len()), &body);
            }
            1 => {
                let offset = at * 8 % shape.inbound_bytes() as u64;
                let _ = words.store_word(offset, value, Ordering::Relaxed);
            }
            2 if window > 0 => {
                let body = vec![command[1]; at as usize % 900];
                let slot = shape.request_slot(usize::from(command[1]) % window) as u64;
                write_slot(words, slot, 1 + (value as u32 >> 4) % 3, &header(body.len()), &body);
            }
            3 => {
                service.0.pop();
                for outgoing in outbox.drain() {
                    if let crate::service::Outgoing::Reply { id, status, body, .. } = outgoing {
                        peer.reply(id, status, &body);
                    }
                }
            }
            _ => {
                if peer.serve(&mut service, &outbox, 1 << 20).is_err() {
                    return;
                }
            }
        }
    }
}
