//! Stories of clients, one test each: what they do, what happens, what is left.

use super::*;

#[test]
fn reserved_memory_is_bound_striped_held_and_let_go() {
    let mut world = World::new(3, 8);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    assert_eq!(world.reserve(session, space, 6), (6, 6));
    let (hold, range) = world.alloc(session, space, 6, false);
    let members: Vec<u32> = range.chunks.iter().map(|chunk| chunk.member.0).collect();
    assert_eq!(members, [1, 2, 3, 1, 2, 3]);
    assert_eq!((range.address, range.bytes), (CHUNK, 6 * CHUNK));
    assert_eq!(world.stat("a"), (6, 6, 0));
    assert_eq!(world.ask(Request::Free { session, space, address: range.address }), Response::Done);
    assert!(range.chunks.iter().all(|chunk| world.is_there(chunk)), "they are held");
    assert_eq!(world.ask(Request::Drop { session, hold }), Response::Done);
    assert_eq!(world.stat("a"), (6, 0, 0));
    assert!(!range.chunks.iter().any(|chunk| world.is_there(chunk)), "they were cleared");
}

#[test]
fn a_second_reserve_of_the_same_size_asks_no_keeper() {
    let mut world = World::new(2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    assert_eq!(world.reserve(session, space, 4), (4, 4));
    assert!(matches!(
        world.ask(Request::Release { session, space, bytes: 4 * CHUNK }),
        Response::Reserved { .. }
    ));
    let answer =
        world.master.handle(world.now, CLIENT, Request::Reserve { session, space, bytes: 4 * CHUNK });
    let (reserved_bytes, free_bytes) = (4 * CHUNK, 4 * CHUNK);
    assert_eq!(answer, Answer::Now(Response::Reserved { reserved_bytes, free_bytes }));
}

#[test]
fn a_reserve_that_no_keeper_fulfils_is_refused_and_what_came_stays_cached() {
    let mut world = World::new(2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    let silent = world.keepers.remove(1);
    let request = Request::Reserve { session, space, bytes: 4 * CHUNK };
    let Answer::Later(ticket) = world.master.handle(world.now, CLIENT, request) else { panic!("later") };
    let mut configuration = world.configuration();
    configuration.members.push(member(&silent));
    let mut answers = world.settle();
    for _ in 0..400 {
        world.now += ms(100);
        world.master.handle(world.now, CLIENT, Request::Renew { session });
        world.master.tick(world.now, &configuration);
        answers.extend(world.settle());
    }
    let refusal = answers.into_iter().find(|(due, _)| *due == ticket).map(|(_, response)| response);
    let Some(Response::Refused(Refusal::NoMemory { why })) = refusal else { panic!("{refusal:?}") };
    assert!(why.contains("131072 bytes did not come") && why.contains("member 2 was asked"), "{why}");
    assert_eq!(world.master.pool.cached(CHUNK), 2);
}

#[test]
fn a_keeper_without_memory_is_replaced_by_others_or_named() {
    let mut world = World::new(2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.keepers[0].stingy = true;
    assert_eq!(world.reserve(session, space, 4), (4, 4), "all at the second");
    let refusal = world.refused(Request::Reserve { session, space, bytes: CHUNK });
    let Refusal::NoMemory { why } = refusal else { panic!("{refusal:?}") };
    assert!(
        why.contains("member 1 says: out of memory") && why.contains("member 2 has 0 bytes left"),
        "{why}"
    );
}

#[test]
fn a_cached_size_makes_room_for_another() {
    let mut world = World::new(2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 8);
    world.ask(Request::Release { session, space, bytes: 8 * CHUNK });
    let (name, chunk_bytes, everyone) = ("b".to_string(), 2 * CHUNK, Role::Nobody);
    let Response::Created { space, .. } = world.ask(Request::Create { session, name, chunk_bytes, everyone })
    else {
        panic!("created")
    };
    assert_eq!(world.reserve(session, space, 8), (8, 8));
    assert_eq!(world.master.pool.cached_bytes(), 0);
}

#[test]
fn the_cache_has_a_bound() {
    let options = MasterOptions { cached_bytes_max: 3 * CHUNK, ..MasterOptions::default() };
    let mut world = World::with(options, 2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 8);
    world.ask(Request::Release { session, space, bytes: 8 * CHUNK });
    assert_eq!(world.master.pool.cached_bytes(), 3 * CHUNK);
    assert_eq!(world.keepers.iter().map(|keeper| keeper.chunks.len()).sum::<usize>(), 3);
}

#[test]
fn what_a_lost_session_could_write_is_not_used_again_and_the_space_gets_other_chunks() {
    let mut world = World::new(2, 4);
    let (owner, lost) = (world.session(1), world.session(2));
    let (space, keys) = world.create(owner, "a");
    world.join(lost, "a", &keys.writer);
    world.reserve(owner, space, 2);
    let (_, range) = world.alloc(lost, space, 2, false);
    for chunk in &range.chunks {
        world.keeper(chunk.member).haunted.insert(chunk.region);
    }
    for _ in 0..15 {
        world.pass(100);
        world.session(1);
    }
    assert_eq!(world.refused(Request::Renew { session: lost }), Refusal::NoSession);
    assert_eq!(world.stat("a"), (2, 2, 0), "the range is there without its holder");
    assert_eq!(world.ask(Request::Free { session: owner, space, address: range.address }), Response::Done);
    assert!(!range.chunks.iter().any(|chunk| world.is_there(chunk)));
    assert_eq!(world.stat("a"), (2, 0, 0), "what is reserved stays reserved");
    world.alloc(owner, space, 2, false);
}

#[test]
fn a_commit_shows_all_of_it_and_readers_of_the_old_version_keep_theirs() {
    let mut world = World::new(3, 8);
    let (writer, reader) = (world.session(1), world.session(2));
    let (space, keys) = world.create(writer, "a");
    world.join(reader, "a", &keys.reader);
    world.reserve(writer, space, 6);
    let (hold, old) = world.alloc(writer, space, 3, true);
    let (reading, _) = world.init(reader, space, &old, false);
    let (version, fresh) = world.lease(writer, hold, &[0, 2]);
    assert_eq!((version, fresh.len()), (1, 2));
    let (_, unchanged) = world.init(reader, space, &old, false);
    assert_eq!(unchanged.chunks, old.chunks, "nothing is seen before the commit");
    let (same, new) = world.held(Request::Commit { session: writer, hold, turn: 1, version });
    assert_eq!((same, new.version), (hold, 1));
    assert_eq!(new.chunks, [fresh[0].1, old.chunks[1], fresh[1].1]);
    let again = world.held(Request::Commit { session: writer, hold, turn: 1, version });
    assert_eq!(again, (hold, new.clone()), "the first answer was lost");
    for (number, chunk) in old.chunks.iter().enumerate() {
        let kept = world.keeper(chunk.member).chunks.get(&chunk.region).map(|(_, tainted)| *tainted);
        assert_eq!(kept, Some(number != 1), "{number}: kept for the reader, and tainted if there is a newer");
    }
    assert_eq!(world.stat("a"), (6, 5, 0));
    let (_, refreshed) = world.held(Request::Refresh { session: reader, hold: reading });
    assert_eq!(refreshed.chunks, new.chunks);
    world.ask(Request::End { session: reader });
    assert_eq!(world.stat("a"), (6, 3, 0), "nobody reads the old version any more");
    assert!(!world.is_there(&old.chunks[0]) && world.is_there(&old.chunks[1]));
}

#[test]
fn a_writer_whose_lease_has_ended_commits_nothing_though_nobody_else_took_it() {
    let mut world = World::new(2, 8);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 4);
    let (hold, range) = world.alloc(session, space, 2, true);
    let (version, fresh) = world.lease(session, hold, &[1]);
    for (_, chunk) in &fresh {
        world.keeper(chunk.member).haunted.insert(chunk.region);
    }
    for _ in 0..101 {
        world.pass(100);
        world.session(1);
    }
    assert_eq!(world.refused(Request::Commit { session, hold, turn: 1, version }), Refusal::LeaseOver);
    assert!(!fresh.iter().any(|(_, chunk)| world.is_there(chunk)), "it may still be writing there");
    assert_eq!(world.init(session, space, &range, false).1.chunks, range.chunks);
    assert_eq!(world.stat("a"), (4, 2, 0));
    let lease = |turn| Request::Lease { session, hold, turn, chunks: vec![1], lease_ms: 0 };
    assert_eq!(world.refused(lease(1)), Refusal::LeaseOver, "what it wrote is gone: it cannot go on");
    assert!(matches!(world.ask(lease(2)), Response::Leased { version: again, .. } if again == version));
}

#[test]
fn a_writer_that_abandons_leaves_its_chunks_to_others() {
    let mut world = World::new(1, 3);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 3);
    let (hold, _) = world.alloc(session, space, 2, true);
    let (version, _) = world.lease(session, hold, &[0]);
    assert_eq!(world.ask(Request::Abandon { session, hold, turn: 1 }), Response::Done);
    assert_eq!(world.refused(Request::Commit { session, hold, turn: 1, version }), Refusal::LeaseOver);
    assert_eq!(world.keepers[0].chunks.len(), 3, "cleared, not let go");
    let lease = Request::Lease { session, hold, turn: 2, chunks: vec![1], lease_ms: 0 };
    assert!(matches!(world.ask(lease), Response::Leased { chunks, .. } if chunks.len() == 1));
}

#[test]
fn what_is_said_of_an_earlier_lease_does_nothing_to_the_one_that_has_begun() {
    let mut world = World::new(1, 5);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 5);
    let (hold, range) = world.alloc(session, space, 2, true);
    // A writer is dropped; its client leases again before the master has heard of that.
    let (version, _) = world.lease(session, hold, &[0]);
    let lease = Request::Lease { session, hold, turn: 2, chunks: vec![1], lease_ms: 0 };
    let Response::Leased { chunks: fresh, .. } = world.ask(lease) else { panic!("not leased") };
    assert_eq!(world.ask(Request::Abandon { session, hold, turn: 1 }), Response::Done);
    assert_eq!(world.refused(Request::Commit { session, hold, turn: 1, version }), Refusal::LeaseOver);
    assert!(world.is_there(&fresh[0].1), "the second lease's chunk is still its own");
    let (_, new) = world.held(Request::Commit { session, hold, turn: 2, version });
    assert_eq!(new.chunks, [range.chunks[0], fresh[0].1], "nothing of the first writer is committed");
}

