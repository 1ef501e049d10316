//! Plays the NIC: carries out READ, WRITE, compare-and-swap and fetch-and-add on registered
//! memory, under the grants of the peer that asks. It never enters the service's code.
//!
//! What always holds: a key means something only on the connection that it was given to; key,
//! standing, rights, bounds and alignment are checked before a byte moves, and a READ's
//! standing again after; operations of one connection are carried out in the order in which
//! they came. Long ones are [`super::long`].

use crate::node::Core;
use crate::region::{Ordering, Rights, fence};
use crate::registry::{Grant, PeerId, Registry};
use crate::tcp::long::Long;
use crate::tcp::outbound::Outbound;
use crate::tcp::stream::{DIRECT_BYTES, header};
use crate::verb::{Verb, check_range};
use crate::{OperationError, RegionId};
use barn_layout::frame::{
    AtomicBody, Frame, FrameHeader, FrameKind, MemoryBody, OpenBody, OpenedBody, Outcome, ReadBody, WriteBody,
};
use barn_layout::limits::{OPERATION_BYTES_MAX, REGIONS_PER_PEER_MAX};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use zerocopy::{FromBytes, IntoBytes};

/// READs whose memory is fetched ahead: as many cache misses as a core keeps in flight.
const AHEAD: usize = 16;
/// Bytes of each that are: past these the hardware fetches ahead by itself.
const AHEAD_BYTES: usize = 256;

/// Keys are unpredictable already: hashing them again would show on every READ.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The grants of one peer, and the long operation that is under way for it.
#[derive(Default)]
pub(super) struct Agent {
    grants: HashMap<u64, Grant, BuildHasherDefault<AsIs>>,
    pub(super) long: Option<Long>,
    /// Whether the last operation was a WRITE.
    wrote: bool,
}

/// A frame that makes no sense: its sender is expelled.
#[derive(Debug)]
pub(super) struct Nonsense;

impl Agent {
    /// Answers an `Open`.
    pub(super) fn open(
        &mut self,
        core: &mut Core,
        peer: PeerId,
        id: u64,
        body: &[u8],
        out: &mut Outbound,
    ) -> Result<(), Nonsense> {
        let memory = |grant: &Grant| match &mut core.carrier {
            Some(carrier) if carrier.has(peer) => carrier.register(peer, grant).map(Some),
            _ => Ok(None),
        };
        self.open_with(&core.registry, peer, (id, body), memory, out)
    }

    /// The same; `memory` lets the peer's device in, if it has one.
    pub(super) fn open_with(
        &mut self,
        registry: &Registry,
        peer: PeerId,
        (id, body): (u64, &[u8]),
        memory: impl FnOnce(&Grant) -> Result<Option<MemoryBody>, Outcome>,
        out: &mut Outbound,
    ) -> Result<(), Nonsense> {
        let open = OpenBody::ref_from_bytes(body).map_err(|_| Nonsense)?;
        let granted = if self.grants.len() >= REGIONS_PER_PEER_MAX {
            Err(Outcome::TooManyRegions)
        } else {
            let asked = Rights::from_bits(open.rights.get());
            registry.grant(RegionId(open.region.get()), peer, asked, None)
        };
        let granted = granted.and_then(|grant| match memory(&grant) {
            Ok(memory) => Ok((grant, memory)),
            Err(outcome) => {
                grant.standing.end();
                Err(outcome)
            }
        });
        match granted {
            Ok((grant, memory)) => {
                let opened = OpenedBody {
                    key: grant.key.into(),
                    bytes: (grant.region.words().bytes() as u64).into(),
                    rights: grant.rights.to_bits().into(),
                    reserved: 0.into(),
                };
                let memory = memory.as_ref().map_or(&[][..], IntoBytes::as_bytes);
                let bytes = OpenedBody::BYTES + memory.len();
                let header = header(FrameKind::Opened, Outcome::Done as u8, 0, id, bytes);
                out.push(&header, [opened.as_bytes(), memory]);
                self.grants.insert(grant.key, grant);
            }
            Err(outcome) => out.push(&header(FrameKind::Opened, outcome as u8, 0, id, 0), [&[], &[]]),
        }
        Ok(())
    }

