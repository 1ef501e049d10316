//! What of the heap's changes a log has to know, so that the memory can be brought back as it was.
//!
//! The log is physical: it holds the words that an object, a slot's header or the block table have
//! after a change. What always holds:
//! - a block table's changes are always recorded, those of durable purposes' slots too, and those of
//!   [`Purpose::Volatile`] slots never: after a restart such blocks are free;
//! - locks are not recorded: nobody holds one across a restart but a transaction that has been
//!   prepared, whose own record says so;
//! - a run is used for another purpose only if both are durable or neither is, so that no slot is
//!   ever half recorded.

use super::region::Region;
use super::reserve::{Raw, Reserved};
use super::{Heap, Slot};
use crate::error::{AllocError, ObjectError};
use crate::object::publish::{self, Head};
use crate::object::{HEADER_BYTES, Header, PREFIX_BYTES};
use barn_fabric::Words;
use barn_fabric::region::Ordering;
use barn_layout::heap::{
    BLOCK_BYTES, BlockFloor, BlockKind, BlockState, FLOORS_AT, Purpose, RegionHeader, STATES_AT,
};
use barn_layout::limits::WORD_BYTES;
use barn_layout::{Address, planted};
use barn_log::{ROOM_BYTES, Record};
use std::ops::Range;

/// Of objects of such lengths only what differs is recorded. Of shorter ones all is: to find the difference
/// and to name it costs more than to write 192 bytes. Longer ones are mostly values, which change as a whole.
const DIFFERENCE_BYTES_MIN: usize = 192;
const DIFFERENCE_BYTES_MAX: usize = 1024;

/// A header's words, as they are in memory.
#[inline]
fn bytes_of(words: [u64; HEADER_BYTES / WORD_BYTES]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    for (bytes, word) in header.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    header
}

impl Heap {
    /// Records every change from now on: see [`Heap::changes`].
    pub fn record_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// What has changed since this was last cleared; nothing if changes are not recorded. Whoever
    /// changes something that the heap does not know of adds it here.
    #[inline]
    pub fn changes(&mut self) -> Option<&mut Record> {
        self.changes.as_deref_mut()
    }

    /// Records what words hold now.
    #[inline]
    pub(super) fn recorded(&mut self, region: usize, offset: u64, bytes: usize) {
        if self.changes.is_some() {
            self.record(region, offset, bytes);
        }
    }

    fn record(&mut self, region: usize, offset: u64, bytes: usize) {
        let Some(record) = &mut self.changes else { return };
        let of = &self.regions[region];
        // A header, or a few words of a table: nearly always.
        let mut small = [0; 64];
        let mut long = Vec::new();
        let into = match small.get_mut(..bytes) {
            Some(into) => into,
            None => {
                long.resize(bytes, 0);
                &mut long[..]
            }
        };
        // It was just written there.
        if of.words.load(offset, into).is_ok() {
            record.words(of.id, offset as u32, &[into]);
        }
    }

    /// Records the table's entries of blocks, floors among them.
    pub(super) fn recorded_blocks(&mut self, region: usize, blocks: Range<usize>) {
        let (first, count) = (blocks.start, blocks.len());
        self.recorded(region, STATES_AT + (first * BlockState::BYTES) as u64, count * BlockState::BYTES);
        self.recorded(region, FLOORS_AT + (first * BlockFloor::BYTES) as u64, count * BlockFloor::BYTES);
    }

    /// Records a region that was formatted just now.
    pub(super) fn recorded_region(&mut self, region: usize) {
        let Some(record) = &mut self.changes else { return };
        let of = &self.regions[region];
        record.region(of.id, of.words.bytes() as u64);
        self.recorded(region, 0, RegionHeader::BYTES);
        self.recorded_blocks(region, 0..1);
    }

    /// Records slots that were made vacant just now.
    #[inline]
    pub(super) fn recorded_vacant(&mut self, region: usize, offset: u64, purpose: Purpose) {
        let Some(record) = self.changes.as_mut().filter(|_| purpose.is_durable()) else { return };
        let of = &self.regions[region];
        let mut words = [0; 2];
        // They were just written there.
        if of.words.load_words(offset, &mut words).is_ok() && !planted("vacated_slot_not_recorded") {
            record.words(of.id, offset as u32, &[words.map(u64::to_le_bytes).as_flattened()]);
        }
    }

