//! `barn` with no command: Barn's main job in a few seconds, and what to do next.
//!
//! Starts a node (a process of its own, on no configuration), puts objects into its memory, reads
//! them without asking it, changes them in transactions while another client looks on, and looks keys
//! up in a table. Everything is gone afterwards.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use anstyle::Style;
use barn::{Answers, Barn, Pointer, Ref, TableOptions, Way};
use barn_fabric::Pipeline;
use barn_fabric::seam::{Random, Seeded};
use serde_json::json;

use crate::bench::node::BenchNode;
use crate::bytes::human;
use crate::command::Exit;
use crate::doctor::{self, Status};
use crate::machine::Source;

const NEXT: [(&str, &str); 6] = [
    ("barn doctor", "what this machine offers Barn, and how to lift each limit"),
    ("barn serve", "start a node that stays"),
    ("barn ping", "ask it what it holds and how far away it is"),
    ("barn put KEY VALUE", "keep something in a table there; `barn get KEY` has it back"),
    ("barn bench fabric", "measure reads and calls beside this machine's own limits"),
    ("barn --help", "everything else"),
];

const MEMORY_BYTES: u64 = 64 << 20;
const OBJECTS: usize = 100_000;
const READS: usize = 1_000_000;
const TRANSFERS: usize = 50_000;
/// The look at both accounts that comes once in so many transfers.
const TRANSFERS_PER_LOOK: usize = 100;
const KEYS: u64 = 100_000;
const LOOKUPS: usize = 500_000;
/// Keys that are put together, and looked up together.
const BATCH: usize = 50;
/// READs in flight: enough to hide the latency of memory.
const WINDOW: usize = 64;

/// What the tour saw.
struct Seen {
    node: barn_server::Status,
    read_ns: f64,
    node_cpu_seconds: f64,
    transfer_ns: f64,
    looks: usize,
    lookup_ns: f64,
    reads_per_lookup: f64,
}

/// Shows Barn's main job, then what to do next.
pub fn run(json: bool) -> io::Result<Exit> {
    let diagnosis = doctor::examine(&Source::live());
    let seen = look()?;
    let mut out = anstream::stdout().lock();
    if json {
        let document = json!({
            "machine": diagnosis.machine, "node": seen.node, "objects": OBJECTS,
            "reads": READS, "read_ns": seen.read_ns, "node_cpu_seconds": seen.node_cpu_seconds,
            "transactions": TRANSFERS, "transaction_ns": seen.transfer_ns, "snapshots": seen.looks,
            "keys": KEYS, "lookups": LOOKUPS, "lookup_ns": seen.lookup_ns,
            "reads_per_lookup": seen.reads_per_lookup,
        });
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
        return Ok(Exit::Ok);
    }
    let bold = Style::new().bold();
    writeln!(
        out,
        "{bold}Barn{bold:#} keeps data in memory that other processes read directly. It just did:\n"
    )?;
    let pages = seen.node.regions.last().map_or("", |region| region.pages.as_str());
    let node = format!("process {}, {} on {pages}", seen.node.process, human(MEMORY_BYTES));
    let read = format!(
        "{READS} of them at random: {:.0} ns each; the node spent {:.2} s of CPU on that",
        seen.read_ns, seen.node_cpu_seconds
    );
    let moved = format!(
        "{TRANSFERS} transactions between two objects: {:.2} µs each; {} snapshots by another client all added up",
        seen.transfer_ns / 1e3,
        seen.looks
    );
    let looked_up = format!(
        "{LOOKUPS} keys of a table of {KEYS}: {:.0} ns each, {:.2} READs, none of them asked of the node",
        seen.lookup_ns, seen.reads_per_lookup
    );
    for (what, result) in [
        ("started a node", node),
        ("made objects", format!("{OBJECTS} of 64 bytes")),
        ("read them", read),
        ("changed them", moved),
        ("looked up", looked_up),
    ] {
        writeln!(out, "  {bold}{what:<16}{bold:#}{result}")?;
    }
    writeln!(
        out,
        "\n{}\n{} things here are good for Barn, {} worth a note, {} limit it.",
        diagnosis.machine.summary(),
        diagnosis.count(Status::Good),
        diagnosis.count(Status::Note),
        diagnosis.count(Status::Limits),
    )?;
    writeln!(out, "\nWhat to do next:")?;
    for (command, purpose) in NEXT {
        writeln!(out, "  {bold}{command:<18}{bold:#}  {purpose}")?;
    }
    Ok(Exit::Ok)
}