    /// Takes a grant back.
    pub(super) fn close(&mut self, key: u64) {
        if let Some(grant) = self.grants.remove(&key) {
            grant.standing.end();
        }
    }

    /// Begins to fetch the memory that the next frames read, so that their cache misses overlap;
    /// says how many frames it has looked at.
    pub(super) fn look_ahead<'a>(&self, frames: impl Iterator<Item = (Frame, &'a [u8])>) -> usize {
        let reads = frames.take(AHEAD).map_while(|(frame, body)| match frame.kind {
            FrameKind::Read => ReadBody::ref_from_bytes(body).ok(),
            _ => None,
        });
        reads.map(|read| self.prefetch(read)).count()
    }

    fn prefetch(&self, read: &ReadBody) {
        if let Some(grant) = self.grants.get(&read.key.get()) {
            let bytes = (read.bytes.get() as usize).min(AHEAD_BYTES);
            grant.region.words().prefetch(read.offset.get(), bytes);
        }
    }

    /// Carries out a one-sided operation and adds its answer, or, for a long READ, begins it.
    #[inline]
    pub(super) fn execute(&mut self, frame: &Frame, body: &[u8], out: &mut Outbound) -> Result<(), Nonsense> {
        // ORDER: AcqRel: an operation begins only after those before it have been carried out
        // (`Guarantees::operations_in_order`); pairs with the Release fence in
        // `versioned::publish`, whose body a READ between two READs of the version may tear.
        // After a WRITE, SeqCst: else a READ could overtake it in the store buffer.
        fence(if self.wrote { Ordering::SeqCst } else { Ordering::AcqRel });
        self.wrote = frame.kind == FrameKind::Write;
        let (outcome, previous) = match frame.kind {
            FrameKind::Read => {
                let read = ReadBody::ref_from_bytes(body).map_err(|_| Nonsense)?;
                let (offset, bytes) = (read.offset.get(), read.bytes.get() as usize);
                self.read(frame.id, read.key.get(), offset, bytes, out);
                return Ok(());
            }
            FrameKind::Write => {
                let (write, from) = WriteBody::ref_from_prefix(body).map_err(|_| Nonsense)?;
                self.change(write.key.get(), Verb::Write { offset: write.offset.get(), from })
            }
            FrameKind::CompareSwap => {
                let atomic = AtomicBody::ref_from_bytes(body).map_err(|_| Nonsense)?;
                let (offset, expected, new) =
                    (atomic.offset.get(), atomic.operand.get(), atomic.replacement.get());
                self.change(atomic.key.get(), Verb::CompareSwap { offset, expected, new })
            }
            FrameKind::FetchAdd => {
                let atomic = AtomicBody::ref_from_bytes(body).map_err(|_| Nonsense)?;
                let (offset, add) = (atomic.offset.get(), atomic.operand.get());
                self.change(atomic.key.get(), Verb::FetchAdd { offset, add })
            }
            _ => return Err(Nonsense),
        };
        let word = previous.to_le_bytes();
        let answer: &[u8] =
            if outcome == Outcome::Done && frame.kind != FrameKind::Write { &word } else { &[] };
        out.push(&header(FrameKind::Done, outcome as u8, 0, frame.id, answer.len()), [answer, &[]]);
        Ok(())
    }

    fn change(&self, key: u64, mut verb: Verb<'_>) -> (Outcome, u64) {
        let Some(grant) = self.grants.get(&key) else { return (Outcome::BadKey, 0) };
        let words = grant.region.words();
        if let Err(error) = verb.check(grant.rights, words.bytes() as u64) {
            let outcome = if grant.standing.is_live() { outcome(error) } else { Outcome::Revoked };
            return (outcome, 0);
        }
        match grant.standing.change(|| verb.execute(words)) {
            Some(Ok(previous)) => (Outcome::Done, previous),
            Some(Err(error)) => (outcome(error), 0),
            None => (Outcome::Revoked, 0),
        }
    }

    #[inline]
    fn read(&mut self, id: u64, key: u64, offset: u64, bytes: usize, out: &mut Outbound) {
        let refuse = |outcome: Outcome, out: &mut Outbound| {
            out.push(&header(FrameKind::Done, outcome as u8, 0, id, 0), [&[], &[]]);
        };
        let Some(grant) = self.grants.get(&key) else { return refuse(Outcome::BadKey, out) };
        let region_bytes = grant.region.words().bytes() as u64;
        let fits = offset.checked_add(bytes as u64).is_some_and(|end| end <= region_bytes);
        let outcome = match () {
            () if !grant.standing.is_live() => Outcome::Revoked,
            () if !grant.rights.contains(Rights::READ) => Outcome::NoRight,
            () if bytes > OPERATION_BYTES_MAX => Outcome::TooLong,
            () if !fits => Outcome::OutOfBounds,
            () => Outcome::Done,
        };
        if outcome != Outcome::Done {
            return refuse(outcome, out);
        }
        if bytes >= DIRECT_BYTES {
            self.long = Some(Long::read(grant.clone(), id, offset, bytes));
            return;
        }
        give(grant, id, offset, bytes, out);
    }

    /// Begins a WRITE of which `body` is the beginning, and `bytes` is all.
    pub(super) fn begin_write(&mut self, id: u64, body: &[u8], bytes: usize) -> Result<(), Nonsense> {
        // ORDER: SeqCst, as in `execute`: it begins after those before it.
        fence(Ordering::SeqCst);
        self.wrote = true;
        let (write, _) = WriteBody::ref_from_prefix(body).map_err(|_| Nonsense)?;
        let (offset, left) = (write.offset.get(), bytes - WriteBody::BYTES);
        let granted = match self.grants.get(&write.key.get()) {
            None => Err(Outcome::BadKey),
            Some(grant) => {
                let region_bytes = grant.region.words().bytes() as u64;
                match check_range(Rights::WRITE, grant.rights, offset, left, region_bytes) {
                    _ if !grant.standing.is_live() => Err(Outcome::Revoked),
                    Ok(()) => Ok(grant.clone()),
                    Err(error) => Err(outcome(error)),
                }
            }
        };
        self.long = Some(Long::write(granted, id, offset, left));
        Ok(())
    }
}

