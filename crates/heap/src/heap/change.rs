//! Changes of objects: each is seen by readers at once, whole, or not at all.

use super::run::{Floor, Run};
use super::{Heap, Slot};
use crate::error::ObjectError;
use crate::object::{HEADER_BYTES, Header, publish};
use barn_fabric::Words;
use barn_fabric::region::{Ordering, fence};
use barn_layout::heap::Purpose;
use barn_layout::object::{LockMode, VersionWord};
use barn_layout::{Address, RegionId, planted};

impl Heap {
    /// Makes a reserved slot an object, visible at once; gives its version.
    pub fn create(&mut self, address: Address, body: &[u8]) -> Result<u64, ObjectError> {
        self.create_by(address, body.len(), |heap, slot, header| {
            heap.put_recorded(slot, address, header, body)
        })
    }

    /// The same of an object of so many bytes, which `fill` puts in place: all of them.
    pub fn create_filled(
        &mut self,
        address: Address,
        bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, ObjectError> {
        self.create_by(address, bytes, |heap, slot, header| {
            heap.fill_recorded(slot, address, header, bytes, fill)
        })
    }

    #[inline]
    fn create_by(
        &mut self,
        address: Address,
        bytes: usize,
        put: impl FnOnce(&mut Self, Slot, Header) -> Result<u64, ObjectError>,
    ) -> Result<u64, ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        let run = &mut self.runs[slot.run];
        if header.allocated || run.free.is_free(slot.index) {
            return Err(ObjectError::NotReserved);
        }
        let expected = run.size.slot_bytes - HEADER_BYTES;
        if bytes > expected {
            return Err(ObjectError::Length { bytes, expected });
        }
        run.touched = true;
        let Run { size, purpose, .. } = *run;
        let version = put(self, slot, header)?;
        let usage = self.purpose_usage(purpose);
        usage.reserved -= 1;
        usage.reserved_bytes -= size.slot_bytes as u64;
        usage.objects += 1;
        usage.object_bytes += bytes as u64;
        usage.slot_bytes += size.slot_bytes as u64;
        Ok(version)
    }

    /// What an object's header says, or that of a slot without one.
    #[inline]
    pub fn header(&self, address: Address) -> Result<Header, ObjectError> {
        self.header_at(self.locate(address)?)
    }

    /// How many bytes an object at this place can have.
    pub fn capacity(&self, address: Address) -> Result<usize, ObjectError> {
        let slot = self.locate(address)?;
        Ok(self.runs[slot.run].size.slot_bytes - HEADER_BYTES)
    }

    /// A region's words, for whoever looks at objects in ways of its own.
    #[inline]
    pub fn words(&self, region: RegionId) -> Option<&Words> {
        self.region_at(region).map(|at| &self.regions[at].words)
    }

    /// What the object at this place is for.
    pub fn purpose(&self, address: Address) -> Option<Purpose> {
        self.locate(address).ok().map(|slot| self.runs[slot.run].purpose)
    }

