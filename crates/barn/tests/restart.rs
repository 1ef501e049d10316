//! A node that is killed and started again at the same address, links that break, and a node that
//! stands still: handles made before go on, nothing takes longer than its deadline, and what is not
//! the same when it is done twice is never done twice.
#![forbid(unsafe_code)]

mod common;

use barn::{Barn, Connect, Error, Kind, Retry, Table, TableError, TableOptions, Way};
use common::{Cluster, LEASE, SCHEDULING, until};
use rustix::net::{Shutdown, getpeername, shutdown};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[test]
#[ignore = "a process of the other tests"]
fn role_node() {
    common::serve();
}

/// What an operation may take, all in all, in the tests that measure it: the deadline, a tenth of it,
/// and what the machine may add.
fn at_most(deadline: Duration) -> Duration {
    deadline * 11 / 10 + SCHEDULING
}

fn is_no_table(error: &Error) -> bool {
    matches!(error, Error::Table(TableError::NoTable(_)))
}

#[test]
fn handles_are_shared_by_threads_and_cheap_to_clone() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    shared::<Barn>();
    shared::<Table>();
    shared::<barn::Client>();

    let cluster = Cluster::start(1);
    let barn = cluster.connect();
    let table = barn.table("shared").unwrap();
    let threads: Vec<_> = (0..8)
        .map(|thread: u32| {
            let (barn, table) = (barn.clone(), table.clone());
            std::thread::spawn(move || {
                for round in 0..50u32 {
                    let key = format!("{thread}-{round}");
                    table.put(key.as_bytes(), &round.to_le_bytes()).unwrap();
                    assert_eq!(table.get(key.as_bytes()).unwrap().as_deref(), Some(&round.to_le_bytes()[..]));
                    table.increment(b"all", 1).unwrap();
                    let again = barn.open_table("shared").unwrap();
                    assert!(again.contains(key.as_bytes()).unwrap());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(table.increment(b"all", 0).unwrap(), 400);
    let stats = barn.stats();
    assert!(stats.lookups.gets + stats.lookups.requests >= 800, "{stats:?}");
    assert!(stats.lookups.updates >= 801, "{stats:?}");
}

/// Every kind of table, before and after, over one transport.
fn goes_on_after_a_restart(over: fn(&Cluster) -> String) {
    let mut cluster = Cluster::start(1);
    let barn = Barn::connect(&over(&cluster)).unwrap();
    let kinds = Kind::ALL;
    let make = |barn: &Barn, kind: Kind| {
        let options = TableOptions { kind, memory_bytes: 2 << 20, ..TableOptions::default() };
        barn.table_with(&format!("of kind {kind}").replace(' ', "-"), options).unwrap()
    };
    let tables: Vec<Table> = kinds.iter().map(|kind| make(&barn, *kind)).collect();
    for table in &tables {
        table.put(b"key", b"before").unwrap();
        for way in [Way::OneSided, Way::Request] {
            assert_eq!(table.read_by(way).get(b"key").unwrap().as_deref(), Some(&b"before"[..]));
        }
    }
    let object = barn.new(&7u64).unwrap();

    cluster.begin_anew();
    // The numbers of the old tables are given to others: whoever confuses them sees what is in these.
    let others = Barn::connect(&over(&cluster)).unwrap();
    for number in 0..kinds.len() {
        others.table(&format!("another-{number}")).unwrap().put(b"key", b"of another table").unwrap();
    }
    for table in &tables {
        // Memory that is mapped can be read until the node's death is noticed, for a lease at most.
        for way in [Way::OneSided, Way::Auto] {
            let table = table.read_by(way);
            until("the table is no more", || table.get(b"key").is_err_and(|error| is_no_table(&error)));
        }
        assert!(is_no_table(&table.put(b"key", b"lost").unwrap_err()));
        assert!(is_no_table(&table.increment(b"number", 1).unwrap_err()));
    }
    assert!(barn.deadline(LEASE).load(object).is_err(), "an object of a cluster that is no more");

    // Made again, through the old handle or by anybody: the old handles of the table find it.
    for (table, kind) in tables.iter().zip(kinds) {
        make(&barn, kind);
        assert_eq!(table.get(b"key").unwrap(), None);
        table.put(b"key", b"after").unwrap();
        for way in [Way::OneSided, Way::Request, Way::Auto] {
            assert_eq!(table.read_by(way).get(b"key").unwrap().as_deref(), Some(&b"after"[..]));
        }
        assert_eq!(table.increment(b"number", 5).unwrap(), 5);
        assert_eq!(table.get_many(&[b"key", b"none"]).unwrap(), [Some(b"after".to_vec()), None]);
        assert_eq!(table.scan().count(), 2);
        assert_eq!(table.stats().unwrap().shards.keys, 2);
    }
    let moved = barn.new(&8u64).unwrap();
    barn.transaction(|tx| {
        tx.put(&tables[0], b"key", b"in a transaction")?;
        tx.store(moved, &9)
    })
    .unwrap();
    assert_eq!(tables[0].get(b"key").unwrap().as_deref(), Some(&b"in a transaction"[..]));
    assert_eq!(barn.load(moved).unwrap(), 9);
    assert_eq!(barn.stats().clusters, 1);
}

#[test]
fn handles_from_before_a_restart_go_on_over_shm() {
    goes_on_after_a_restart(|cluster| cluster.nodes[0].shm.clone());
}

#[test]
fn handles_from_before_a_restart_go_on_over_tcp() {
    goes_on_after_a_restart(|cluster| cluster.nodes[0].tcp.clone());
}

/// The other node is at the address at once when the link breaks, so that no search for the cluster finds it
/// first: its welcome is what tells them apart.
#[test]
fn another_cluster_at_a_node_s_address_is_not_taken_for_it() {
    let (first, other) = (Cluster::start(1), Cluster::start(1));
    let table = first.connect().table("one").unwrap().read_by(Way::Request);
    table.put(b"key", b"of this one").unwrap();
    // The table's number there is the same.
    other.connect().table("another").unwrap().put(b"key", b"of another").unwrap();
    let (path, others) = (first.dir.path("node-0"), other.dir.path("node-0"));
    std::fs::rename(&path, first.dir.path("moved")).unwrap();
    std::os::unix::fs::symlink(others, path).unwrap();
    assert!(cut(&first) > 0, "no link to break");
    match table.get(b"key") {
        Err(error) => assert!(is_no_table(&error), "{error}"),
        Ok(found) => panic!("a node of another cluster was asked: {found:?}"),
    }
}

/// What workers have seen.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    done: [AtomicU64; 4],
    indeterminate: AtomicU64,
    /// The longest that an operation took, in microseconds.
    longest: AtomicU64,
}

impl Seen {
    /// Does something until it is told to stop; `which` counts what went well.
    fn work(&self, which: usize, mut one: impl FnMut() -> Result<(), Error>) {
        // ORDER: Relaxed, here and below: flags and counters that stand alone.
        while !self.stop.load(Ordering::Relaxed) {
            let since = Instant::now();
            let done = one();
            self.longest.fetch_max(since.elapsed().as_micros() as u64, Ordering::Relaxed);
            match done {
                Ok(()) => self.done[which].fetch_add(1, Ordering::Relaxed),
                Err(error) if error.is_indeterminate() => self.indeterminate.fetch_add(1, Ordering::Relaxed),
                // Until somebody has made it again.
                Err(error) if is_no_table(&error) => 0,
                Err(error) => panic!("{error}"),
            };
        }
    }

    fn count(&self, which: usize) -> u64 {
        self.done[which].load(Ordering::Relaxed)
    }
}

#[test]
fn a_node_is_killed_and_started_again_under_load() {
    let deadline = Duration::from_secs(5);
    let mut cluster = Cluster::start(1);
    let addresses = [cluster.nodes[0].shm.clone(), cluster.nodes[0].tcp.clone()];
    let seen = Arc::new(Seen::default());
    let mut threads = Vec::new();
    for address in &addresses {
        let barn = Connect::new().deadline(deadline).to(address).unwrap();
        let table = barn.table("load").unwrap();
        let (reads, puts, counts, tx) = (table.clone(), table.clone(), table.clone(), table);
        let work: [Box<dyn FnMut() -> Result<(), Error> + Send>; 4] = [
            Box::new(move || reads.get(b"value").map(|_| ())),
            Box::new(move || puts.put(b"value", b"something").map(|_| ())),
            Box::new(move || counts.increment(b"count", 1).map(|_| ())),
            Box::new(move || {
                barn.transaction(|run| {
                    let count = run.get(&tx, b"in transactions")?.map_or(0, |bytes| bytes.len());
                    run.put(&tx, b"in transactions", &vec![b'x'; (count + 1) % 64])
                })
            }),
        ];
        for (which, one) in work.into_iter().enumerate() {
            let seen = seen.clone();
            threads.push(std::thread::spawn(move || seen.work(which, one)));
        }
    }
    for round in 0..3 {
        let before: Vec<u64> = (0..4).map(|which| seen.count(which)).collect();
        until("all go on", || (0..4).all(|which| seen.count(which) > before[which] + 50));
        cluster.begin_anew();
        Barn::connect(&addresses[round % 2]).unwrap().table("load").unwrap();
    }
    let before: Vec<u64> = (0..4).map(|which| seen.count(which)).collect();
    until("all go on after the last", || (0..4).all(|which| seen.count(which) > before[which] + 50));
    // ORDER: Relaxed: as above.
    seen.stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no error but those that must be"));
    let longest = Duration::from_micros(seen.longest.load(Ordering::Relaxed));
    assert!(longest < at_most(deadline), "an operation took {longest:?}");
}

/// Breaks every connection of this process to a node: the node lives, and what was sent may arrive.
fn cut(cluster: &Cluster) -> usize {
    let process = pidfd_open(getpid(), PidfdFlags::empty()).expect("a process has itself");
    let node = &cluster.nodes[0];
    let (path, tcp) = (node.shm.trim_start_matches("shm:"), node.tcp.trim_start_matches("tcp://"));
    let mut broken = 0;
    for entry in std::fs::read_dir("/proc/self/fd").expect("descriptors are listed").flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Some are closed meanwhile, and most are no sockets.
        let Ok(socket) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
        let Ok(Some(peer)) = getpeername(&socket) else { continue };
        let ours = match peer {
            peer if peer.address_family() == rustix::net::AddressFamily::UNIX => {
                rustix::net::SocketAddrUnix::try_from(peer)
                    .is_ok_and(|peer| peer.path_bytes() == Some(path.as_bytes()))
            }
            peer => std::net::SocketAddr::try_from(peer).is_ok_and(|peer| peer.to_string() == tcp),
        };
        if ours && shutdown(&socket, Shutdown::Both).is_ok() {
            broken += 1;
        }
    }
    broken
}

/// What came of changes that must not be made twice.
#[derive(Default)]
struct Made {
    well: AtomicU64,
    perhaps: AtomicU64,
}

impl Made {
    fn note(&self, outcome: Result<(), Error>) {
        // ORDER: Relaxed, here and below: counters that stand alone.
        match outcome {
            Ok(()) => self.well.fetch_add(1, Ordering::Relaxed),
            Err(error) if error.is_indeterminate() => self.perhaps.fetch_add(1, Ordering::Relaxed),
            Err(error) => panic!("{error}"),
        };
    }

    fn counts(&self) -> (u64, u64) {
        (self.well.load(Ordering::Relaxed), self.perhaps.load(Ordering::Relaxed))
    }
}

#[test]
fn links_that_break_make_nothing_happen_twice() {
    let cluster = Cluster::start(1);
    let barn = cluster.connect();
    let (table, object) = (barn.table("cut").unwrap(), barn.new(&0u64).unwrap());
    let (stop, increments, transactions) = (AtomicBool::new(false), Made::default(), Made::default());
    std::thread::scope(|scope| {
        for address in [&cluster.nodes[0].tcp, &cluster.nodes[0].tcp, &cluster.nodes[0].shm] {
            let barn = Connect::new().deadline(Duration::from_secs(20)).to(address).unwrap();
            let table = barn.table("cut").unwrap();
            let (stop, increments, transactions) = (&stop, &increments, &transactions);
            let go_on = || !stop.load(Ordering::Relaxed);
            let counts = table.clone();
            scope.spawn(move || {
                while go_on() {
                    increments.note(counts.increment(b"count", 1).map(|_| ()));
                }
            });
            scope.spawn(move || {
                while go_on() {
                    let add = barn.transaction(|tx| {
                        let count = tx.load(object)?;
                        tx.store(object, &(count + 1))
                    });
                    transactions.note(add);
                }
            });
            // These are done again, and so never fail.
            scope.spawn(move || {
                while go_on() {
                    table.put(b"value", b"something").unwrap();
                    assert_eq!(table.get(b"value").unwrap().as_deref(), Some(&b"something"[..]));
                }
            });
        }
        let since = Instant::now();
        while increments.counts().1 < 20 && since.elapsed() < common::PATIENCE {
            cut(&cluster);
            std::thread::sleep(Duration::from_millis(5));
        }
        // ORDER: Relaxed: a flag that stands alone.
        stop.store(true, Ordering::Relaxed);
    });
    // Read, not incremented by nothing: this link, too, may have been cut.
    let count = String::from_utf8(table.get(b"count").unwrap().unwrap()).unwrap();
    let counted = [count.parse().unwrap(), barn.load(object).unwrap()];
    for (made, there) in [&increments, &transactions].iter().zip(counted) {
        let (well, perhaps) = made.counts();
        assert!(well <= there, "{well} changes were reported, and {there} are there");
        assert!(
            there <= well + perhaps,
            "{there} changes are there, and {well} to {} were made",
            well + perhaps
        );
    }
    assert!(increments.counts().1 >= 20, "no link broke in the midst of a change: nothing was tested");
}

/// In a new session nothing is known of a table's memory, and whoever chooses between two ways has to learn it anew.
#[test]
fn who_chooses_the_way_still_reads_for_itself_after_a_link_broke() {
    let cluster = Cluster::start(1);
    for address in [&cluster.nodes[0].shm, &cluster.nodes[0].tcp] {
        for kind in Kind::ALL {
            let barn = Connect::new().deadline(common::PATIENCE).to(address).unwrap();
            let options = TableOptions { kind, memory_bytes: 2 << 20, ..TableOptions::default() };
            let table = barn.table_with(&format!("chosen-{kind}"), options).unwrap();
            table.put(b"key", b"value").unwrap();
            table.get(b"key").unwrap();
            assert!(cut(&cluster) > 0);
            table.put(b"key", b"value").unwrap();
            let before = table.futures().ways_taken();
            for _ in 0..60 {
                assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
            }
            let after = table.futures().ways_taken();
            assert!(after.0 > before.0 + 5, "{kind} over {address}: {before:?}, {after:?}");
        }
    }
}

#[test]
fn a_node_that_stands_still_keeps_nobody_past_the_deadline() {
    let cluster = Cluster::start(1);
    for address in [&cluster.nodes[0].shm, &cluster.nodes[0].tcp] {
        let barn = Barn::connect(address).unwrap();
        let table = barn.table("still").unwrap();
        table.put(b"key", b"value").unwrap();
        table.get(b"key").unwrap();
        let object = barn.new(&1u64).unwrap();
        let short = Duration::from_millis(200);
        let (hurried, hurried_barn) = (table.deadline(short), barn.deadline(short));
        cluster.nodes[0].process.stop();
        let asks: [&dyn Fn() -> Result<(), Error>; 6] = [
            &|| hurried.read_by(Way::Request).get(b"key").map(|_| ()),
            &|| hurried.put(b"key", b"other").map(|_| ()),
            &|| hurried.increment(b"number", 1).map(|_| ()),
            &|| hurried.insert(b"new", b"value").map(|_| ()),
            &|| hurried.get_many(&[b"key", b"new"]).map(|_| ()),
            &|| hurried_barn.transaction(|tx| tx.store(object, &2)),
        ];
        for (number, ask) in asks.iter().enumerate() {
            let since = Instant::now();
            let outcome = ask();
            let took = since.elapsed();
            assert!(took < at_most(short), "operation {number} over {address} took {took:?}: {outcome:?}");
            if number == 2 || number == 3 {
                let told = outcome.expect_err("nobody has answered");
                assert!(told.is_indeterminate() || matches!(told, Error::Client(_)), "{told}");
            }
        }
        cluster.nodes[0].process.go_on();
        // The node is back before or after its lease; the handles go on either way.
        table.deadline(common::PATIENCE).put(b"key", b"value").unwrap();
        assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn who_wants_nothing_done_again_is_told_at_once() {
    let mut cluster = Cluster::start(1);
    let address = cluster.nodes[0].tcp.clone();
    let [never, reads] =
        [Retry::Never, Retry::Reads].map(|retry| Connect::new().retry(retry).to(&address).unwrap());
    let (told, patient) = (never.table("a").unwrap(), reads.table("a").unwrap());
    told.put(b"key", b"value").unwrap();
    patient.put(b"key", b"value").unwrap();
    cluster.nodes[0].process.kill();
    assert!(told.get(b"key").is_err());
    assert!(told.put(b"key", b"value").is_err());
    assert_eq!(never.stats().retries, 0);
    let restart = std::thread::spawn(move || {
        cluster.begin_anew();
        Barn::connect(&cluster.nodes[0].tcp).unwrap().table("a").unwrap();
        cluster
    });
    // What changes nothing waits for the node, and finds that its table is not there any more or again.
    let outcome = patient.deadline(common::PATIENCE).get(b"key");
    assert!(matches!(&outcome, Ok(None)) || is_no_table(outcome.as_ref().unwrap_err()), "{outcome:?}");
    assert!(reads.stats().retries > 0);
    drop(restart.join().unwrap());
}
