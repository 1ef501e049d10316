//! One generation of the array of entries, in chunks of the node's heap.
//!
//! | chunk | bytes | what |
//! |---|---|---|
//! | line 0 | 64 | in the first chunk: the count of moves, and the greatest version that may be in use |
//! | entries | 32 each | what strangers read |
//! | notes | 16 each | what the owner alone reads: the hash of the key here, and two links |
//!
//! The notes spare the owner all looks into extents when keys move, when the table grows and when it
//! is scanned. A key's *home* is the first of its three places. Keys elsewhere hang in a list that
//! begins in the note of their home, so that a scan in the order of homes finds every key,
//! wherever it has been moved meanwhile.
//!
//! For the node's log, the table remembers which words were stored, and at the end of an operation says
//! what they hold then: a note that was changed three times on a path is recorded once.

use super::Trouble;
use super::entry::{ENTRY_BYTES, ENTRY_WORDS, Entry, Salt, Seen, tag};
use crate::error::ReopenError;
use crate::hash::{remix, scale};
use crate::key::Key;
use crate::node::Part;
use barn_fabric::Words;
use barn_heap::size_class::Size;
use barn_heap::{HEADER_BYTES, Heap, Purpose, Raw};
use barn_layout::limits::WORD_BYTES;
use barn_layout::{Address, planted};
use std::sync::atomic::{Ordering, fence};

/// The places that a key can lie at.
pub(super) const WAYS: usize = 3;
/// The entries of a chunk: 48 MiB with their notes, of the 64 that the heap gives at most.
pub(super) const CHUNK_SLOTS: u64 = 1 << 20;
/// Links are 32 bits, and one value of them means none.
pub(super) const SLOTS_MAX: u64 = u32::MAX as u64 - 1;
/// Before a chunk's entries.
pub(super) const LINE_BYTES: u64 = 64;

const NOTE_BYTES: usize = 16;
/// Where in line 0 the greatest version stands.
const VERSIONS_AT: u64 = 8;
/// What of a chunk is recorded in one piece: little enough to be copied on the way.
const RECORDED_BYTES_MAX: u64 = 256 << 10;

/// A key's hash as this kind uses it: never 0, which in a note means that nobody is here.
#[inline]
pub(super) fn hash_of(key: Key<'_>) -> u64 {
    key.hash | 1
}

/// The three places of a hash among so many.
#[inline]
pub(super) fn places(hash: u64, slots: u64) -> [u64; WAYS] {
    [1, 2, 3].map(|way| scale(remix(hash, way), slots))
}

/// What orders keys in a scan; their homes are in the same order, however many places there are.
#[inline]
pub(super) fn rank(hash: u64) -> u64 {
    remix(hash, 1)
}

/// How many entries chunk `chunk` of so many slots has.
pub(super) fn chunk_slots(slots: u64, chunk: usize) -> u64 {
    slots.saturating_sub(chunk as u64 * CHUNK_SLOTS).min(CHUNK_SLOTS)
}

/// As many bytes, or more if the heap would take many blocks at a time for them: a small table must
/// not keep 11 MiB from all others because its array has half of one.
fn sparing(bytes: usize) -> usize {
    let Some(size) = Size::for_object(bytes).filter(|size| size.run_blocks > 1) else { return bytes };
    let spares = size.larger().find(|larger| larger.run_blocks == 1);
    spares.map_or(bytes, |larger| larger.slot_bytes - HEADER_BYTES)
}

#[derive(Debug)]
struct Chunk {
    raw: Raw,
    /// Where line 0 is.
    start: u64,
    notes: u64,
}

impl Chunk {
    /// The bytes that a chunk of so many slots needs.
    fn bytes(slots: u64) -> usize {
        LINE_BYTES as usize * 2 + slots as usize * (ENTRY_BYTES + NOTE_BYTES)
    }

    fn new(raw: Raw, slots: u64) -> Self {
        let start = u64::from(raw.start.offset()).next_multiple_of(LINE_BYTES);
        let notes = start + LINE_BYTES + slots * ENTRY_BYTES as u64;
        Self { raw, start, notes }
    }
}

