//! `barn bench ycsb` and `barn bench peers` as processes: short runs of real clients against real nodes.

use std::process::Command;

use serde_json::Value;

/// A short run; its rows.
fn bench(args: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_barn"))
        .args(["--json", "bench"])
        .args(args)
        .args(["--keys", "2000", "--slice-ms", "20", "--repeats", "2"])
        .output()
        .expect("starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(report["bench"], args[0]);
    report["rows"].as_array().expect("has rows").clone()
}

fn row<'a>(rows: &'a [Value], name: &str) -> &'a Value {
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {rows:?}"))
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field} in {row}"))
}

#[test]
fn every_workload_runs_over_every_transport_with_several_clients() {
    let rows = bench(&["ycsb", "--depth", "1,5", "--clients", "2", "--threads", "2", "--shape", "herd"]);
    assert_eq!(rows.len(), 6 * 3 * 2 + 2);
    for row in rows.iter().filter(|row| row["unit"] == "ops/s") {
        assert!(number(row, "value") > 0.0 && number(row, "low") <= number(row, "high"), "{row}");
        let times = ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|field| number(row, field));
        assert!(times[0] > 0.0 && times.is_sorted(), "{row}");
        assert!(number(row, "client_cpu_s_per_million") > 0.0, "{row}");
    }
    row(&rows, "tcp/auto/d/depth-5/16x32/clients-2x2");
    assert_eq!(row(&rows, "tcp/auto/e/depth-5/16x32/clients-2x2")["kind"], "tree");
    assert_eq!(row(&rows, "memory-per-entry/ordered/16x32")["kind"], "tree");
    let memory = row(&rows, "memory-per-entry/16x32");
    assert_eq!(memory["beside_value"], 48.0, "a key and a value");
    assert!(number(memory, "value") > 48.0, "{memory}");
}

#[test]
fn an_open_loop_keeps_the_rate_and_says_what_was_offered() {
    let args =
        ["ycsb", "--over", "shm,tcp", "--workload", "a", "--depth", "4", "--rate", "500", "--kind", "cuckoo"];
    let rows = bench(&args);
    let row = row(&rows, "shm/auto/a/depth-4/16x32/rate-500");
    assert_eq!((number(row, "offered"), &row["kind"]), (500.0, &Value::from("cuckoo")));
    // However busy the machine is, no more begin than were to.
    assert!(number(row, "high") < 500.0 * 3.0, "{row}");
}

#[test]
fn lengths_as_pilafs_are_held_by_every_kind() {
    for kind in ["hopscotch", "cuckoo", "cache", "tree"] {
        let args = [
            "ycsb",
            "--shape",
            "23x4096,8x64",
            "--kind",
            kind,
            "--over",
            "embedded,shm",
            "--workload",
            "a,f",
        ];
        let memory = if kind == "cache" { 0 } else { 1 };
        assert_eq!(bench(&args).len(), 2 * (2 * 2 * 2 + memory), "{kind}");
    }
}

#[test]
fn ours_and_the_peers_that_are_there_stand_in_one_report() {
    let rows = bench(&["peers", "--depth", "1,8", "--clients", "2"]);
    let ours = row(&rows, "shm/auto/a/depth-8/16x32/clients-2x1");
    assert!(number(ours, "server_cpu_s_per_million") > 0.0, "the node is asked to update: {ours}");
    row(&rows, "shm/auto/c/depth-1/16x32/clients-2x1/against-btreemap-rwlock");
    for peer in ["redis", "memcached"] {
        let absent = rows
            .iter()
            .any(|row| row["name"].as_str().is_some_and(|name| name.contains(&format!("{peer}/absent"))));
        if absent {
            continue;
        }
        let beside = row(&rows, &format!("tcp/auto/b/depth-8/16x32/clients-2x1/against-{peer}-tcp"));
        assert!(number(beside, "ratio") > 0.0 && number(beside, "beside_value") > 0.0, "{beside}");
    }
}
