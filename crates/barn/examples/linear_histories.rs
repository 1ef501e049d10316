//! Watched clients of tables on real nodes, over shm, tcp or verbs, some of them killed: what they saw of
//! each key must have one order.
//!
//! `linear_histories [--operations TOTAL] [--kills KILLS] [--kind hopscotch|cuckoo|cache|tree]
//! [--transport shm|tcp|simulated] [--nodes N] [--address ADDRESS [--bind IP]] [--threads N] [--workers N]
//! [--hot N] [--each PER_ROUND] [--seed SEED]`
//!
//! With `--address`, such as `verbs://10.9.0.1:7411`, the nodes are other processes that are there
//! already, `--nodes` says how many, and `--bind` names the address that the clients come from.
//!
//! A round is a fresh table, so that memory stays bounded. Threads of this process keep what they do in
//! memory. Processes, which are killed by SIGKILL at random moments, write each operation to a file
//! before it begins and after it has ended: what never ended may have happened at any later time, or
//! never. All share one clock. On the simulated world each seed is a round, of any kind.
#![forbid(unsafe_code)]

use barn::node::{Node, NodeConfig};
use barn::{Barn, Connect, Error, Retry};
use barn_fabric::seam::{Random, Seeded};
use barn_fabric::{ConnectOptions, block_on};
use barn_index::node::ShardStats;
use barn_index::scenario::{Journal, Judged, Plan, Shared, Tape, Worker, cramped, judge, shared, together};
use barn_index::{Kind, Table};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Workers take so many operations at a time.
const BATCH: u64 = 64;
/// Processes at work at the same time, while there are any to kill.
const PROCESSES: usize = 2;
/// Workers of a process.
const PROCESS_WORKERS: u32 = 4;
/// How long a process works before it is killed, at most.
const LIFE_MS_MAX: u64 = 60;
/// Longer than a process takes to begin on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, default: u64) -> u64 {
    argument(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// The system's clock that never goes back, which all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nodes of one cluster, all in this process.
fn cluster(nodes: u64) -> Result<Vec<Node>, barn::Error> {
    let mut started: Vec<Node> = Vec::new();
    for _ in 0..nodes {
        let tcp = Some(([127, 0, 0, 1], 0).into());
        let join = started.first().and_then(Node::address);
        started.push(Node::start(NodeConfig { tcp, join, ..NodeConfig::embedded().memory(192 << 20) })?);
    }
    Ok(started)
}

/// Works until nothing is left to do; what was torn, if anything was.
async fn work<J: Journal>(mut worker: Worker<J>, left: &AtomicU64) -> Option<String> {
    // ORDER: Relaxed: a counter.
    let take = || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(BATCH));
    while worker.torn.is_none() && take().is_ok() {
        let mut done = 0;
        while done < BATCH {
            done += worker.step().await;
        }
    }
    worker.torn
}

/// What came of a round.
struct Round {
    judged: Judged,
    /// What the table held in the end, and what it did until then.
    held: ShardStats,
    /// Processes that were killed.
    killed: u64,
}

/// A client that does nothing twice by itself: a put that was done twice is not one put, and histories
/// are judged as if it were.
fn connect(address: &str) -> Result<Barn, Error> {
    let bind = argument("--bind").and_then(|ip| ip.parse().ok());
    let options = ConnectOptions { bind, ..ConnectOptions::default() };
    Connect::new().fabric(options).retry(Retry::Reads).to(address)
}

/// What is the same for all rounds.
struct Scene {
    kind: Kind,
    address: String,
    threads: u32,
    workers: u32,
    plan: Plan,
    each: u64,
}

impl Scene {
    fn connect(&self) -> Result<Barn, String> {
        connect(&self.address).map_err(|error| error.to_string())
    }

    fn open(&self, name: &str) -> Result<Table, String> {
        let barn = self.connect()?;
        block_on(Table::open(barn.client(), name)).map_err(|error| error.to_string())
    }

