//! Puts and removals: room is made by forgetting, and each entry that goes is counted once.

use super::entry::{self, Header};
use super::index;
use super::log::Placed;
use super::owner::{Hit, Owner, SCRATCH_BYTES_MAX};
use super::space::Spot;
use crate::error::Refused;
use crate::hash::hash;
use crate::key::Key;
use crate::options::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use barn_layout::limits::WORD_BYTES;
use std::time::{SystemTime, UNIX_EPOCH};

/// How many entries are forgotten together, so that a long put does not wait for one bucket after another.
const VICTIMS_MAX: usize = 16;

impl Owner {
    /// Appends an entry and names it in the index. Gives its version.
    pub(super) fn put(
        &mut self,
        key: Key<'_>,
        spot: Spot,
        value: &[u8],
        expires: u64,
    ) -> Result<u64, Refused> {
        let too_long = key.bytes.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX;
        let words = entry::words(key.bytes.len(), value.len());
        let placed = self.log.place(&self.storage.space, words).filter(|_| !too_long);
        let placed = placed.ok_or_else(|| self.too_long(words))?;
        self.make_room(placed);
        let version = self.storage.space.number(placed.start);
        entry::build(&mut self.scratch, self.salt, version, expires, key.bytes, value);
        let appended = self.log.append(&self.storage, placed, &self.scratch);
        if self.scratch.capacity() > SCRATCH_BYTES_MAX {
            self.scratch = Vec::new();
        }
        appended.ok_or_else(|| Refused::Invalid("the cache's memory is not there any more".into()))?;
        self.name(key, spot, version);
        self.stats.updates += 1;
        self.stats.keys += 1;
        self.stats.payload_bytes += (key.bytes.len() + value.len()) as u64;
        self.ask_for_oldest();
        Ok(version)
    }

    /// Removes a key that is there.
    pub(super) fn remove(&mut self, spot: Spot, hit: Hit) {
        self.storage.store_slot(spot.bucket, hit.slot, 0);
        self.stats.updates += 1;
        self.stats.expired += u64::from(is_over(&hit.header));
        self.uncount(&hit.header);
    }

    /// Stores the word that names the newest entry, over the key's own if there is one.
    fn name(&mut self, key: Key<'_>, spot: Spot, version: u64) {
        let line = self.storage.line(spot.bucket);
        let slot = line.slot_for(spot.tag, version);
        let before = Some(line.0[slot]).filter(|word| *word != 0).and_then(|word| self.entry_of(word));
        self.storage.store_slot(spot.bucket, slot, index::pack(spot.tag, version));
        let Some((offset, header)) = before else { return };
        let same_key = header.key_bytes == key.bytes.len()
            && self.load_key(offset, &header).is_some()
            && self.scratch == key.bytes;
        self.uncount(&header);
        match is_over(&header) {
            true => self.stats.expired += 1,
            false => self.stats.evicted += u64::from(!same_key),
        }
    }

    /// Forgets all that is in the way of what was placed.
    fn make_room(&mut self, placed: Placed) {
        let mut victims = std::mem::take(&mut self.victims);
        loop {
            while victims.len() < VICTIMS_MAX
                && let Some((position, header)) = self.log.forget(&self.storage, placed)
                && self.load_key(position.offset, &header).is_some()
            {
                let spot = self.storage.space.spot(hash(self.seed, &self.scratch));
                self.storage.prefetch_bucket(spot.bucket);
                victims.push((spot, header));
            }
            if victims.is_empty() {
                break;
            }
            victims.drain(..).for_each(|(spot, header)| self.evict(spot, header));
        }
        self.victims = victims;
    }

    /// Takes an entry that is about to be written over out of the index, if it is still there.
    fn evict(&mut self, Spot { bucket, tag }: Spot, header: Header) {
        let word = index::pack(tag, header.position);
        let line = self.storage.line(bucket);
        if let Some(slot) = line.find(tag).filter(|slot| line.0[*slot] == word) {
            self.storage.store_slot(bucket, slot, 0);
            self.uncount(&header);
            match is_over(&header) {
                true => self.stats.expired += 1,
                false => self.stats.evicted += 1,
            }
        }
    }

    /// Asks the CPU for the bucket that the next put will take its victim out of.
    fn ask_for_oldest(&mut self) {
        if let Some(header) = self.log.oldest(&self.storage)
            && header.key_bytes <= 64
            && self.load_key(self.log.tail().offset, &header).is_some()
        {
            let Spot { bucket, .. } = self.storage.space.spot(hash(self.seed, &self.scratch));
            self.storage.prefetch_bucket(bucket);
        }
    }

    fn uncount(&mut self, header: &Header) {
        self.stats.keys -= 1;
        self.stats.payload_bytes -= header.payload_bytes();
    }

    #[cold]
    fn too_long(&self, words: u64) -> Refused {
        let (bytes, log_bytes) =
            (words * WORD_BYTES as u64, self.storage.space.log_words() * WORD_BYTES as u64);
        Refused::Invalid(format!(
            "an entry of {bytes} bytes does not fit the cache, whose log has {log_bytes} bytes of {}: make one \
             with more memory (--memory, memory_bytes)",
            self.stats.memory_bytes
        ))
    }
}

/// Whether an entry is past its time.
fn is_over(header: &Header) -> bool {
    header.expires != 0 && {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u128::from(header.expires) <= now.as_millis()
    }
}
