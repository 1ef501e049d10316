//! READs: one at a time and many at once.

use std::hint::black_box;
use std::io;

use barn_fabric::region::Words;
use barn_fabric::region::bare::{chase_next, chase_place};
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{OperationError, Pipeline, RemoteRegion};

use super::bare_tcp::{BareTcp, Ends};
use super::{BARE_AHEAD, Bench, SIZES};
use crate::bench::timing::{in_turn, rates};
use crate::report::{Better, Row};

/// READs in flight: enough to hide the latency of memory and of the page tables.
const WINDOW: usize = 48;
/// Bytes of a batch of READs: what stays in a core's nearest cache, as a reader's buffers do that are used again.
const BATCH_BYTES: usize = 32 << 10;
/// The length of which READs are measured as futures in a pipeline, too.
const FUTURES_BYTES: usize = 64;
/// From here on a READ is a copy more than a wait: it stands beside a memcpy.
const COPY_BYTES: usize = 64 << 10;

/// Every size, blocking and pipelined.
pub(super) fn measure(bench: &mut Bench, transport: &str) -> io::Result<()> {
    let (_connection, region) = bench.connect(transport)?;
    for bytes in SIZES {
        let name = format!("{transport}/read-{}", size_name(bytes));
        bench.progress.show(&name);
        if bench.wants(&format!("{name}/blocking")) {
            blocking(bench, &region, transport, bytes, &name)?;
        }
        if bench.wants(&format!("{name}/pipelined")) {
            pipelined(bench, &region, transport, bytes, &name)?;
        }
        if bytes == FUTURES_BYTES && bench.wants(&format!("{name}/futures")) {
            futures(bench, &region, transport, &name);
        }
    }
    Ok(())
}

