//! One writer, several reading processes, no lock: a value that verifies itself.
//!
//! The owner publishes a quote ten thousand times; each reader, a process of its own, reads it
//! from the owner's memory as fast as it can and never sees half of one.
//!
//! `cargo run --release -p barn-fabric --example versioned`

use barn_fabric::region::versioned;
use barn_fabric::*;
use std::process::{Command, Stdio};

const REGION: RegionId = RegionId(1);
const READERS: usize = 3;
/// A quote: 32 copies of the same number, so that a torn one shows.
const QUOTE_BYTES: usize = 256;

struct Silent;

impl Service for Silent {
    fn call(&mut self, _: Request<'_>, reply: Reply<'_>) {
        reply.unknown_method();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match std::env::args().nth(1) {
        Some(address) => read(&address),
        None => own(),
    }
}

fn own() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::temp_dir().join(format!("barn-versioned-{}.sock", std::process::id()));
    let registry = Registry::default();
    let region = Region::allocate(&RegionOptions::readable(2 << 20))?;
    registry.register(REGION, region.clone(), Rights::READ)?;
    versioned::publish(region.words(), 0, &[0; QUOTE_BYTES])?;
    let mut node = Node::bind(NodeOptions { shm: Some(socket.clone()), ..NodeOptions::default() }, registry)?;
    let stopper = node.stopper();
    let serving = std::thread::spawn(move || node.run(&mut Silent));

    let this = std::env::current_exe()?;
    let address = format!("shm:{}", socket.display());
    let readers: Result<Vec<_>, _> =
        (0..READERS).map(|_| Command::new(&this).arg(&address).stdout(Stdio::inherit()).spawn()).collect();
    let mut readers = readers?;
    for quote in 1..=10_000u64 {
        let body: Vec<u8> = quote.to_le_bytes().repeat(QUOTE_BYTES / 8);
        versioned::publish(region.words(), 0, &body)?;
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
    // The last quote tells the readers to stop.
    versioned::publish(region.words(), 0, &u64::MAX.to_le_bytes().repeat(QUOTE_BYTES / 8))?;
    for reader in &mut readers {
        if !reader.wait()?.success() {
            return Err("a reader saw a torn quote".into());
        }
    }
    stopper.stop();
    serving.join().map_err(|_| "the node panicked")??;
    Ok(())
}

fn read(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let connection = Connection::connect(address, ConnectOptions::default()).wait()?;
    let region = connection.open(REGION, Rights::READ).wait()?;
    let (mut reads, mut retries, mut body) = (0u64, 0u64, [0; QUOTE_BYTES]);
    loop {
        let Some(_version) = block_on(region.read_versioned(0, &mut body))? else {
            retries += 1;
            continue;
        };
        reads += 1;
        let (words, _) = body.as_chunks::<8>();
        if words.iter().any(|word| *word != words[0]) {
            return Err("a torn quote was taken for whole".into());
        }
        if words[0] == u64::MAX.to_le_bytes() {
            println!("reader {}: {reads} whole quotes, {retries} tries met the writer", std::process::id());
            return Ok(());
        }
    }
}