/// Words that have been stored: in which chunk, where in its region, how many bytes.
type Touched = (u32, u64, u32);

/// A note of the owner's.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    hash: u64,
    /// The next in the list that this key hangs in, plus one.
    next: u32,
    /// The first in the list of keys whose home is here, plus one.
    first: u32,
}

/// One generation of the array.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) salt: Salt,
    pub(super) generation: u64,
    pub(super) slots: u64,
    purpose: Purpose,
    chunks: Vec<Chunk>,
    moves: u64,
    /// No version above it has ever been in use.
    versions_max: u64,
    /// What was stored and is yet to be recorded; nothing while nobody records it.
    touched: Option<Vec<Touched>>,
    /// Called after every entry that a path writes.
    #[cfg(test)]
    pub(super) watch: Watch,
}

impl Table {
    /// An empty table with `slots` places.
    pub(super) fn new(
        heap: &mut Heap,
        (seed, part): (u64, Part),
        purpose: Purpose,
        generation: u64,
        slots: u64,
    ) -> Result<Self, Trouble> {
        if slots > SLOTS_MAX {
            return Err(Trouble::Full(format!(
                "{slots} places are more than one shard can have: ask for a smaller capacity, or for more \
                 shards"
            )));
        }
        if slots > CHUNK_SLOTS {
            heap.check_budget(Chunk::bytes(slots) as u64)?;
        }
        let mut table = Self::nowhere(Salt::new(seed, part, generation), purpose, generation, slots);
        let made = table.make(heap);
        if made.is_err() {
            table.clear(heap);
        }
        made.map(|()| table)
    }

    fn nowhere(salt: Salt, purpose: Purpose, generation: u64, slots: u64) -> Self {
        Self {
            salt,
            generation,
            slots,
            purpose,
            chunks: Vec::new(),
            moves: salt.moves_start(),
            versions_max: 0,
            touched: None,
            #[cfg(test)]
            watch: Watch::default(),
        }
    }

    fn make(&mut self, heap: &mut Heap) -> Result<(), Trouble> {
        for chunk in 0..self.slots.div_ceil(CHUNK_SLOTS) as usize {
            let slots = chunk_slots(self.slots, chunk);
            let raw = heap.reserve_raw(sparing(Chunk::bytes(slots)), self.purpose)?;
            self.chunks.push(Chunk::new(raw, slots));
        }
        for slot in 0..self.slots {
            self.write(slot, None)?;
            self.set_note(slot, Note::default())?;
        }
        self.store_moves()?;
        self.set_versions_max(0)
    }

    /// A table that was there before a restart, in memory taken where it says.
    pub(super) fn reopen(
        heap: &mut Heap,
        (seed, part): (u64, Part),
        purpose: Purpose,
        generation: u64,
        slots: u64,
        starts: &[Address],
    ) -> Result<Self, ReopenError> {
        let mut table = Self::nowhere(Salt::new(seed, part, generation), purpose, generation, slots);
        for (chunk, start) in starts.iter().enumerate() {
            let slots = chunk_slots(slots, chunk);
            let taken = heap.retake_raw(*start);
            let raw = taken.map_err(|_| ReopenError::Memory("a chunk of the table is not there"))?;
            if raw.bytes < Chunk::bytes(slots) {
                return Err(ReopenError::Memory("a chunk of the table is too short"));
            }
            table.chunks.push(Chunk::new(raw, slots));
        }
        let lost = |_| ReopenError::Memory("a chunk of the table cannot be read");
        let first = table.chunks.first().ok_or(ReopenError::Notes("a table without memory"))?;
        let mut head = [0; 2];
        first.raw.words.load_words(first.start, &mut head).map_err(lost)?;
        [table.moves, table.versions_max] = head;
        match table.moves.is_multiple_of(2) {
            true => Ok(table),
            false => Err(ReopenError::Memory("keys were being moved")),
        }
    }

