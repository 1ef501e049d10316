//! What the model's clients do, and what they remember: which chunks they hold, what was written there.

use super::*;
use barn_fabric::seam::Random;
use std::collections::BTreeMap;

const SESSIONS: u64 = 4;

/// A chunk as somebody remembers it, and from which era of its member.
#[derive(Clone, Copy, Debug)]
struct Seen {
    chunk: Chunk,
    era: u64,
}

/// A hold as its client remembers it.
#[derive(Debug)]
struct Held {
    session: SessionId,
    space: SpaceId,
    range: Range,
    chunks: Vec<Seen>,
    /// What should be in them.
    contents: Vec<u64>,
}

/// A writer as it remembers its lease.
#[derive(Debug)]
struct Writing {
    version: u64,
    ends: Duration,
    fresh: BTreeMap<u64, (Seen, u64)>,
}

/// All clients.
#[derive(Debug)]
pub(super) struct Clients {
    sessions: Vec<SessionId>,
    next_session: u64,
    /// Which spaces each session has joined; there from its first renewal.
    joined: BTreeMap<SessionId, Vec<SpaceId>>,
    pub(super) keys: BTreeMap<String, Keys>,
    holds: BTreeMap<HoldId, Held>,
    writing: BTreeMap<HoldId, Writing>,
    /// The last of each hold's leases that was asked for.
    turns: BTreeMap<HoldId, u64>,
    /// What is in the newest version of each range.
    contents: BTreeMap<(SpaceId, u64), Vec<u64>>,
    next_content: u64,
    pub(super) holds_ever: u64,
    pub(super) commits_ever: u64,
}

type Eras = BTreeMap<MemberId, u64>;

impl Clients {
    pub(super) fn new() -> Self {
        Self {
            sessions: (1..=SESSIONS).map(SessionId).collect(),
            next_session: SESSIONS + 1,
            joined: BTreeMap::new(),
            keys: BTreeMap::new(),
            holds: BTreeMap::new(),
            writing: BTreeMap::new(),
            turns: BTreeMap::new(),
            contents: BTreeMap::new(),
            next_content: 1,
            holds_ever: 0,
            commits_ever: 0,
        }
    }

    pub(super) fn any_peer(&self, random: &mut Seeded) -> u64 {
        CLIENT + random.below(SESSIONS)
    }

    /// Something to ask, and through which connection.
    pub(super) fn next(&self, random: &mut Seeded) -> (u64, Request) {
        let at = random.below(SESSIONS);
        let session = self.sessions[at as usize];
        (CLIENT + at, self.request(session, random))
    }

    fn request(&self, session: SessionId, random: &mut Seeded) -> Request {
        let name = ["a", "b", "c"][random.below(3) as usize].to_string();
        // Mostly what makes sense; any order now and then.
        let sensible = random.chance(900_000);
        match self.joined.get(&session) {
            None if sensible => return Request::Renew { session },
            Some(joined) if joined.is_empty() && sensible => return self.enter(session, name, random),
            _ => {}
        }
        let joined = self.joined.get(&session).map(Vec::as_slice).unwrap_or_default();
        let space = pick(joined, random).unwrap_or(SpaceId(1));
        let bytes = 1 + random.below(3 * CHUNK);
        match random.below(40) {
            0..6 => Request::Renew { session },
            6 if random.chance(300_000) => Request::End { session },
            6 => Request::Alive { sessions: self.sessions.clone() },
            7..10 => self.enter(session, name, random),
            10 if random.chance(100_000) => Request::Delete { session, space },
            10 => Request::Stat { name },
            11..15 => Request::Reserve { session, space, bytes: 3 * bytes },
            15 => Request::Release { session, space, bytes },
            _ => self.request_of_range(session, space, bytes, random),
        }
    }

    fn enter(&self, session: SessionId, name: String, random: &mut Seeded) -> Request {
        match self.keys.get(&name) {
            Some(keys) if random.chance(900_000) => {
                let key = Some(keys.owner.clone()).filter(|_| random.chance(500_000));
                Request::Join { session, name, key }
            }
            _ => {
                let chunk_bytes = CHUNK << random.below(2);
                Request::Create { session, name, chunk_bytes, everyone: Role::Writer }
            }
        }
    }