    /// Reads an object, as its owner may without looking twice.
    pub fn read(&self, address: Address, into: &mut Vec<u8>) -> Result<Header, ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        if !header.allocated {
            return Err(ObjectError::Freed);
        }
        // Whole words: copied fastest, and a slot has them.
        into.clear();
        into.resize(header.bytes.next_multiple_of(8), 0);
        self.regions[slot.region].words.load(slot.offset + HEADER_BYTES as u64, into)?;
        into.truncate(header.bytes);
        Ok(header)
    }

    /// Locks an object that still has this version and incarnation. It can still be read.
    pub fn lock(
        &mut self,
        address: Address,
        expected_version: u64,
        incarnation: u32,
    ) -> Result<(), ObjectError> {
        self.lock_to_write(address, expected_version, incarnation, None)
    }

    /// The same, if the object has so many bytes.
    pub fn lock_to_write(
        &mut self,
        address: Address,
        expected_version: u64,
        incarnation: u32,
        bytes: Option<usize>,
    ) -> Result<(), ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        if let Some(bytes) = bytes.filter(|bytes| header.allocated && *bytes != header.bytes) {
            return Err(ObjectError::Length { bytes, expected: header.bytes });
        }
        header.is_free_to_change(expected_version, incarnation)?;
        self.set_mode(slot, expected_version, LockMode::Prepared)
    }

    /// Asks the CPU for an object that is about to be changed: several misses at once take no longer
    /// than one.
    #[inline]
    pub fn prefetch(&self, address: Address, bytes: usize) {
        if let Some(region) = self.region_at(address.region()) {
            let words = &self.regions[region].words;
            let offset = u64::from(address.offset());
            words.prefetch_for_store(offset);
            words.prefetch_for_store((offset + (HEADER_BYTES + bytes) as u64 - 1) & !7);
        }
    }

    /// Asks the CPU for an object that is about to be read.
    #[inline]
    pub fn prefetch_to_read(&self, address: Address, bytes: usize) {
        if let Some(region) = self.region_at(address.region()) {
            let words = &self.regions[region].words;
            words.prefetch(u64::from(address.offset()), HEADER_BYTES + bytes);
        }
    }

    /// Closes a locked object: it cannot be read until it has been written or unlocked.
    pub fn close(&mut self, address: Address) -> Result<(), ObjectError> {
        let (slot, header) = self.locked(address)?;
        self.set_mode(slot, header.word.version(), LockMode::Exclusive)?;
        // SYNC: Release, pairs with the Acquire fence of a READ with confirmation: whoever sees
        // something that was done after this sees that the object is closed.
        fence(Ordering::Release);
        Ok(())
    }

    /// Says that it is decided that a reserved place will hold an object. Whoever has its pointer waits from here on, as
    /// for an object that is closed, instead of being told that nothing is there; until [`Self::create`] or
    /// [`Self::release`].
    pub fn announce(&mut self, address: Address) -> Result<(), ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        if header.allocated || self.runs[slot.run].free.is_free(slot.index) {
            return Err(ObjectError::NotReserved);
        }
        Ok(publish::announce(&self.regions[slot.region].words, slot.offset, header.incarnation, true)?)
    }

    /// Unlocks an object that has not been changed.
    pub fn unlock(&mut self, address: Address) -> Result<(), ObjectError> {
        let (slot, header) = self.locked(address)?;
        self.set_mode(slot, header.word.version(), LockMode::Free)
    }

    /// Gives a locked object new bytes, as many as it has, and unlocks it; gives its new version.
    pub fn write(&mut self, address: Address, body: &[u8]) -> Result<u64, ObjectError> {
        self.write_and_tell(address, body).map(|(version, _)| version)
    }

    /// The same; gives also what the object is for.
    pub fn write_and_tell(&mut self, address: Address, body: &[u8]) -> Result<(u64, Purpose), ObjectError> {
        let (slot, header) = self.locked(address)?;
        let version = self.put(slot, address, header, body)?;
        Ok((version, self.runs[slot.run].purpose))
    }

    /// Gives the object in a slot new bytes.
    #[inline]
    fn put(&mut self, slot: Slot, address: Address, header: Header, body: &[u8]) -> Result<u64, ObjectError> {
        if body.len() != header.bytes {
            return Err(ObjectError::Length { bytes: body.len(), expected: header.bytes });
        }
        let purpose = self.runs[slot.run].purpose;
        let difference = match purpose.is_durable() {
            true => self.difference(slot.region, slot.offset, body),
            false => None,
        };
        let Some(difference) = difference else {
            return self.put_recorded(slot, address, header, body);
        };
        let words = &self.regions[slot.region].words;
        let version = publish::put(words, address, header.word.version(), header.incarnation, body)?;
        self.recorded_difference(slot, body, difference);
        Ok(version)
    }

    /// Gives an object that nobody holds new bytes, as many as it has; gives its new version. As
    /// [`Self::lock`], [`Self::close`] and [`Self::write`] of one object, found once.
    pub fn replace(&mut self, address: Address, incarnation: u32, body: &[u8]) -> Result<u64, ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        if !header.allocated || header.incarnation != incarnation {
            return Err(ObjectError::Freed);
        }
        if header.word.mode() != LockMode::Free && !planted("heap_replaces_held") {
            return Err(ObjectError::Locked);
        }
        self.put(slot, address, header, body)
    }

    /// Gives an object that nobody holds and that still has this version and incarnation other bytes, as many
    /// as it has, which `fill` puts in place: all of them. Gives its new version.
    pub fn replace_filled(
        &mut self,
        address: Address,
        version: u64,
        incarnation: u32,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<u64, ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        header.is_free_to_change(version, incarnation)?;
        self.fill_recorded(slot, address, header, header.bytes, fill)
    }

    /// Frees a locked object: every pointer to it is void from now on.
    pub fn free(&mut self, address: Address) -> Result<(), ObjectError> {
        let (slot, header) = self.locked(address)?;
        self.vacate(slot, header)
    }

    /// Frees an object that nobody holds and that still has this version and incarnation. As [`Self::lock`]
    /// and [`Self::free`], found once.
    pub fn discard(&mut self, address: Address, version: u64, incarnation: u32) -> Result<(), ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        header.is_free_to_change(version, incarnation)?;
        self.vacate(slot, header)
    }

    /// Makes a slot vacant whose object nobody else changes.
    fn vacate(&mut self, slot: Slot, header: Header) -> Result<(), ObjectError> {
        let version = header.word.version() + 1;
        // The last incarnation is never an object's, so that none begins again.
        let incarnation = header.incarnation.saturating_add(1);
        publish::vacate(&self.regions[slot.region].words, slot.offset, version, incarnation)?;
        let run = &mut self.runs[slot.run];
        run.floor = run.floor.above(Floor::over(version, incarnation));
        let Run { size, purpose, .. } = *run;
        self.recorded_vacant(slot.region, slot.offset, purpose);
        let usage = self.purpose_usage(purpose);
        usage.objects -= 1;
        usage.object_bytes -= header.bytes as u64;
        usage.slot_bytes -= size.slot_bytes as u64;
        if incarnation == u32::MAX {
            self.usage.worn_bytes += size.slot_bytes as u64;
            return Ok(());
        }
        self.give(slot);
        Ok(())
    }

    /// The object at `address`, which must be locked.
    fn locked(&self, address: Address) -> Result<(Slot, Header), ObjectError> {
        let slot = self.locate(address)?;
        let header = self.header_at(slot)?;
        match (header.allocated, header.word.mode()) {
            (false, _) => Err(ObjectError::Freed),
            (true, LockMode::Free) => Err(ObjectError::NotLocked),
            (true, _) => Ok((slot, header)),
        }
    }

    fn set_mode(&self, slot: Slot, version: u64, mode: LockMode) -> Result<(), ObjectError> {
        let word = VersionWord::new(version, mode);
        // SYNC: Release, pairs with the Acquire load that starts a READ with confirmation: whoever
        // sees this version, locked or not, sees its bytes.
        Ok(self.regions[slot.region].words.store_word(slot.offset, word.0, Ordering::Release)?)
    }

    #[inline]
    pub(super) fn header_at(&self, slot: Slot) -> Result<Header, ObjectError> {
        let mut words = [0; 2];
        self.regions[slot.region].words.load_words(slot.offset, &mut words)?;
        Ok(Header::from_words(words[0], words[1]))
    }
}
