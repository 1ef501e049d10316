//! A stream becomes the control path of something faster: the node's answers to those who ask.
//!
//! What that is, only the node's carrier knows ([`crate::node::Carrier`]); a node without one says
//! so, and the stream stays what it was.

use super::agent::Nonsense;
use super::outbound::Outbound;
use super::stream::header;
use crate::node::Core;
use crate::registry::PeerId;
use barn_layout::frame::{FrameKind, Outcome, QueuePairsBody, RenewBody};
use rustix::fd::OwnedFd;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use zerocopy::{FromBytes, IntoBytes};

/// Answers an `Attach`; says whether the peer is attached now. `already`: it was before, and no
/// honest client asks twice.
pub(super) fn attach(
    core: &mut Core,
    peer: PeerId,
    socket: &OwnedFd,
    already: bool,
    id: u64,
    body: &[u8],
    out: &mut Outbound,
) -> Result<bool, Nonsense> {
    let body = QueuePairsBody::ref_from_bytes(body).map_err(|_| Nonsense)?;
    if already {
        return Err(Nonsense);
    }
    let local = local_address(socket);
    let attached = core.with_carrier(|carrier, core| carrier.attach(core, peer, local, body));
    let attached = attached.unwrap_or(Err(Outcome::NoVerbs));
    match &attached {
        Ok(ours) => {
            let header = header(FrameKind::Attached, Outcome::Done as u8, 0, id, QueuePairsBody::BYTES);
            out.push(&header, [ours.as_bytes(), &[]]);
        }
        Err(outcome) => out.push(&header(FrameKind::Attached, *outcome as u8, 0, id, 0), [&[], &[]]),
    }
    Ok(attached.is_ok())
}

/// Answers a `Renew`.
pub(super) fn renew(
    core: &mut Core,
    peer: PeerId,
    id: u64,
    body: &[u8],
    out: &mut Outbound,
) -> Result<(), Nonsense> {
    let body = RenewBody::ref_from_bytes(body).map_err(|_| Nonsense)?;
    let renewed = match &mut core.carrier {
        Some(carrier) => carrier.renew(peer, body),
        None => Err(Outcome::NoVerbs),
    };
    match renewed {
        Ok(ours) => {
            let header = header(FrameKind::Renewed, Outcome::Done as u8, 0, id, RenewBody::BYTES);
            out.push(&header, [ours.as_bytes(), &[]]);
        }
        Err(outcome) => out.push(&header(FrameKind::Renewed, outcome as u8, 0, id, 0), [&[], &[]]),
    }
    Ok(())
}

/// The address of a stream at this end; an unknown one is no device's.
fn local_address(socket: &OwnedFd) -> IpAddr {
    let name = rustix::net::getsockname(socket).ok();
    let address = name.and_then(|name| SocketAddr::try_from(name).ok());
    address.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip().to_canonical())
}
