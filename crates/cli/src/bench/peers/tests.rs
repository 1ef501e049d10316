//! The rows of made-up measurements, and what can be asked for.

use super::*;
use crate::bench::workload::shape::Span;
use crate::bench::workload::subject::Reads;

const SHAPE: Shape = Shape { key: Span::of(16), value: Span::of(32) };

fn parse(words: &[&str]) -> Result<Args, clap::Error> {
    Alone::try_parse_from(["peers"].iter().chain(words)).map(|alone| alone.args)
}

/// Ours do 60 operations a second, Redis 2, memcached 3, maps 100.
fn made_up(there: impl Fn(Subject) -> bool) -> Vec<(Cell, Measured)> {
    let rate = |subject| match subject {
        Subject::Dashmap | Subject::LockedBTree => 100.0,
        Subject::RedisUnix | Subject::RedisTcp => 2.0,
        Subject::MemcachedUnix | Subject::MemcachedTcp => 3.0,
        _ => 60.0,
    };
    let cells = Args::quick().cells(there).into_iter();
    cells.map(|cell| (cell, Measured { rates: vec![rate(cell.subject); 3], ..Measured::default() })).collect()
}

#[test]
fn ours_stand_beside_everybody_as_far_away_and_beside_the_best() {
    let measured = made_up(|_| true);
    let rows = Results { shape: SHAPE, ending: "", open: false, measured: &measured }.rows();
    let is = |name: &str, beside: &str, ratio: f64| {
        let row = rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((row.beside.as_deref(), row.ratio), (Some(beside), Some(ratio)), "{name}");
    };
    is("shm/auto/c/depth-1/16x32/against-redis-unix", "redis-unix", 30.0);
    is("shm/auto/a/depth-16/16x32/against-memcached-unix", "memcached-unix", 20.0);
    is("shm/auto/b/depth-64/16x32/against-dashmap", "dashmap", 0.6);
    is("shm/auto/c/depth-1/16x32/against-btreemap-rwlock", "btreemap-rwlock", 0.6);
    is("shm/auto/c/depth-1/16x32/against-best-peer", "memcached-unix", 20.0);
    is("tcp/auto/c/depth-1/16x32/against-best-peer", "memcached-tcp", 20.0);
    assert!(rows.iter().any(|row| row.name == "redis-tcp/a/depth-64/16x32" && row.value == 2.0));
    assert!(!rows.iter().any(|row| row.name.contains("tcp/auto") && row.name.ends_with("unix")));
    let mut names: Vec<_> = rows.iter().map(|row| &row.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), rows.len(), "no two rows have one name");
}

#[test]
fn at_a_given_rate_it_counts_how_long_operations_take() {
    let mut measured = made_up(|_| true);
    for (cell, measured) in &mut measured {
        let took = match cell.subject {
            Subject::RedisUnix | Subject::RedisTcp => 400,
            Subject::MemcachedUnix | Subject::MemcachedTcp => 800,
            _ => 100,
        };
        measured.latencies.record(took, 1000);
    }
    let rows = Results { shape: SHAPE, ending: "/rate-9", open: true, measured: &measured }.rows();
    let name = "tcp/auto/c/depth-1/16x32/rate-9/against-best-peer/p99";
    let row = rows.iter().find(|row| row.name == name).expect("is there");
    assert_eq!((row.unit.as_str(), row.beside.as_deref()), ("ns", Some("redis-tcp")), "{row:?}");
    assert_eq!((row.value, row.ratio), (100.0, Some(0.25)), "{row:?}");
}

#[test]
fn without_servers_there_is_no_best_peer_and_maps_are_none() {
    let measured = made_up(|subject| subject.is_in_process() || subject == Subject::Shm(Reads::Auto));
    let rows = Results { shape: SHAPE, ending: "/clients-2x1", open: false, measured: &measured }.rows();
    assert!(rows.iter().all(|row| !row.name.contains("best-peer") && row.name.contains("/clients-2x1")));
    assert!(rows.iter().any(|row| row.name.ends_with("against-dashmap")));
}

#[test]
fn only_what_a_row_needs_is_measured() {
    let cells = Args::quick().cells(|_| true);
    // Scans are of those who keep their keys in order.
    assert_eq!(cells.len(), 3 * 3 * 8 + 3 * 3);
    assert_eq!(rows::needed(&cells, "", SHAPE, ""), cells);
    let names = |text| -> Vec<String> {
        rows::needed(&cells, text, SHAPE, "").into_iter().map(|cell| cell.subject.name()).collect()
    };
    assert_eq!(names("c/depth-1/16x32/against-dashmap"), ["shm/auto", "dashmap"]);
    assert_eq!(names("tcp/auto/a/depth-16/16x32/against-best"), ["tcp/auto", "redis-tcp", "memcached-tcp"]);
    assert_eq!(names("e/depth-1/16x32/against-"), ["shm/auto", "btreemap-rwlock"]);
    assert!(names("nothing like this").is_empty());
}

#[test]
fn peers_are_asked_for_what_they_can_do_as_well() {
    for wrong in ["d", "f", "x"] {
        let error = parse(&["--workload", wrong]).expect_err("is refused").to_string();
        assert!(error.contains("barn bench ycsb"), "{error}");
    }
    let error = run(&parse(&["--kind", "cache"]).expect("is understood")).expect_err("forgets");
    assert!(error.to_string().contains("hopscotch"), "{error}");
    assert!(parse(&["--help"]).expect_err("is help").to_string().contains("--peers-spin"));
}

#[test]
fn the_printed_command_measures_the_same() {
    let args =
        parse(&["--workload", "a", "--depth", "1,32", "--clients", "2", "--peers-spin", "--rate", "900"])
            .expect("is right");
    let command = args.command(SHAPE);
    let again: Vec<&str> = command.split(' ').skip(3).collect();
    let again = parse(&again).expect("is right");
    assert_eq!(again.cells(|_| true), args.cells(|_| true));
    assert!(again.peers_spin && again.load.clients == 2 && again.beat.rate == Some(900.0), "{command}");
}
