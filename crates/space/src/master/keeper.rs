//! Keepers: what each was told to do, what it says it has done, and what is lost with one.
//!
//! What always holds: a keeper that is new to this master is told first to let go of all that it has, and
//! nothing else before it has; a task is taken as done once, and handed out until it is.

use super::chunks::{ChunkId, Place, Pool, Record};
use super::{Master, Ticket};
use crate::message::{Chunk, Done, Refusal, Response, TaskId, Work};
use barn_cluster::{Life, MemberId};
use barn_layout::planted;
use barn_layout::space::{TASK_CHUNKS_MAX, TASKS_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What a keeper was told to do.
#[derive(Debug)]
enum Kind {
    Clear,
    Prepare { bytes: u64, count: u64 },
    Retire { chunks: Vec<ChunkId>, regions: Vec<u32>, bytes: u64, keep: bool },
    Taint { marks: Vec<u32> },
}

#[derive(Debug)]
struct Task {
    kind: Kind,
    /// To which peer it was handed out, and when; nobody, if that peer is gone.
    handed: Option<(u64, Duration)>,
    /// Whether somebody may know it. It is done once, as it was then, so that nothing is added to it.
    known: bool,
}

impl Task {
    fn new(kind: Kind) -> Self {
        Self { kind, handed: None, known: false }
    }
}

/// A keeper that waits for work.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    peer: u64,
    until: Duration,
}

/// Why a keeper is not asked for a size.
#[derive(Debug)]
struct Short {
    until: Duration,
    why: String,
}

/// A member's keeper, in one life of it.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) life: Life,
    free_bytes: u64,
    tasks: BTreeMap<TaskId, Task>,
    waiting: Option<Waiting>,
    /// Whether it has let go of what it had before this master knew it.
    cleared: bool,
    /// Sizes that it had no memory for, by its own account.
    short: BTreeMap<u64, Short>,
}

/// What a member has for spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberUsage {
    /// Which member.
    pub member: MemberId,
    /// Memory that it has left for chunks.
    pub free_bytes: u64,
    /// In chunks that belong to no space, or are set aside for one.
    pub cached_bytes: u64,
    /// In chunks of spaces that are bound to nothing.
    pub reserved_bytes: u64,
    /// In chunks that are bound: in ranges, old versions, with writers.
    pub used_bytes: u64,
    /// In chunks that are being cleared or let go.
    pub retiring_bytes: u64,
}

impl Keeper {
    /// How many chunks of a size it is about to have.
    pub(super) fn coming(&self, wanted: u64) -> u64 {
        let tasks = self.tasks.values().map(|task| match &task.kind {
            Kind::Prepare { bytes, count } if *bytes == wanted => *count,
            Kind::Retire { chunks, bytes, keep: true, .. } if *bytes == wanted => chunks.len() as u64,
            _ => 0,
        });
        tasks.sum()
    }

    /// How many more chunks of a size it could have.
    pub(super) fn room(&self, now: Duration, bytes: u64) -> u64 {
        let asked = self.tasks.values().map(|task| match &task.kind {
            Kind::Prepare { bytes, count } => bytes * count,
            _ => 0,
        });
        let short = self.short.get(&bytes).is_some_and(|short| now < short.until);
        match self.cleared && !short {
            true => self.free_bytes.saturating_sub(asked.sum()) / bytes,
            false => 0,
        }
    }

    /// Whether memory is on its way back to it.
    pub(super) fn is_returning(&self) -> bool {
        let returns = |task: &Task| matches!(task.kind, Kind::Clear | Kind::Retire { keep: false, .. });
        self.tasks.values().any(returns)
    }

    /// Why it has no more of a size.
    pub(super) fn shortage(&self, now: Duration, bytes: u64) -> String {
        let owes = self.coming(bytes);
        match self.short.get(&bytes).filter(|short| now < short.until) {
            Some(Short { why, .. }) => format!("says: {why}"),
            None if !self.cleared => "has not let go of its old chunks yet".into(),
            None if owes > 0 => format!("was asked for {} bytes and has not answered", owes * bytes),
            None => format!("has {} bytes left", self.free_bytes),
        }
    }

    pub(super) fn gone(&mut self, peer: u64) {
        self.waiting.take_if(|waiting| waiting.peer == peer);
        for task in self.tasks.values_mut() {
            task.handed.take_if(|(to, _)| *to == peer);
        }
    }

    /// Hands out what was not, or not lately.
    fn take_work(&mut self, now: Duration, peer: u64, repeat_after: Duration) -> Vec<Work> {
        let due = |task: &Task| task.handed.is_none_or(|(_, at)| now >= at + repeat_after);
        let cleared = self.cleared;
        let ready = self.tasks.iter_mut().filter(|(_, task)| cleared || matches!(task.kind, Kind::Clear));
        let due = ready.filter(|(_, task)| due(task)).take(TASKS_MAX);
        due.map(|(id, task)| {
            task.handed = Some((peer, now));
            task.known = !planted("space_known_task_grows");
            work(*id, &task.kind)
        })
        .collect()
    }
}