    fn request_of_range(
        &self,
        session: SessionId,
        space: SpaceId,
        bytes: u64,
        random: &mut Seeded,
    ) -> Request {
        let of_session = self.holds.iter().filter(|(_, held)| held.session == session);
        let mine: Vec<HoldId> = of_session.map(|(hold, _)| *hold).collect();
        let hold = pick(&mine, random);
        let of_space = self.contents.keys().filter(|(of, _)| *of == space);
        let addresses: Vec<u64> = of_space.map(|(_, address)| *address).collect();
        let address = pick(&addresses, random).unwrap_or(CHUNK);
        // Now and then of the lease before, or of one that is over.
        let turn_of = |hold: &HoldId| self.turns.get(hold).copied().unwrap_or(0);
        let late = random.below(8) / 7;
        match (random.below(24), hold) {
            (0..5, _) => Request::Alloc { session, space, bytes, copy_on_write: random.chance(800_000) },
            (5, _) => Request::Free { session, space, address },
            (6..10, _) | (_, None) => {
                let address = address + random.below(8) / 7 * CHUNK;
                Request::Init { session, space, address, bytes: bytes / 2 + 1, write: random.chance(500_000) }
            }
            (10..12, Some(hold)) => Request::Drop { session, hold },
            (12..17, Some(hold)) => {
                let range = &self.holds[&hold].range;
                let (first, count) = (range.first_chunk, range.chunks.len() as u64 + random.below(8) / 7);
                let chunks = (0..1 + random.below(3)).map(|_| first + random.below(count)).collect();
                let begins = if self.writing.contains_key(&hold) {
                    random.below(4) / 3
                } else {
                    random.below(8).min(1)
                };
                let turn = (turn_of(&hold) + begins).saturating_sub(late);
                Request::Lease { session, hold, turn, chunks, lease_ms: 50 + random.below(1_000) }
            }
            (17..21, Some(hold)) => {
                let writers: Vec<HoldId> =
                    mine.into_iter().filter(|hold| self.writing.contains_key(hold)).collect();
                let hold = pick(&writers, random).unwrap_or(hold);
                let version = self.writing.get(&hold).map_or(1, |writing| writing.version);
                let turn = turn_of(&hold).saturating_sub(late);
                Request::Commit { session, hold, turn, version }
            }
            (21, Some(hold)) => Request::Abandon { session, hold, turn: turn_of(&hold).saturating_sub(late) },
            (_, Some(hold)) => Request::Refresh { session, hold },
        }
    }

    /// Remembers an answer, and judges it.
    pub(super) fn hear(
        &mut self,
        now: Duration,
        request: &Request,
        response: Response,
        keepers: &mut [Keeper],
        eras: &Eras,
    ) {
        match (request, response) {
            (Request::Renew { session }, Response::Renewed { .. }) => {
                self.joined.entry(*session).or_default();
            }
            (Request::Renew { session }, Response::Refused(Refusal::NoSession)) => self.ended(*session, None),
            (Request::Create { session, name, .. }, Response::Created { space, keys }) => {
                self.keys.insert(name.clone(), keys);
                self.joined.entry(*session).or_default().push(space);
            }
            (Request::Join { session, .. }, Response::Joined { space, .. }) => {
                let joined = self.joined.entry(*session).or_default();
                joined.retain(|one| *one != space);
                joined.push(space);
            }
            (Request::End { session }, Response::Done) => self.ended(*session, None),
            (Request::Delete { space, .. }, Response::Done) => {
                for joined in self.joined.values_mut() {
                    joined.retain(|one| one != space);
                }
                self.holds.retain(|_, held| held.space != *space);
                self.writing.retain(|hold, _| self.holds.contains_key(hold));
                self.contents.retain(|(of, _), _| of != space);
            }
            (Request::Alloc { session, space, .. }, Response::Held { hold, range, .. }) => {
                let chunks = see(&range.chunks, eras);
                for seen in &chunks {
                    assert_eq!(content(seen, keepers), Some(0), "what is allocated is clean");
                }
                let contents: Vec<u64> = chunks.iter().map(|seen| self.write(seen, keepers)).collect();
                self.contents.insert((*space, range.address), contents.clone());
                self.hold(hold, Held { session: *session, space: *space, range, chunks, contents });
            }
            (Request::Init { session, space, .. }, Response::Held { hold, range, .. }) => {
                self.remember(*session, *space, hold, range, eras);
            }
            (Request::Refresh { session, hold: old }, Response::Held { hold, range, .. }) => {
                self.writing.remove(old);
                let space = self.holds.remove(old).expect("its own hold").space;
                self.remember(*session, space, hold, range, eras);
            }
            (Request::Drop { hold, .. }, Response::Done) => {
                self.writing.remove(hold);
                self.holds.remove(hold).expect("its own hold");
            }
            (Request::Abandon { hold, turn, .. }, Response::Done) if self.turns.get(hold) == Some(turn) => {
                self.writing.remove(hold);
            }
            (Request::Free { space, address, .. }, Response::Done) => {
                self.contents.remove(&(*space, *address));
            }
            (Request::Lease { hold, turn, .. }, Response::Leased { version, lease_ms, chunks, .. }) => {
                self.take_turn(*hold, *turn);
                self.leased(*hold, version, now + ms(lease_ms), &chunks, keepers, eras);
            }
            (Request::Commit { session, hold, turn, version }, Response::Held { range, .. }) => {
                assert_eq!(self.turns.get(hold), Some(turn), "a commit of an earlier lease");
                self.committed(now, *session, *hold, *version, range, eras);
            }
            _ => {}
        }
    }

