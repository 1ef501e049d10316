//! The memory that recovery fills: regions as they are met, and notes.

use super::Memory;
use crate::error::OpenError;
use crate::parse::{Entry, take_entry};
use barn_fabric::{RegionId, Words};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much is zeroed at once when a checkpoint turned out to be of no use.
const ZEROED_BYTES: usize = 1 << 20;

pub(super) struct Regions<'a> {
    memory: &'a dyn Memory,
    /// How many threads ask for memory.
    threads: usize,
    /// Every memory that was asked for, also by an attempt that came to nothing.
    asked: BTreeMap<RegionId, (Words, u64)>,
    pub(super) present: BTreeMap<RegionId, (Words, u64)>,
    pub(super) notes: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl<'a> Regions<'a> {
    pub(super) fn new(memory: &'a dyn Memory, threads: usize) -> Self {
        Self { memory, threads, asked: BTreeMap::new(), present: BTreeMap::new(), notes: BTreeMap::new() }
    }

    /// Forgets what another attempt has put here.
    pub(super) fn reset(&mut self) -> Result<(), OpenError> {
        let zeros = vec![0; ZEROED_BYTES];
        for (region, (words, bytes)) in &std::mem::take(&mut self.present) {
            let mut at = 0;
            while at < words.bytes() {
                let now = ZEROED_BYTES.min(words.bytes() - at);
                words.store(at as u64, &zeros[..now]).map_err(|error| OpenError::Memory {
                    region: region.0,
                    bytes: *bytes,
                    why: error.to_string(),
                })?;
                at += now;
            }
        }
        self.notes.clear();
        Ok(())
    }

    /// Asks for the memory of several regions at once: taking gigabytes of pages keeps a core busy for
    /// as long as reading them does.
    pub(super) fn ask(&mut self, regions: &[(RegionId, u64)]) {
        let wanted: Vec<_> = regions.iter().filter(|(region, _)| !self.asked.contains_key(region)).collect();
        let (next, taken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let memory = self.memory;
        let work = || {
            // ORDER: Relaxed: hands out numbers; what was taken is behind its lock.
            while let Some((region, bytes)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                // What is refused here is asked for again by `add`, which says why.
                if let Ok(words) = memory.region(*region, *bytes) {
                    let mut taken = taken.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    taken.push((*region, (words, *bytes)));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(wanted.len()) {
                // Without a thread more the others do its work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        self.asked.extend(taken.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// There is this region.
    pub(super) fn add(&mut self, region: RegionId, bytes: u64) -> Result<(), OpenError> {
        let refused = |why: String| OpenError::Memory { region: region.0, bytes, why };
        if let Some((_, there)) = self.present.get(&region) {
            return if *there == bytes {
                Ok(())
            } else {
                Err(refused(format!("it is there with {there} bytes")))
            };
        }
        let words = match self.asked.get(&region) {
            Some((words, there)) if *there == bytes => words.clone(),
            _ => self.memory.region(region, bytes).map_err(refused)?,
        };
        if (words.bytes() as u64) < bytes {
            return Err(refused(format!("the memory that was given has {} bytes", words.bytes())));
        }
        self.asked.insert(region, (words.clone(), bytes));
        self.present.insert(region, (words, bytes));
        Ok(())
    }

    /// Asks for the memory of a region that a record speaks of first, and of those that follow in it: a node
    /// takes all its memory at once.
    #[cold]
    fn ask_with_those_behind(&mut self, first: (RegionId, u64), mut entries: &[u8]) {
        let mut regions = vec![first];
        // What is no entry is found when it is applied.
        while let Ok(entry) = take_entry(&mut entries) {
            if let Entry::Region { region, bytes } = entry {
                regions.push((region, bytes));
            }
        }
        self.ask(&regions);
    }

    /// Applies all entries of a record, or of a manifest's notes.
    pub(super) fn apply(&mut self, position: u64, mut entries: &[u8]) -> Result<(), OpenError> {
        let refused = |why: String| OpenError::Record { position, why };
        while !entries.is_empty() {
            match take_entry(&mut entries).map_err(|why| refused(why.into()))? {
                Entry::Words { region, offset, bytes } => {
                    let there = self.present.get(&region);
                    let (words, _) = there.ok_or_else(|| refused(format!("there is no {region}")))?;
                    words.store(u64::from(offset), bytes).map_err(|error| refused(error.to_string()))?;
                }
                Entry::Region { region, bytes } => {
                    if !self.asked.contains_key(&region) {
                        self.ask_with_those_behind((region, bytes), entries);
                    }
                    self.add(region, bytes)?;
                }
                Entry::NoteSet { key, value } => {
                    self.notes.insert(key.to_vec(), vec![value.to_vec()]);
                }
                Entry::NoteAppend { key, value } => {
                    self.notes.entry(key.to_vec()).or_default().push(value.to_vec());
                }
                Entry::NoteRemove { key } => {
                    self.notes.remove(key);
                }
            }
        }
        Ok(())
    }
}
