//! Tests of the log as a whole, on a simulated disk: a world that one seed decides.
//!
//! The log's writer and checkpoint run step by step, by hand, so that every order of their steps and
//! of the owner's can come up, and comes up again from the same seed. A model keeps the memory as it
//! was at the end of every record; whatever is recovered must be one of these.

mod faults;
mod hand_over;
mod model;
mod power;
mod race;
mod rot;
mod threads;

use crate::checkpoint::{Checkpoint, Step};
use crate::recover::open_parts;
use crate::writer::{Next, Writer};
use crate::{Level, Log, LogOptions, Memory, OpenError, Position, Record, Recovered};
use barn_fabric::seam::{Clock, Disk, Random, Seeded};
use barn_fabric::simulated::SimulatedDisk;
use barn_fabric::{RegionId, Words};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const REGION_BYTES: usize = 2048;
const REGIONS_MAX: u32 = 3;

/// Small, so that segments change, frames are cut and images have chunks all the time.
pub(super) fn small() -> LogOptions {
    LogOptions {
        segment_bytes: 48 << 10,
        window_bytes: 8 << 10,
        checkpoint_bytes: 20 << 10,
        gather: std::time::Duration::from_millis(1),
        gather_bytes: 4 << 10,
        frame_bytes_max: 6 << 10,
        chunk_bytes: 512,
        spares_max: 2,
        ..LogOptions::default()
    }
}

/// A clock that the test moves.
#[derive(Default)]
pub(super) struct ManualClock(AtomicU64);

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Memory on the heap.
#[derive(Default)]
pub(super) struct HeapMemory(Mutex<BTreeMap<RegionId, Words>>);

impl Memory for HeapMemory {
    fn region(&self, region: RegionId, bytes: u64) -> Result<Words, String> {
        let words = Words::private(bytes as usize);
        self.0.lock().unwrap().insert(region, words.clone());
        Ok(words)
    }
}

impl HeapMemory {
    pub(super) fn words(&self) -> BTreeMap<RegionId, Words> {
        self.0.lock().unwrap().clone()
    }
}

/// Everything that a log keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) regions: BTreeMap<RegionId, Vec<u8>>,
    pub(super) notes: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
}

/// How far the log has said that it has come, and how often it has said that it has not.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) written: Position,
    pub(super) synced: Position,
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) refused: u64,
}

pub(super) struct World<D = SimulatedDisk> {
    pub(super) disk: D,
    pub(super) clock: Arc<ManualClock>,
    pub(super) log: Log,
    /// In which its changes are made.
    pub(super) record: Record,
    pub(super) writer: Writer,
    pub(super) checkpoint: Option<Checkpoint>,
    pub(super) memory: BTreeMap<RegionId, Words>,
    pub(super) kept: Kept,
    pub(super) history: BTreeMap<Position, Kept>,
    pub(super) answers: Arc<Mutex<Answers>>,
    pub(super) random: Seeded,
}

/// A log that was opened by hand, what was recovered as the model has it, and its memory.
type Opened = (Log, Writer, Recovered, Kept, BTreeMap<RegionId, Words>);

/// Opens a log by hand; gives what was recovered as the model has it.
pub(super) fn open_by_hand<D: Disk + Clone + 'static>(
    disk: &D,
    clock: Arc<ManualClock>,
    accept_loss: bool,
) -> Result<Opened, OpenError> {
    let memory = HeapMemory::default();
    let (log, writer, recovered) =
        open_parts(Arc::new(disk.clone()), small(), clock, &memory, &|_| {}, accept_loss)?;
    let words = memory.words();
    let mut kept = Kept { notes: recovered.notes.clone(), ..Kept::default() };
    for (region, bytes) in &recovered.regions {
        let mut content = vec![0; *bytes as usize];
        words[region].load(0, &mut content).unwrap();
        kept.regions.insert(*region, content);
    }
    Ok((log, writer, recovered, kept, words))
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::try_on(SimulatedDisk::new(seed), seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"))
    }
}

