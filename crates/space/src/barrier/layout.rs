//! Where everything of a barrier is in its mapping, and what a status says.
//!
//! What always holds: what one side writes never shares a line with what the other does; sizes that come from
//! the mapping are checked before they are used.

use super::BarrierError;
use crate::client::Mapping;
use crate::message::SessionId;
use barn_layout::limits::LINE_BYTES;

/// Workers that one barrier can have: a coordinator looks at each of them.
pub const WORKERS_MAX: usize = 65_536;
/// What a worker is told, or tells, at the most: what is longer belongs into a range of its own.
pub const DATA_BYTES_MAX: usize = 1 << 20;

const LINE: u64 = LINE_BYTES as u64;
/// Says that a mapping is a barrier, and of which version.
const MAGIC: u64 = u64::from_le_bytes(*b"barrier1");
/// Where the coordinator's status is: behind the first line.
const STATUS_AT: u64 = LINE;
/// Where the workers begin.
const WORKERS_AT: u64 = 2 * LINE;

/// What a status says (the paper's byte).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Say {
    /// A worker's place is free, or the coordinator has not begun.
    Nothing = 0,
    /// A worker has come.
    Joined = 1,
    /// A worker's area says what it is to do.
    Valid = 2,
    /// The coordinator: begin.
    Start = 3,
    /// A worker has done it.
    Finished = 4,
    /// A worker could not.
    Error = 5,
    /// The coordinator: that was the last phase.
    Over = 6,
}

/// A status: what it says, and of which phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) say: Say,
    pub(super) phase: u64,
}

impl Status {
    fn to_word(self) -> u64 {
        u64::from(self.say as u8) | self.phase << 8
    }

    fn from_word(word: u64) -> Option<Self> {
        let say = match word as u8 {
            0 => Say::Nothing,
            1 => Say::Joined,
            2 => Say::Valid,
            3 => Say::Start,
            4 => Say::Finished,
            5 => Say::Error,
            6 => Say::Over,
            _ => return None,
        };
        Some(Self { say, phase: word >> 8 })
    }
}

/// How long a barrier of so many workers is, with so much data for each, both ways.
pub fn bytes_needed(workers: usize, data_bytes: usize) -> u64 {
    WORKERS_AT + workers as u64 * stride(data_bytes as u64)
}

fn stride(data_bytes: u64) -> u64 {
    // A line that the worker writes, one that the coordinator writes, and the data of both.
    2 * LINE + 2 * data_bytes.next_multiple_of(LINE)
}

/// A barrier in its mapping.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) mapping: Mapping,
    pub(super) workers: usize,
    pub(super) data_bytes: usize,
}

/// One of the two things in a worker's area that have a length.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// What it is to do.
    Task,
    /// What came of it.
    Result,
}

impl Layout {
    fn check(workers: usize, data_bytes: usize, mapped_bytes: u64) -> Result<(), BarrierError> {
        let possible = (1..=WORKERS_MAX).contains(&workers) && data_bytes <= DATA_BYTES_MAX;
        let needed_bytes = if possible { bytes_needed(workers, data_bytes) } else { u64::MAX };
        if needed_bytes > mapped_bytes {
            return Err(BarrierError::Size { needed_bytes, mapped_bytes });
        }
        Ok(())
    }

    /// Lays a mapping out, for this coordinator.
    pub(super) async fn make(
        mapping: Mapping,
        workers: usize,
        data_bytes: usize,
        coordinator: SessionId,
    ) -> Result<Self, BarrierError> {
        Self::check(workers, data_bytes, mapping.bytes())?;
        let layout = Self { mapping, workers, data_bytes };
        // Whoever looks meanwhile finds none.
        layout.store(0, 0).await?;
        layout.store(STATUS_AT, 0).await?;
        for worker in 0..workers {
            layout.store(layout.area(worker), 0).await?;
            layout.store(layout.area(worker) + 8, 0).await?;
        }
        for (at, value) in [(8, workers as u64), (16, data_bytes as u64), (24, coordinator.0), (0, MAGIC)] {
            layout.store(at, value).await?;
        }
        Ok(layout)
    }

    /// The barrier in a mapping, if its coordinator has laid one out, and that coordinator.
    pub(super) async fn open(mapping: &Mapping) -> Result<Option<(Self, SessionId)>, BarrierError> {
        let mut words = [[0; 8]; 4];
        for (word, at) in words.iter_mut().zip([0, 8, 16, 24]) {
            mapping.read(at, word).await?;
        }
        let [magic, workers, data_bytes, coordinator] = words.map(u64::from_le_bytes);
        match magic {
            MAGIC => {}
            0 => return Ok(None),
            _ => return Err(BarrierError::NotLaidOut),
        }
        let sizes = usize::try_from(workers).ok().zip(usize::try_from(data_bytes).ok());
        let Some((workers, data_bytes)) = sizes else { return Err(BarrierError::NotLaidOut) };
        Self::check(workers, data_bytes, mapping.bytes()).map_err(|_| BarrierError::NotLaidOut)?;
        Ok(Some((Self { mapping: mapping.clone(), workers, data_bytes }, SessionId(coordinator))))
    }

