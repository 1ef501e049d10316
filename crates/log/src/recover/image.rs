//! Loads an image: several threads read, verify and store its chunks.
//!
//! What always holds: an image is loaded only if every chunk of it is there, once, in its order and
//! whole; otherwise the caller is told why it cannot be used, and memory is to be zeroed.

use super::report::{Progress, RecoveryStage};
use crate::checkpoint::manifest::Manifest;
use crate::frame::checksum;
use crate::names;
use barn_fabric::seam::{Disk, DiskFile};
use barn_fabric::{Crc64, RegionId, Words};
use barn_layout::log::{CHUNK_MAGIC, ImageChunk};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use zerocopy::{FromBytes, IntoBytes};

const COVERED_BYTES: usize = ImageChunk::BYTES - 8;

/// The places of all chunks, by walking over their headers.
fn index(file: &dyn DiskFile, manifest: &Manifest) -> Result<Vec<(u64, ImageChunk)>, String> {
    let bytes = file.len().map_err(|error| error.to_string())?;
    if bytes < manifest.image_bytes {
        return Err(format!("it has {bytes} bytes of {}", manifest.image_bytes));
    }
    let (mut at, mut chunks) = (0, Vec::new());
    let mut digest = Crc64::default();
    while at < manifest.image_bytes {
        let mut header = [0; ImageChunk::BYTES];
        file.read_at(at, &mut header).map_err(|error| error.to_string())?;
        let header = ImageChunk::read_from_bytes(&header).map_err(|_| "a header is cut off".to_string())?;
        let ours = header.magic.get() == CHUNK_MAGIC
            && header.log.get() == manifest.log
            && header.image.get() == manifest.number;
        let end = at + ImageChunk::BYTES as u64 + u64::from(header.bytes.get());
        if !ours || end > manifest.image_bytes {
            return Err(format!("there is no chunk of it at byte {at}"));
        }
        digest = digest.and(header.checksum.as_bytes());
        chunks.push((at, header));
        at = end;
    }
    if chunks.len() as u64 != manifest.image_chunks || digest.sum() != manifest.image_checksum {
        return Err("its chunks are not those that the manifest names".into());
    }
    Ok(chunks)
}

/// Reads, verifies and stores one chunk.
fn load_chunk(
    file: &dyn DiskFile,
    at: u64,
    header: &ImageChunk,
    regions: &BTreeMap<RegionId, (Words, u64)>,
    buffer: &mut Vec<u8>,
) -> Result<(), String> {
    buffer.resize(header.bytes.get() as usize, 0);
    let read = file.read_at(at + ImageChunk::BYTES as u64, buffer).map_err(|error| error.to_string())?;
    if read != buffer.len() || header.checksum.get() != checksum(&header.as_bytes()[..COVERED_BYTES], buffer)
    {
        return Err(format!("the chunk at byte {at} is damaged"));
    }
    let region = RegionId(header.region.get());
    let (words, _) = regions.get(&region).ok_or_else(|| format!("there is no {region}"))?;
    words.store(header.offset.get(), buffer).map_err(|error| error.to_string())
}

/// Loads the image of a checkpoint into its regions, which are zero.
pub(super) fn load(
    disk: &dyn Disk,
    manifest: &Manifest,
    regions: &BTreeMap<RegionId, (Words, u64)>,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(), String> {
    let name = names::image(manifest.number);
    let load = || {
        let file = disk.open(&name).map_err(|error| error.to_string())?;
        let chunks = index(&*file, manifest)?;
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let failure = Mutex::new(None);
        let work = || {
            let mut buffer = Vec::new();
            loop {
                // ORDER: Relaxed: hands out numbers; memory is handed over when the threads end.
                let Some((at, header)) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                if let Err(why) = load_chunk(&*file, *at, header, regions, &mut buffer) {
                    failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(why);
                    // ORDER: Relaxed, as above: nothing is left to hand out.
                    next.store(chunks.len(), Ordering::Relaxed);
                    return;
                }
                let bytes = ImageChunk::BYTES as u64 + u64::from(header.bytes.get());
                // ORDER: Relaxed: a figure.
                let done_bytes = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
                let total_bytes = manifest.image_bytes;
                progress(Progress { stage: RecoveryStage::Image, done_bytes, total_bytes });
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Without a thread more the others do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
    };
    load().map_err(|why| format!("`{name}` cannot be used: {why}"))
}
