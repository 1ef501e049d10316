//! Every refusal, by the request that meets it.

use super::*;
use crate::message::CHUNK_BYTES_MAX;
use barn_layout::space::RANGE_CHUNKS_MAX;

/// A space `a` of six chunks with a range of two and one of two that is copy-on-write, its owner, and others.
struct Cast {
    world: World,
    owner: SessionId,
    writer: SessionId,
    reader: SessionId,
    stranger: SessionId,
    space: SpaceId,
    keys: Keys,
    plain: (HoldId, Range),
    cow: (HoldId, Range),
    reading: HoldId,
}

fn cast() -> Cast {
    let mut world = World::new(2, 8);
    let [owner, writer, reader, stranger] = [1, 2, 3, 4].map(|session| world.session(session));
    let (space, keys) = world.create(owner, "a");
    world.join(writer, "a", &keys.writer);
    world.join(reader, "a", &keys.reader);
    world.reserve(owner, space, 6);
    let plain = world.alloc(owner, space, 2, false);
    let cow = world.alloc(owner, space, 2, true);
    let (reading, _) = world.init(reader, space, &cow.1, false);
    Cast { world, owner, writer, reader, stranger, space, keys, plain, cow, reading }
}

/// Whether a refusal is of this kind; what it says is for people.
type Kind = fn(&Refusal) -> bool;

fn check(world: &mut World, cases: Vec<(&str, Request, Kind)>) {
    for (name, request, kind) in cases {
        let before = format!("{:?}", world.ask(Request::List));
        let refusal = world.refused(request);
        assert!(kind(&refusal), "{name}: {refusal:?}");
        assert_eq!(before, format!("{:?}", world.ask(Request::List)), "{name} changed something");
    }
}

#[test]
fn sizes_and_addresses_that_cannot_be_are_refused() {
    let Cast { mut world, owner: session, space, plain, cow, .. } = cast();
    let bad_size: Kind = |refusal| matches!(refusal, Refusal::BadSize { .. });
    let bad_range: Kind = |refusal| matches!(refusal, Refusal::BadRange { .. });
    let not_reserved: Kind =
        |refusal| *refusal == Refusal::NotReserved { wanted_bytes: 3 * CHUNK, free_bytes: 2 * CHUNK };
    let alloc = |bytes| Request::Alloc { session, space, bytes, copy_on_write: false };
    let reserve = |bytes| Request::Reserve { session, space, bytes };
    let release = |bytes| Request::Release { session, space, bytes };
    let init = |address, bytes| Request::Init { session, space, address, bytes, write: true };
    let create =
        |chunk_bytes| Request::Create { session, name: "b".into(), chunk_bytes, everyone: Role::Nobody };
    let start = plain.1.address;
    let lease =
        |chunks: &[u64]| Request::Lease { session, hold: cow.0, turn: 1, chunks: chunks.into(), lease_ms: 0 };
    let cases: Vec<(&str, Request, Kind)> = vec![
        ("alloc of nothing", alloc(0), bad_size),
        ("alloc of all", alloc(u64::MAX), bad_size),
        ("alloc of too many chunks", alloc((RANGE_CHUNKS_MAX + 1) * CHUNK), bad_size),
        ("alloc of more than is reserved", alloc(2 * CHUNK + 1), not_reserved),
        ("reserve of nothing", reserve(0), bad_size),
        ("reserve of all", reserve(u64::MAX), bad_size),
        ("release of nothing", release(0), bad_size),
        ("release of more than is free", release(3 * CHUNK), not_reserved),
        ("init of nothing", init(start, 0), bad_size),
        ("init past 64 bits", init(start, u64::MAX), bad_size),
        ("init past 64 bits from the end", init(u64::MAX, 2), bad_size),
        ("init past the end", init(start, 2 * CHUNK + 1), bad_range),
        ("init from the end", init(cow.1.address + 2 * CHUNK, 1), bad_range),
        ("init over two ranges", init(start + CHUNK, 2 * CHUNK), bad_range),
        ("init before all", init(start - 1, 1), bad_range),
        ("free in the midst", Request::Free { session, space, address: start + CHUNK }, bad_range),
        ("lease past the end", lease(&[0, 2]), bad_range),
        ("lease far past the end", lease(&[u64::MAX]), bad_range),
        ("chunks of nothing", create(0), bad_size),
        ("chunks too small", create(CHUNK / 2), bad_size),
        ("chunks too large", create(2 * CHUNK_BYTES_MAX), bad_size),
        ("chunks of no power of two", create(CHUNK + 8), bad_size),
    ];
    check(&mut world, cases);
    world.master.spaces.get_mut(&space).unwrap().next_address = u64::MAX - CHUNK + 1;
    check(&mut world, vec![("addresses past 64 bits", alloc(1), bad_size)]);
}

