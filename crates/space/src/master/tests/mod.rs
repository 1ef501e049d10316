//! Tests of the master of spaces, with keepers that are played.

mod audit;
mod clients;
mod keepers;
mod model;
mod refusals;
mod stories;

use super::{Answer, Master, MasterOptions, Ticket};
use crate::message::{Chunk, HoldId, Keys, Range, Refusal, Request, Response, Role, SessionId, SpaceId};
use barn_cluster::{Configuration, LEASE_DEFAULT, Life, Member, MemberId};
use barn_fabric::seam::Seeded;
use keepers::Keeper;
use std::time::Duration;

/// The size of chunks in these tests.
const CHUNK: u64 = 64 << 10;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A master with its keepers, all of which do at once what they are told.
struct World {
    master: Master,
    keepers: Vec<Keeper>,
    now: Duration,
}

/// A client's peer; keepers' are their members' numbers.
const CLIENT: u64 = 1000;

impl World {
    /// So many members, with memory for so many chunks each.
    fn new(members: u32, chunks: u64) -> Self {
        let options = MasterOptions { cached_bytes_max: u64::MAX, ..MasterOptions::default() };
        Self::with(options, members, chunks)
    }

    fn with(options: MasterOptions, members: u32, chunks: u64) -> Self {
        let master = Master::new(options, Box::new(Seeded::new(7)));
        let keepers = (1..=members).map(|member| Keeper::new(member, 1, chunks * CHUNK)).collect();
        let mut world = Self { master, keepers, now: ms(1) };
        world.tick();
        world.settle();
        world
    }

    fn configuration(&self) -> Configuration {
        let mut configuration = Configuration::new(LEASE_DEFAULT, 1, 0);
        configuration.members = self.keepers.iter().map(member).collect();
        configuration
    }

    fn tick(&mut self) {
        let configuration = self.configuration();
        self.master.tick(self.now, &configuration);
    }

    /// Time passes, in steps as small as a master wants them.
    fn pass(&mut self, ms_in_all: u64) {
        for _ in 0..ms_in_all.div_ceil(100) {
            self.now += ms(100);
            self.tick();
            self.settle();
        }
    }

    /// Keepers do what they are told until there is nothing more to do. Gives what others were answered.
    fn settle(&mut self) -> Vec<(Ticket, Response)> {
        let mut others = Vec::new();
        loop {
            let mut busy = false;
            for at in 0..self.keepers.len() {
                if self.keepers[at].waits_for.is_none() {
                    let request = self.keepers[at].attend();
                    let peer = u64::from(self.keepers[at].member.0);
                    match self.master.handle(self.now, peer, request) {
                        Answer::Later(ticket) => self.keepers[at].waits_for = Some(ticket),
                        Answer::Now(response) => busy |= self.keepers[at].hear(response),
                    }
                }
            }
            for (ticket, response) in self.master.take_answers() {
                busy = true;
                match self.keepers.iter_mut().find(|keeper| keeper.waits_for == Some(ticket)) {
                    Some(keeper) => drop(keeper.hear(response)),
                    None => others.push((ticket, response)),
                }
            }
            for keeper in &mut self.keepers {
                busy |= keeper.work_all() > 0;
            }
            self.master.audit();
            if !busy {
                return others;
            }
        }
    }

    fn ask(&mut self, request: Request) -> Response {
        match self.master.handle(self.now, CLIENT, request) {
            Answer::Now(response) => {
                self.settle();
                response
            }
            Answer::Later(ticket) => {
                let answers = self.settle();
                let found = answers.into_iter().find(|(due, _)| *due == ticket);
                found.map(|(_, response)| response).expect("the master answers once keepers have worked")
            }
        }
    }

