//! A client's look into a shard's memory (Pilaf sections 3.2 and 3.3).
//!
//! What fails its check is read again: an extent from its entry on, for the key may have another by
//! now. An entry that fails again and again is no entry any more: the table has left this memory.

use super::entry::{ENTRY_BYTES, EXTENT_HEADER_BYTES, Entry, SALT_BYTES, Seen, extent_check, words_of};
use super::roots::Roots;
use super::table::{hash_of, places};
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

/// What a look at the three places came to.
enum Pass {
    /// This, whatever else there is.
    Over(Looked),
    /// The key was nowhere.
    Nothing,
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
        let looked = match self.passes(memory, key, found, reads).await {
            // Whoever gave the address was out of date, and that is the node that gave the roots.
            Err(Unreadable::Nowhere) => Ok(Looked::Stale),
            looked => looked,
        };
        if looked != Ok(Looked::Found) {
            found.value.clear();
        }
        looked
    }

    async fn passes<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let slots = places(hash_of(key), self.slots);
        // SYNC: pairs with the store below: what that reader saw, this one comes after.
        let mut before = self.seen.load(Ordering::Acquire);
        for _ in 0..PASSES_MAX {
            if let Pass::Over(looked) = self.pass(memory, key, slots, found, reads).await? {
                return Ok(looked);
            }
            let moves = self.moves(memory, reads).await?;
            if moves == before && moves.is_multiple_of(2) {
                for slot in slots {
                    memory.believe(self.entry_at(slot).ok_or(Unreadable::Nowhere)?.region())?;
                }
                memory.believe(self.moves_at().ok_or(Unreadable::Nowhere)?.region())?;
                return Ok(Looked::Absent);
            }
            before = moves;
            // SYNC: pairs with the load above.
            self.seen.store(moves, Ordering::Release);
        }
        Ok(Looked::Unsettled)
    }

    /// Looks at the three places, one after the other.
    async fn pass<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        slots: [u64; 3],
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Pass, Unreadable> {
        for slot in slots {
            let at = self.entry_at(slot).ok_or(Unreadable::Nowhere)?;
            let (mut torn, mut tries) = (0, 0);
            loop {
                let mut bytes = [0; ENTRY_BYTES];
                load(memory, at, &mut bytes, reads).await?;
                let entry = match self.salt.open(slot, &words_of(&bytes)) {
                    Seen::Empty => break,
                    Seen::Used(entry) if !entry.may_be(hash_of(key), key.bytes) => break,
                    Seen::Used(entry) => entry,
                    Seen::Gone => return Ok(Pass::Over(Looked::Stale)),
                    Seen::Torn if torn == ENTRY_TRIES_MAX => return Ok(Pass::Over(Looked::Stale)),
                    Seen::Torn => {
                        torn += 1;
                        continue;
                    }
                };
                match self.fetch(memory, &entry, key, found, reads).await? {
                    Fetched::This => {
                        memory.believe(at.region())?;
                        if entry.address.region() != at.region() {
                            memory.believe(entry.address.region())?;
                        }
                        return Ok(Pass::Over(Looked::Found));
                    }
                    Fetched::Another => break,
                    Fetched::Torn if tries == EXTENT_TRIES_MAX => {
                        return Ok(Pass::Over(Looked::Unsettled));
                    }
                    Fetched::Torn => tries += 1,
                }
            }
        }
        Ok(Pass::Nothing)
    }

    /// Reads the extent that an entry points to.
    async fn fetch<M: Memory + Sync>(
        &self,
        memory: &M,
        entry: &Entry,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Fetched, Unreadable> {
        let into = self.make_room(entry, found);
        let mut at = entry.address;
        for piece in into.chunks_mut(OPERATION_BYTES_MAX) {
            load(memory, at, piece, reads).await?;
            at = at.checked_add(piece.len() as u32).ok_or(Unreadable::Nowhere)?;
        }
        Ok(judge(entry, key, found))
    }

    /// Room for an extent in `found`, behind the salt.
    pub(super) fn make_room<'f>(&self, entry: &Entry, found: &'f mut Found) -> &'f mut [u8] {
        let bytes = entry.extent_bytes().next_multiple_of(WORD_BYTES);
        found.value.resize(SALT_BYTES + bytes, 0);
        found.value[..SALT_BYTES].copy_from_slice(&self.salt.extents());
        &mut found.value[SALT_BYTES..]
    }

    async fn moves<M: Memory + Sync>(&self, memory: &M, reads: &mut u32) -> Result<u64, Unreadable> {
        // SYNC: pairs with the fence in `Table::begin_moves`: after an entry of a path, its count.
        fence(Ordering::Acquire);
        let mut word = [0; WORD_BYTES];
        load(memory, self.moves_at().ok_or(Unreadable::Nowhere)?, &mut word, reads).await?;
        Ok(u64::from_le_bytes(word))
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

/// A READ, or a load where the memory is mapped.
async fn load<M: Memory + Sync>(
    memory: &M,
    at: Address,
    into: &mut [u8],
    reads: &mut u32,
) -> Result<(), Unreadable> {
    *reads += 1;
    match memory.mapped(at.region()) {
        Some(words) => {
            words.load(u64::from(at.offset()), into).map_err(|_| Unreadable::Nowhere)?;
            // SYNC: pairs with the fences in `Table::write` and `Table::end_moves`: after a count or
            // an entry, what was there when it was written.
            fence(Ordering::Acquire);
            Ok(())
        }
        None => memory.read(at, into).await,
    }
}
