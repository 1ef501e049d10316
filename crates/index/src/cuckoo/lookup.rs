//! A client's look into a shard's memory (Pilaf sections 3.2 and 3.3).
//!
//! What fails its check is read again: an extent from its entry on, for the key may have another by
//! now. An entry that fails again and again is no entry any more: the table has left this memory.

use super::entry::{ENTRY_BYTES, EXTENT_HEADER_BYTES, Entry, SALT_BYTES, Seen, extent_check, words_of};
use super::roots::Roots;
use super::table::{WAYS, hash_of, places};
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use barn_layout::Address;
use barn_layout::limits::{OPERATION_BYTES_MAX, WORD_BYTES};
use barn_layout::planted;
use std::sync::atomic::{Ordering, fence};

/// A writer takes some 20 ns for an entry; whoever finds it torn so often has found something else.
const ENTRY_TRIES_MAX: u32 = 8;
/// How often an entry may point to what is no longer there.
const EXTENT_TRIES_MAX: u32 = 8;
/// How often keys may move while nothing is found.
const PASSES_MAX: u32 = 8;

/// A lookup between two READs: which is wanted next, and what the last one says. It waits for nothing itself,
/// so that one is the same whoever makes its READs, and however they are waited for.
struct Search<'a> {
    roots: &'a Roots,
    key: Key<'a>,
    slots: [u64; WAYS],
    stage: Stage,
    /// Which of the three places is looked at.
    way: usize,
    /// How often the entry there was torn, and what it points to.
    torn: u32,
    tries: u32,
    /// How often keys have moved while nothing was found, and their count before the last look.
    passes: u32,
    before: u64,
}

/// What the next READ is to bring.
#[derive(Clone, Copy)]
enum Stage {
    /// The entry at one of the places.
    Entry,
    /// The extent that this entry points to, from a byte on.
    Extent(Entry, usize),
    /// The count of moves: the key was at none of its places.
    Moves,
}

impl<'a> Search<'a> {
    #[inline(always)]
    fn new(roots: &'a Roots, key: Key<'a>) -> Self {
        let slots = places(hash_of(key), roots.slots);
        // SYNC: pairs with the store in `take_moves`: what that reader saw, this one comes after.
        let before = roots.seen.load(Ordering::Acquire);
        Self { roots, key, slots, stage: Stage::Entry, way: 0, torn: 0, tries: 0, passes: 0, before }
    }

    /// Where to read next, and the room for it: `near` for what is short, `found` for an extent. `None` where
    /// no memory can be.
    #[inline(always)]
    fn wanted<'b>(
        &self,
        near: &'b mut [u8; ENTRY_BYTES],
        found: &'b mut Found,
    ) -> Option<(Address, &'b mut [u8])> {
        match self.stage {
            Stage::Entry => Some((self.roots.entry_at(self.slots[self.way])?, near)),
            Stage::Extent(entry, from) => {
                let at = entry.address.checked_add(from as u32)?;
                let into = &mut self.roots.make_room(&entry, found)[from..];
                let bytes = into.len().min(OPERATION_BYTES_MAX);
                Some((at, &mut into[..bytes]))
            }
            Stage::Moves => {
                // SYNC: pairs with the fence in `Table::begin_moves`: after an entry of a path, its count.
                fence(Ordering::Acquire);
                Some((self.roots.moves_at()?, &mut near[..WORD_BYTES]))
            }
        }
    }

    /// Takes what the READ has brought; what the lookup came to, if that was the last one.
    #[inline(always)]
    fn take(&mut self, near: &[u8; ENTRY_BYTES], found: &mut Found) -> Option<Looked> {
        // SYNC: pairs with the fences in `Table::write` and `Table::end_moves`: where a READ is a load, what
        // follows a count or an entry sees what was there when it was written.
        fence(Ordering::Acquire);
        match self.stage {
            Stage::Entry => self.take_entry(near),
            Stage::Extent(entry, from) => self.take_extent(entry, from, found),
            Stage::Moves => {
                let [moves, ..] = words_of(near);
                self.take_moves(moves)
            }
        }
    }

    #[inline(always)]
    fn take_entry(&mut self, near: &[u8; ENTRY_BYTES]) -> Option<Looked> {
        match self.roots.salt.open(self.slots[self.way], &words_of(near)) {
            Seen::Used(entry) if entry.may_be(hash_of(self.key), self.key.bytes) => {
                self.stage = Stage::Extent(entry, 0);
                None
            }
            Seen::Used(_) | Seen::Empty => self.go_on(),
            Seen::Torn if self.torn < ENTRY_TRIES_MAX => {
                self.torn += 1;
                None
            }
            Seen::Gone | Seen::Torn => Some(Looked::Stale),
        }
    }

    #[inline(always)]
    fn take_extent(&mut self, entry: Entry, from: usize, found: &mut Found) -> Option<Looked> {
        let read = from + OPERATION_BYTES_MAX;
        if read < entry.extent_bytes() {
            self.stage = Stage::Extent(entry, read);
            return None;
        }
        match judge(&entry, self.key, found) {
            Fetched::This => Some(Looked::Found),
            Fetched::Another => self.go_on(),
            Fetched::Torn if self.tries == EXTENT_TRIES_MAX => Some(Looked::Unsettled),
            Fetched::Torn => {
                self.tries += 1;
                self.stage = Stage::Entry;
                None
            }
        }
    }

    /// The key is not at this place.
    #[inline(always)]
    fn go_on(&mut self) -> Option<Looked> {
        self.way += 1;
        (self.torn, self.tries) = (0, 0);
        self.stage = if self.way < WAYS { Stage::Entry } else { Stage::Moves };
        None
    }

    #[inline(always)]
    fn take_moves(&mut self, moves: u64) -> Option<Looked> {
        if moves == self.before && moves.is_multiple_of(2) {
            return Some(Looked::Absent);
        }
        self.before = moves;
        // SYNC: pairs with the load in `new`.
        self.roots.seen.store(moves, Ordering::Release);
        self.passes += 1;
        (self.stage, self.way) = (Stage::Entry, 0);
        (self.passes == PASSES_MAX).then_some(Looked::Unsettled)
    }

    /// Asks whether all that was read may be believed.
    #[inline(always)]
    fn believe<M: Memory>(&self, memory: &M, looked: Looked) -> Result<(), Unreadable> {
        let entry_at = |slot: u64| self.roots.entry_at(slot).ok_or(Unreadable::Nowhere);
        match (looked, self.stage) {
            (Looked::Found, Stage::Extent(entry, _)) => {
                let region = entry_at(self.slots[self.way])?.region();
                memory.believe(region)?;
                if entry.address.region() != region {
                    memory.believe(entry.address.region())?;
                }
                Ok(())
            }
            (Looked::Absent, _) => {
                for slot in self.slots {
                    memory.believe(entry_at(slot)?.region())?;
                }
                memory.believe(self.roots.moves_at().ok_or(Unreadable::Nowhere)?.region())
            }
            // It decides nothing.
            _ => Ok(()),
        }
    }

    /// What is said of a lookup that came to this.
    #[inline(always)]
    fn end<M: Memory>(
        &self,
        memory: &M,
        looked: Result<Looked, Unreadable>,
        found: &mut Found,
    ) -> Result<Looked, Unreadable> {
        let looked = match looked.and_then(|looked| self.believe(memory, looked).map(|()| looked)) {
            // Whoever gave the address was out of date, and that is the node that gave the roots.
            Err(Unreadable::Nowhere) => Ok(Looked::Stale),
            looked => looked,
        };
        if looked != Ok(Looked::Found) {
            found.value.clear();
        }
        looked
    }
}

