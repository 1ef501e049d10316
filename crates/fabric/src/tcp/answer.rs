//! What goes into a client's frames, and what the answers to them mean.

use super::stream::header;
use crate::error::OpenError;
use crate::link::{Opened, Place};
use crate::region::Rights;
use crate::slots::{Answer, Ticket};
use crate::verb::Verb;
use barn_layout::RegionId;
use barn_layout::frame::{
    AtomicBody, FrameHeader, FrameKind, MemoryBody, OpenedBody, Outcome, ReadBody, WriteBody,
};
use zerocopy::{FromBytes, IntoBytes};

/// Hands the frame of a one-sided operation to `post`: header, body and, of a WRITE, the bytes.
pub(super) fn ask(ticket: Ticket, key: u64, verb: &Verb<'_>, post: impl FnOnce(&FrameHeader, [&[u8]; 2])) {
    let (key, start) = (key.into(), |kind, bytes| header(kind, 0, 0, ticket.0, bytes));
    match verb {
        Verb::Read { offset, into } => {
            let bytes = (into.len() as u32).into();
            let body = ReadBody { key, offset: (*offset).into(), bytes, reserved: 0.into() };
            post(&start(FrameKind::Read, ReadBody::BYTES), [body.as_bytes(), &[]]);
        }
        Verb::Write { offset, from } => {
            let body = WriteBody { key, offset: (*offset).into() };
            post(&start(FrameKind::Write, WriteBody::BYTES + from.len()), [body.as_bytes(), from]);
        }
        Verb::CompareSwap { offset, expected: operand, new: replacement } => {
            let (offset, operand) = ((*offset).into(), (*operand).into());
            let body = AtomicBody { key, offset, operand, replacement: (*replacement).into() };
            post(&start(FrameKind::CompareSwap, AtomicBody::BYTES), [body.as_bytes(), &[]]);
        }
        Verb::FetchAdd { offset, add } => {
            let (offset, operand) = ((*offset).into(), (*add).into());
            let body = AtomicBody { key, offset, operand, replacement: 0.into() };
            post(&start(FrameKind::FetchAdd, AtomicBody::BYTES), [body.as_bytes(), &[]]);
        }
    }
}

/// What the answer to an `Open` means.
pub(super) fn opened(
    answer: &Answer,
    region: RegionId,
    asked: Rights,
) -> Result<(Opened, Option<MemoryBody>), OpenError> {
    match Outcome::from_bits(answer.status) {
        Some(Outcome::Done) => {
            let parts = OpenedBody::ref_from_prefix(&answer.body);
            let (opened, memory) = parts.map_err(|_| OpenError::Protocol)?;
            let memory = match memory.is_empty() {
                true => None,
                false => Some(MemoryBody::read_from_bytes(memory).map_err(|_| OpenError::Protocol)?),
            };
            let rights = Rights::from_bits(opened.rights.get());
            if !rights.contains(asked) {
                return Err(OpenError::Protocol);
            }
            let place = Place::Keyed(opened.key.get());
            Ok((Opened { bytes: opened.bytes.get(), rights, place }, memory))
        }
        refused => Err(OpenError::from_outcome(refused, region, asked)),
    }
}
