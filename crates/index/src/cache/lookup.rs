//! A client's lookup: the bucket's line, then the entry that it names, which must prove itself.
//!
//! An entry that does not was written over after the bucket was read. If the bucket still names it, it is
//! forgotten; if not, the key may have a newer one, and the lookup begins again.

use super::entry::{self, HEADER_BYTES, Header};
use super::index::{self, Line};
use super::roots::Roots;
use super::space::{Place, Spot};
use crate::client::memory::{Memory, Unreadable};
use crate::key::{Found, Key, Looked};
use barn_fabric::region::{Ordering, fence};
use barn_layout::limits::{LINE_BYTES, OPERATION_BYTES_MAX, WORD_BYTES};
use barn_layout::planted;

/// What the first READ of an entry brings: all of most entries, and no more packets than one.
pub(super) const FIRST_READ_BYTES: usize = 256;
/// How often a lookup begins again before its caller hears of it.
const ATTEMPTS: usize = 4;

/// How the bytes of an entry turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It is the key's, and `found` has it.
    Ours,
    /// It is another key's.
    Another,
    /// It is no entry, or no longer the one that was meant.
    Broken,
}

/// A bucket that has been read: what is read from now on is no older.
#[inline]
pub(super) fn line_of(bytes: &[u8; LINE_BYTES]) -> Line {
    // SYNC: pairs with `Storage::store_slot` (the entry that a word names is there) and with the fence in
    // `Storage::store` (the word of an entry that was seen written over is gone).
    fence(Ordering::Acquire);
    Line::parse(bytes)
}

impl Roots {
    /// Looks a key up in the shard's memory. Adds the READs that it made to `reads`.
    pub async fn lookup<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Looked, Unreadable> {
        let Spot { bucket, tag } = self.space.spot(key.hash);
        let Some(place) = self.space.find(self.space.bucket_at(bucket)) else { return Ok(Looked::Stale) };
        let mut broken = 0;
        for _ in 0..ATTEMPTS {
            let mut bytes = [0; LINE_BYTES];
            read(memory, place, &mut bytes, reads).await?;
            let word = line_of(&bytes).word(tag).unwrap_or(0);
            if word == 0 || word == broken {
                memory.believe(place.address.region())?;
                return Ok(Looked::Absent);
            }
            let judged = self.read_entry(memory, key, word, found, reads).await?;
            if judged != Judged::Broken {
                memory.believe(place.address.region())?;
                return Ok(if judged == Judged::Ours { Looked::Found } else { Looked::Absent });
            }
            // SYNC: pairs with the fence in `Storage::store`, as in `line_of`: the bucket is read again
            // after the bytes that were not as they should be.
            fence(Ordering::Acquire);
            broken = word;
        }
        Ok(Looked::Unsettled)
    }

    /// Reads the entry that a word names.
    async fn read_entry<M: Memory + Sync>(
        &self,
        memory: &M,
        key: Key<'_>,
        word: u64,
        found: &mut Found,
        reads: &mut u32,
    ) -> Result<Judged, Unreadable> {
        let Some(offset) = self.space.offset(index::position(word)) else { return Ok(Judged::Broken) };
        let Some(place) = self.space.find(self.space.log_at(offset)) else { return Ok(Judged::Broken) };
        let bytes = &mut found.value;
        bytes.resize(FIRST_READ_BYTES.min(place.rest as usize), 0);
        read(memory, place, bytes, reads).await?;
        let Some(whole) = self.expected_bytes(bytes, word) else {
            memory.believe(place.address.region())?;
            return Ok(Judged::Broken);
        };
        let have = bytes.len().min(whole);
        bytes.resize(whole, 0);
        let Some(pieces) = self.space.pieces(offset, whole as u64) else { return Ok(Judged::Broken) };
        let mut at = 0;
        for (piece, piece_bytes) in pieces {
            // What the first READ brought is all in the first piece.
            let skip = have.saturating_sub(at);
            let within = &mut bytes[at + skip..at + piece_bytes];
            if let Some(address) = piece.address.checked_add(skip as u32) {
                read(memory, Place { address, ..piece }, within, reads).await?;
            }
            memory.believe(piece.address.region())?;
            at += piece_bytes;
        }
        Ok(self.judge(key, word, found))
    }

    /// How long the entry is whose start `bytes` are, if it can be the one that `word` names.
    #[inline]
    pub(super) fn expected_bytes(&self, bytes: &[u8], word: u64) -> Option<usize> {
        let header = Header::parse(bytes)?;
        let unverified = planted("cache_unverified") && header.is_possible();
        let is_it = unverified || header.is_at(index::position(word));
        let fits = header.words() <= self.space.log_words();
        (is_it && fits).then(|| header.bytes())
    }

    /// Judges the bytes of the entry that `word` names, which `found.value` holds, and makes what was
    /// found of them.
    #[inline]
    pub(super) fn judge(&self, key: Key<'_>, word: u64, found: &mut Found) -> Judged {
        let bytes = &mut found.value;
        let as_expected = self.expected_bytes(bytes, word) == Some(bytes.len());
        let whole = entry::is_whole(bytes, self.salt) || planted("cache_unverified");
        let Some(header) = Header::parse(bytes).filter(|_| as_expected && whole) else {
            return Judged::Broken;
        };
        if bytes[HEADER_BYTES..HEADER_BYTES + header.key_bytes] != *key.bytes {
            return Judged::Another;
        }
        bytes.truncate(header.value_at() + header.value_bytes);
        bytes.drain(..header.value_at());
        (found.version, found.expires) = (header.position, header.expires);
        Judged::Ours
    }
}

/// READs bytes that lie together; a load where memory is mapped.
async fn read<M: Memory + Sync>(
    memory: &M,
    place: Place,
    into: &mut [u8],
    reads: &mut u32,
) -> Result<(), Unreadable> {
    debug_assert!(into.len().is_multiple_of(WORD_BYTES));
    if let Some(words) = memory.mapped(place.address.region()) {
        *reads += u32::from(!into.is_empty());
        return words.load(u64::from(place.address.offset()), into).map_err(|_| Unreadable::Nowhere);
    }
    let mut address = place.address;
    for part in into.chunks_mut(OPERATION_BYTES_MAX) {
        *reads += 1;
        memory.read(address, part).await?;
        address = address.checked_add(part.len() as u32).ok_or(Unreadable::Nowhere)?;
    }
    Ok(())
}