#[test]
fn a_range_may_end_short_of_its_last_chunk_and_addresses_stay_apart() {
    let Cast { mut world, owner: session, space, .. } = cast();
    let alloc = Request::Alloc { session, space, bytes: CHUNK + 1, copy_on_write: false };
    let (_, range) = world.held(alloc);
    assert_eq!((range.bytes, range.chunks.len()), (CHUNK + 1, 2));
    let init = |address, bytes| Request::Init { session, space, address, bytes, write: false };
    let bad_range: Kind = |refusal| matches!(refusal, Refusal::BadRange { .. });
    check(&mut world, vec![("past the bytes", init(range.address, CHUNK + 2), bad_range)]);
    let (_, part) = world.held(init(range.address + CHUNK, 1));
    assert_eq!((part.first_chunk, part.chunks.len(), part.address), (1, 1, range.address));
}

#[test]
fn a_role_that_does_not_suffice_is_refused() {
    let Cast { mut world, writer, reader, stranger, space, plain, cow, reading, .. } = cast();
    let needs = |needed| -> Kind {
        match needed {
            Role::Reader => |refusal| matches!(refusal, Refusal::NotAllowed { needed: Role::Reader, .. }),
            Role::Writer => |refusal| matches!(refusal, Refusal::NotAllowed { needed: Role::Writer, .. }),
            _ => |refusal| matches!(refusal, Refusal::NotAllowed { needed: Role::Owner, .. }),
        }
    };
    let (address, bytes) = (plain.1.address, CHUNK);
    let mut cases = Vec::new();
    for session in [reader, stranger] {
        cases.extend([
            ("reserve", Request::Reserve { session, space, bytes }, needs(Role::Writer)),
            ("release", Request::Release { session, space, bytes }, needs(Role::Writer)),
            ("alloc", Request::Alloc { session, space, bytes, copy_on_write: false }, needs(Role::Writer)),
            (
                "init to write",
                Request::Init { session, space, address, bytes, write: true },
                needs(Role::Writer),
            ),
            ("free", Request::Free { session, space, address }, needs(Role::Writer)),
        ]);
    }
    for session in [writer, reader, stranger] {
        cases.push(("delete", Request::Delete { session, space }, needs(Role::Owner)));
    }
    let (session, name) = (stranger, "a".to_string());
    cases.extend([
        (
            "a stranger's init",
            Request::Init { session, space, address, bytes, write: false },
            needs(Role::Reader),
        ),
        ("a private space", Request::Join { session, name: name.clone(), key: None }, needs(Role::Reader)),
        ("another's range", Request::Free { session: writer, space, address }, needs(Role::Owner)),
        (
            "a reader's lease",
            Request::Lease { session: reader, hold: reading, turn: 1, chunks: vec![0], lease_ms: 0 },
            needs(Role::Writer),
        ),
    ]);
    let bad_key: Kind = |refusal| *refusal == Refusal::BadKey;
    for key in ["", "00", &"0".repeat(32)] {
        cases.push((
            "a bad key",
            Request::Join { session, name: name.clone(), key: Some(key.into()) },
            bad_key,
        ));
    }
    let no_hold: Kind = |refusal| *refusal == Refusal::NoHold;
    cases.extend([
        ("another's hold", Request::Drop { session: writer, hold: plain.0 }, no_hold),
        ("another's lease", Request::Abandon { session: writer, hold: cow.0, turn: 1 }, no_hold),
        ("another's refresh", Request::Refresh { session: writer, hold: cow.0 }, no_hold),
        ("another's commit", Request::Commit { session: writer, hold: cow.0, turn: 1, version: 1 }, no_hold),
    ]);
    check(&mut world, cases);
}

