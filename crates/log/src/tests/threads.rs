//! The log with its own threads, on a real directory and on the simulated disk.

use super::*;
use crate::{Admission, LogError, open};
use barn_fabric::seam::{Disk, SystemDisk};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// A directory that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("barn-log-{name}-{}", std::process::id())))
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(SystemDisk::at(&self.0).unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn opened(disk: Arc<dyn Disk>, memory: &HeapMemory) -> Result<(Log, Recovered), OpenError> {
    open(disk, LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() }, memory, &|_| {}, false)
}

/// Waits for an answer.
fn durable(log: &mut Log, record: &mut Record, position: Position, level: Level) -> Result<(), LogError> {
    let (sender, receiver) = channel();
    log.after(position, level, Box::new(move |result| sender.send(result).unwrap()));
    log.turn(record);
    receiver.recv().unwrap()
}

#[test]
fn a_directory_gives_back_what_was_put_into_it() {
    let scratch = Scratch::new("gives-back");
    let mut record = Record::default();
    record.region(RegionId(7), 64 << 10);
    record.note_set(b"name", b"barn");
    {
        let (mut log, recovered) = opened(scratch.disk(), &HeapMemory::default()).unwrap();
        assert!(recovered.fresh && recovered.regions.is_empty());
        let mut position = log.append(&mut record);
        for round in 0..2000u64 {
            record.words(RegionId(7), 8 * (round % 1000) as u32, &[&round.to_le_bytes(), &[3; 1600]]);
            position = log.append(&mut record);
            if round % 100 == 0 {
                durable(
                    &mut log,
                    &mut record,
                    position,
                    if round % 200 == 0 { Level::Synced } else { Level::Written },
                )
                .unwrap();
            }
            log.turn(&mut record);
        }
        durable(&mut log, &mut record, position, Level::Synced).unwrap();
        let stats = log.stats_handle().stats();
        assert_eq!((stats.appended, stats.written, stats.synced), (position, position, position));
        assert!(stats.segments > 2 && stats.lag_bytes == 0 && stats.failure.is_none(), "{stats:?}");
        assert!(matches!(log.admission(), Admission::Open));
        log.stop(&mut record).unwrap();
    }
    let memory = HeapMemory::default();
    let (log, recovered) = opened(scratch.disk(), &memory).unwrap();
    assert!(recovered.report.stopped_cleanly, "{}", recovered.report);
    assert_eq!(recovered.regions, [(RegionId(7), 64 << 10)]);
    assert_eq!(recovered.notes[&b"name"[..]], [b"barn"]);
    assert_eq!(memory.words()[&RegionId(7)].load_word(8 * 999, Ordering::Relaxed), Ok(1999));
    log.stop(&mut record).unwrap();
}

/// Whatever a real disk's reads past the page cache ask for: a file may end anywhere.
#[test]
fn a_segment_that_was_cut_off_anywhere_is_damage_and_no_failed_read() {
    let scratch = Scratch::new("cut-off");
    let (mut log, _) = opened(scratch.disk(), &HeapMemory::default()).unwrap();
    let mut record = Record::default();
    record.region(RegionId(7), 64 << 10);
    log.append(&mut record);
    for round in 0..20u8 {
        record.words(RegionId(7), 0, &[&[round; 800]]);
        let position = log.append(&mut record);
        durable(&mut log, &mut record, position, Level::Synced).unwrap();
    }
    log.stop(&mut record).unwrap();
    let segment = scratch.0.join(crate::names::segment(1));
    // From the end to the front: every cut takes something of what the one before it left.
    for bytes in [(1 << 20) - 1, 700_001, 65_536, 40_961, 8192, 6000, 4097] {
        let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
        file.set_len(bytes).unwrap();
        match opened(scratch.disk(), &HeapMemory::default()) {
            Err(OpenError::Damaged { file, .. }) => {
                assert!(file.contains(&crate::names::segment(1)), "{file}")
            }
            other => panic!("cut to {bytes} bytes: {:?}", other.map(|(_, recovered)| recovered.report)),
        }
    }
}

#[test]
fn a_directory_has_one_process() {
    let scratch = Scratch::new("one-process");
    let (log, _) = opened(scratch.disk(), &HeapMemory::default()).unwrap();
    let error = opened(scratch.disk(), &HeapMemory::default()).err().unwrap();
    assert!(matches!(error, OpenError::Locked { pid: Some(pid) } if pid == std::process::id()), "{error}");
    drop(log);
    opened(scratch.disk(), &HeapMemory::default()).unwrap();
}

#[test]
fn bytes_that_nobody_waits_for_are_written_without_another_turn() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = opened(Arc::new(disk), &HeapMemory::default()).unwrap();
    let mut record = Record::default();
    record.region(RegionId(1), 4096);
    let position = log.append(&mut record);
    log.turn(&mut record);
    let handle = log.stats_handle();
    while handle.stats().synced < position {
        std::thread::yield_now();
    }
    assert_eq!(handle.stats().lag_bytes, 0);
}

#[test]
fn a_sync_that_fails_stops_the_log_and_tells_everybody() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = opened(Arc::new(disk.clone()), &HeapMemory::default()).unwrap();
    let mut record = Record::default();
    record.region(RegionId(1), 4096);
    // The next call writes the frame, the one after it syncs.
    disk.fail_call(disk.calls() + 1, io::ErrorKind::Other);
    let position = log.append(&mut record);
    assert!(matches!(durable(&mut log, &mut record, position, Level::Synced), Err(LogError::Failed { .. })));
    let syncs = disk.syncs();
    assert!(matches!(log.admission(), Admission::Stopped(LogError::Failed { .. })));
    record.note_set(b"another", b"change");
    let position = log.append(&mut record);
    assert!(durable(&mut log, &mut record, position, Level::Written).is_err());
    assert!(log.stop(&mut record).is_err());
    assert_eq!(disk.syncs(), syncs, "nothing is synced after a sync has failed");
}