fn work(task: TaskId, kind: &Kind) -> Work {
    match kind {
        Kind::Clear => Work::Clear { task },
        Kind::Prepare { bytes, count } => Work::Prepare { task, chunk_bytes: *bytes, count: *count },
        Kind::Retire { regions, keep, .. } => Work::Retire { task, regions: regions.clone(), keep: *keep },
        Kind::Taint { marks } => Work::Taint { task, marks: marks.clone() },
    }
}

impl Master {
    pub(super) fn attend(
        &mut self,
        now: Duration,
        peer: u64,
        member: MemberId,
        life: Life,
        free_bytes: u64,
        done: Vec<Done>,
    ) -> Result<Ticket, Refusal> {
        if self.members.get(&member) != Some(&life) {
            let why = format!("{member} is not in the configuration in this life: try again");
            return Err(Refusal::Unavailable { why });
        }
        let (ticket, clear) = (Ticket(self.number()), self.task_number());
        let keeper = self.keepers.entry(member).or_insert_with(|| Keeper {
            life,
            free_bytes,
            tasks: BTreeMap::from([(clear, Task::new(Kind::Clear))]),
            waiting: None,
            cleared: false,
            short: BTreeMap::new(),
        });
        keeper.free_bytes = free_bytes;
        let until = now + self.options.attend_wait;
        // It does not wait for the answer to an earlier question any more, but the ticket is somebody's.
        if let Some(earlier) = keeper.waiting.replace(Waiting { ticket, peer, until }) {
            self.answer_work(earlier.ticket, Vec::new());
        }
        for done in done {
            self.done(now, member, done);
        }
        Ok(ticket)
    }

    /// Whoever waits for work gets it, or hears after a while that there is none.
    pub(super) fn hand_out(&mut self, now: Duration) {
        let mut ready = Vec::new();
        for keeper in self.keepers.values_mut() {
            let Some(waiting) = &keeper.waiting else { continue };
            let (ticket, peer, until) = (waiting.ticket, waiting.peer, waiting.until);
            let work = keeper.take_work(now, peer, self.options.repeat_after);
            if !work.is_empty() || until <= now {
                keeper.waiting = None;
                ready.push((ticket, work));
            }
        }
        for (ticket, work) in ready {
            self.answer_work(ticket, work);
        }
    }

    fn answer_work(&mut self, ticket: Ticket, work: Vec<Work>) {
        self.answers.push((ticket, Response::Work { work, secret: self.secret.to_hex() }));
    }

    fn done(&mut self, now: Duration, member: MemberId, done: Done) {
        let (id, chunks, why) = match done {
            Done::Prepared { task, chunks, why } => (task, chunks, why),
            Done::Finished { task } => (task, Vec::new(), None),
        };
        let Some(keeper) = self.keepers.get_mut(&member) else { return };
        let (bytes, count) = match keeper.tasks.remove(&id).map(|task| task.kind) {
            Some(Kind::Prepare { bytes, count }) => (bytes, count),
            Some(Kind::Retire { chunks, bytes, keep, .. }) => {
                for chunk in &chunks {
                    self.pool.remove(*chunk);
                }
                (bytes, if keep { chunks.len() as u64 } else { 0 })
            }
            Some(Kind::Clear) => {
                keeper.cleared = true;
                return;
            }
            Some(Kind::Taint { .. }) => return,
            // Said again, because the first answer was lost; or of a master that is not there any more.
            None => return self.disown(member, &chunks),
        };
        if (chunks.len() as u64) < count {
            let why = why.unwrap_or_else(|| "no reason was given".into());
            let until = now + self.options.reserve_wait;
            tracing::warn!(
                member = member.0,
                bytes,
                missing = count - chunks.len() as u64,
                why,
                "too few chunks"
            );
            if let Some(keeper) = self.keepers.get_mut(&member) {
                keeper.short.insert(bytes, Short { until, why });
            }
        }
        let (taken, more) = chunks.split_at(chunks.len().min(count as usize));
        for (region, mark) in taken {
            self.pool.insert(Chunk { member, region: *region, mark: *mark }, bytes);
        }
        self.disown(member, more);
    }

    /// Tells a keeper to let go of chunks that nobody knows.
    fn disown(&mut self, member: MemberId, chunks: &[(u32, u32)]) {
        let unknown = chunks.iter().map(|(region, _)| *region);
        let unknown: Vec<u32> = unknown.filter(|region| !self.pool.knows(member, *region)).collect();
        for regions in unknown.chunks(TASK_CHUNKS_MAX as usize) {
            let regions = regions.to_vec();
            self.tell(member, Kind::Retire { chunks: Vec::new(), regions, bytes: 0, keep: false });
        }
    }

