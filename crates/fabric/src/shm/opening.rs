//! Regions that a client is opening, and those that it has closed: the control path.
//!
//! What always holds: a grant that the node gave is either held by somebody or given back, even
//! if whoever asked for it gave up before the answer came, or the node had no room for the news.

use super::client::{ShmClient, lock};
use super::control;
use crate::error::OpenError;
use crate::link::{Opened, Place};
use crate::region::{Rights, map_shared};
use barn_layout::RegionId;
use barn_layout::frame::Outcome;
use barn_layout::handshake::{ShmOpen, ShmOpened};
use barn_layout::limits::WORD_BYTES;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::task::Waker;
use zerocopy::{FromBytes, IntoBytes};

/// Regions that are being opened.
#[derive(Default)]
pub(super) struct Control {
    pub(super) next: u64,
    pub(super) opening: HashMap<u64, Opening>,
    /// Places in the grants table that are no longer needed, of which the node has yet to be told.
    pub(super) closing: Vec<u32>,
}

impl Control {
    /// Tells the node of grants that it may take back; whether all have been told.
    pub(super) fn tell_closing(&mut self, socket: &OwnedFd) -> bool {
        while let Some(slot) = self.closing.last() {
            let close = ShmOpen { id: 0.into(), region: (*slot).into(), rights: 0.into() };
            match control::send(socket.as_fd(), close.as_bytes(), &[]) {
                // The node is behind with its packets: later.
                Err(Errno::AGAIN | Errno::INTR) => return false,
                // A node that is gone needs no telling.
                Ok(()) | Err(_) => self.closing.pop(),
            };
        }
        true
    }
}

#[derive(Default)]
pub(super) struct Opening {
    pub(super) waker: Option<Waker>,
    pub(super) result: Option<Result<Opened, OpenError>>,
}

impl ShmClient {
    pub(super) fn opened(&self, packet: control::Packet) {
        let Ok(opened) = ShmOpened::read_from_bytes(packet.bytes()) else { return };
        let file = packet.descriptors.into_iter().next();
        let granted = opened.outcome.get() == Outcome::Done as u32;
        let mut control = lock(&self.control);
        let result = match control.opening.get_mut(&opened.id.get()) {
            Some(opening) => {
                opening.waker.take().into_iter().for_each(Waker::wake);
                opening.result.insert(self.map(&opened, file)).is_ok()
            }
            None => false,
        };
        if granted && !result {
            // Nobody wants it any more, or it cannot be used.
            control.closing.push(opened.slot.get());
            control.tell_closing(&self.socket);
        }
    }

    /// The place in the grants table that a region has.
    pub(super) fn grant_slot(&self, place: &Place) -> Option<u32> {
        let Place::Mapped { grant, .. } = place else { return None };
        Some(((grant.offset() as usize - self.shape.grants()) / WORD_BYTES) as u32)
    }

    fn map(&self, opened: &ShmOpened, file: Option<OwnedFd>) -> Result<Opened, OpenError> {
        let rights = Rights::from_bits(opened.rights.get());
        match Outcome::from_bits(opened.outcome.get() as u8) {
            Some(Outcome::Done) => {}
            // Which region and what was asked for is the asker's to say.
            refused => return Err(OpenError::from_outcome(refused, RegionId(opened.slot.get()), rights)),
        }
        let file = file.ok_or(OpenError::Protocol)?;
        let words = map_shared(file.as_fd(), opened.bytes.get(), rights.changes()).map_err(OpenError::Map)?;
        let grant = (self.shape.grants() + opened.slot.get() as usize * WORD_BYTES) as u64;
        if grant + WORD_BYTES as u64 > self.shape.outbound_ring() as u64 {
            return Err(OpenError::Protocol);
        }
        let grant = self.outbound.kept_word(grant).map_err(|_| OpenError::Protocol)?;
        let place = Place::Mapped { words, grant, open: self.open.clone() };
        Ok(Opened { bytes: opened.bytes.get(), rights, place })
    }
}