    /// One table, its clients and their end.
    fn round(&self, seed: u64, operations: u64, kills: u64) -> Result<Round, String> {
        let name = format!("round-{seed}");
        let founder = self.connect()?;
        let created = block_on(Table::create(founder.client(), &name, cramped(self.kind), 0));
        let table = created.map_err(|error| error.to_string())?;
        let left = AtomicU64::new(operations);
        let recorders: Vec<Shared> =
            (0..self.threads * self.workers).map(|number| shared(number + 1, now)).collect();
        let mut crews = Vec::new();
        for crew in recorders.chunks(self.workers as usize) {
            let table = self.open(&name)?;
            crews.push((table, crew.to_vec()));
        }
        let mut number = 0;
        let (killed, torn) =
            std::thread::scope(|scope| {
                let mut running = Vec::new();
                for (table, crew) in crews {
                    let workers: Vec<_> = crew
                        .into_iter()
                        .map(|recorder| {
                            number += 1;
                            let random = Seeded::new(seed.wrapping_mul(1_000_003) + u64::from(number));
                            Worker::new(number, &table, recorder, self.plan, random)
                        })
                        .collect();
                    let left = &left;
                    running.push(scope.spawn(move || {
                        block_on(together(workers.into_iter().map(|worker| work(worker, left))))
                    }));
                }
                let killed = self.kill(&name, seed, kills, &left);
                let mut torn = None;
                for thread in running {
                    match thread.join() {
                        Ok(found) => torn = torn.or(found.into_iter().flatten().next()),
                        Err(_) => torn = Some("a thread panicked".to_string()),
                    }
                }
                (killed, torn)
            });
        let tapes = killed?;
        if let Some(torn) = torn {
            return Err(torn);
        }
        let mut taped = Vec::new();
        for tape in &tapes {
            taped.extend(Tape::read(tape).map_err(|error| format!("{}: {error}", tape.display()))?);
            let _ = std::fs::remove_file(tape);
        }
        let recorded = recorders
            .into_iter()
            .map(|recorder| recorder.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
        let judged = judge(recorded, taped, self.kind == Kind::Cache, 2)?;
        let held = block_on(table.stats()).map_err(|error| error.to_string())?.shards;
        block_on(Table::drop(founder.client(), &name)).map_err(|error| error.to_string())?;
        Ok(Round { judged, held, killed: tapes.len() as u64 })
    }

    /// Starts processes and kills them, one after another; gives their tapes.
    fn kill(&self, table: &str, seed: u64, kills: u64, left: &AtomicU64) -> Result<Vec<PathBuf>, String> {
        let mut random = Seeded::new(seed ^ 0x6b69_6c6c);
        let mut tapes = Vec::new();
        let mut living: Vec<(Child, PathBuf)> = Vec::new();
        let mut started = 0;
        while (tapes.len() as u64) < kills {
            while living.len() < PROCESSES && started < kills {
                // Numbers that no thread has.
                let first = 10_000 + started as u32 * PROCESS_WORKERS;
                living.push(self.start(table, seed, first)?);
                started += 1;
            }
            let (mut child, tape) = living.remove(0);
            let waited = Instant::now();
            let has_begun = || std::fs::metadata(&tape).is_ok_and(|file| file.len() > 0);
            while !has_begun() {
                if waited.elapsed() > PATIENCE {
                    let _ = child.kill();
                    return Err("a client process did not begin".into());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            // Something has to be left for it to race with.
            // ORDER: Relaxed: a counter.
            left.fetch_add(BATCH, Ordering::Relaxed);
            std::thread::sleep(Duration::from_micros(random.below(LIFE_MS_MAX * 1000)));
            let was_alive = child.try_wait().is_ok_and(|ended| ended.is_none());
            child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
            if !was_alive {
                return Err(format!("a client process ended by itself: {}", tape.display()));
            }
            tapes.push(tape);
        }
        Ok(tapes)
    }

    fn start(&self, table: &str, seed: u64, first: u32) -> Result<(Child, PathBuf), String> {
        let name = format!("barn-tape-{}-{}-{seed}-{first}", std::process::id(), self.kind);
        let tape = std::env::temp_dir().join(name);
        let exe = std::env::current_exe().map_err(|error| error.to_string())?;
        let child = Command::new(exe)
            .args(["--client", &self.address, "--table", table, "--first", &first.to_string()])
            .args(["--seed", &seed.to_string(), "--hot", &self.plan.hot.to_string()])
            .args(["--long-one-in", &self.plan.long_one_in.to_string()])
            .args(argument("--bind").iter().flat_map(|ip| ["--bind", ip]))
            .arg("--tape")
            .arg(&tape)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("a client process: {error}"))?;
        Ok((child, tape))
    }
}

/// A process that is there to be killed.
fn client(address: &str) -> Result<(), String> {
    std::thread::spawn(|| {
        // Nothing is ever written: this ends when the parent does.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let barn = connect(address).map_err(|error| error.to_string())?;
    let name = argument("--table").unwrap_or_default();
    let tape = PathBuf::from(argument("--tape").unwrap_or_default());
    let table = block_on(Table::open(barn.client(), &name)).map_err(|error| error.to_string())?;
    let first = number("--first", 0) as u32;
    let mut workers = Vec::new();
    for worker in first..first + PROCESS_WORKERS {
        let journal = Tape::new(worker, now, &tape).map_err(|error| error.to_string())?;
        let random = Seeded::new(number("--seed", 1) ^ u64::from(worker) << 20);
        workers.push(Worker::new(worker, &table, journal, plan(), random));
    }
    let left = AtomicU64::new(u64::MAX / 2);
    let torn = block_on(together(workers.into_iter().map(|worker| work(worker, &left))));
    Err(torn.into_iter().flatten().next().unwrap_or_default())
}

fn plan() -> Plan {
    // Long batches leave a short run fewer operations that make the table grow.
    let (hot, long_one_in) = (number("--hot", 8), number("--long-one-in", 16));
    Plan { hot, cold: 20_000, hot_percent: 75, read_percent: 60, flood: 100, long_one_in }
}

/// Seed after seed on simulated worlds, on every core.
fn simulate() -> Result<String, String> {
    let (first, total, each) = (number("--seed", 1), number("--operations", 1), number("--each", 2_000));
    let (next, done, begun) = (AtomicU64::new(first), AtomicU64::new(0), Instant::now());
    let work = || {
        let (mut sum, mut deaths) = ([0; Kind::ALL.len()], 0);
        // ORDER: Relaxed: counts that stand alone.
        while done.load(Ordering::Relaxed) < total {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let report = barn_index::scenario::run(seed, each);
            if let Some(failure) = report.failure {
                done.store(u64::MAX / 2, Ordering::Relaxed);
                return Err(format!("seed {seed} of {each} steps: {failure}"));
            }
            done.fetch_add(report.judged.operations, Ordering::Relaxed);
            sum[report.kind as usize] += report.judged.operations;
            deaths += report.deaths;
        }
        Ok((sum, deaths))
    };
    let (mut sum, mut killed) = ([0; Kind::ALL.len()], 0);
    let ended: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(Err("a thread panicked".into()))).collect()
    });
    for ended in ended {
        let (counts, deaths) = ended?;
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        killed += deaths;
    }
    let seeds = next.load(Ordering::Relaxed) - first;
    Ok(format!(
        "simulated: {} operations ({} hopscotch, {} cuckoo, {} cache, {} tree) of {seeds} seeds, {killed} clients killed, \
         one order for each key, {:.0} s",
        sum.iter().sum::<u64>(),
        sum[Kind::Hopscotch as usize],
        sum[Kind::Cuckoo as usize],
        sum[Kind::Cache as usize],
        sum[Kind::Tree as usize],
        begun.elapsed().as_secs_f64()
    ))
}

fn watch() -> Result<String, String> {
    if argument("--transport").as_deref() == Some("simulated") {
        return simulate();
    }
    let kind: Kind =
        argument("--kind").unwrap_or("hopscotch".into()).parse().map_err(|error| format!("{error}"))?;
    let given = argument("--address");
    let by_address = given.as_deref().and_then(|address| address.split([':', '/']).next()).map(str::to_owned);
    let transport = by_address.or(argument("--transport")).unwrap_or("shm".into());
    if argument("--bind").is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
        return Err("--bind takes an IP address".into());
    }
    let (total, kills) = (number("--operations", 1_000_000), number("--kills", 4));
    let nodes = number("--nodes", 1);
    let started = cluster(if given.is_some() { 0 } else { nodes })
        .map_err(|error| format!("the nodes did not start: {error}"))?;
    let address = match (given, started.first(), transport.as_str()) {
        (Some(given), ..) => given,
        (None, Some(first), "tcp") => first.tcp_address().map(|at| format!("tcp://{at}")).unwrap_or_default(),
        (None, Some(first), _) => first.address().unwrap_or_default(),
        (None, None, _) => return Err("no nodes".into()),
    };
    let scene = Scene {
        kind,
        address,
        threads: number("--threads", 2) as u32,
        workers: number("--workers", 6) as u32,
        plan: plan(),
        each: number("--each", 400_000),
    };
    let (begun, mut sum, mut killed, mut rounds) = (Instant::now(), Judged::default(), 0, 0);
    let mut held = ShardStats::default();
    let all = total.div_ceil(scene.each).max(1);
    while sum.operations < total {
        let operations = scene.each.min(total - sum.operations).max(BATCH * 64);
        // The kills are spread over the rounds.
        let now = (kills - killed).div_ceil(all.saturating_sub(rounds).max(1));
        let seed = number("--seed", 1) + rounds;
        let round = scene.round(seed, operations, now).map_err(|why| format!("round {rounds}: {why}"))?;
        sum.add(&round.judged);
        held.add(&round.held);
        killed += round.killed;
        rounds += 1;
    }
    if kind != Kind::Cache && (held.grown == 0 || held.moves == 0) {
        return Err(format!("the table neither grew nor moved its keys: {held:?}"));
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(format!(
        "{kind} over {transport}, {nodes} nodes: {} operations on {} keys in {rounds} rounds, {} of unknown \
         outcome, {killed} clients killed, one order for each key; grown {} times, {} moves, {} forgotten; \
         {:.0} operations/s, {seconds:.0} s",
        sum.operations,
        sum.keys,
        sum.unknown,
        held.grown,
        held.moves,
        held.evicted,
        sum.operations as f64 / seconds,
    ))
}

fn main() -> ExitCode {
    let done = match argument("--client") {
        Some(address) => client(&address).map(|()| String::new()),
        None => watch(),
    };
    match done {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}
