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