    /// Records of a durable object that holds `body` since just now its header and where it has changed.
    #[inline]
    pub(super) fn recorded_difference(&mut self, slot: Slot, body: &[u8], difference: Range<usize>) {
        let Some(record) = self.changes.as_mut() else { return };
        let Region { words, id, .. } = &self.regions[slot.region];
        let mut header = [0; HEADER_BYTES / WORD_BYTES];
        // They were just written there.
        if words.load_words(slot.offset, &mut header).is_err() {
            return;
        }
        record.words(*id, slot.offset as u32, &[&bytes_of(header)]);
        if difference.is_empty() {
            return;
        }
        // The slot ends with a whole word, filled with zeros.
        let (whole, rest) = body.split_at(body.len() - body.len() % WORD_BYTES);
        let mut last = [0; WORD_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        let last = if rest.is_empty() { &[][..] } else { &last[..] };
        let at = slot.offset as usize + HEADER_BYTES + difference.start;
        let whole = &whole[difference.start..difference.end.min(whole.len())];
        record.words(*id, at as u32, &[whole, last]);
    }

    /// Whether changes of the object in a slot are recorded.
    #[inline]
    fn is_recorded(&self, slot: Slot) -> bool {
        self.changes.is_some() && self.runs[slot.run].purpose.is_durable()
    }

    /// Makes an object's next version of `body`, and records all of it; gives the version.
    #[inline]
    pub(super) fn put_recorded(
        &mut self,
        slot: Slot,
        address: Address,
        header: Header,
        body: &[u8],
    ) -> Result<u64, ObjectError> {
        if self.is_recorded(slot) {
            return self.put_in_record(slot, address, header, body.len(), |room| room.copy_from_slice(body));
        }
        let words = &self.regions[slot.region].words;
        Ok(publish::put(words, address, header.word.version(), header.incarnation, body)?)
    }

    /// The same of a body of so many bytes that `fill` puts in place.
    #[inline]
    pub(super) fn fill_recorded(
        &mut self,
        slot: Slot,
        address: Address,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, ObjectError> {
        if self.is_recorded(slot) {
            return self.put_in_record(slot, address, header, bytes, fill);
        }
        let summed = match self.making.get_mut(..PREFIX_BYTES + bytes) {
            Some(summed) => summed,
            None => {
                self.making.resize(PREFIX_BYTES + bytes, 0);
                &mut self.making[..]
            }
        };
        fill(&mut summed[PREFIX_BYTES..]);
        let version = header.word.version() + 1;
        let head = Head::behind_prefix(address, version, header.incarnation, summed);
        publish::put_headed(&self.regions[slot.region].words, address, &head, &summed[PREFIX_BYTES..])?;
        Ok(version)
    }

    /// Makes the body where the record has it, and header and checksum there, too; then the object of that.
    #[inline]
    fn put_in_record(
        &mut self,
        slot: Slot,
        address: Address,
        header: Header,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, ObjectError> {
        const BODY_AT: usize = ROOM_BYTES + HEADER_BYTES;
        let Region { words, id, .. } = &self.regions[slot.region];
        let Some(record) = &mut self.changes else { return Err(ObjectError::NotReserved) };
        let version = header.word.version() + 1;
        let recorded = HEADER_BYTES + bytes.next_multiple_of(WORD_BYTES);
        record.words_in_place(*id, slot.offset as u32, recorded, |room| {
            // The last word may be filled with zeros: of a known length, they cost no call.
            if let Some(last) = room.last_chunk_mut::<WORD_BYTES>() {
                *last = [0; WORD_BYTES];
            }
            fill(&mut room[BODY_AT..BODY_AT + bytes]);
            let summed = &mut room[BODY_AT - PREFIX_BYTES..][..PREFIX_BYTES + bytes];
            let head = Head::behind_prefix(address, version, header.incarnation, summed);
            publish::put_headed(words, address, &head, &summed[PREFIX_BYTES..])?;
            room[ROOM_BYTES..BODY_AT].copy_from_slice(&bytes_of(head.words()));
            Ok(version)
        })
    }

    /// Records an object of which these parts were written just now, the first from its beginning on.
    #[inline]
    pub(super) fn recorded_parts(&mut self, slot: Slot, head: &Head, first: &[u8], second: (u64, &[u8])) {
        if !self.runs[slot.run].purpose.is_durable() {
            return;
        }
        let Some(record) = self.changes.as_mut() else { return };
        let id = self.regions[slot.region].id;
        record.words(id, slot.offset as u32, &[&bytes_of(head.words()), first]);
        let (at, bytes) = second;
        if !bytes.is_empty() && !planted("second_part_not_recorded") {
            record.words(id, (slot.offset + HEADER_BYTES as u64 + at) as u32, &[bytes]);
        }
    }

    /// Which of an object's words will differ once it holds `body`, to its end if that is not a whole
    /// word; nothing if that is not worth knowing.
    #[inline]
    pub(super) fn difference(&self, region: usize, offset: u64, body: &[u8]) -> Option<Range<usize>> {
        if self.changes.is_none() || !(DIFFERENCE_BYTES_MIN..=DIFFERENCE_BYTES_MAX).contains(&body.len()) {
            return None;
        }
        let (new, rest) = body.as_chunks::<WORD_BYTES>();
        // Brought at once, which is faster than word by word.
        let mut old = [0; DIFFERENCE_BYTES_MAX];
        let old = &mut old[..new.len() * WORD_BYTES];
        self.regions[region].words.load(offset + HEADER_BYTES as u64, old).ok()?;
        let old = old.as_chunks::<WORD_BYTES>().0;
        // From both ends: what lies between the first and the last need not be looked at.
        let first = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(new.len());
        let last = old[first..].iter().zip(&new[first..]).rposition(|(old, new)| old != new);
        let end = if rest.is_empty() { last.map_or(first, |last| first + last + 1) } else { new.len() + 1 };
        Some(first * WORD_BYTES..end * WORD_BYTES)
    }

    /// Says that `bytes` of raw memory from `offset` of its region on, whole words, have changed.
    #[inline]
    pub fn changed_raw(&mut self, raw: &Raw, offset: u64, bytes: usize) {
        if self.changes.is_some()
            && raw.purpose.is_durable()
            && let Some(region) = self.region_at(raw.start.region())
        {
            self.record(region, offset, bytes);
        }
    }

    /// Takes raw memory again that was taken before a restart: `start` as [`Raw::start`] was. For
    /// whoever remembers it, before anything else is allocated.
    pub fn retake_raw(&mut self, start: Address) -> Result<Raw, ObjectError> {
        let offset = start.offset().checked_sub(HEADER_BYTES as u32).ok_or(ObjectError::NotAnObject)?;
        let address = Address::new(start.region(), offset);
        self.retake(address)?;
        self.raw(Reserved { address, incarnation: 0 }).ok_or(ObjectError::NotAnObject)
    }

    /// Reserves a place again that was reserved before a restart.
    pub fn retake(&mut self, address: Address) -> Result<(), ObjectError> {
        let slot = self.locate(address)?;
        if !self.runs[slot.run].free.is_free(slot.index) {
            return Err(ObjectError::NotReserved);
        }
        // A run with nothing but raw memory looks empty to whoever scans it, and waits.
        if self.runs[slot.run].waiting && !planted("retaken_run_still_waits") {
            self.quarantine.take_where(|run| run == slot.run).ok_or(ObjectError::NotReserved)?;
            self.runs[slot.run].waiting = false;
            self.usage.waiting_blocks -= self.runs[slot.run].size.run_blocks;
            self.opened(slot.run);
        }
        let taken = self.take(slot.run, slot.index);
        taken.map(|_| ()).map_err(|error| match error {
            AllocError::Memory(error) => error.into(),
            _ => ObjectError::NotReserved,
        })
    }

    /// Unlocks what was locked when its owner stopped, and says what was found half written.
    pub fn unlock_interrupted(&mut self, interrupted: &[super::Interrupted]) -> Result<(), Address> {
        for object in interrupted {
            if !object.whole {
                return Err(object.address);
            }
            // The scan has found it locked.
            let _ = self.unlock(object.address);
        }
        Ok(())
    }
}

/// Which bytes of a region are worth keeping: the table's, and those of blocks that hold something
/// durable. A region that is not a heap's has none. For a copy of the memory while its owner goes on:
/// a block that comes into use later is all in the log.
pub fn used_ranges(words: &Words) -> Vec<Range<u64>> {
    let blocks = words.bytes() / BLOCK_BYTES;
    let mut used = vec![
        0..STATES_AT + (blocks * BlockState::BYTES) as u64,
        FLOORS_AT..FLOORS_AT + (blocks * BlockFloor::BYTES) as u64,
    ];
    for block in 1..blocks {
        let at = STATES_AT + (block * BlockState::BYTES) as u64;
        // ORDER: Relaxed: whatever the owner does meanwhile is in its log.
        let Ok(word) = words.load_word(at, Ordering::Relaxed) else { break };
        let state = BlockState::from_word(word);
        let holds = matches!(BlockKind::from_byte(state.kind), Some(BlockKind::First | BlockKind::Later));
        if !holds || Purpose::from_byte(state.purpose).is_none_or(|purpose| !purpose.is_durable()) {
            continue;
        }
        let range = (block * BLOCK_BYTES) as u64..((block + 1) * BLOCK_BYTES) as u64;
        match used.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => used.push(range),
        }
    }
    used
}