#[test]
fn keys_and_everyone_give_their_roles() {
    let Cast { mut world, stranger: session, keys, .. } = cast();
    let role = |world: &mut World, name: &str, key: Option<&String>| match world.ask(Request::Join {
        session,
        name: name.into(),
        key: key.cloned(),
    }) {
        Response::Joined { role, .. } => role,
        other => panic!("not joined: {other:?}"),
    };
    assert_eq!(role(&mut world, "a", Some(&keys.reader)), Role::Reader);
    assert_eq!(role(&mut world, "a", Some(&keys.writer)), Role::Writer);
    assert_eq!(role(&mut world, "a", Some(&keys.reader)), Role::Writer, "a role is kept");
    assert_eq!(role(&mut world, "a", Some(&keys.owner)), Role::Owner);
    let other = world.session(9);
    let (name, everyone) = ("open".to_string(), Role::Writer);
    world.ask(Request::Create { session: other, name, chunk_bytes: CHUNK, everyone });
    assert_eq!(role(&mut world, "open", None), Role::Writer);
}

#[test]
fn what_is_not_there_is_refused() {
    let Cast { mut world, owner: session, space, plain, cow, writer, keys, .. } = cast();
    let (none, unknown) = (SpaceId(space.0 + 1000), SessionId(99));
    let no_space: Kind = |refusal| matches!(refusal, Refusal::NoSpace { .. });
    let no_session: Kind = |refusal| *refusal == Refusal::NoSession;
    let no_hold: Kind = |refusal| *refusal == Refusal::NoHold;
    let wrong_kind: Kind = |refusal| matches!(refusal, Refusal::WrongKind { .. });
    let bad_name: Kind = |refusal| matches!(refusal, Refusal::BadName { .. });
    let (bytes, address, hold) = (CHUNK, plain.1.address, HoldId(12345));
    let create =
        |name: &str, everyone| Request::Create { session, name: name.into(), chunk_bytes: CHUNK, everyone };
    let exists: Kind = |refusal| *refusal == Refusal::SpaceExists { name: "a".into() };
    let cases: Vec<(&str, Request, Kind)> = vec![
        ("stat", Request::Stat { name: "b".into() }, no_space),
        ("join", Request::Join { session, name: "b".into(), key: None }, no_space),
        ("reserve", Request::Reserve { session, space: none, bytes }, no_space),
        ("release", Request::Release { session, space: none, bytes }, no_space),
        ("alloc", Request::Alloc { session, space: none, bytes, copy_on_write: true }, no_space),
        ("init", Request::Init { session, space: none, address, bytes, write: true }, no_space),
        ("free", Request::Free { session, space: none, address }, no_space),
        ("delete", Request::Delete { session, space: none }, no_space),
        (
            "session's create",
            Request::Create {
                session: unknown,
                name: "b".into(),
                chunk_bytes: CHUNK,
                everyone: Role::Nobody,
            },
            no_session,
        ),
        ("session's join", Request::Join { session: unknown, name: "a".into(), key: None }, no_session),
        ("session's reserve", Request::Reserve { session: unknown, space, bytes }, no_session),
        ("session's drop", Request::Drop { session: unknown, hold: plain.0 }, no_session),
        (
            "session's commit",
            Request::Commit { session: unknown, hold: cow.0, turn: 1, version: 1 },
            no_session,
        ),
        ("drop", Request::Drop { session, hold }, no_hold),
        ("refresh", Request::Refresh { session, hold }, no_hold),
        ("lease", Request::Lease { session, hold, turn: 1, chunks: vec![], lease_ms: 0 }, no_hold),
        ("commit", Request::Commit { session, hold, turn: 1, version: 1 }, no_hold),
        (
            "lease in place",
            Request::Lease { session, hold: plain.0, turn: 1, chunks: vec![0], lease_ms: 0 },
            wrong_kind,
        ),
        (
            "commit without a lease",
            Request::Commit { session, hold: cow.0, turn: 1, version: 1 },
            |refusal| *refusal == Refusal::LeaseOver,
        ),
        ("no name", create("", Role::Nobody), bad_name),
        ("a long name", create(&"x".repeat(256), Role::Nobody), bad_name),
        ("an odd name", create("a b", Role::Nobody), bad_name),
        ("a control", create("a\n", Role::Nobody), bad_name),
        ("a name that is taken", create("a", Role::Reader), exists),
    ];
    check(&mut world, cases);
    // Somebody else is the writer; then somebody else was.
    let (other, _) = world.init(writer, space, &cow.1, true);
    let (version, _) = world.lease(session, cow.0, &[0]);
    let lease = Request::Lease { session: writer, hold: other, turn: 1, chunks: vec![1], lease_ms: 0 };
    let has_writer: Kind = |refusal| *refusal == Refusal::HasWriter { left_ms: 10_001 };
    let over: Kind = |refusal| *refusal == Refusal::LeaseOver;
    let commit = Request::Commit { session: writer, hold: other, turn: 1, version };
    let wrong_version = Request::Commit { session, hold: cow.0, turn: 1, version: version + 1 };
    let cases: Vec<(&str, Request, Kind)> = vec![
        ("two writers", lease.clone(), has_writer),
        ("the other's commit", commit, over),
        ("another version", wrong_version, over),
    ];
    check(&mut world, cases);
    world.held(Request::Commit { session, hold: cow.0, turn: 1, version });
    check(&mut world, vec![("an old version", lease, wrong_kind)]);
    // The space goes under its holders.
    world.ask(Request::Delete { session, space });
    let cases: Vec<(&str, Request, Kind)> = vec![
        ("deleted: alloc", Request::Alloc { session, space, bytes, copy_on_write: false }, no_space),
        ("deleted: drop", Request::Drop { session, hold: plain.0 }, no_hold),
        ("deleted: refresh", Request::Refresh { session: writer, hold: other }, no_hold),
        ("deleted: join", Request::Join { session, name: "a".into(), key: Some(keys.owner) }, no_space),
    ];
    check(&mut world, cases);
}

