//! The paths: each does a fixed number of operations and says how many.
//!
//! A path's name is its module's; callgrind knows its two functions by `NAME::whole` and `NAME::node`. The
//! name goes through `black_box`, so that the compiler never makes one function of two that look alike.

use crate::world::{Failure, KEYS, World, key};
use barn::node::ByHand;
use barn::{Answers, Client, ClientError, Found, Pointer, RunError, RunOptions, Transaction, Way};
use barn_fabric::block_on;
use std::hint::black_box;
use std::pin::pin;
use std::task::Poll;

/// A path's name, and what runs it.
type Path = (&'static str, fn(&mut World) -> Result<u64, Failure>);

/// Operations of each path: the first keys of a table, or so many READs. Enough that what a few of them
/// have to do beyond the usual (a second bucket, a longer record) is a fraction of a percent of the sum.
const OPERATIONS: u64 = 4096;

/// Drives a future, turning the node each time that it has to wait.
fn drive<T>(node: &mut ByHand, turn: fn(&mut ByHand), future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    block_on(std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(done),
        Poll::Pending => {
            turn(node);
            Poll::Pending
        }
    }))
}

macro_rules! paths {
    ($($(#[$about:meta])* $name:ident($world:ident, $turn:ident) $body:block)*) => {
        $($(#[$about])* mod $name {
            use super::*;

            #[inline(never)]
            pub(super) fn whole($world: &mut World) -> Result<u64, Failure> {
                black_box(stringify!($name));
                let $turn: fn(&mut ByHand) = node;
                $body
            }

            #[inline(never)]
            fn node(by_hand: &mut ByHand) {
                black_box(stringify!($name));
                // A node that cannot go on answers nobody, which the client's deadline tells of.
                let _ = black_box(by_hand.turn());
            }
        })*

        /// Every path, in the order in which they run.
        pub(crate) const PATHS: &[Path] = &[$((stringify!($name), $name::whole)),*];
    };
}

/// Looks the first keys up where the node has to do its part.
fn get_afar(table: &barn::Table, node: &mut ByHand, turn: fn(&mut ByHand)) -> Result<u64, Failure> {
    let mut found = Found::default();
    for number in 0..OPERATIONS {
        let name = key(number);
        if !drive(node, turn, table.futures().find_into(&name, &mut found))? {
            return Err(format!("key {number} is not there").into());
        }
    }
    Ok(OPERATIONS)
}

/// Looks the first keys up, from `first` on.
fn get(table: &barn::Table, first: u64, there: bool) -> Result<u64, Failure> {
    let mut found = Found::default();
    for number in 0..OPERATIONS {
        if table.find_into(&key(first + number), &mut found)? != there {
            return Err(format!("key {number} is wrong").into());
        }
    }
    Ok(OPERATIONS)
}

/// Reads two objects and changes them.
async fn add(client: &Client, pair: [Pointer; 2]) -> Result<(), RunError<ClientError>> {
    let change = async |tx: &mut Transaction| {
        for pointer in pair {
            let mut body = [0; 64];
            body.copy_from_slice(tx.read(pointer).await?);
            body[0] = body[0].wrapping_add(1);
            tx.write(pointer, &body).await?;
        }
        Ok::<(), ClientError>(())
    };
    client.run(RunOptions::default(), change).await
}

/// Two objects, others each time.
fn two(objects: &[Pointer], number: u64) -> [Pointer; 2] {
    let at = number as usize % objects.len();
    [objects[at], objects[(at + 5) % objects.len()]]
}

paths! {
    /// A key that is there, read from `hopscotch`: FaRM's lookup.
    get_one_sided(world, _turn) {
        get(&world.memory.table, 0, true)
    }
    /// A key that is not there: both buckets, and the overflow block if there is one.
    get_one_sided_absent(world, _turn) {
        get(&world.memory.table, KEYS, false)
    }
    /// 32 keys at once, for each key.
    get_one_sided_32(world, _turn) {
        let mut answers = Answers::new();
        for group in 0..OPERATIONS / 32 {
            let names: [[u8; 16]; 32] = std::array::from_fn(|at| key(group * 32 + at as u64));
            let wanted: [&[u8]; 32] = std::array::from_fn(|at| &names[at][..]);
            world.memory.table.find_many(&wanted, &mut answers)?;
        }
        Ok(OPERATIONS)
    }
    /// Pilaf's lookup: an entry, and its extent.
    get_cuckoo(world, _turn) {
        get(&world.cuckoo, 0, true)
    }
    /// MICA's lookup, read one-sidedly.
    get_cache(world, _turn) {
        get(&world.cache, 0, true)
    }
    /// FaRM's lookup over a socket: one READ, and what it brought proves itself.
    get_tcp(world, turn) {
        get_afar(&world.afar[0], &mut world.memory.turned, turn)
    }
    /// Pilaf's.
    get_cuckoo_tcp(world, turn) {
        get_afar(&world.afar[1], &mut world.memory.turned, turn)
    }
    /// HERD's way: the node is asked.
    get_by_request(world, turn) {
        get_afar(&world.memory.table.read_by(Way::Request), &mut world.memory.turned, turn)
    }
    /// A put that nothing survives.
    put_memory(world, turn) {
        let side = &mut world.memory;
        for number in 0..OPERATIONS {
            let (name, value) = (key(number), [number as u8; 32]);
            drive(&mut side.turned, turn, side.table.futures().put(&name, &value))?;
        }
        Ok(OPERATIONS)
    }
    /// A put that is in the node's log.
    put_logged(world, turn) {
        let side = &mut world.logged;
        for number in 0..OPERATIONS {
            let (name, value) = (key(number), [number as u8; 32]);
            drive(&mut side.turned, turn, side.table.futures().put(&name, &value))?;
        }
        Ok(OPERATIONS)
    }
    /// A transaction that reads and changes two objects of one node.
    commit_memory(world, turn) {
        let side = &mut world.memory;
        for number in 0..OPERATIONS {
            drive(&mut side.turned, turn, add(side.barn.client(), two(&side.objects, number)))?;
        }
        Ok(OPERATIONS)
    }
    /// The same, logged.
    commit_logged(world, turn) {
        let side = &mut world.logged;
        for number in 0..OPERATIONS {
            drive(&mut side.turned, turn, add(side.barn.client(), two(&side.objects, number)))?;
        }
        Ok(OPERATIONS)
    }
    /// A READ of 64 bytes of mapped memory.
    read_shm(world, _turn) {
        let mut bytes = [0; 64];
        for number in 0..OPERATIONS {
            world.mapped.read(number * 64, &mut bytes).wait()?;
        }
        Ok(OPERATIONS)
    }
    /// A READ of 64 bytes over a socket: the client's part, and the agent's.
    read_tcp(world, turn) {
        let mut bytes = [0; 64];
        for number in 0..OPERATIONS {
            drive(&mut world.memory.turned, turn, world.posted.read(number * 64, &mut bytes))?;
        }
        Ok(OPERATIONS)
    }
    /// An object of 64 bytes, without a transaction.
    read_object(world, _turn) {
        let side = &world.memory;
        for number in 0..OPERATIONS {
            black_box(side.barn.read(two(&side.objects, number)[0])?);
        }
        Ok(OPERATIONS)
    }
    /// 8 bytes of a space.
    read_space(world, _turn) {
        let mut bytes = [0; 8];
        for number in 0..OPERATIONS {
            world.space.read(number * 8, &mut bytes)?;
        }
        Ok(OPERATIONS)
    }
}