    pub(super) fn prepare(&mut self, member: MemberId, bytes: u64, mut count: u64) {
        while count > 0 {
            let some = count.min(TASK_CHUNKS_MAX);
            self.tell(member, Kind::Prepare { bytes, count: some });
            count -= some;
        }
    }

    pub(super) fn taint(&mut self, member: MemberId, marks: Vec<u32>) {
        for marks in marks.chunks(TASK_CHUNKS_MAX as usize) {
            self.tell(member, Kind::Taint { marks: marks.to_vec() });
        }
    }

    /// A space's chunk that nobody needs any more: to be cleared for another use if nobody can be in it, else
    /// let go. The space is owed another.
    pub(super) fn retire(&mut self, id: ChunkId) {
        let Some(record) = self.pool.get(id) else { return };
        if let Place::Bound(space) | Place::Old(space) | Place::Fresh(space) = record.place
            && let Some(space) = self.spaces.get_mut(&space)
        {
            space.used -= 1;
            space.owed += 1;
        }
        self.retire_as(id, !record.suspect);
    }

    /// A chunk of the cache whose memory is wanted for something else.
    pub(super) fn discard(&mut self, id: ChunkId) {
        self.retire_as(id, false);
    }

    fn retire_as(&mut self, id: ChunkId, keep: bool) {
        let Some(record) = self.pool.get_mut(id) else { return };
        record.place = Place::Retiring;
        let Record { chunk, bytes, .. } = *record;
        let keeper = self.keepers.get_mut(&chunk.member);
        let last = keeper.and_then(|keeper| keeper.tasks.values_mut().next_back());
        // One task for many, while nobody knows it.
        if let Some(task) = last
            && !task.known
            && task.handed.is_none()
            && let Kind::Retire { chunks, regions, bytes: of, keep: kept } = &mut task.kind
            && (*of, *kept) == (bytes, keep)
            && (regions.len() as u64) < TASK_CHUNKS_MAX
        {
            chunks.push(id);
            regions.push(chunk.region);
            return;
        }
        let (chunks, regions) = (vec![id], vec![chunk.region]);
        self.tell(chunk.member, Kind::Retire { chunks, regions, bytes, keep });
    }

    fn tell(&mut self, member: MemberId, kind: Kind) {
        let task = self.task_number();
        if let Some(keeper) = self.keepers.get_mut(&member) {
            keeper.tasks.insert(task, Task::new(kind));
        }
    }

    /// A member has left, or has come back without its memory: its chunks are lost, and nothing else is.
    pub(super) fn forget_member(&mut self, member: MemberId) {
        let Some(keeper) = self.keepers.remove(&member) else { return };
        if let Some(waiting) = keeper.waiting {
            self.answer_work(waiting.ticket, Vec::new());
        }
        let of_member = self.pool.iter().filter(|(_, record)| record.chunk.member == member);
        let lost: BTreeSet<ChunkId> = of_member.map(|(id, _)| id).collect();
        tracing::warn!(member = member.0, chunks = lost.len(), "a member's chunks are lost with it");
        for id in lost {
            let Some(record) = self.pool.remove(id) else { continue };
            match record.place {
                Place::Cached | Place::Retiring => {}
                Place::Promised(ticket) => self.unpromise(ticket, id),
                Place::Free(space) => {
                    if let Some(space) = self.spaces.get_mut(&space) {
                        Pool::unstock(id, &record, &mut space.free);
                    }
                }
                Place::Bound(space) | Place::Old(space) | Place::Fresh(space) => {
                    if let Some(space) = self.spaces.get_mut(&space)
                        && !planted("space_lost_chunk_counted")
                    {
                        space.used -= 1;
                    }
                }
            }
        }
    }

    /// What each member has for spaces.
    pub fn usage(&self) -> Vec<MemberUsage> {
        let empty = |(member, keeper): (&MemberId, &Keeper)| MemberUsage {
            member: *member,
            free_bytes: keeper.free_bytes,
            cached_bytes: 0,
            reserved_bytes: 0,
            used_bytes: 0,
            retiring_bytes: 0,
        };
        let mut usage: BTreeMap<MemberId, MemberUsage> =
            self.keepers.iter().map(|entry| (*entry.0, empty(entry))).collect();
        for (_, record) in self.pool.iter() {
            let Some(usage) = usage.get_mut(&record.chunk.member) else { continue };
            *match record.place {
                Place::Cached | Place::Promised(_) => &mut usage.cached_bytes,
                Place::Free(_) => &mut usage.reserved_bytes,
                Place::Bound(_) | Place::Fresh(_) | Place::Old(_) => &mut usage.used_bytes,
                Place::Retiring => &mut usage.retiring_bytes,
            } += record.bytes;
        }
        usage.into_values().collect()
    }
}