impl Roots {
    /// Looks a key up in the shard's memory. Adds the READs that it made to `reads`: one for each
    /// place looked at and one for the extent; where the key is not, one for the count of moves.
    pub async fn lookup<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let mut search = Search::new(self, key);
        let mut near = [0; ENTRY_BYTES];
        let looked = loop {
            let Some((at, into)) = search.wanted(&mut near, found) else { break Err(Unreadable::Nowhere) };
            *reads += 1;
            let read = match load_mapped(memory, at, into) {
                Some(read) => read,
                None => memory.read(at, into).await,
            };
            if let Err(error) = read {
                break Err(error);
            }
            if let Some(looked) = search.take(&near, found) {
                break Ok(looked);
            }
        };
        search.end(memory, looked, found)
    }

    /// As [`Self::lookup`], by READs that `read` waits for.
    #[inline(always)]
    pub(crate) fn lookup_waiting<M: Memory>(
        &self,
        memory: &M,
        read: impl Fn(Address, &mut [u8]) -> Result<(), Unreadable>,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let mut search = Search::new(self, key);
        let mut near = [0; ENTRY_BYTES];
        let looked = loop {
            let Some((at, into)) = search.wanted(&mut near, found) else { break Err(Unreadable::Nowhere) };
            *reads += 1;
            if let Err(error) = read(at, into) {
                break Err(error);
            }
            if let Some(looked) = search.take(&near, found) {
                break Ok(looked);
            }
        };
        search.end(memory, looked, found)
    }

    /// Room for an extent in `found`, behind the salt.
    pub(super) fn make_room<'f>(&self, entry: &Entry, found: &'f mut Found) -> &'f mut [u8] {
        let bytes = entry.extent_bytes().next_multiple_of(WORD_BYTES);
        found.value.resize(SALT_BYTES + bytes, 0);
        found.value[..SALT_BYTES].copy_from_slice(&self.salt.extents());
        &mut found.value[SALT_BYTES..]
    }
}

/// What an extent turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// The key's; all of it is in `found`.
    This,
    /// Another key's.
    Another,
    /// Not what the entry says.
    Torn,
}

/// Judges an extent that was read into `found`, behind the salt.
#[inline]
pub(super) fn judge(entry: &Entry, key: Key<'_>, found: &mut Found) -> Fetched {
    let salted = &found.value[..SALT_BYTES + entry.extent_bytes()];
    if extent_check(salted) != entry.check && !planted("cuckoo_unverified") {
        return Fetched::Torn;
    }
    let (header, rest) = salted[SALT_BYTES..].split_at(EXTENT_HEADER_BYTES);
    if !rest.starts_with(key.bytes) {
        return Fetched::Another;
    }
    let (version, expires) = header.split_at(8);
    found.version = u64::from_le_bytes(version.try_into().unwrap_or_default());
    found.expires = u64::from_le_bytes(expires.try_into().unwrap_or_default());
    let value = SALT_BYTES + EXTENT_HEADER_BYTES + key.bytes.len();
    found.value.truncate(SALT_BYTES + entry.extent_bytes());
    found.value.drain(..value);
    Fetched::This
}

/// A load, where the memory is mapped.
#[inline(always)]
pub(crate) fn load_mapped<M: Memory>(
    memory: &M,
    at: Address,
    into: &mut [u8],
) -> Option<Result<(), Unreadable>> {
    let words = memory.mapped(at.region())?;
    Some(words.load(u64::from(at.offset()), into).map_err(|_| Unreadable::Nowhere))
}