    fn hold(&mut self, hold: HoldId, held: Held) {
        self.holds_ever += 1;
        assert!(self.holds.insert(hold, held).is_none(), "a hold's number was used twice");
    }

    /// A hold of something that somebody wrote: what is in it is known.
    fn remember(&mut self, session: SessionId, space: SpaceId, hold: HoldId, range: Range, eras: &Eras) {
        let all =
            self.contents.get(&(space, range.address)).expect("a range that was allocated and not freed");
        let first = range.first_chunk as usize;
        let contents = all[first..first + range.chunks.len()].to_vec();
        let chunks = see(&range.chunks, eras);
        self.hold(hold, Held { session, space, range, chunks, contents });
    }

    /// A lease that goes on is the last that was begun; a new one has nothing of those before it.
    fn take_turn(&mut self, hold: HoldId, turn: u64) {
        let last = self.turns.insert(hold, turn).unwrap_or(0);
        assert!(turn > last || self.writing.contains_key(&hold), "a lease that was over goes on");
        assert!(turn >= last, "an earlier lease is given");
        if turn > last {
            self.writing.remove(&hold);
        }
    }

    fn leased(
        &mut self,
        hold: HoldId,
        version: u64,
        ends: Duration,
        chunks: &[(u64, Chunk)],
        keepers: &mut [Keeper],
        eras: &Eras,
    ) {
        let held = self.holds.get(&hold).expect("its own hold");
        let range = (held.space, held.range.address);
        for other in self.writing.keys().filter(|other| **other != hold) {
            let other = &self.holds[other];
            assert_ne!((other.space, other.range.address), range, "two writers");
        }
        let fresh: Vec<(u64, Seen)> =
            chunks.iter().map(|(number, chunk)| (*number, see(&[*chunk], eras)[0])).collect();
        let written: Vec<u64> = fresh.iter().map(|(_, seen)| self.write(seen, keepers)).collect();
        let begin = || Writing { version, ends, fresh: BTreeMap::new() };
        let writing = self.writing.entry(hold).or_insert_with(begin);
        assert_eq!(writing.version, version, "a lease is for one version");
        writing.ends = writing.ends.max(ends);
        for ((number, seen), content) in fresh.into_iter().zip(written) {
            writing.fresh.insert(number, (seen, content));
        }
    }

    fn committed(
        &mut self,
        now: Duration,
        session: SessionId,
        hold: HoldId,
        version: u64,
        range: Range,
        eras: &Eras,
    ) {
        let held = self.holds.get(&hold).expect("its own hold");
        let space = held.space;
        assert_eq!(range.version, version);
        if let Some(writing) = self.writing.remove(&hold) {
            assert!(now < writing.ends, "a commit after the lease's end");
            assert_eq!(version, writing.version);
            self.commits_ever += 1;
            let all = self.contents.get_mut(&(space, range.address)).expect("a range that is there");
            for (number, (_, content)) in writing.fresh {
                all[number as usize] = content;
            }
            self.holds.remove(&hold);
            self.remember(session, space, hold, range, eras);
        } else {
            let chunks: Vec<Chunk> = held.chunks.iter().map(|seen| seen.chunk).collect();
            assert_eq!(range.chunks, chunks, "a commit that was made before is answered alike");
        }
    }

