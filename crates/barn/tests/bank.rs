//! A bank: three nodes, a thousand accounts, eight client processes that move money while they are
//! killed, kill themselves in the midst of commits, and are stopped past their leases. Money is
//! neither made nor lost, in no snapshot either; no account stays locked.
//!
//! `BARN_BANK_SECONDS` says for how long, `BARN_BANK_CLIENTS` with how many clients.
#![forbid(unsafe_code)]

mod common;

use barn::{Barn, ClientStats, CommitStep, Connect, Error, Observer, Pointer, RunOptions};
use barn_fabric::seam::{Random, Seeded};
use common::locks::Watcher;
use common::{Cluster, LEASE, Process, SCHEDULING, end_with_parent, signal_self, tell, told, until};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ACCOUNTS: usize = 1000;
const BALANCE: i64 = 1000;
const TOTAL: i64 = ACCOUNTS as i64 * BALANCE;

const ADDRESS: &str = "BARN_TEST_ADDRESS";
const ACCOUNTS_FILE: &str = "BARN_TEST_ACCOUNTS";
const SEED: &str = "BARN_TEST_SEED";

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// Kills or stops its own process at a step of a commit, now and then.
struct Deadly {
    random: Mutex<Seeded>,
}

impl Observer for Deadly {
    fn at(&self, step: CommitStep) -> bool {
        let mut random = self.random.lock().expect("nobody panics with it");
        // One step in 5,000, and a commit has five: one or two in a second.
        if random.chance(100) {
            tell(&format!("dies at {step:?}"));
            signal_self(Signal::KILL);
        }
        if random.chance(100) {
            tell(&format!("stops at {step:?}"));
            signal_self(Signal::STOP);
        }
        true
    }
}

fn accounts(path: &Path) -> Vec<Pointer> {
    let text = std::fs::read_to_string(path).expect("the list of accounts");
    text.lines().map(|line| line.parse().expect("a pointer")).collect()
}

fn balance(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes.try_into().expect("an account is 8 bytes"))
}

/// Moves money between two accounts, sometimes three or four.
fn transfer(barn: &Barn, accounts: &[Pointer], random: &mut Seeded) -> Result<(), Error> {
    let parties = match random.below(8) {
        0 => 3,
        1 => 4,
        _ => 2,
    };
    let mut chosen: Vec<Pointer> = Vec::new();
    while chosen.len() < parties {
        let account = accounts[random.below(accounts.len() as u64) as usize];
        if !chosen.contains(&account) {
            chosen.push(account);
        }
    }
    let amount = random.below(100) as i64;
    let options = RunOptions { deadline: Duration::from_secs(3), ..RunOptions::default() };
    barn.transaction_with(options, |tx| {
        let others = chosen.len() as i64 - 1;
        for (at, account) in chosen.iter().enumerate() {
            let change = if at == 0 { -amount * others } else { amount };
            let new = balance(tx.read(*account)?) + change;
            tx.write(*account, &new.to_le_bytes())?;
        }
        Ok(())
    })
}

/// The money in all accounts at one moment; `None` if there was no such moment for us in time.
fn total(barn: &Barn, accounts: &[Pointer]) -> Result<i64, Error> {
    Ok(barn.read_all(accounts)?.iter().map(|account| balance(account)).sum())
}

