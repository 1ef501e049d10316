//! Long READs and WRITEs: the bytes go between socket and registered memory without a stop.
//!
//! What always holds: while one is under way nothing else is carried out for its peer, so operations keep
//! their order; a turn moves a bounded number of bytes, so that other peers wait no longer; bytes move
//! only while the grant stands, and the answer, which comes last, says whether it stood to the end.
//! Single bytes are whole, not words; a WRITE whose peer goes is done in part, as with a real NIC.

use super::outbound::Outbound;
use super::stream::{Inbound, header};
use crate::registry::Grant;
use barn_layout::frame::{FrameKind, Outcome};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Bytes that one turn moves: 100 µs and more of copying.
const TURN_BYTES: usize = 1 << 20;

/// An operation under way.
pub(super) struct Long {
    /// Where the bytes are, or why nothing moves.
    granted: Result<Grant, Outcome>,
    id: u64,
    offset: u64,
    left: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The operation is done and answered.
    Done,
    /// The turn is over; there is more to do at once.
    More,
    /// The socket has to be ready first.
    Waits,
}

impl Long {
    pub(super) fn read(grant: Grant, id: u64, offset: u64, left: usize) -> Self {
        Self { granted: Ok(grant), id, offset, left, kind: Kind::Read }
    }

    pub(super) fn write(granted: Result<Grant, Outcome>, id: u64, offset: u64, left: usize) -> Self {
        Self { granted, id, offset, left, kind: Kind::Write }
    }

    /// Whether it waits for bytes of its peer, and for nothing else.
    pub(super) fn takes(&self) -> bool {
        self.kind == Kind::Write
    }

    /// One turn.
    pub(super) fn turn(
        &mut self,
        socket: &OwnedFd,
        inbound: &mut Inbound,
        out: &mut Outbound,
    ) -> Result<Turn, Errno> {
        let turn = match self.kind {
            Kind::Read => self.give(socket, out)?,
            Kind::Write => self.take(socket, inbound)?,
        };
        if turn == Turn::Done {
            let outcome = match &self.granted {
                Ok(grant) if grant.standing.is_live() => Outcome::Done,
                Ok(_) => Outcome::Revoked,
                Err(outcome) => *outcome,
            };
            out.push(&header(FrameKind::Done, outcome as u8, 0, self.id, 0), [&[], &[]]);
        }
        Ok(turn)
    }

    fn give(&mut self, socket: &OwnedFd, out: &mut Outbound) -> Result<Turn, Errno> {
        if out.has_registered() {
            return Ok(Turn::Waits);
        }
        let Ok(grant) = &self.granted else { return Ok(Turn::Done) };
        let bytes = self.left.min(TURN_BYTES);
        if bytes == 0 || !grant.standing.is_live() {
            return Ok(Turn::Done);
        }
        let piece = header(FrameKind::Piece, Outcome::Done as u8, 0, self.id, bytes);
        out.push_registered(socket, &piece, grant, (self.offset, bytes))?;
        self.offset += bytes as u64;
        self.left -= bytes;
        Ok(match (out.has_registered(), self.left) {
            (true, _) => Turn::Waits,
            (false, 0) => Turn::Done,
            (false, _) => Turn::More,
        })
    }

    fn take(&mut self, socket: &OwnedFd, inbound: &mut Inbound) -> Result<Turn, Errno> {
        let mut moved = 0;
        while self.left > 0 {
            if moved >= TURN_BYTES {
                return Ok(Turn::More);
            }
            let (offset, left) = (self.offset, self.left);
            let here = inbound.pending().min(left);
            let bytes = match &self.granted {
                Ok(grant) if here > 0 => {
                    let words = grant.region.words();
                    let part = inbound.take(here);
                    let part_bytes = part.len();
                    // It was found to be in bounds.
                    grant.standing.change(|| words.store(offset, part)).map(|_| part_bytes)
                }
                Ok(grant) => {
                    let words = grant.region.words();
                    match grant.standing.change(|| words.receive(socket, offset, left)) {
                        Some(Err(Errno::AGAIN | Errno::INTR)) => return Ok(Turn::Waits),
                        Some(Ok(0)) => return Err(Errno::CONNRESET),
                        Some(received) => Some(received?),
                        None => None,
                    }
                }
                // What nobody may write is taken all the same, and dropped.
                Err(_) if here > 0 => Some(inbound.take(here).len()),
                Err(_) => match inbound.receive_little(socket)? {
                    super::stream::Received::Nothing => return Ok(Turn::Waits),
                    super::stream::Received::End => return Err(Errno::CONNRESET),
                    super::stream::Received::Bytes(_) => Some(0),
                },
            };
            match bytes {
                Some(bytes) => {
                    // Where nothing is written it may be any number.
                    self.offset = self.offset.wrapping_add(bytes as u64);
                    self.left -= bytes;
                    moved += bytes.max(1);
                }
                None => {
                    if here > 0 {
                        self.left -= here;
                    }
                    self.granted = Err(Outcome::Revoked);
                }
            }
        }
        Ok(Turn::Done)
    }
}
