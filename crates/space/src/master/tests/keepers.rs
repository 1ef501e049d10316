//! A keeper that is played: it makes, clears and lets go of chunks that are only numbers.

use crate::master::Ticket;
use crate::message::{Done, FIRST_CHUNK_REGION, Request, Response, TaskId, Work};
use barn_cluster::{Life, MemberId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A keeper.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) member: MemberId,
    pub(super) life: Life,
    free_bytes: u64,
    /// What there is, by region: how large, and whether it is tainted.
    pub(super) chunks: BTreeMap<u32, (u64, bool)>,
    /// Chunks that are never to be used again: somebody may still be in them.
    pub(super) haunted: BTreeSet<u32>,
    pub(super) waits_for: Option<Ticket>,
    /// What was written to chunks; what was written to none is 0.
    pub(super) contents: BTreeMap<u32, u64>,
    todo: VecDeque<Work>,
    seen: BTreeSet<TaskId>,
    /// What was done and is not known to be heard.
    done: Vec<Done>,
    sent: usize,
    next_region: u32,
    /// Whether it claims to have no memory, whatever it has.
    pub(super) stingy: bool,
}

impl Keeper {
    pub(super) fn new(member: u32, life: u64, free_bytes: u64) -> Self {
        Self {
            member: MemberId(member),
            life: Life(life),
            free_bytes,
            chunks: BTreeMap::new(),
            haunted: BTreeSet::new(),
            waits_for: None,
            contents: BTreeMap::new(),
            todo: VecDeque::new(),
            seen: BTreeSet::new(),
            done: Vec::new(),
            sent: 0,
            next_region: FIRST_CHUNK_REGION,
            stingy: false,
        }
    }

    pub(super) fn attend(&mut self) -> Request {
        self.sent = self.done.len();
        Request::Attend {
            member: self.member,
            life: self.life,
            free_bytes: self.free_bytes,
            done: self.done.clone(),
        }
    }

    /// Takes an answer to the last question; says whether there was work in it.
    pub(super) fn hear(&mut self, response: Response) -> bool {
        self.waits_for = None;
        let Response::Work { work, .. } = response else { return false };
        self.done.drain(..self.sent);
        self.sent = 0;
        let new: Vec<Work> = work.into_iter().filter(|work| self.seen.insert(task_of(work))).collect();
        let some = !new.is_empty();
        self.todo.extend(new);
        some
    }

    /// The answer to the last question was lost.
    pub(super) fn miss(&mut self) {
        self.waits_for = None;
        self.sent = 0;
    }

    pub(super) fn work_all(&mut self) -> usize {
        let mut count = 0;
        while self.work_one() {
            count += 1;
        }
        count
    }

    /// Does one task, if there is one.
    pub(super) fn work_one(&mut self) -> bool {
        let Some(work) = self.todo.pop_front() else { return false };
        let done = match work {
            Work::Clear { task } => {
                let all: Vec<u32> = self.chunks.keys().copied().collect();
                for region in all {
                    self.let_go(region);
                }
                Done::Finished { task }
            }
            Work::Prepare { task, chunk_bytes, count } => {
                let mut chunks = Vec::new();
                while (chunks.len() as u64) < count && self.free_bytes >= chunk_bytes && !self.stingy {
                    self.free_bytes -= chunk_bytes;
                    chunks.push(self.make(chunk_bytes));
                }
                let why = ((chunks.len() as u64) < count).then(|| "out of memory".to_string());
                Done::Prepared { task, chunks, why }
            }
            Work::Retire { task, regions, keep: false } => {
                for region in regions {
                    self.let_go(region);
                }
                Done::Finished { task }
            }
            Work::Retire { task, regions, keep: true } => {
                let mut chunks = Vec::new();
                for region in regions {
                    assert!(!self.haunted.contains(&region), "somebody may still write to {region:x}");
                    if let Some((bytes, _)) = self.chunks.remove(&region) {
                        chunks.push(self.make(bytes));
                    }
                }
                Done::Prepared { task, chunks, why: None }
            }
            Work::Taint { task, marks } => {
                for mark in marks {
                    if let Some((_, tainted)) = self.chunks.get_mut(&(FIRST_CHUNK_REGION + mark)) {
                        *tainted = true;
                    }
                }
                Done::Finished { task }
            }
        };
        self.done.push(done);
        true
    }

    fn make(&mut self, bytes: u64) -> (u32, u32) {
        let region = self.next_region;
        self.next_region += 1;
        self.chunks.insert(region, (bytes, false));
        (region, region - FIRST_CHUNK_REGION)
    }

    fn let_go(&mut self, region: u32) {
        if let Some((bytes, _)) = self.chunks.remove(&region) {
            self.free_bytes += bytes;
        }
    }
}

fn task_of(work: &Work) -> TaskId {
    match work {
        Work::Clear { task }
        | Work::Prepare { task, .. }
        | Work::Retire { task, .. }
        | Work::Taint { task, .. } => *task,
    }
}
