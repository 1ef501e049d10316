//! Writes an image: the used parts of regions, in chunks that prove themselves.
//!
//! What always holds: chunks of zeros are left out, because a region is zero before an image is loaded;
//! the checksum over the chunks' checksums tells a missing, doubled or moved chunk.

use super::Ended;
use crate::aligned::Aligned;
use crate::error::LogError;
use crate::frame::checksum;
use crate::log::Used;
use crate::names;
use barn_fabric::seam::{Disk, DiskFile};
use barn_fabric::{Crc64, RegionId, Words};
use barn_layout::limits::WORD_BYTES;
use barn_layout::log::{CHUNK_MAGIC, ImageChunk, LOG_UNIT_BYTES};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

pub(crate) const CHUNK_COVERED_BYTES: usize = ImageChunk::BYTES - 8;
/// After so many bytes the image is synced: a log that shares the disk then never waits for more.
const SYNC_BYTES: u64 = 32 << 20;

pub(super) struct ImageWriter {
    file: Box<dyn DiskFile>,
    name: String,
    log: u64,
    number: u64,
    chunk_bytes: usize,
    at: u64,
    synced_at: u64,
    chunks: u64,
    digest: Crc64,
    /// What is not written yet begins here; it goes past the page cache, in whole units.
    buffer: Aligned,
    buffered: usize,
    /// The region that is being copied, and what of it is left.
    region_at: usize,
    ranges: Option<VecDeque<Range<u64>>>,
}

impl ImageWriter {
    pub(super) fn create(disk: &dyn Disk, log: u64, number: u64, chunk_bytes: usize) -> Result<Self, Ended> {
        let name = names::image(number);
        match disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Ended::Failed(LogError::failed("removing", &name)(error)));
            }
            _ => {}
        }
        let made = disk.create(&name).and_then(|_| disk.open_log(&name));
        let file = made.map_err(|error| Ended::Failed(LogError::failed("making", &name)(error)))?;
        let chunk_bytes = chunk_bytes.next_multiple_of(WORD_BYTES).max(WORD_BYTES);
        Ok(Self {
            file,
            name,
            log,
            number,
            chunk_bytes,
            at: 0,
            synced_at: 0,
            chunks: 0,
            digest: Crc64::default(),
            buffer: Aligned::default(),
            buffered: 0,
            region_at: 0,
            ranges: None,
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.at
    }

    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    pub(super) fn checksum(&self) -> u64 {
        self.digest.sum()
    }

    /// Copies and writes one chunk. Whether anything was left.
    pub(super) fn copy_chunk(&mut self, regions: &[(RegionId, Words)], used: &Used) -> Result<bool, Ended> {
        while let Some((region, words)) = regions.get(self.region_at) {
            // The owner is asked for each region right before it is copied: the sooner after the
            // question, the less is copied that has become free.
            let ranges =
                self.ranges.get_or_insert_with(|| whole_words(used(*region, words), words.bytes() as u64));
            let Some(range) = ranges.pop_front() else {
                self.region_at += 1;
                self.ranges = None;
                continue;
            };
            let bytes = (range.end - range.start).min(self.chunk_bytes as u64);
            if range.start + bytes < range.end {
                ranges.push_front(range.start + bytes..range.end);
            }
            self.write_chunk(*region, words, range.start, bytes as usize)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn write_chunk(
        &mut self,
        region: RegionId,
        words: &Words,
        offset: u64,
        bytes: usize,
    ) -> Result<(), Ended> {
        let (from, end) = (self.buffered, self.buffered + ImageChunk::BYTES + bytes);
        self.buffer.grow(end.next_multiple_of(LOG_UNIT_BYTES), from);
        let (head, body) = self.buffer[from..end].split_at_mut(ImageChunk::BYTES);
        let loaded = words.load(offset, body);
        loaded.map_err(|error| {
            Ended::Failed(LogError::failed("copying", &self.name)(io::Error::other(error)))
        })?;
        if body.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let mut header = ImageChunk {
            magic: U64::new(CHUNK_MAGIC),
            log: U64::new(self.log),
            image: U64::new(self.number),
            region: U32::new(region.0),
            bytes: U32::new(bytes as u32),
            offset: U64::new(offset),
            checksum: U64::new(0),
        };
        header.checksum = U64::new(checksum(&header.as_bytes()[..CHUNK_COVERED_BYTES], body));
        head.copy_from_slice(header.as_bytes());
        self.digest = self.digest.and(header.checksum.as_bytes());
        self.at += (end - from) as u64;
        self.buffered = end;
        self.chunks += 1;
        self.write(end / LOG_UNIT_BYTES * LOG_UNIT_BYTES)?;
        if self.at - self.synced_at >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    /// Writes the first of what is buffered, whole units.
    fn write(&mut self, bytes: usize) -> Result<(), Ended> {
        let at = self.at - self.buffered as u64;
        let written = if bytes > 0 { self.file.write_at(at, &self.buffer[..bytes]) } else { Ok(()) };
        written.map_err(|error| Ended::Failed(LogError::failed("writing", &self.name)(error)))?;
        self.buffer.copy_within(bytes.min(self.buffered)..self.buffered, 0);
        self.buffered = self.buffered.saturating_sub(bytes);
        Ok(())
    }

    /// Writes what is left, with zeros behind it to a whole unit, and makes all of it durable.
    pub(super) fn finish(&mut self) -> Result<(), Ended> {
        let bytes = self.buffered.next_multiple_of(LOG_UNIT_BYTES);
        self.buffer.grow(bytes, self.buffered);
        self.buffer[self.buffered..bytes].fill(0);
        self.write(bytes)?;
        self.sync()
    }

    fn sync(&mut self) -> Result<(), Ended> {
        self.synced_at = self.at;
        self.file.sync().map_err(|error| Ended::Fatal(LogError::failed("syncing", &self.name)(error)))
    }
}

/// Ranges as they can be copied: of whole words, inside the region, none empty.
fn whole_words(ranges: Vec<Range<u64>>, region_bytes: u64) -> VecDeque<Range<u64>> {
    let word = WORD_BYTES as u64;
    let whole = |range: Range<u64>| {
        let end = range.end.min(region_bytes);
        range.start / word * word..end.checked_next_multiple_of(word).unwrap_or(end).min(region_bytes)
    };
    ranges.into_iter().map(whole).filter(|range| range.start < range.end).collect()
}
