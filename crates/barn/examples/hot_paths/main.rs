//! Runs each hot path a fixed number of times on fixed inputs, for instructions to be counted:
//! `cargo xtask guard` runs it under valgrind's callgrind and compares with what is kept in xtask/guard.toml.
//!
//! What always holds: client and node are on one thread, and the node is turned by hand exactly when the
//! client has to wait for it. So nothing spins, nothing sleeps, and two runs do the same work. A path is a
//! module with two functions that are never inlined: `whole` does everything, and every turn of the node
//! that it needs goes through `node`. What `whole` takes without `node` is the client's part.
//!
//! It prints a line for each path, its name and how many operations it did; and is no benchmark: nothing
//! is timed.

mod paths;
mod world;

use paths::PATHS;
use world::World;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1);
    let mut world = World::new()?;
    for (name, path) in PATHS {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            println!("path {name} {}", path(&mut world)?);
        }
    }
    world.end()
}