    async fn load(&self, at: u64) -> Result<u64, BarrierError> {
        let mut word = [0; 8];
        self.mapping.read(at, &mut word).await?;
        Ok(u64::from_le_bytes(word))
    }

    async fn store(&self, at: u64, value: u64) -> Result<(), BarrierError> {
        Ok(self.mapping.write(at, &value.to_le_bytes()).await?)
    }

    /// Where a worker's area begins: its own line, then the coordinator's.
    fn area(&self, worker: usize) -> u64 {
        WORKERS_AT + worker as u64 * stride(self.data_bytes as u64)
    }

    /// The coordinator's status.
    pub(super) async fn coordinator(&self) -> Result<Status, BarrierError> {
        Status::from_word(self.load(STATUS_AT).await?).ok_or(BarrierError::NotLaidOut)
    }

    pub(super) async fn say_coordinator(&self, status: Status) -> Result<(), BarrierError> {
        self.store(STATUS_AT, status.to_word()).await
    }

    /// A worker's status.
    pub(super) async fn worker(&self, worker: usize) -> Result<Status, BarrierError> {
        Status::from_word(self.load(self.area(worker)).await?).ok_or(BarrierError::NotLaidOut)
    }

    pub(super) async fn say_worker(&self, worker: usize, status: Status) -> Result<(), BarrierError> {
        self.store(self.area(worker), status.to_word()).await
    }

    /// A worker's session.
    pub(super) async fn session(&self, worker: usize) -> Result<SessionId, BarrierError> {
        Ok(SessionId(self.load(self.area(worker) + 8).await?))
    }

    pub(super) async fn set_session(&self, worker: usize, session: SessionId) -> Result<(), BarrierError> {
        self.store(self.area(worker) + 8, session.0).await
    }

    /// Where a part's length is, and the part.
    fn part(&self, worker: usize, part: Part) -> (u64, u64) {
        let (area, data) = (self.area(worker), (self.data_bytes as u64).next_multiple_of(LINE));
        match part {
            Part::Task => (area + LINE, area + 2 * LINE),
            Part::Result => (area + 16, area + 2 * LINE + data),
        }
    }

    /// Writes what a worker is to do, or what came of it.
    pub(super) async fn put(&self, worker: usize, part: Part, data: &[u8]) -> Result<(), BarrierError> {
        if data.len() > self.data_bytes {
            return Err(BarrierError::Worker { worker, why: "its data is longer than was laid out" });
        }
        let (length_at, at) = self.part(worker, part);
        self.mapping.write(at, data).await?;
        self.store(length_at, data.len() as u64).await
    }

    /// What a worker is to do, or what came of it.
    pub(super) async fn get(&self, worker: usize, part: Part) -> Result<Vec<u8>, BarrierError> {
        let (length_at, at) = self.part(worker, part);
        let length = self.load(length_at).await?;
        if length > self.data_bytes as u64 {
            return Err(BarrierError::NotLaidOut);
        }
        let mut data = vec![0; length as usize];
        self.mapping.read(at, &mut data).await?;
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_what_was_written_and_any_other_word_is_none() {
        for (word, phase) in [(0, 0), (6, 0), (3, 7), (4, (1 << 56) - 1)] {
            let status = Status::from_word(word | phase << 8).unwrap();
            assert_eq!((status.say as u64, status.phase), (word, phase));
            assert_eq!(status.to_word(), word | phase << 8);
        }
        assert!((7..256).all(|word| Status::from_word(word).is_none()));
    }

    #[test]
    fn areas_do_not_overlap_and_a_barrier_ends_where_it_says() {
        for data in [0, 1, 64, 65] {
            assert_eq!(stride(data) % LINE, 0);
            assert!(stride(data) >= 2 * LINE + 2 * data);
            assert_eq!(bytes_needed(3, data as usize), WORKERS_AT + 3 * stride(data));
        }
        for (workers, data) in [(0, 8), (WORKERS_MAX + 1, 8), (1, DATA_BYTES_MAX + 1), (1, 8)] {
            assert!(Layout::check(workers, data, 0).is_err());
        }
        assert!(Layout::check(1, 8, bytes_needed(1, 8)).is_ok());
    }
}
