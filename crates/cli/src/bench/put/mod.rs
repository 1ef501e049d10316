//! `barn bench put`: what durability costs, beside a bare log and Redis.
//!
//! | row | ours | beside |
//! |---|---|---|
//! | `synced/writers-N` | puts that are on the disk when they are answered, N at once | one append and fdatasync after the other, in the same directory |
//! | `synced/writers-64/against-redis` | the same | Redis with `appendfsync always` and as many connections |
//! | `logged/value-N/…` | puts to a node that keeps a log | the same puts to a node without one |
//!
//! Keys have 16 bytes. Node, Redis and client are processes of their own; all are measured in turn. The ratio of a
//! `logged` row is the middle one of the pairs' that were measured right after one another.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use barn::{Barn, Durability, Table, TableOptions};
use barn_fabric::Pipeline;

use crate::bench::node::{BenchNode, Disk};
use crate::bench::peer::{self, PeerError, redis};
use crate::bench::quiet::sample_plainly;
use crate::bench::timing::{Effort, nanoseconds_each, pin, rates};
use crate::progress::Progress;
use crate::report::{Report, Row};

/// Keys that are written, again and again.
const KEYS: u64 = 100_000;
/// Writers at once, as the bounds have it.
const WRITERS: usize = 64;
/// The value's length where it does not vary: a log's record has about 128 bytes then.
const VALUE_BYTES: usize = 100;
/// Lengths of values for which a log must cost little.
const LOGGED_VALUES: [usize; 3] = [32, 128, 500];
/// Puts that are sent together where that is measured.
const BATCH: usize = 32;
/// The core of the client; the servers have the other one.
const CLIENT_CORE: usize = 0;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where logs are written: a directory on the disk that is to be measured [default: the
    /// directory for temporary files].
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,

    /// Only rows whose name contains this, such as `synced` or `value-500`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Fewer and shorter repeats.
    #[arg(long)]
    pub quick: bool,
}

/// A key by its number.
fn key(number: u64) -> [u8; 16] {
    u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS).to_be_bytes()
}

/// A table to write to.
struct Writer {
    table: Table,
    value: Vec<u8>,
    next: u64,
}

impl Writer {
    fn open(node: &BenchNode, name: &str, value_bytes: usize, asked: Option<Durability>) -> io::Result<Self> {
        let barn = Barn::connect(&node.address("shm")).map_err(io::Error::other)?;
        let options = TableOptions { capacity: KEYS * 2, ..TableOptions::default() };
        let mut table = barn.table_with(name, options).map_err(io::Error::other)?;
        let value = vec![0x5a; value_bytes];
        let keys: Vec<[u8; 16]> = (0..KEYS).map(key).collect();
        for keys in keys.chunks(512) {
            let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
            table.put_many(&pairs).map_err(io::Error::other)?;
        }
        if let Some(asked) = asked {
            table = table.durability(asked);
        }
        Ok(Self { table, value, next: 0 })
    }

    /// So many puts, so many of them under way at once.
    fn put(&mut self, count: usize, writers: usize) -> io::Result<()> {
        let first = self.next;
        self.next += count as u64;
        let (table, value) = (self.table.futures(), &self.value[..]);
        let mut failed = None;
        if writers == 1 {
            for number in first..first + count as u64 {
                self.table.put(&key(number), value).map_err(io::Error::other)?;
            }
            return Ok(());
        }
        let puts =
            (first..first + count as u64).map(|number| async move { table.put(&key(number), value).await });
        Pipeline::new(writers).run(puts, |done| failed = failed.take().or(done.err()));
        failed.map_or(Ok(()), |error| Err(io::Error::other(error)))
    }