impl<D: Disk + Clone + 'static> World<D> {
    /// A world on an empty disk.
    pub(super) fn try_on(disk: D, seed: u64) -> Result<Self, OpenError> {
        let clock = Arc::new(ManualClock::default());
        let (log, writer, recovered, kept, memory) = open_by_hand(&disk, clock.clone(), false)?;
        assert!(recovered.fresh);
        let history = BTreeMap::from([(0, kept.clone())]);
        let (answers, random) = (Arc::default(), Seeded::new(seed));
        let record = Record::default();
        Ok(Self {
            disk,
            clock,
            log,
            record,
            writer,
            checkpoint: None,
            memory,
            kept,
            history,
            answers,
            random,
        })
    }

    pub(super) fn answers(&self) -> Answers {
        self.answers.lock().unwrap().clone()
    }

    /// Asks to be told how far the log has come.
    pub(super) fn ask(&mut self, position: Position, level: Level) {
        self.answers.lock().unwrap().asked += 1;
        let answers = self.answers.clone();
        let then = Box::new(move |result: Result<(), _>| {
            let mut answers = answers.lock().unwrap();
            match (result, level) {
                (Err(_), _) => answers.refused += 1,
                (Ok(()), Level::Written) => answers.written = answers.written.max(position),
                (Ok(()), Level::Synced) => {
                    answers.written = answers.written.max(position);
                    answers.synced = answers.synced.max(position);
                }
            }
            answers.answered += 1;
        });
        self.log.after(position, level, then);
    }

    /// Changes memory and notes, and appends a record of it.
    pub(super) fn change(&mut self) -> Position {
        // Here while the world is asked for other things.
        let mut record = std::mem::take(&mut self.record);
        if self.memory.is_empty() || (self.memory.len() < REGIONS_MAX as usize && self.random.chance(50_000))
        {
            let region = RegionId(1 + self.memory.len() as u32);
            record.region(region, REGION_BYTES as u64);
            self.memory.insert(region, Words::private(REGION_BYTES));
            self.kept.regions.insert(region, vec![0; REGION_BYTES]);
        }
        for _ in 0..1 + self.random.below(3) {
            let region = RegionId(1 + self.random.below(self.memory.len() as u64) as u32);
            let words_max = if self.random.chance(100_000) { 100 } else { 8 };
            let bytes = 8 * (1 + self.random.below(words_max)) as usize;
            let offset = 8 * self.random.below(((REGION_BYTES - bytes) / 8) as u64 + 1) as usize;
            let new: Vec<u8> = (0..bytes).map(|_| self.random.next() as u8).collect();
            let (first, second) = new.split_at(8 * (self.random.below((bytes / 8) as u64) as usize));
            self.memory[&region].store(offset as u64, first).unwrap();
            // The copy may come by when a part of the change is in memory, and nothing of it in the log.
            if self.random.chance(300_000) {
                self.checkpoint_step();
            }
            self.memory[&region].store((offset + first.len()) as u64, second).unwrap();
            self.kept.regions.get_mut(&region).unwrap()[offset..offset + bytes].copy_from_slice(&new);
            record.words(region, offset as u32, &[first, second]);
        }
        if self.random.chance(300_000) {
            self.change_note(&mut record);
        }
        let position = self.log.append(&mut record);
        self.record = record;
        self.history.insert(position, self.kept.clone());
        position
    }

    fn change_note(&mut self, record: &mut Record) {
        let key = vec![b'a' + self.random.below(4) as u8; self.random.below(12) as usize];
        let value = vec![self.random.next() as u8; self.random.below(20) as usize];
        match self.random.below(4) {
            0 => {
                record.note_remove(&key);
                self.kept.notes.remove(&key);
            }
            1 | 2 => {
                record.note_append(&key, &value);
                self.kept.notes.entry(key).or_default().push(value);
            }
            _ => {
                record.note_set(&key, &value);
                self.kept.notes.insert(key, vec![value]);
            }
        }
    }

    pub(super) fn begin_checkpoint(&mut self) {
        let mut notes = Record::default();
        for (key, values) in &self.kept.notes {
            for (index, value) in values.iter().enumerate() {
                if index == 0 { notes.note_set(key, value) } else { notes.note_append(key, value) }
            }
        }
        let regions = self.memory.iter().map(|(region, words)| (*region, words.clone())).collect();
        let used = |_: RegionId, words: &Words| vec![0..800, 800..words.bytes() as u64];
        if let Some(checkpoint) = self.log.checkpoint_of(&mut self.record, &notes, regions, Box::new(used)) {
            self.checkpoint = Some(checkpoint);
        }
    }

    pub(super) fn checkpoint_step(&mut self) {
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.step() == Step::Done
        {
            self.checkpoint = None;
        }
    }

    pub(super) fn turn(&mut self) {
        self.log.turn(&mut self.record);
    }

    pub(super) fn offer(&mut self) {
        self.log.offer(&mut self.record);
    }

    pub(super) fn advance(&mut self, micros: u64) {
        self.clock.0.fetch_add(micros * 1000, Ordering::Relaxed);
    }

    /// Something that can happen at any time.
    pub(super) fn act(&mut self) {
        match self.random.below(20) {
            0..7 => {
                let position = self.change();
                match self.random.below(6) {
                    0 => self.ask(position, Level::Synced),
                    1 => self.ask(position, Level::Written),
                    _ => {}
                }
            }
            7..9 => self.turn(),
            9..11 => self.offer(),
            11..15 => {
                let _ = self.writer.step();
            }
            15..18 => self.checkpoint_step(),
            18 => {
                let micros = if self.random.chance(200_000) { 1_100_000 } else { 700 };
                self.advance(micros);
            }
            _ => {
                if self.checkpoint.is_none() && (self.log.wants_checkpoint() || self.random.chance(100_000)) {
                    self.begin_checkpoint();
                }
            }
        }
    }

    /// Everything that was begun ends: nobody is left waiting, however often they have to be woken.
    pub(super) fn finish(&mut self) {
        for _ in 0..200 {
            self.turn();
            self.checkpoint_step();
            if !matches!(self.writer.step(), Next::Again) && self.checkpoint.is_none() {
                let answers = self.answers();
                if answers.asked == answers.answered {
                    return;
                }
            }
            self.advance(1_100_000);
        }
        panic!("somebody still waits: {:?}", self.answers());
    }

    /// Whatever is recovered from this disk is the memory at the end of a record at or after `floor`.
    pub(super) fn check(&self, disk: &D, floor: Position, story: &str) -> Position {
        let (_log, _writer, recovered, kept, _) =
            open_by_hand(disk, Arc::default(), false).unwrap_or_else(|error| panic!("{story}: {error}"));
        judge(&self.history, &recovered, &kept, floor, story)
    }
}

/// What was recovered is the memory at the end of a record at or after `floor`: of which.
fn judge(
    history: &BTreeMap<Position, Kept>,
    recovered: &Recovered,
    kept: &Kept,
    floor: Position,
    story: &str,
) -> Position {
    let position = recovered.report.position;
    assert!(position >= floor, "{story}: recovered {position}, answered for {floor}: {}", recovered.report);
    let expected = history.get(&position);
    let expected = expected.unwrap_or_else(|| panic!("{story}: no record ends at {position}"));
    assert!(expected == kept, "{story}: the memory at {position} differs: {}", recovered.report);
    position
}
