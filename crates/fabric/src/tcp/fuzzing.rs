//! Doors for the fuzzers into what parses a peer's bytes; compiled for them alone.

use super::agent::Agent;
use super::handshake::{Newcomer, Policy};
use super::intake::Intake;
use super::long::Turn;
use super::outbound::Outbound;
use super::stream::Inbound;
use crate::region::{Ordering, Region, Rights};
use crate::registry::{PeerId, Registry};
use crate::slots::Slots;
use barn_layout::RegionId;
use barn_layout::frame::{FrameKind, OpenBody};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;
use zerocopy::IntoBytes;

/// Bytes of the region that is offered, and of its neighbours.
const REGION_BYTES: usize = 512;

/// A client's bytes, in pieces, at a node: no panic, and no byte outside the granted region
/// changes. The key of the grant is in the seeds, so that operations get as far as memory.
pub fn node_frames(data: &[u8]) {
    let registry = Registry::seeded(7);
    let (granted, other) =
        (Region::on_heap(REGION_BYTES, Rights::ALL), Region::on_heap(REGION_BYTES, Rights::ALL));
    for (id, region) in [(1, &granted), (2, &other)] {
        registry.register(RegionId(id), region.clone(), Rights::ALL).expect("a free number");
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok((near, _far)) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return };
    let (mut agent, mut inbound, mut out) = (Agent::default(), Inbound::default(), Outbound::default());
    let open = OpenBody { region: 1.into(), rights: Rights::ALL.to_bits().into() };
    agent.open_with(&registry, PeerId(1), (1, open.as_bytes()), |_| Ok(None), &mut out).expect("well formed");
    let (first, rest) = data.split_first().unwrap_or((&1, &[]));
    for piece in rest.chunks(usize::from(*first).max(1)) {
        inbound.put(piece);
        let _ = inbound.has_frame();
        let _ = agent.look_ahead(inbound.ahead());
        loop {
            let Ok(Some((frame, body))) = inbound.next() else { break };
            let taken = match frame.kind {
                FrameKind::Read | FrameKind::Write | FrameKind::CompareSwap | FrameKind::FetchAdd => {
                    agent.execute(&frame, body, &mut out)
                }
                // Region 2 is never opened: its bytes must stay as they are.
                FrameKind::Close => Ok(agent.close(frame.id)),
                _ => Ok(()),
            };
            while let Some(long) = &mut agent.long {
                match long.turn(&near, &mut inbound, &mut out) {
                    Ok(Turn::More) => {}
                    // Nobody reads or writes at the other end.
                    _ => agent.long = None,
                }
            }
            if taken.is_err() {
                return;
            }
        }
    }
    for word in 0..REGION_BYTES / 8 {
        assert_eq!(
            other.words().load_word(word as u64 * 8, Ordering::Relaxed),
            Ok(0),
            "a neighbour was written"
        );
    }
}

/// A node's bytes, in pieces, at a client: no panic, and no answer that nobody waits for.
pub fn client_frames(data: &[u8]) {
    let (mut intake, mut slots, mut out) = (Intake::default(), Slots::default(), Outbound::default());
    let tickets: Vec<_> = (0..3).filter_map(|_| slots.take()).collect();
    let (first, rest) = data.split_first().unwrap_or((&1, &[]));
    for piece in rest.chunks(usize::from(*first).max(1)) {
        if intake.feed(piece, &mut slots, &mut out).is_err() {
            break;
        }
    }
    while intake.message().is_some() {}
    tickets.into_iter().for_each(|ticket| slots.abandon(ticket));
    assert_eq!(slots.waiting(), 0);
}

/// A stranger's first bytes at a node with a token and at one without.
pub fn newcomer(data: &[u8]) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    for token in [None, Some("a token of some length".to_string())] {
        let Ok((near, far)) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None) else {
            return;
        };
        let policy = Policy { token: token.clone(), allow_unauthenticated: false };
        let mut newcomer = Newcomer::new(near, IpAddr::V4(Ipv4Addr::LOCALHOST), Instant::now());
        let _ = rustix::io::write(&far, data);
        let progress = newcomer.advance(&policy);
        let proved = matches!(progress, super::handshake::Progress::Proved { .. });
        assert!(token.is_none() || !proved, "let in without the token");
    }
}