    /// So many puts, in batches.
    fn put_batches(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count.div_ceil(BATCH) {
            let keys: [[u8; 16]; BATCH] = std::array::from_fn(|at| key(self.next + at as u64));
            self.next += BATCH as u64;
            let pairs: [(&[u8], &[u8]); BATCH] = std::array::from_fn(|at| (&keys[at][..], &self.value[..]));
            self.table.put_many(&pairs).map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// The bare way to be durable: append, sync, and again.
struct BareLog {
    file: File,
    record: Vec<u8>,
}

impl BareLog {
    fn create(directory: &Path) -> io::Result<Self> {
        let file = File::create(directory.join("bare-log"))?;
        Ok(Self { file, record: vec![0x5a; 16 + VALUE_BYTES] })
    }

    fn append(&mut self, count: usize) -> io::Result<()> {
        for _ in 0..count {
            self.file.write_all(&self.record)?;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

/// Redis with as many connections, each with one SET under way.
struct RedisWriters {
    wires: Vec<redis::Wire>,
    value: Vec<u8>,
    next: u64,
}

impl RedisWriters {
    fn connect(server: &redis::Server) -> Result<Self, PeerError> {
        let wires = (0..WRITERS).map(|_| server.connect(false)).collect::<Result<_, _>>()?;
        Ok(Self { wires, value: vec![0x5a; VALUE_BYTES], next: 0 })
    }

    fn put(&mut self, count: usize) -> Result<(), PeerError> {
        for _ in 0..count.div_ceil(WRITERS) {
            for wire in &mut self.wires {
                wire.command(&[b"SET", &key(self.next), &self.value]);
                wire.send()?;
                self.next += 1;
            }
            for wire in &mut self.wires {
                wire.receive(1, |_, reply| match reply.fails() {
                    Some(why) => Err(redis::failed(why)),
                    None => Ok(()),
                })?;
            }
        }
        Ok(())
    }
}

/// Runs both in turn, and gives their rates; the first failure ends it.
fn compare(
    effort: Effort,
    mut ours: impl FnMut(usize) -> io::Result<()>,
    mut theirs: impl FnMut(usize) -> io::Result<()>,
) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let (mut our_rates, mut their_rates) = (Vec::new(), Vec::new());
    let mut failed = None;
    let mut one = |run: &mut dyn FnMut(usize) -> io::Result<()>| {
        sample_plainly(|| {
            nanoseconds_each(effort.slice, |count| {
                if failed.is_none() {
                    failed = run(count).err();
                }
            })
        })
    };
    for _ in 0..effort.repeats {
        our_rates.push(one(&mut ours));
        their_rates.push(one(&mut theirs));
    }
    match failed {
        Some(error) => Err(error),
        None => Ok((rates(&our_rates), rates(&their_rates))),
    }
}

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    let effort = match args.quick {
        true => Effort { slice: Duration::from_millis(100), repeats: 3 },
        false => Effort { slice: Duration::from_millis(400), repeats: 7 },
    };
    let directory = args.directory.clone().unwrap_or_else(std::env::temp_dir);
    let directory = directory.join(format!("barn-bench-put-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let report = Report::new("put");
    pin(None, CLIENT_CORE);
    let measured = measure(args, effort, &directory, report);
    let _ = std::fs::remove_dir_all(&directory);
    measured
}

fn measure(args: &Args, effort: Effort, directory: &Path, mut report: Report) -> io::Result<Report> {
    let mut progress = Progress::new(4 + 3 * LOGGED_VALUES.len() as u64);
    let wanted = |name: &str| name.contains(&args.rows);
    let disk = Disk {
        data: directory.join("node"),
        durability: Durability::Logged,
        checkpoint_bytes: None,
        every_core: false,
    };
    let logged = BenchNode::start_with(1 << 30, 0, None, Some(&disk))?;
    let memory = BenchNode::start(1 << 30, 0, None)?;

    let mut synced = Writer::open(&logged, "synced", VALUE_BYTES, Some(Durability::Synced))?;
    let mut bare = BareLog::create(directory)?;
    for (writers, aim) in [(WRITERS, Some(10.0)), (1, None)] {
        let name = format!("synced/writers-{writers}");
        progress.step(&name);
        if !wanted(&name) {
            continue;
        }
        let (ours, theirs) = compare(effort, |count| synced.put(count, writers), |count| bare.append(count))?;
        let row = Row::rate(name, &ours).beside("append and fdatasync, one after the other", &theirs);
        report.rows.push(aim.map_or(row.clone(), |aim| row.aim(aim)));
    }
    let name = format!("synced/writers-{WRITERS}/against-redis");
    progress.step(&name);
    if wanted(&name) {
        match redis::Server::start_durable(directory) {
            Ok(server) => {
                let mut redis = RedisWriters::connect(&server).map_err(io::Error::other)?;
                let (ours, theirs) = compare(
                    effort,
                    |count| synced.put(count, WRITERS),
                    |count| redis.put(count).map_err(io::Error::other),
                )?;
                let row = Row::rate(name, &ours).beside("Redis, appendfsync always", &theirs);
                report.rows.push(row.aim(2.0));
            }
            Err(PeerError::Absent { peer, fix }) => report.rows.push(peer::absent_row(peer, &fix)),
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    for bytes in LOGGED_VALUES {
        let mut ours = Writer::open(&logged, &format!("value-{bytes}"), bytes, None)?;
        let mut theirs = Writer::open(&memory, &format!("value-{bytes}"), bytes, None)?;
        for way in [format!("writers-{WRITERS}"), "writers-1".into(), format!("batch-{BATCH}")] {
            let name = format!("logged/value-{bytes}/{way}");
            progress.step(&name);
            if !wanted(&name) {
                continue;
            }
            let put = |writer: &mut Writer, count: usize| match &way[..] {
                "writers-1" => writer.put(count, 1),
                way if way.starts_with("writers") => writer.put(count, WRITERS),
                _ => writer.put_batches(count),
            };
            // Many short ones: what else the machine does comes and goes within seconds.
            let effort = Effort { slice: effort.slice / 2, repeats: effort.repeats * 4 + 3 };
            let (ours, theirs) =
                compare(effort, |count| put(&mut ours, count), |count| put(&mut theirs, count))?;
            let row = Row::rate(name, &ours).beside_in_turn("the same node without a log", &ours, &theirs);
            report.rows.push(row.aim(0.9));
        }
    }
    Ok(report)
}