/// Moves money until it is killed.
#[test]
#[ignore = "a process of the other tests"]
fn role_client() {
    let Some(address) = told(ADDRESS) else { return };
    end_with_parent();
    let accounts = accounts(Path::new(&told(ACCOUNTS_FILE).expect("a list of accounts")));
    let seed = told(SEED).and_then(|seed| seed.parse().ok()).expect("a seed");
    let mut random = Seeded::new(seed);
    let observer = Deadly { random: Mutex::new(Seeded::new(seed ^ 0xdead)) };
    let connect = Connect::new().deadline(Duration::from_secs(2)).observer(Arc::new(observer));
    let barn = connect.to(&address).expect("the node lets us in");
    let (mut committed, mut snapshots, mut snapshots_missed) = (0u64, 0u64, 0u64);
    let mut errors = 0u64;
    let mut said = Instant::now();
    loop {
        if random.below(200) == 0 {
            match total(&barn, &accounts) {
                Ok(TOTAL) => snapshots += 1,
                Ok(other) => tell(&format!("WRONG a snapshot has {other}, not {TOTAL}")),
                Err(_) => snapshots_missed += 1,
            }
        }
        match transfer(&barn, &accounts, &mut random) {
            Ok(()) => committed += 1,
            Err(error) => {
                errors += 1;
                tell(&format!("error {error}"));
            }
        }
        if said.elapsed() > Duration::from_millis(50) {
            said = Instant::now();
            let stats = barn.client().stats();
            let (conflicts, resolved) =
                (ClientStats::get(&stats.conflicts), ClientStats::get(&stats.resolved));
            let sessions = ClientStats::get(&stats.sessions);
            tell(&format!(
                "did {committed} {conflicts} {snapshots} {snapshots_missed} {resolved} {errors} {sessions}"
            ));
        }
    }
}

/// What clients did: committed, conflicts, snapshots, missed snapshots, resolved, errors, sessions.
type Counts = [u64; 7];

/// A client process, and what it has said.
struct Teller {
    process: Process,
    counts: Counts,
    died_by_itself: Option<String>,
    stopped_at: Option<Instant>,
}

/// All clients, dead and alive.
struct Tellers {
    addresses: Vec<String>,
    file: PathBuf,
    random: Seeded,
    alive: Vec<Teller>,
    sum: Counts,
    errors: Vec<String>,
    /// Commits that stood still half-way for longer than a lease.
    stops: u64,
}

impl Tellers {
    fn hire(&mut self) {
        let address = self.addresses[self.random.below(self.addresses.len() as u64) as usize].clone();
        let orders = [
            (ADDRESS, address),
            (ACCOUNTS_FILE, self.file.display().to_string()),
            (SEED, self.random.next().to_string()),
        ];
        let process = Process::start("role_client", &orders);
        self.alive.push(Teller { process, counts: [0; 7], died_by_itself: None, stopped_at: None });
    }

    /// Takes in what they have said.
    fn listen(&mut self) {
        for teller in &mut self.alive {
            while let Some(line) = teller.process.line_now() {
                let mut words = line.split(' ');
                match words.next() {
                    Some("did") => {
                        for (count, word) in teller.counts.iter_mut().zip(words) {
                            *count = word.parse().expect("a count");
                        }
                    }
                    Some("dies") => teller.died_by_itself = Some(line),
                    Some("stops") => self.stops += 1,
                    Some("error") => self.errors.push(line),
                    _ => panic!("{line}"),
                }
            }
        }
    }

    fn dismiss(&mut self, at: usize) {
        let mut teller = self.alive.swap_remove(at);
        teller.process.kill();
        self.sum.iter_mut().zip(teller.counts).for_each(|(sum, count)| *sum += count);
    }
}

fn seconds() -> u64 {
    told("BARN_BANK_SECONDS").and_then(|seconds| seconds.parse().ok()).unwrap_or(10)
}