    /// The raw memory that it has taken.
    pub(super) fn raws(&self) -> impl Iterator<Item = &Raw> + '_ {
        self.chunks.iter().map(|chunk| &chunk.raw)
    }

    /// Remembers what is stored from now on, or no longer.
    pub(super) fn collect(&mut self, is_recorded: bool) {
        match is_recorded {
            true => _ = self.touched.get_or_insert_default(),
            false => self.touched = None,
        }
    }

    /// Has the words recorded that were stored since this was last asked for.
    pub(super) fn record(&mut self, heap: &mut Heap) {
        let Some(touched) = &mut self.touched else { return };
        touched.sort_unstable();
        let mut next: Option<Touched> = None;
        for (chunk, at, bytes) in touched.drain(..) {
            match &mut next {
                // Neighbours, and what is there twice.
                Some((in_chunk, from, long)) if *in_chunk == chunk && at <= *from + u64::from(*long) => {
                    *long = (*long).max((at - *from) as u32 + bytes);
                }
                _ => {
                    let before = next.replace((chunk, at, bytes));
                    recorded(heap, &self.chunks, before);
                }
            }
        }
        recorded(heap, &self.chunks, next);
    }

    /// Has all of it recorded: it is new.
    pub(super) fn record_all(&mut self, heap: &mut Heap) {
        for (at, chunk) in self.chunks.iter().enumerate() {
            let end = chunk.notes + chunk_slots(self.slots, at) * NOTE_BYTES as u64;
            let mut from = chunk.start;
            while from < end {
                let bytes = (end - from).min(RECORDED_BYTES_MAX);
                heap.changed_raw(&chunk.raw, from, bytes as usize);
                from += bytes;
            }
        }
    }

    #[inline]
    fn touch(&mut self, chunk: u64, at: u64, bytes: usize) {
        if let Some(touched) = &mut self.touched {
            touched.push((chunk as u32, at, bytes as u32));
        }
    }

    /// No version above it has ever been in use.
    pub(super) fn versions_max(&self) -> u64 {
        self.versions_max
    }

    /// Versions up to this one may be in use from now on.
    pub(super) fn set_versions_max(&mut self, versions_max: u64) -> Result<(), Trouble> {
        let chunk = self.chunks.first().ok_or(Trouble::Lost)?;
        let at = chunk.start + VERSIONS_AT;
        // ORDER: Relaxed: nobody but the owner reads it.
        chunk.raw.words.store_word(at, versions_max, Ordering::Relaxed)?;
        self.versions_max = versions_max;
        self.touch(0, at, WORD_BYTES);
        Ok(())
    }

    /// Where the chunks begin.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Address> + '_ {
        self.chunks.iter().map(|chunk| Address::new(chunk.raw.start.region(), chunk.start as u32))
    }

    /// The count of moves.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// The heap's memory that is taken, with what the heap adds.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| (chunk.raw.bytes + HEADER_BYTES) as u64).sum()
    }

    /// Gives all memory back, zeroed.
    pub(super) fn clear(&mut self, heap: &mut Heap) {
        for chunk in self.chunks.drain(..) {
            // The heap knows what it gave: there is nothing to be done about a refusal.
            let _ = heap.release_raw(&chunk.raw);
        }
    }

    /// Says that keys are about to move: whoever finds nothing from now on looks again.
    pub(super) fn begin_moves(&mut self) -> Result<(), Trouble> {
        self.moves = self.moves.wrapping_add(1);
        self.store_moves()?;
        // SYNC: pairs with the fence in `lookup`'s `moves`: a reader that has seen any entry of the
        // path sees this count or a later one.
        fence(Ordering::Release);
        Ok(())
    }

    /// Says that they are where they were going.
    pub(super) fn end_moves(&mut self) -> Result<(), Trouble> {
        // SYNC: pairs with the fence in `lookup`'s `load`: a reader that begins with this count sees
        // every entry of the path.
        fence(Ordering::Release);
        self.moves = self.moves.wrapping_add(1);
        self.store_moves()
    }

    fn store_moves(&mut self) -> Result<(), Trouble> {
        let chunk = self.chunks.first().ok_or(Trouble::Lost)?;
        let at = chunk.start;
        // ORDER: Release, though the fences around every path are what readers rely on.
        chunk.raw.words.store_word(at, self.moves, Ordering::Release)?;
        self.touch(0, at, WORD_BYTES);
        Ok(())
    }

    /// Asks the CPU for what a look at `slot` needs.
    pub(super) fn prefetch(&self, slot: u64) {
        if let Ok((words, entry, note)) = self.locate(slot) {
            words.prefetch(note, NOTE_BYTES);
            words.prefetch(entry, ENTRY_BYTES);
        }
    }

    /// The hash of the key at `slot`; 0 if there is none.
    #[inline]
    pub(super) fn hash_at(&self, slot: u64) -> Result<u64, Trouble> {
        let (words, _, note) = self.locate(slot)?;
        // ORDER: Relaxed: the owner alone writes notes, and this is the owner.
        Ok(words.load_word(note, Ordering::Relaxed)?)
    }

    /// The entry at `slot`, where a key is.
    pub(super) fn entry_at(&self, slot: u64) -> Result<Entry, Trouble> {
        let (words, at, _) = self.locate(slot)?;
        let mut entry = [0; ENTRY_WORDS];
        words.load_words(at, &mut entry)?;
        Ok(Entry::unpack(&entry))
    }

    /// What is at `slot`, checked: whether a key is there, entry and note must say the same.
    pub(super) fn checked_at(&self, slot: u64) -> Result<Option<Entry>, ReopenError> {
        let lost = |_| ReopenError::Memory("an entry cannot be read");
        let (words, at, _) = self.locate(slot).map_err(lost)?;
        let mut entry = [0; ENTRY_WORDS];
        words.load_words(at, &mut entry).map_err(|_| ReopenError::Memory("an entry cannot be read"))?;
        let note = self.note(slot).map_err(lost)?;
        let linked = |link: u32| u64::from(link) <= self.slots;
        if !linked(note.next) || !linked(note.first) {
            return Err(ReopenError::Memory("a list of keys leads out of the table"));
        }
        match (self.salt.open(slot, &entry), note.hash) {
            (Seen::Empty, 0) => Ok(None),
            (Seen::Used(entry), hash)
                if hash != 0 && tag(hash) == entry.tag && places(hash, self.slots).contains(&slot) =>
            {
                Ok(Some(entry))
            }
            _ => Err(ReopenError::Memory("an entry and its note do not belong together")),
        }
    }

    /// Follows every list: each of the `keys` keys must be in the one of its home, once.
    pub(super) fn check_lists(&self, keys: u64) -> Result<(), ReopenError> {
        let damaged = || ReopenError::Memory("a list of keys is damaged");
        let mut left = keys;
        for home in 0..self.slots {
            let note = self.note(home).map_err(|_| damaged())?;
            if note.hash != 0 && scale(rank(note.hash), self.slots) == home {
                left = left.checked_sub(1).ok_or_else(damaged)?;
            }
            let mut next = note.first;
            while next != 0 {
                left = left.checked_sub(1).ok_or_else(damaged)?;
                let slot = u64::from(next) - 1;
                let note = self.note(slot).map_err(|_| damaged())?;
                if slot == home || note.hash == 0 || scale(rank(note.hash), self.slots) != home {
                    return Err(damaged());
                }
                next = note.next;
            }
        }
        (left == 0).then_some(()).ok_or_else(damaged)
    }

    /// Puts a key at `slot`, which is free.
    pub(super) fn occupy(&mut self, slot: u64, hash: u64, entry: &Entry) -> Result<(), Trouble> {
        let home = scale(rank(hash), self.slots);
        let mut note = Note { hash, ..self.note(slot)? };
        if home != slot {
            let mut of_home = self.note(home)?;
            note.next = std::mem::replace(&mut of_home.first, slot as u32 + 1);
            self.set_note(home, of_home)?;
        }
        self.set_note(slot, note)?;
        self.write(slot, Some(entry))
    }

    /// Notes that the key at `slot` is leaving; its entry is for the caller to overwrite.
    pub(super) fn forget(&mut self, slot: u64) -> Result<(), Trouble> {
        let note = self.note(slot)?;
        let home = scale(rank(note.hash), self.slots);
        if home != slot {
            self.unlink(home, slot, note.next)?;
        }
        // Read again: it may have been this slot's own list that was changed.
        let note = self.note(slot)?;
        self.set_note(slot, Note { hash: 0, next: 0, ..note })
    }

    /// Writes the entry at `slot`.
    pub(super) fn write(&mut self, slot: u64, entry: Option<&Entry>) -> Result<(), Trouble> {
        let (words, at, _) = self.locate(slot)?;
        // SYNC: pairs with the fence in `lookup`'s `load`: whoever sees the entry sees its extent.
        fence(Ordering::Release);
        words.store_words(at, &self.salt.seal(slot, entry))?;
        self.touch(slot / CHUNK_SLOTS, at, ENTRY_BYTES);
        Ok(())
    }

    /// The keys whose home is `home`: the places where they lie.
    pub(super) fn at_home(&self, home: u64, places: &mut Vec<(u64, u64)>) -> Result<(), Trouble> {
        let note = self.note(home)?;
        if note.hash != 0 && scale(rank(note.hash), self.slots) == home {
            places.push((rank(note.hash), home));
        }
        let mut next = note.first;
        while next != 0 {
            let slot = u64::from(next) - 1;
            let note = self.note(slot)?;
            places.push((rank(note.hash), slot));
            next = note.next;
        }
        Ok(())
    }

    fn unlink(&mut self, home: u64, slot: u64, after: u32) -> Result<(), Trouble> {
        let this = slot as u32 + 1;
        let mut of_home = self.note(home)?;
        if of_home.first == this {
            of_home.first = after;
            return self.set_note(home, of_home);
        }
        let mut at = of_home.first;
        while at != 0 {
            let before = u64::from(at) - 1;
            let mut note = self.note(before)?;
            if note.next == this {
                note.next = after;
                return self.set_note(before, note);
            }
            at = note.next;
        }
        Err(Trouble::Lost)
    }

    fn note(&self, slot: u64) -> Result<Note, Trouble> {
        let (words, _, at) = self.locate(slot)?;
        let mut note = [0; 2];
        words.load_words(at, &mut note)?;
        Ok(Note { hash: note[0], next: note[1] as u32, first: (note[1] >> 32) as u32 })
    }

    fn set_note(&mut self, slot: u64, note: Note) -> Result<(), Trouble> {
        let (words, _, at) = self.locate(slot)?;
        words.store_words(at, &[note.hash, u64::from(note.next) | u64::from(note.first) << 32])?;
        self.touch(slot / CHUNK_SLOTS, at, NOTE_BYTES);
        Ok(())
    }

    /// The words in which `slot` lies, the place of its entry and that of its note.
    #[inline]
    fn locate(&self, slot: u64) -> Result<(&Words, u64, u64), Trouble> {
        let chunk = self.chunks.get((slot / CHUNK_SLOTS) as usize).ok_or(Trouble::Lost)?;
        let within = slot % CHUNK_SLOTS;
        let entry = chunk.start + LINE_BYTES + within * ENTRY_BYTES as u64;
        Ok((&chunk.raw.words, entry, chunk.notes + within * NOTE_BYTES as u64))
    }
}

fn recorded(heap: &mut Heap, chunks: &[Chunk], touched: Option<Touched>) {
    if let Some((chunk, at, bytes)) = touched
        && let Some(chunk) = chunks.get(chunk as usize)
        && !planted("raw_change_not_recorded")
    {
        heap.changed_raw(&chunk.raw, at, bytes as usize);
    }
}

/// What a test wants to see between two stores.
#[cfg(test)]
#[derive(Default)]
pub(super) struct Watch(pub(super) Option<Box<dyn FnMut() + Send>>);

#[cfg(test)]
impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}
