//! Processes that share a counter: `cargo run --example shared_counter`.
//!
//! The first process starts a node inside itself and makes a counter; others join by the node's
//! socket and the counter's pointer, and all of them add to it.
#![forbid(unsafe_code)]

use barn::{Barn, Pointer, Ref};
use std::error::Error;
use std::process::Command;
use std::time::{Duration, Instant};

const TIME: Duration = Duration::from_secs(2);
const CHILDREN: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => begin(),
        [address, pointer] => join(address, pointer),
        _ => Err("give nothing, or an address and a pointer".into()),
    }
}

/// Makes a counter and lets two processes add to it.
fn begin() -> Result<(), Box<dyn Error>> {
    let barn = Barn::embedded()?;
    let counter = barn.new(&0u64)?;
    let address = barn.address().ok_or("the node listens nowhere")?;
    println!("join in from another terminal, for as long as this runs:");
    println!("  cargo run --example shared_counter -- {address} {}", counter.pointer());

    let started = Instant::now();
    let this_program = std::env::current_exe()?;
    let children = (0..CHILDREN)
        .map(|_| Command::new(&this_program).args([&address, &counter.pointer().to_string()]).spawn())
        .collect::<Result<Vec<_>, _>>()?;
    for mut child in children {
        if !child.wait()?.success() {
            return Err("a child failed".into());
        }
    }
    // A read is a load from the node's memory; no transaction is needed for one object.
    let sum = barn.load(counter)?;
    println!("{sum} in all, {:.0} increments per second", sum as f64 / started.elapsed().as_secs_f64());
    Ok(())
}

/// Adds to a counter that another process has made.
fn join(address: &str, pointer: &str) -> Result<(), Box<dyn Error>> {
    let barn = Barn::connect(address)?;
    let pointer: Pointer = pointer.parse()?;
    let counter: Ref<u64> = Ref::from_pointer(pointer).ok_or("this is no pointer to a u64")?;
    let (started, mut mine) = (Instant::now(), 0u64);
    while started.elapsed() < TIME {
        // No increment is lost: one that another process got ahead of is run again.
        barn.transaction(|tx| {
            let value = tx.load(counter)?;
            tx.store(counter, &(value + 1))
        })?;
        mine += 1;
    }
    println!("process {} added {mine}", std::process::id());
    Ok(())
}