    /// Writes something that nobody else writes.
    fn write(&mut self, seen: &Seen, keepers: &mut [Keeper]) -> u64 {
        let content = self.next_content;
        self.next_content += 1;
        let keeper = keepers.iter_mut().find(|keeper| keeper.member == seen.chunk.member);
        if let Some(keeper) = keeper {
            keeper.contents.insert(seen.chunk.region, content);
        }
        content
    }

    /// A session is over. What it held by then, without having let go, is haunted.
    fn ended(&mut self, session: SessionId, haunt: Option<(&mut [Keeper], &Eras)>) {
        let over: Vec<HoldId> =
            self.holds.iter().filter(|(_, held)| held.session == session).map(|(hold, _)| *hold).collect();
        let mut left = Vec::new();
        for hold in over {
            left.extend(self.holds.remove(&hold).into_iter().flat_map(|held| held.chunks));
            let fresh = self.writing.remove(&hold).map(|writing| writing.fresh).unwrap_or_default();
            left.extend(fresh.into_values().map(|(seen, _)| seen));
        }
        if let Some((keepers, eras)) = haunt {
            haunted(&left, keepers, eras);
        }
        self.joined.remove(&session);
        for known in self.sessions.iter_mut().filter(|known| **known == session) {
            *known = SessionId(self.next_session);
            self.next_session += 1;
        }
    }

    /// Clients whose leases have ended at the master, and writers whose have. They may still be writing.
    pub(super) fn notice_ends(
        &mut self,
        alive: impl Fn(SessionId) -> bool,
        writes: impl Fn(HoldId) -> bool,
        keepers: &mut [Keeper],
        eras: &Eras,
    ) {
        let holders: std::collections::BTreeSet<SessionId> =
            self.holds.values().map(|held| held.session).collect();
        for session in holders.into_iter().filter(|session| !alive(*session)) {
            self.ended(session, Some((keepers, eras)));
        }
        let over: Vec<HoldId> = self.writing.keys().copied().filter(|hold| !writes(*hold)).collect();
        for hold in over {
            let writing = self.writing.remove(&hold).expect("found just now");
            let fresh: Vec<Seen> = writing.fresh.into_values().map(|(seen, _)| seen).collect();
            haunted(&fresh, keepers, eras);
        }
    }

    /// Whatever is held is there, with what was written to it, unless it was lost with its member.
    pub(super) fn check_holds(&self, keepers: &[Keeper], eras: &Eras) {
        for (hold, held) in &self.holds {
            for (seen, content_then) in held.chunks.iter().zip(&held.contents) {
                let there = eras.get(&seen.chunk.member) == Some(&seen.era);
                if there && keepers.iter().any(|keeper| keeper.member == seen.chunk.member) {
                    assert_eq!(content(seen, keepers), Some(*content_then), "{hold:?} of {held:?}");
                }
            }
        }
    }
}

fn see(chunks: &[Chunk], eras: &Eras) -> Vec<Seen> {
    chunks.iter().map(|chunk| Seen { chunk: *chunk, era: eras[&chunk.member] }).collect()
}

/// What is in a chunk, if it is there.
fn content(seen: &Seen, keepers: &[Keeper]) -> Option<u64> {
    let keeper = keepers.iter().find(|keeper| keeper.member == seen.chunk.member)?;
    keeper.chunks.get(&seen.chunk.region)?;
    Some(keeper.contents.get(&seen.chunk.region).copied().unwrap_or(0))
}

fn haunted(left: &[Seen], keepers: &mut [Keeper], eras: &Eras) {
    for seen in left.iter().filter(|seen| eras.get(&seen.chunk.member) == Some(&seen.era)) {
        for keeper in keepers.iter_mut().filter(|keeper| keeper.member == seen.chunk.member) {
            keeper.haunted.insert(seen.chunk.region);
        }
    }
}

fn pick<T: Copy>(from: &[T], random: &mut Seeded) -> Option<T> {
    let count = from.len() as u64;
    (count > 0).then(|| from[random.below(count) as usize])
}