fn size_name(bytes: usize) -> String {
    match bytes {
        1024.. if bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        1024.. => format!("{}k", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Adds up words, as the bare loops do: the bytes are used.
fn sum(bytes: &[u8]) -> u64 {
    bytes.as_chunks::<8>().0.iter().fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

/// Dependent READs: where the next is follows from what the last one held.
fn chase(region: &RemoteRegion, bytes: usize, count: usize) {
    let mut into = vec![0; bytes];
    let places = region.bytes() / bytes as u64;
    let mut at = 7;
    for _ in 0..count {
        let offset = chase_place(at, places) * bytes as u64;
        region.read(offset, &mut into).wait().expect("the node is there");
        at = chase_next(at, if bytes < COPY_BYTES { sum(&into) } else { u64::from(into[0]) });
    }
    black_box(at);
}

fn blocking(
    bench: &mut Bench,
    region: &RemoteRegion,
    transport: &str,
    bytes: usize,
    name: &str,
) -> io::Result<()> {
    let effort = bench.effort;
    let ours = |count| chase(region, bytes, count);
    let (our_samples, beside, their_samples) = match region.mapped() {
        Some(words) if bytes < COPY_BYTES => {
            let theirs = |count| {
                black_box(words.bare_chase(7, bytes, count));
            };
            let (ours, theirs) = in_turn(effort, ours, theirs);
            (ours, "bare dependent loads", theirs)
        }
        Some(_) => {
            let (ours, theirs) = in_turn(effort, ours, memcpy(bytes));
            (ours, "memcpy", theirs)
        }
        None => {
            let mut bare = BareTcp::start(Ends::Spin, 40, bytes)?;
            let (ours, theirs) = in_turn(effort, ours, |count| bare.round_trips(count, 1));
            (ours, "bare spinning socket", theirs)
        }
    };
    let row = Row::nanoseconds(format!("{name}/blocking"), &our_samples)
        .beside(beside, &their_samples)
        .with("transport", transport)
        .with("bytes", bytes);
    bench.row(row);
    Ok(())
}

fn pipelined(
    bench: &mut Bench,
    region: &RemoteRegion,
    transport: &str,
    bytes: usize,
    name: &str,
) -> io::Result<()> {
    let effort = bench.effort;
    // A megabyte at a time needs no more than a few in flight, and their buffers fit the cache.
    let window = if bytes > COPY_BYTES { 4 } else { WINDOW };
    let offsets = random_offsets(region.bytes(), bytes);
    let ours = |count: usize| run_pipeline(region, &offsets, bytes, window, count);
    let (our_samples, beside, their_samples) = match region.mapped() {
        Some(words) if bytes < COPY_BYTES => {
            let (ours, theirs) = in_turn(effort, ours, |count| bare_random(words, &offsets, bytes, count));
            (ours, "bare prefetched loads", theirs)
        }
        Some(_) => {
            let (ours, theirs) = in_turn(effort, ours, memcpy(bytes));
            (ours, "memcpy", theirs)
        }
        None => {
            let mut bare = BareTcp::start(Ends::Block, 40, bytes)?;
            let (ours, theirs) = in_turn(effort, ours, |count| bare.round_trips(count, window));
            (ours, "bare socket", theirs)
        }
    };
    let row = Row::rate(format!("{name}/pipelined"), &rates(&our_samples))
        .beside(beside, &rates(&their_samples))
        .with("transport", transport)
        .with("bytes", bytes)
        .with("window", window);
    bench.row(row);
    Ok(())
}

/// The same READs as futures, as whoever mixes them with other operations has them, beside many at once.
fn futures(bench: &mut Bench, region: &RemoteRegion, transport: &str, name: &str) {
    let offsets = random_offsets(region.bytes(), FUTURES_BYTES);
    let run = |count, each: Each| run_each(region, &offsets, FUTURES_BYTES, WINDOW, count, each);
    let (ours, theirs) =
        in_turn(bench.effort, |count| run(count, Each::Future), |count| run(count, Each::Range));
    let row = Row::rate(format!("{name}/futures"), &rates(&ours))
        .beside("the same, without futures", &rates(&theirs))
        .with("transport", transport)
        .with("bytes", FUTURES_BYTES)
        .with("window", WINDOW);
    bench.row(row);
}

/// What many READs are given as.
#[derive(Clone, Copy)]
enum Each {
    Range,
    Future,
}

/// So many READs, a window of them under way at any time.
fn run_pipeline(region: &RemoteRegion, offsets: &[u32], bytes: usize, window: usize, count: usize) {
    run_each(region, offsets, bytes, window, count, Each::Range);
}

/// READs at the offsets, over and over: a batch at a time into a buffer that stays in cache.
fn run_each(region: &RemoteRegion, offsets: &[u32], bytes: usize, window: usize, count: usize, each: Each) {
    let batch = (BATCH_BYTES / bytes).clamp(window, 4096);
    let mut into = vec![0; batch * bytes];
    let mut total = 0u64;
    for start in (0..count).step_by(batch) {
        let indices = start..count.min(start + batch);
        let reads = indices.zip(into.chunks_exact_mut(bytes)).map(|(index, into)| {
            let offset = u64::from(offsets[index & (offsets.len() - 1)]);
            (offset, into)
        });
        let done = |done: Result<(), OperationError>| done.expect("the node is there");
        match each {
            Each::Range => region.read_many(window, reads, done),
            Each::Future => {
                Pipeline::new(window).run(reads.map(|(offset, into)| region.read(offset, into)), done);
            }
        }
        total = total.wrapping_add(if bytes < COPY_BYTES { sum(&into) } else { u64::from(into[0]) });
    }
    black_box(total);
}

/// A power of two of random places: enough that they do not fit a cache.
fn random_offsets(region_bytes: u64, bytes: usize) -> Vec<u32> {
    let mut random = Seeded::new(11);
    let places = region_bytes / bytes as u64;
    (0..1 << 20).map(|_| (random.below(places) * bytes as u64) as u32).collect()
}

fn bare_random(words: &Words, offsets: &[u32], bytes: usize, mut count: usize) {
    let mut total = 0;
    while count > 0 {
        let now = count.min(offsets.len());
        total += words.bare_random(&offsets[..now], bytes, BARE_AHEAD);
        count -= now;
    }
    black_box(total);
}

/// Copies of private memory: what moving so many bytes costs without any fabric.
fn memcpy(bytes: usize) -> impl FnMut(usize) {
    let from = vec![1u8; 256 << 20];
    let mut into = vec![0u8; bytes];
    let places = (from.len() / bytes) as u64;
    let mut at = 7;
    move |count| {
        for _ in 0..count {
            let start = chase_place(at, places) as usize * bytes;
            into.copy_from_slice(&from[start..start + bytes]);
            at = chase_next(at, u64::from(into[0]));
        }
        black_box(&into);
    }
}

/// What the serving process spends on two million READs, a few times: nothing but its leases and its clock.
pub(super) fn server_cpu(bench: &mut Bench) -> io::Result<()> {
    const READS: usize = 2_000_000;
    const WINDOWS: usize = 5;
    let (_connection, region) = bench.connect("shm")?;
    let offsets = random_offsets(region.bytes(), 64);
    // The node spins for a moment after a connection is made; let it fall asleep.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let mut used = [0.0; WINDOWS];
    for used in &mut used {
        let before = bench.node.cpu_seconds();
        run_pipeline(&region, &offsets, 64, WINDOW, READS);
        *used = bench.node.cpu_seconds() - before;
    }
    let row = Row::new("shm/read-64/server-cpu", "s", Better::Lower, &used).with("reads", READS);
    bench.row(row);
    Ok(())
}

/// Loads of 1 KiB in cache, word by word, beside a plain memcpy of private memory.
pub(super) fn copy(bench: &mut Bench) {
    for bytes in [64, 1024] {
        let name = format!("memory/load-{}/in-cache", size_name(bytes));
        if !bench.wants(&name) {
            continue;
        }
        let words = Words::private(16 << 10);
        let plain = vec![1u8; 16 << 10];
        let (mut ours_into, mut theirs_into) = (vec![0u8; bytes], vec![0u8; bytes]);
        let places = (16 << 10) / bytes;
        let ours = |count: usize| {
            for index in 0..count {
                let offset = (index % places * bytes) as u64;
                words.load(offset, black_box(&mut ours_into)).expect("in bounds");
            }
        };
        let theirs = |count: usize| {
            for index in 0..count {
                let offset = index % places * bytes;
                black_box(&mut theirs_into).copy_from_slice(&black_box(&plain)[offset..offset + bytes]);
            }
        };
        let (ours, theirs) = in_turn(bench.effort, ours, theirs);
        bench.row(Row::nanoseconds(name, &ours).beside("memcpy", &theirs).with("bytes", bytes));
    }
}
