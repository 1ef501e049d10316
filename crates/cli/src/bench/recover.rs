//! `barn bench recover`: how long a node that was killed takes to have its data back, beside a direct
//! read of the same bytes from the same disk.
//!
//! | row | ours | beside |
//! |---|---|---|
//! | `checkpoint/value-N` | from the start of the process's recovery until the node could serve | reading the image and the log, past the page cache |
//! | `log/value-N` | the same, with no checkpoint to begin with | reading the log in the same way |
//!
//! The wait for the dead process's lease is not in it: it is as long as was set, whatever the data.
//! `keys_per_second` says how many keys came back in that time.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use barn::{Barn, Durability, TableOptions};
use rustix::fs::OFlags;

use crate::bench::node::{BenchNode, Disk};
use crate::progress::Progress;
use crate::report::{Better, Report, Row};

/// Bytes of values.
const DATA_BYTES: u64 = 2 << 30;
const DATA_BYTES_QUICK: u64 = 128 << 20;
const VALUES: [u64; 2] = [1024, 32];
/// Direct reads need memory at a multiple of this.
const ALIGNED: usize = 4096;
const READ_BYTES: usize = 1 << 20;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the data is kept: a directory on the disk that is to be measured [default: the directory
    /// for temporary files].
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Only rows whose name contains this, such as `value-1024`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Less data.
    #[arg(long)]
    pub quick: bool,
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    let base = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let mut report = Report::new("recover");
    let mut progress = Progress::new(2 * VALUES.len() as u64);
    for value in VALUES {
        let soon = if args.quick { "16MiB" } else { "256MiB" };
        for (kind, checkpoint_bytes) in [("checkpoint", soon), ("log", "1TiB")] {
            let name = format!("{kind}/value-{value}");
            progress.show(&name);
            if name.contains(&args.rows) {
                let directory = base.join(format!("barn-bench-recover-{}", std::process::id()));
                std::fs::create_dir_all(&directory)?;
                let data = if args.quick { DATA_BYTES_QUICK } else { DATA_BYTES };
                let row = measure(&name, &directory, data, value, checkpoint_bytes);
                let _ = std::fs::remove_dir_all(&directory);
                report.rows.push(row?);
            }
            progress.step(&name);
        }
    }
    Ok(report)
}

fn measure(
    name: &str,
    directory: &Path,
    data_bytes: u64,
    value_bytes: u64,
    checkpoint_bytes: &'static str,
) -> io::Result<Row> {
    // Short values: as many keys as the memory has room for, with what a table needs for each.
    let keys = data_bytes / value_bytes.max(256);
    let checkpoint_bytes = Some(checkpoint_bytes);
    let disk = Disk {
        data: directory.join("node"),
        durability: Durability::Logged,
        checkpoint_bytes,
        every_core: true,
    };
    let memory_bytes = data_bytes * 3 / 2 + (512 << 20);
    let mut node = BenchNode::start_with(memory_bytes, 0, None, Some(&disk))?;
    fill(&node, keys, value_bytes)?;
    if name.starts_with("checkpoint") {
        await_checkpoint(&node)?;
    }
    node.kill()?;
    drop(node);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let (mut read_bytes, mut said) = (0, String::new());
    for _ in 0..3 {
        let (bytes, took) = read_all(&disk.data.join("log"))?;
        read_bytes = bytes;
        theirs.push(took.as_secs_f64() * 1e9);
        drop_caches();
        let mut node = BenchNode::start_with(memory_bytes, 0, None, Some(&disk))?;
        let recovery = node.status.recovery.clone();
        let recovery = recovery.ok_or_else(|| io::Error::other("the node recovered nothing"))?;
        if recovery.keys != keys {
            return Err(io::Error::other(format!("{} keys of {keys} came back", recovery.keys)));
        }
        ours.push(recovery.took_ms as f64 * 1e6);
        said = recovery.said;
        node.kill()?;
    }
    let row = Row::new(name, "ns", Better::Lower, &ours).beside("a direct read of the same bytes", &theirs);
    let seconds = row.value / 1e9;
    let ratio = row.ratio.unwrap_or(0.0);
    Ok(row
        .with("keys", keys)
        .with("keys_per_second", (keys as f64 / seconds).round())
        .with("read_bytes", read_bytes)
        .with("said", said)
        .with("ratio_at_most", 3.0)
        .with("reached", ratio <= 3.0))
}

/// Puts so many keys with values of so many bytes.
fn fill(node: &BenchNode, keys: u64, value_bytes: u64) -> io::Result<()> {
    let barn = Barn::connect(&node.address("shm")).map_err(io::Error::other)?;
    let options = TableOptions { capacity: keys, ..TableOptions::default() };
    let table = barn.table_with("data", options).map_err(io::Error::other)?;
    let mut value = vec![0x5a; value_bytes as usize];
    let batch = (64 << 10) / value_bytes.max(256);
    let mut next = 0;
    while next < keys {
        let numbers = next..(next + batch).min(keys);
        next = numbers.end;
        value[..8].copy_from_slice(&next.to_le_bytes());
        let names: Vec<[u8; 16]> = numbers.map(|number| u128::from(number).to_be_bytes()).collect();
        let pairs: Vec<(&[u8], &[u8])> = names.iter().map(|name| (&name[..], &value[..])).collect();
        table.put_many(&pairs).map_err(io::Error::other)?;
    }
    table.durability(Durability::Synced).put(&0u128.to_be_bytes(), &value).map_err(io::Error::other)?;
    Ok(())
}

/// Waits until the node has a checkpoint with nearly all of it.
fn await_checkpoint(node: &BenchNode) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(120);
    let (mut settled, mut last) = (0, None);
    while Instant::now() < until {
        let log = node.ask_status()?.activity.log.unwrap_or_default();
        settled = if !log.checkpoint_running && last == Some(log.checkpoints) { settled + 1 } else { 0 };
        last = Some(log.checkpoints);
        if settled > 5 && log.checkpoints > 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(io::Error::other("the node wrote no checkpoint: is there less data than checkpoint_bytes?"))
}

/// Reads every file of a directory past the page cache; how many bytes that were, and how long it took.
fn read_all(directory: &Path) -> io::Result<(u64, Duration)> {
    drop_caches();
    let mut memory = vec![0; READ_BYTES + ALIGNED];
    let skip = memory.as_ptr().align_offset(ALIGNED);
    let into = &mut memory[skip..skip + READ_BYTES];
    let (mut bytes, begun) = (0, Instant::now());
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
        // A file system without direct reads is read as it can be.
        let mut file = options.open(&path).or_else(|_| std::fs::File::open(&path))?;
        loop {
            match file.read(into)? {
                0 => break,
                read => bytes += read as u64,
            }
        }
    }
    Ok((bytes, begun.elapsed()))
}

/// Empties the page cache, where that is allowed.
fn drop_caches() {
    let _ = std::fs::write("/proc/sys/vm/drop_caches", "1");
}
