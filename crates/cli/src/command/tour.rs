//! `barn` with no command: Barn's main job in a few seconds, and what to do next.
//!
//! Starts a node (a process of its own, on no configuration), lets this process into its memory,
//! and shows what that is like: writes and reads without asking anybody, and calls. Everything is
//! gone afterwards.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use anstyle::Style;
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{ConnectOptions, Connection, Pipeline, RegionId, RemoteRegion, Rights};
use barn_server::{Method, SCRATCH};
use serde_json::json;

use crate::bench::node::BenchNode;
use crate::bytes::human;
use crate::command::Exit;
use crate::doctor::{self, Status};
use crate::machine::Source;

const NEXT: [(&str, &str); 5] = [
    ("barn doctor", "what this machine offers Barn, and how to lift each limit"),
    ("barn serve", "start a node that stays"),
    ("barn ping", "ask it what it holds and how far away it is"),
    ("barn bench fabric", "measure reads and calls beside this machine's own limits"),
    ("barn --help", "everything else"),
];

const MEMORY_BYTES: u64 = 64 << 20;
const READS: usize = 2_000_000;
const CALLS: usize = 100_000;
/// READs in flight: enough to hide the latency of memory.
const WINDOW: usize = 64;

/// What the tour saw.
struct Seen {
    node: barn_server::Status,
    said: String,
    read_ns: f64,
    node_cpu_seconds: f64,
    call_ns: f64,
}

/// Shows Barn's main job, then what to do next.
pub fn run(json: bool) -> io::Result<Exit> {
    let diagnosis = doctor::examine(&Source::live());
    let seen = look()?;
    let mut out = anstream::stdout().lock();
    if json {
        let document = json!({
            "machine": diagnosis.machine, "node": seen.node, "said": seen.said,
            "reads": READS, "read_ns": seen.read_ns, "node_cpu_seconds": seen.node_cpu_seconds,
            "calls": CALLS, "call_ns": seen.call_ns,
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
        "{READS} of 64 bytes at random: {:.0} ns each; the node spent {:.2} s of CPU on them",
        seen.read_ns, seen.node_cpu_seconds
    );
    let call = format!("{CALLS} requests through shared memory: {:.2} µs each", seen.call_ns / 1e3);
    for (what, result) in [
        ("started a node", node),
        ("wrote into it", format!("\"{}\", and read it back from another process", seen.said)),
        ("read from it", read),
        ("called it", call),
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
    let node = BenchNode::start(MEMORY_BYTES)?;
    let connect = || Connection::connect(&node.address("shm"), ConnectOptions::default()).wait();
    let (writer, reader) = (connect().map_err(io::Error::other)?, connect().map_err(io::Error::other)?);

    let said = format!("hello from process {}", std::process::id());
    let scratch = writer.open(SCRATCH, Rights::WRITE).wait().map_err(io::Error::other)?;
    scratch.write(0, said.as_bytes()).wait().map_err(io::Error::other)?;
    let mut heard = vec![0; said.len()];
    let scratch = reader.open(SCRATCH, Rights::READ).wait().map_err(io::Error::other)?;
    scratch.read(0, &mut heard).wait().map_err(io::Error::other)?;

    let data = reader.open(RegionId(SCRATCH.0 + 1), Rights::READ).wait().map_err(io::Error::other)?;
    let (cpu, start) = (node.cpu_seconds(), Instant::now());
    read_at_random(&data);
    let read_ns = start.elapsed().as_secs_f64() * 1e9 / READS as f64;
    let node_cpu_seconds = node.cpu_seconds() - cpu;

    let (mut reply, start) = (Vec::new(), Instant::now());
    for _ in 0..CALLS {
        reader.call(Method::Ping as u16, &[], &mut reply).wait().map_err(io::Error::other)?;
    }
    let call_ns = start.elapsed().as_secs_f64() * 1e9 / CALLS as f64;
    let said = String::from_utf8_lossy(&heard).into_owned();
    Ok(Seen { node: node.status.clone(), said, read_ns, node_cpu_seconds, call_ns })
}

fn read_at_random(data: &RemoteRegion) {
    let mut random = Seeded::new(1);
    let lines = data.bytes() / 64;
    let reads = (0..READS).map(|_| {
        let offset = random.below(lines) * 64;
        async move {
            let mut line = [0; 64];
            data.read(offset, &mut line).await.map(|()| line[0])
        }
    });
    let mut total = 0u64;
    Pipeline::new(WINDOW).run(reads, |byte| total += u64::from(byte.unwrap_or(0)));
    black_box(total);
}
