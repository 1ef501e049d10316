//! Messages that come in pieces, put together at a node.
//!
//! What always holds: memory is taken as the bytes come, never as their length is claimed; a peer
//! has a bounded number of messages under way, of a bounded length together.

use super::Corrupt;
use barn_layout::limits::MESSAGE_BYTES_MAX;
use barn_layout::message::MessageHeader;
use std::collections::HashMap;

/// Messages of which a peer may have sent only some pieces.
const ASSEMBLING_MAX: usize = 64;

/// The pieces of one peer's messages.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    messages: HashMap<u64, Vec<u8>>,
    bytes: usize,
}

impl Assembly {
    /// Adds the piece in `piece` to its message; gives the message once it is whole.
    pub(crate) fn add(
        &mut self,
        header: &MessageHeader,
        piece: &mut Vec<u8>,
    ) -> Result<Option<Vec<u8>>, Corrupt> {
        let (total, offset) = (header.total_bytes.get() as usize, header.piece_offset.get() as usize);
        let bytes = piece.len();
        if total > MESSAGE_BYTES_MAX || offset.checked_add(bytes).is_none_or(|end| end > total) {
            return Err(Corrupt);
        }
        if offset == 0 && bytes == total {
            return Ok(Some(std::mem::take(piece)));
        }
        let id = header.id.get();
        let started = self.messages.get(&id).map_or(0, Vec::len);
        let too_much = self.messages.len() >= ASSEMBLING_MAX && started == 0
            || self.bytes + bytes > 2 * MESSAGE_BYTES_MAX;
        if started != offset || bytes == 0 || too_much {
            return Err(Corrupt);
        }
        let message = self.messages.entry(id).or_default();
        message.extend_from_slice(piece);
        self.bytes += bytes;
        if message.len() < total {
            return Ok(None);
        }
        self.bytes -= total;
        Ok(self.messages.remove(&id))
    }

    /// The sender gave a message up of which it has sent some pieces.
    pub(crate) fn forget(&mut self, id: u64) -> Result<(), Corrupt> {
        let pieces = self.messages.remove(&id).ok_or(Corrupt)?;
        self.bytes -= pieces.len();
        Ok(())
    }
}