fn look() -> io::Result<Seen> {
    let node = BenchNode::start(MEMORY_BYTES, 0, None)?;
    let connect = || Barn::connect(&node.address("shm")).map_err(io::Error::other);
    let (writer, watcher) = (connect()?, connect()?);
    let objects = make_objects(&writer).map_err(io::Error::other)?;

    let (cpu, start) = (node.cpu_seconds(), Instant::now());
    read_at_random(&watcher, &objects);
    let read_ns = start.elapsed().as_secs_f64() * 1e9 / READS as f64;
    let node_cpu_seconds = node.cpu_seconds() - cpu;

    let start = Instant::now();
    let looks = transfer(&writer, &watcher).map_err(io::Error::other)?;
    let transfer_ns = start.elapsed().as_secs_f64() * 1e9 / TRANSFERS as f64;

    let (lookup_ns, reads_per_lookup) = look_up(&writer, &watcher).map_err(io::Error::other)?;
    Ok(Seen {
        node: node.status.clone(),
        read_ns,
        node_cpu_seconds,
        transfer_ns,
        looks,
        lookup_ns,
        reads_per_lookup,
    })
}

/// Objects side by side, a thousand in each transaction.
fn make_objects(barn: &Barn) -> Result<Vec<Pointer>, barn::Error> {
    let bodies = [&[7u8; 64][..]; 1000];
    let mut objects = Vec::with_capacity(OBJECTS);
    while objects.len() < OBJECTS {
        objects.extend(barn.transaction(|tx| tx.alloc_array(&bodies, None))?);
    }
    Ok(objects)
}

fn read_at_random(barn: &Barn, objects: &[Pointer]) {
    let mut random = Seeded::new(1);
    let client = barn.client();
    let reads = (0..READS).map(|_| {
        let pointer = objects[random.below(objects.len() as u64) as usize];
        async move { client.read(pointer).await.map(|object| object[0]) }
    });
    let mut total = 0u64;
    Pipeline::new(WINDOW).run(reads, |byte| total += u64::from(byte.unwrap_or(0)));
    black_box(total);
}

/// Moves money between two accounts while another client looks at both; says how often it did.
fn transfer(writer: &Barn, watcher: &Barn) -> Result<usize, barn::Error> {
    const TOTAL: i64 = 1_000_000;
    let (from, to): (Ref<i64>, Ref<i64>) = (writer.new(&TOTAL)?, writer.new(&0)?);
    let mut looks = 0;
    for number in 0..TRANSFERS {
        writer.transaction(|tx| {
            let (left, right) = (tx.load(from)?, tx.load(to)?);
            tx.store(from, &(left - 1))?;
            tx.store(to, &(right + 1))
        })?;
        if number % TRANSFERS_PER_LOOK == 0 {
            let sum = watcher.transaction(|tx| Ok(tx.load(from)? + tx.load(to)?))?;
            if sum != TOTAL {
                return Err(barn::Error::own(format!("a snapshot added up to {sum} instead of {TOTAL}")));
            }
            looks += 1;
        }
    }
    Ok(looks)
}

/// Fills a table and lets another client look keys up in its memory; gives nanoseconds and READs each.
fn look_up(writer: &Barn, reader: &Barn) -> Result<(f64, f64), barn::Error> {
    let options = TableOptions { capacity: KEYS, key_bytes: 8, inline_bytes: 8, ..TableOptions::default() };
    let table = writer.table_with("tour", options)?;
    let numbers: Vec<[u8; 8]> = (0..KEYS).map(u64::to_le_bytes).collect();
    for group in numbers.chunks(1000) {
        let pairs: Vec<(&[u8], &[u8])> = group.iter().map(|number| (&number[..], &number[..])).collect();
        table.put_many(&pairs)?;
    }
    let table = reader.open_table("tour")?.read_by(Way::OneSided);
    let (mut random, mut answers) = (Seeded::new(2), Answers::new());
    let start = Instant::now();
    for _ in 0..LOOKUPS / BATCH {
        let wanted: [&[u8]; BATCH] = std::array::from_fn(|_| &numbers[random.below(KEYS) as usize][..]);
        table.find_many(&wanted, &mut answers)?;
        if let Some((key, _)) = wanted
            .iter()
            .zip(answers.iter())
            .find(|(key, found)| found.is_none_or(|found| found.value != **key))
        {
            return Err(barn::Error::own(format!("the table has something else for {key:?}")));
        }
    }
    let lookup_ns = start.elapsed().as_secs_f64() * 1e9 / LOOKUPS as f64;
    let stats = table.stats()?;
    Ok((lookup_ns, stats.reads as f64 / stats.one_sided_gets.max(1) as f64))
}