#[test]
fn a_keeper_that_is_no_member_in_this_life_is_refused() {
    let mut world = World::new(1, 4);
    let unavailable: Kind = |refusal| matches!(refusal, Refusal::Unavailable { .. });
    let attend = |member, life| Request::Attend {
        member: MemberId(member),
        life: Life(life),
        free_bytes: 1 << 40,
        done: vec![],
    };
    let cases: Vec<(&str, Request, Kind)> =
        vec![("another life", attend(1, 9), unavailable), ("nobody", attend(7, 1), unavailable)];
    check(&mut world, cases);
}

#[test]
fn without_keepers_and_without_memory_a_reserve_is_refused_at_once() {
    let mut world = World::new(0, 0);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    let refusal = world.refused(Request::Reserve { session, space, bytes: 1 });
    assert!(matches!(refusal, Refusal::Unavailable { .. }), "{refusal:?}");
    let mut world = World::new(1, 2);
    let session = world.session(1);
    let (space, _) = world.create(session, "a");
    let refusal = world.refused(Request::Reserve { session, space, bytes: 3 * CHUNK });
    assert!(matches!(refusal, Refusal::NoMemory { .. }), "{refusal:?}");
    assert!(world.keepers[0].chunks.is_empty(), "nothing is made for nobody");
}