#[test]
fn a_space_that_is_deleted_is_gone_for_its_holders_at_once() {
    let mut world = World::new(2, 4);
    let (owner, reader) = (world.session(1), world.session(2));
    let (space, keys) = world.create(owner, "a");
    world.join(reader, "a", &keys.reader);
    world.reserve(owner, space, 4);
    let (_, range) = world.alloc(owner, space, 2, true);
    let (hold, _) = world.init(reader, space, &range, false);
    assert_eq!(world.ask(Request::Delete { session: owner, space }), Response::Done);
    assert!(!range.chunks.iter().any(|chunk| world.is_there(chunk)), "their keys are revoked");
    assert_eq!(world.refused(Request::Refresh { session: reader, hold }), Refusal::NoHold);
    let gone = Refusal::NoSpace { name: "a".into() };
    assert_eq!(world.refused(Request::Stat { name: "a".into() }), gone);
    let (again, _) = world.create(reader, "a");
    assert_ne!(again, space);
}

#[test]
fn a_lost_member_takes_its_chunks_and_nothing_else() {
    let mut world = World::new(2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 6);
    let (hold, range) = world.alloc(session, space, 3, true);
    let lost = range.chunks[1].member;
    let at = world.keepers.iter().position(|keeper| keeper.member == lost).unwrap();
    world.keepers[at] = reborn(&world.keepers[at], 4 * CHUNK);
    world.tick();
    world.settle();
    assert_eq!(world.stat("a"), (3, 2, 1));
    let (address, bytes) = (range.address, CHUNK);
    let part = |address, bytes| Request::Init { session, space, address, bytes, write: false };
    assert_eq!(world.refused(part(address, 2 * bytes)), Refusal::Lost { member: lost });
    assert_eq!(world.held(part(address, bytes)).1.chunks, range.chunks[..1]);
    assert_eq!(world.reserve(session, space, 3), (6, 4), "it is asked again, in its new life");
    let (version, _) = world.lease(session, hold, &[1]);
    let (_, whole) = world.held(Request::Commit { session, hold, turn: 1, version });
    assert_eq!((whole.chunks[0], whole.chunks[2]), (range.chunks[0], range.chunks[2]));
    assert_eq!(world.stat("a").2, 0, "what was written anew is whole again");
}

