//! Manifests: what says that a checkpoint is there.
//!
//! A manifest is written beside, synced, renamed to its own number, and the name synced; only then is
//! there a checkpoint. What always holds: parsing never panics, and what passes is whole.

use super::Ended;
use crate::error::LogError;
use crate::frame::checksum;
use crate::parse::{Entry, take_entry};
use crate::{Position, names};
use barn_fabric::seam::Disk;
use barn_layout::RegionId;
use barn_layout::log::{LOG_FORMAT, LogManifest, MANIFEST_MAGIC, ManifestRegion};
use std::io;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

const COVERED_BYTES: usize = LogManifest::BYTES - 8;

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) log: u64,
    pub(crate) number: u64,
    pub(crate) start: Position,
    pub(crate) end: Position,
    pub(crate) segment: u64,
    pub(crate) image_bytes: u64,
    pub(crate) image_chunks: u64,
    pub(crate) image_checksum: u64,
    pub(crate) regions: Vec<(RegionId, u64)>,
    /// Entries, as in a record.
    pub(crate) notes: Vec<u8>,
}

impl Manifest {
    /// The bytes of the file.
    pub(crate) fn render(&self) -> Vec<u8> {
        let mut header = LogManifest {
            magic: U64::new(MANIFEST_MAGIC),
            log: U64::new(self.log),
            number: U64::new(self.number),
            start: U64::new(self.start),
            end: U64::new(self.end),
            segment: U64::new(self.segment),
            image_bytes: U64::new(self.image_bytes),
            image_chunks: U64::new(self.image_chunks),
            image_checksum: U64::new(self.image_checksum),
            regions: U32::new(self.regions.len() as u32),
            format: U32::new(LOG_FORMAT),
            notes_bytes: U64::new(self.notes.len() as u64),
            checksum: U64::new(0),
        };
        let mut bytes = header.as_bytes().to_vec();
        for (region, region_bytes) in &self.regions {
            let region = ManifestRegion {
                region: U32::new(region.0),
                reserved: U32::new(0),
                bytes: U64::new(*region_bytes),
            };
            bytes.extend_from_slice(region.as_bytes());
        }
        bytes.extend_from_slice(&self.notes);
        let (head, rest) = bytes.split_at_mut(LogManifest::BYTES);
        header.checksum = U64::new(checksum(&head[..COVERED_BYTES], rest));
        head.copy_from_slice(header.as_bytes());
        bytes
    }

    /// The manifest that bytes mean.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let (header, rest) =
            LogManifest::read_from_prefix(bytes).map_err(|_| "its header is cut off".to_string())?;
        if header.magic.get() != MANIFEST_MAGIC {
            return Err("it does not begin as a manifest does".into());
        }
        if header.checksum.get() != checksum(&header.as_bytes()[..COVERED_BYTES], rest) {
            return Err("its checksum is wrong".into());
        }
        if header.format.get() > LOG_FORMAT {
            return Err(format!(
                "its format is {}, and {LOG_FORMAT} is the newest known",
                header.format.get()
            ));
        }
        let regions_bytes = (header.regions.get() as usize).checked_mul(ManifestRegion::BYTES);
        let (regions, notes) = regions_bytes
            .and_then(|bytes| rest.split_at_checked(bytes))
            .ok_or("its regions are cut off".to_string())?;
        if notes.len() as u64 != header.notes_bytes.get() {
            return Err("its notes are cut off".into());
        }
        let mut left = notes;
        while !left.is_empty() {
            match take_entry(&mut left)? {
                Entry::NoteSet { .. } | Entry::NoteAppend { .. } => {}
                _ => return Err("its notes are no notes".into()),
            }
        }
        let region = |bytes: &[u8]| {
            let region =
                ManifestRegion::read_from_bytes(bytes).map_err(|_| "a region is cut off".to_string())?;
            Ok((RegionId(region.region.get()), region.bytes.get()))
        };
        Ok(Self {
            log: header.log.get(),
            number: header.number.get(),
            start: header.start.get(),
            end: header.end.get(),
            segment: header.segment.get(),
            image_bytes: header.image_bytes.get(),
            image_chunks: header.image_chunks.get(),
            image_checksum: header.image_checksum.get(),
            regions: regions
                .chunks_exact(ManifestRegion::BYTES)
                .map(region)
                .collect::<Result<_, String>>()?,
            notes: notes.to_vec(),
        })
    }
}

/// Puts a manifest in place, durably.
pub(super) fn put(disk: &dyn Disk, manifest: &Manifest) -> Result<(), Ended> {
    let new = names::MANIFEST_NEW;
    let failed = |step, file: &str| {
        let error = LogError::failed(step, file);
        move |cause| Ended::Failed(error(cause))
    };
    let fatal = |step, file: &str| {
        let error = LogError::failed(step, file);
        move |cause| Ended::Fatal(error(cause))
    };
    match disk.remove(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("removing", new)(error)),
        _ => {}
    }
    let file = disk.create(new).map_err(failed("making", new))?;
    file.write_at(0, &manifest.render()).map_err(failed("writing", new))?;
    file.sync().map_err(fatal("syncing", new))?;
    let name = names::manifest(manifest.number);
    disk.rename(new, &name).map_err(failed("renaming", new))?;
    disk.sync_names().map_err(fatal("syncing the directory of", &name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;

    #[test]
    fn a_manifest_comes_out_as_it_went_in_or_not_at_all() {
        let mut notes = Record::default();
        notes.note_set(b"a", b"1");
        notes.note_append(b"a", b"2");
        let manifest = Manifest {
            log: 1,
            number: 2,
            start: 3,
            end: 4,
            segment: 5,
            image_bytes: 6,
            image_chunks: 7,
            image_checksum: 8,
            regions: vec![(RegionId(9), 10), (RegionId(11), 12)],
            notes: notes.entries().to_vec(),
        };
        let mut bytes = manifest.render();
        assert_eq!(Manifest::parse(&bytes), Ok(manifest));
        for cut in 0..bytes.len() {
            assert!(Manifest::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::parse(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