/// Adds the `Done` of a READ with its bytes, or, if the grant has ended meanwhile, one that says so.
#[inline]
fn give(grant: &Grant, id: u64, offset: u64, bytes: usize, out: &mut Outbound) {
    let buffer = out.buffer(FrameHeader::BYTES + bytes);
    let start = buffer.len();
    buffer.extend_from_slice(header(FrameKind::Done, Outcome::Done as u8, 0, id, bytes).as_bytes());
    let body = buffer.len();
    buffer.resize(body + bytes, 0);
    let loaded = grant.region.words().load(offset, &mut buffer[body..]);
    // SYNC: pairs with the Release fence in `Standing::end`: bytes that were stored after the
    // grant ended are never taken for the grant's.
    fence(Ordering::Acquire);
    let outcome = match loaded {
        Ok(()) if grant.standing.is_live() => return,
        Ok(()) => Outcome::Revoked,
        Err(_) => Outcome::OutOfBounds,
    };
    buffer.truncate(start);
    buffer.extend_from_slice(header(FrameKind::Done, outcome as u8, 0, id, 0).as_bytes());
}

fn outcome(error: OperationError) -> Outcome {
    match error {
        OperationError::NoRight { .. } => Outcome::NoRight,
        OperationError::OutOfBounds { .. } => Outcome::OutOfBounds,
        OperationError::Misaligned { .. } => Outcome::Misaligned,
        OperationError::TooLong { .. } => Outcome::TooLong,
        _ => Outcome::Revoked,
    }
}
