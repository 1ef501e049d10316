//! A process that counts in memory and says each count once it is synced; and how it is found again.

use barn_fabric::seam::{Random, Seeded, SystemDisk};
use barn_fabric::{RegionId, Words};
use barn_log::{Level, LogOptions, Memory, Record, open};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const REGION_BYTES: u64 = 1 << 20;
/// The count is in the first and in the last word: half a record would show.
const LAST_WORD: u32 = REGION_BYTES as u32 - 8;

#[derive(Default)]
struct OneRegion(Mutex<Option<Words>>);

impl Memory for OneRegion {
    fn region(&self, _: RegionId, bytes: u64) -> Result<Words, String> {
        let words = Words::private(bytes as usize);
        *self.0.lock().unwrap() = Some(words.clone());
        Ok(words)
    }
}

fn options() -> LogOptions {
    LogOptions { segment_bytes: 2 << 20, checkpoint_bytes: 4 << 20, ..LogOptions::default() }
}

/// Recovers; gives the count that memory has, and whether both of its words agree.
pub(crate) fn recovered(directory: &Path) -> (u64, String) {
    let memory = OneRegion::default();
    let disk = Arc::new(SystemDisk::at(directory).unwrap());
    let (log, recovered) =
        open(disk, options(), &memory, &|_| {}, false).unwrap_or_else(|error| panic!("{error}"));
    log.stop(&mut Record::default()).unwrap();
    let words = memory.0.lock().unwrap().clone();
    let load = |at: u32| {
        words.as_ref().map_or(0, |words| words.load_word(u64::from(at), Ordering::Relaxed).unwrap())
    };
    assert_eq!(load(0), load(LAST_WORD), "half a record: {}", recovered.report);
    (load(0), recovered.report.to_string())
}

/// Counts up to a number, and says each count once it is synced.
pub(crate) fn count(directory: &Path, up_to: u64) {
    let memory = OneRegion::default();
    let disk = Arc::new(SystemDisk::at(directory).unwrap());
    let (mut log, _) = open(disk, options(), &memory, &|_| {}, false).unwrap();
    let mut record = Record::default();
    let there = memory.0.lock().unwrap().clone();
    let words = there.unwrap_or_else(|| {
        record.region(RegionId(1), REGION_BYTES);
        log.append(&mut record);
        memory.region(RegionId(1), REGION_BYTES).unwrap()
    });
    let mut count = words.load_word(0, Ordering::Relaxed).unwrap();
    let mut random = Seeded::new(count);
    while count < up_to {
        count += 1;
        let filler = vec![count as u8; 8 * (1 + random.below(2000)) as usize];
        for (offset, bytes) in
            [(0, &count.to_le_bytes()[..]), (64, &filler), (LAST_WORD, &count.to_le_bytes())]
        {
            words.store(u64::from(offset), bytes).unwrap();
            record.words(RegionId(1), offset, &[bytes]);
        }
        let position = log.append(&mut record);
        if log.wants_checkpoint() {
            let all = |_: RegionId, words: &Words| std::iter::once(0..words.bytes() as u64).collect();
            let (notes, regions) = (Record::default(), vec![(RegionId(1), words.clone())]);
            log.begin_checkpoint(&mut record, &notes, regions, Box::new(all));
        }
        let said = Box::new(move |result: Result<(), _>| {
            if result.is_ok() {
                let mut out = std::io::stdout();
                let _ = writeln!(out, "synced {count}").and_then(|()| out.flush());
            }
        });
        log.after(position, Level::Synced, said);
        log.turn(&mut record);
        // A few at once: group commits, and frames behind the one that is being synced.
        if count.is_multiple_of(3) {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}