#[test]
fn a_keeper_that_this_master_does_not_know_lets_go_of_everything() {
    let mut world = World::new(2, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 6);
    world.master = Master::new(MasterOptions::default(), Box::new(Seeded::new(8)));
    for keeper in &mut world.keepers {
        keeper.miss();
    }
    world.tick();
    world.settle();
    assert!(world.keepers.iter().all(|keeper| keeper.chunks.is_empty()));
    assert_eq!(world.refused(Request::Reserve { session, space, bytes: CHUNK }), Refusal::NoSession);
    // A member that was away, and is back in the same life.
    let session = world.session(2);
    let (space, _) = world.create(session, "b");
    world.reserve(session, space, 4);
    let mut away = world.keepers.remove(0);
    world.tick();
    world.settle();
    away.miss();
    world.keepers.push(away);
    world.tick();
    world.settle();
    assert!(world.keepers[1].chunks.is_empty() && !world.keepers[0].chunks.is_empty());
    assert_eq!(world.stat("b"), (2, 0, 0));
}

#[test]
fn answers_to_keepers_that_are_lost_are_given_again_and_nothing_is_done_twice() {
    let mut world = World::new(1, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    let request = Request::Reserve { session, space, bytes: 2 * CHUNK };
    let Answer::Later(_) = world.master.handle(world.now, CLIENT, request) else { panic!("later") };
    assert_eq!(world.master.take_answers().len(), 1, "the work, which is lost");
    world.master.gone(1);
    world.keepers[0].miss();
    assert_eq!(world.settle().len(), 1, "the reserve");
    // Said again, though it was heard.
    let Request::Attend { member, life, free_bytes, .. } = world.keepers[0].attend() else {
        panic!("attends")
    };
    let regions: Vec<u32> = world.keepers[0].chunks.keys().copied().collect();
    let task = crate::message::TaskId(77);
    let chunks = regions.iter().map(|region| (*region, 0)).collect();
    let done = vec![crate::message::Done::Prepared { task, chunks, why: None }];
    let now = world.now;
    world.master.handle(now, 1, Request::Attend { member, life, free_bytes, done });
    world.keepers[0].miss();
    world.settle();
    assert_eq!(world.keepers[0].chunks.len(), 2);
    assert_eq!(world.stat("a"), (2, 0, 0));
}

#[test]
fn a_master_that_stood_still_holds_that_against_nobody() {
    let mut world = World::new(1, 4);
    let session = world.session(1);
    world.now += ms(60_000);
    world.tick();
    assert_eq!(
        world.ask(Request::Alive { sessions: vec![session, SessionId(9)] }),
        Response::Alive(vec![session])
    );
    world.pass(1_100);
    assert_eq!(world.ask(Request::Alive { sessions: vec![session] }), Response::Alive(vec![]));
}

#[test]
fn a_reserve_whose_peer_is_gone_is_given_up() {
    let mut world = World::new(1, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    let request = Request::Reserve { session, space, bytes: 2 * CHUNK };
    let Answer::Later(_) = world.master.handle(world.now, CLIENT, request) else { panic!("later") };
    world.master.gone(CLIENT);
    assert!(world.settle().is_empty());
    assert_eq!((world.stat("a"), world.master.pool.cached(CHUNK)), ((0, 0, 0), 2));
}

#[test]
fn a_space_made_twice_by_the_same_session_is_one() {
    let mut world = World::new(1, 1);
    let session = world.session(1);
    assert_eq!(world.create(session, "a"), world.create(session, "a"));
}

#[test]
fn a_task_that_a_keeper_may_know_does_not_grow_when_its_connection_breaks() {
    let mut world = World::new(1, 4);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    world.reserve(session, space, 2);
    let holds = [world.alloc(session, space, 1, false), world.alloc(session, space, 1, false)];
    let let_go = |world: &mut World, (hold, range): &(HoldId, Range)| {
        let free = Request::Free { session, space, address: range.address };
        world.master.handle(world.now, CLIENT, free);
        world.master.handle(world.now, CLIENT, Request::Drop { session, hold: *hold });
    };
    let_go(&mut world, &holds[0]);
    for (_, response) in world.master.take_answers() {
        assert!(world.keepers[0].hear(response), "it is told to retire the first");
    }
    world.master.gone(1);
    let_go(&mut world, &holds[1]);
    world.settle();
    assert_eq!(world.stat("a"), (2, 0, 0));
    assert!(!world.is_there(&holds[1].1.chunks[0]), "the second was retired, too");
    assert_eq!(world.keepers[0].chunks.len() as u64, world.master.pool.len());
}