    fn refused(&mut self, request: Request) -> Refusal {
        match self.ask(request) {
            Response::Refused(refusal) => refusal,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn session(&mut self, session: u64) -> SessionId {
        let session = SessionId(session);
        assert!(matches!(self.ask(Request::Renew { session }), Response::Renewed { .. }));
        session
    }

    fn create(&mut self, session: SessionId, name: &str) -> (SpaceId, Keys) {
        let request =
            Request::Create { session, name: name.into(), chunk_bytes: CHUNK, everyone: Role::Nobody };
        match self.ask(request) {
            Response::Created { space, keys } => (space, keys),
            other => panic!("not created: {other:?}"),
        }
    }

    fn join(&mut self, session: SessionId, name: &str, key: &str) -> SpaceId {
        match self.ask(Request::Join { session, name: name.into(), key: Some(key.into()) }) {
            Response::Joined { space, .. } => space,
            other => panic!("not joined: {other:?}"),
        }
    }

    /// Reserved and free bytes.
    fn reserve(&mut self, session: SessionId, space: SpaceId, chunks: u64) -> (u64, u64) {
        match self.ask(Request::Reserve { session, space, bytes: chunks * CHUNK }) {
            Response::Reserved { reserved_bytes, free_bytes } => (reserved_bytes / CHUNK, free_bytes / CHUNK),
            other => panic!("not reserved: {other:?}"),
        }
    }

    fn alloc(&mut self, session: SessionId, space: SpaceId, chunks: u64, cow: bool) -> (HoldId, Range) {
        let request = Request::Alloc { session, space, bytes: chunks * CHUNK, copy_on_write: cow };
        self.held(request)
    }

    fn init(&mut self, session: SessionId, space: SpaceId, range: &Range, write: bool) -> (HoldId, Range) {
        let (address, bytes) = (range.address, range.bytes);
        self.held(Request::Init { session, space, address, bytes, write })
    }

    fn held(&mut self, request: Request) -> (HoldId, Range) {
        match self.ask(request) {
            Response::Held { hold, range, passes } => {
                assert!(passes.iter().all(|pass| self.master.secret.is_true(pass)));
                (hold, range)
            }
            other => panic!("not held: {other:?}"),
        }
    }

    fn lease(&mut self, session: SessionId, hold: HoldId, chunks: &[u64]) -> (u64, Vec<(u64, Chunk)>) {
        match self.ask(Request::Lease { session, hold, turn: 1, chunks: chunks.into(), lease_ms: 0 }) {
            Response::Leased { version, chunks, .. } => (version, chunks),
            other => panic!("not leased: {other:?}"),
        }
    }

    /// Reserved and used chunks of a space, and how many ranges have lost some.
    fn stat(&mut self, name: &str) -> (u64, u64, usize) {
        match self.ask(Request::Stat { name: name.into() }) {
            Response::Spaces(spaces) => {
                let [space] = &spaces[..] else { panic!("one space: {spaces:?}") };
                let lost = space.ranges.iter().filter(|range| range.lost).count();
                (space.reserved_bytes / CHUNK, space.used_bytes / CHUNK, lost)
            }
            other => panic!("no spaces: {other:?}"),
        }
    }

    fn keeper(&mut self, member: MemberId) -> &mut Keeper {
        self.keepers.iter_mut().find(|keeper| keeper.member == member).expect("a keeper")
    }

    /// Whether a chunk is at its keeper, as it was given out.
    fn is_there(&self, chunk: &Chunk) -> bool {
        let keeper = self.keepers.iter().find(|keeper| keeper.member == chunk.member);
        keeper.is_some_and(|keeper| keeper.chunks.contains_key(&chunk.region))
    }
}

fn member(keeper: &Keeper) -> Member {
    let (id, life) = (keeper.member, keeper.life);
    Member { id, life, addresses: Vec::new(), host: String::new(), memory_bytes: 0 }
}

/// A keeper that has begun another life.
fn reborn(keeper: &Keeper, memory_bytes: u64) -> Keeper {
    let Life(life) = keeper.life;
    Keeper::new(keeper.member.0, life + 1, memory_bytes)
}