#[test]
fn money_is_neither_made_nor_lost() {
    let clients = told("BARN_BANK_CLIENTS").and_then(|clients| clients.parse().ok()).unwrap_or(8);
    let cluster = Cluster::start(3);
    let barn = cluster.connect();
    let accounts: Vec<Pointer> =
        (0..ACCOUNTS).map(|_| barn.alloc(&BALANCE.to_le_bytes()).expect("room for an account")).collect();
    for node in &cluster.nodes {
        let of = |pointer: &&Pointer| {
            barn.client().directory().primary(pointer.address.region()).is_some_and(|at| at.0 == node.member)
        };
        assert!(accounts.iter().filter(of).count() > ACCOUNTS / 6, "the accounts are not spread out");
    }
    let file = cluster.dir.path("accounts");
    let list: Vec<String> = accounts.iter().map(Pointer::to_string).collect();
    std::fs::write(&file, list.join("\n")).expect("the list can be written");
    let seed = told(SEED).and_then(|seed| seed.parse().ok()).unwrap_or(u64::from(std::process::id()));
    println!("seed {seed}");
    let addresses =
        cluster.nodes.iter().flat_map(|node| [node.shm.clone(), node.shm.clone(), node.tcp.clone()]);
    let mut tellers = Tellers {
        addresses: addresses.collect(),
        file,
        random: Seeded::new(seed),
        alive: Vec::new(),
        sum: [0; 7],
        errors: Vec::new(),
        stops: 0,
    };
    let watching =
        Watcher::new(barn.client().directory().clone(), accounts.clone()).start(Duration::from_millis(3));
    let (mut kills, mut stops, mut deaths) = (0, 0, 0);
    let until_when = Instant::now() + Duration::from_secs(seconds());
    let mut next_kill = Instant::now() + Duration::from_millis(500);
    let mut next_stop = Instant::now() + Duration::from_millis(800);
    while Instant::now() < until_when {
        while tellers.alive.len() < clients {
            tellers.hire();
        }
        std::thread::sleep(Duration::from_millis(10));
        tellers.listen();
        for at in (0..tellers.alive.len()).rev() {
            let teller = &mut tellers.alive[at];
            if teller.process.has_ended() {
                std::thread::sleep(Duration::from_millis(5));
                tellers.listen();
                assert!(tellers.alive[at].died_by_itself.is_some(), "a client ended that nobody killed");
                deaths += 1;
                tellers.dismiss(at);
            } else if teller.process.is_stopped() {
                // Whoever has stopped it.
                if teller.stopped_at.get_or_insert_with(Instant::now).elapsed() > LEASE * 2 {
                    teller.process.go_on();
                    teller.stopped_at = None;
                }
            }
        }
        let at = tellers.random.below(tellers.alive.len().max(1) as u64) as usize;
        let Some(teller) = tellers.alive.get_mut(at).filter(|teller| teller.stopped_at.is_none()) else {
            continue;
        };
        if Instant::now() > next_kill {
            next_kill = Instant::now() + Duration::from_millis(200 + tellers.random.below(800));
            kills += 1;
            tellers.dismiss(at);
        } else if Instant::now() > next_stop && !teller.process.has_ended() {
            next_stop = Instant::now() + Duration::from_millis(1000 + tellers.random.below(2000));
            stops += 1;
            teller.process.stop();
            teller.stopped_at = Some(Instant::now());
        }
    }
    tellers.listen();
    while !tellers.alive.is_empty() {
        tellers.dismiss(0);
    }
    // The last of them died just now.
    let ended = Instant::now();
    let mut watcher = watching.end();
    until("no account is locked", || watcher.look() == 0);
    let last = ended.elapsed();
    assert_eq!(total(&barn, &accounts).expect("every account can be read"), TOTAL, "money was made or lost");
    for account in &accounts {
        barn.write(*account, &BALANCE.to_le_bytes()).expect("every account can be changed");
    }
    let longest = watcher.longest.max(last);
    let [committed, conflicts, snapshots, missed, resolved, errors, sessions] = tellers.sum;
    println!(
        "bank: {committed} transfers committed, {conflicts} conflicts, {kills} killed, {deaths} died in a commit, \
         {stops} stopped and {} in a commit, {snapshots} snapshots right ({missed} given up), {resolved} outcomes asked for, {errors} errors, \
         {sessions} sessions, longest lock {} ms (lease {} ms, {} looks)",
        tellers.stops,
        longest.as_millis(),
        LEASE.as_millis(),
        watcher.rounds
    );
    let mut kinds: Vec<&String> = tellers.errors.iter().collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.iter().take(10).for_each(|error| println!("  {error}"));
    assert!(longest < LEASE * 2 + SCHEDULING, "an account was locked for {longest:?}");
    assert!(committed > 0 && snapshots > 0, "nothing was tested");
}
