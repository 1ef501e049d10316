//! A checkpoint that races a writer, with real threads: what is copied while it changes is whole after
//! recovery.

use super::*;
use crate::open;

const WORDS: u64 = 4096;

/// Changes pairs of words that must be equal at the end of every record, all the time.
#[test]
fn a_copy_of_memory_that_changes_all_the_time_is_whole_after_replay() {
    for round in 0..6u64 {
        let disk = SimulatedDisk::new(round);
        let options = LogOptions {
            segment_bytes: 256 << 10,
            chunk_bytes: 4096,
            sync_interval: Duration::from_millis(5),
            ..LogOptions::default()
        };
        let memory = HeapMemory::default();
        let (mut log, _) = open(Arc::new(disk.clone()), options.clone(), &memory, &|_| {}, false).unwrap();
        let words = memory.region(RegionId(1), 2 * WORDS * 8).unwrap();
        let mut record = Record::default();
        record.region(RegionId(1), 2 * WORDS * 8);
        log.append(&mut record);
        let mut random = Seeded::new(round);
        let mut value = 0;
        let mut image = None;
        // Until the second checkpoint of this log has been finished under way.
        while log.stats().checkpoints < 2 {
            for _ in 0..20 {
                value += 1;
                let at = 8 * random.below(WORDS);
                let twin = at + WORDS * 8;
                words.store_word(at, value, Ordering::Relaxed).unwrap();
                words.store_word(twin, value, Ordering::Relaxed).unwrap();
                let bytes = value.to_le_bytes();
                record.words(RegionId(1), at as u32, &[&bytes]);
                record.words(RegionId(1), twin as u32, &[&bytes]);
                record.note_set(b"value", &bytes);
                log.append(&mut record);
            }
            log.turn(&mut record);
            if !log.stats().checkpoint_running {
                let mut notes = Record::default();
                notes.note_set(b"value", &value.to_le_bytes());
                let all = |_: RegionId, words: &Words| std::iter::once(0..words.bytes() as u64).collect();
                log.begin_checkpoint(&mut record, &notes, vec![(RegionId(1), words.clone())], Box::new(all));
            }
            if log.stats().checkpoints == 1 && image.is_none() {
                image = Some(disk.after_power_loss(round));
            }
        }
        for disk in [image.unwrap(), disk.after_kill(round), disk.after_power_loss(round)] {
            let memory = HeapMemory::default();
            let (_log, recovered) = open(Arc::new(disk), options.clone(), &memory, &|_| {}, false).unwrap();
            let story = format!("round {round}: {}", recovered.report);
            assert!(recovered.report.checkpoint.is_some(), "{story}");
            let newest = u64::from_le_bytes(recovered.notes[&b"value"[..]][0][..].try_into().unwrap());
            let words = &memory.words()[&RegionId(1)];
            let load = |at: u64| words.load_word(at, Ordering::Relaxed).unwrap();
            for at in (0..WORDS).map(|word| 8 * word) {
                assert_eq!(load(at), load(at + WORDS * 8), "{story}: half a record");
                assert!(load(at) <= newest, "{story}: a word from the future");
            }
            assert!((0..WORDS).any(|word| load(8 * word) == newest), "{story}: the last record is missing");
        }
    }
}
