//! `barn table`, against a real node: what it prints, and how it ends.

mod common;

use common::Node;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn tables_are_made_listed_and_dropped() {
    let node = Node::start();
    node.barn(&["table", "list"]).prints("no tables yet: `barn put KEY VALUE` makes the first\n");
    assert_eq!(node.json(&["table", "list"]), json!([]));
    node.barn(&["table", "create", "users"]).prints("made table users: hopscotch, 1 shard\n");
    let made =
        node.json(&["table", "create", "pairs", "--kind", "cuckoo", "--capacity", "5000", "--shards", "2"]);
    assert_eq!(
        made,
        json!({ "name": "pairs", "kind": "cuckoo", "shards": 2, "capacity": 5000, "durability": null })
    );
    let made = node.json(&["table", "create", "seen", "--kind", "cache", "--memory", "2MiB"]);
    assert_eq!(made["shard_memory_bytes"], 2 << 20);
    node.barn(&["table", "create", "users", "--kind", "cache", "--memory", "1MiB"])
        .ends_with(1)
        .says("a table `users` is there already");

    let lines = node.barn(&["table", "list"]).out();
    let names: Vec<&str> = lines.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["table", "pairs", "seen", "users"]);
    let listed = node.json(&["table", "list"]);
    assert_eq!(
        (&listed[2]["name"], &listed[2]["kind"], &listed[2]["keys"]),
        (&json!("users"), &json!("hopscotch"), &json!(0))
    );

    node.barn(&["put", "ada", "1815", "--table", "users"]).prints("");
    node.barn(&["table", "drop", "users"]).ends_with(2).says("--yes");
    node.barn(&["get", "ada", "--table", "users"]).prints("1815");
    node.barn(&["table", "drop", "users", "--yes"]).prints("dropped table users\n");
    node.barn(&["get", "ada", "--table", "users"]).ends_with(1).says("no table `users`");
    node.barn(&["table", "drop", "users", "--yes"]).ends_with(1).says("no table `users`");
    assert_eq!(node.json(&["table", "drop", "seen", "-y"]), json!({ "name": "seen", "dropped": true }));
}

#[test]
fn options_that_cannot_be_are_refused_before_anything_is_made() {
    let node = Node::start();
    for (args, why) in [
        (&["--neighbourhood", "5"][..], "2, 4, 6, 8, 12 or 16"),
        (&["--inline-bytes", "1KiB"], "at most 240"),
        (&["--inline-bytes", "8GiB"], "too many"),
        (&["--key-bytes", "200"], "at most 126"),
        (&["--kind", "cache", "--memory", "1KiB"], "from 1 MiB"),
        (&["--kind", "heap"], "hopscotch, cuckoo, cache, tree"),
        (&["--kind", "hopscoth"], "a similar value exists: 'hopscotch'"),
        (&["--memory", "4MiB"], "--memory is for cache tables, and this one is hopscotch"),
        (&["--kind", "cuckoo", "--inline-bytes", "8"], "--inline-bytes is for hopscotch and tree tables"),
        (&["--shards", "0"], "0"),
    ] {
        let args: Vec<&str> = ["table", "create", "odd"].iter().chain(args).copied().collect();
        node.barn(&args).ends_with(2).says(why);
    }
    node.barn(&[
        "table",
        "create",
        "small",
        "--neighbourhood",
        "4",
        "--inline-bytes",
        "8",
        "--key-bytes",
        "8",
    ])
    .ends_with(0);
    assert_eq!(node.json(&["table", "stat", "small"])["neighbourhood"], 4);
    // More than the node has: said at once, and no table is left behind.
    node.barn(&["table", "create", "odd", "--kind", "cache", "--memory", "1GiB"]).ends_with(1).says("memory");
    assert_eq!(node.json(&["table", "list"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_table_that_is_too_much_takes_nothing_and_disturbs_nobody() {
    let node = Node::start();
    let value = "v".repeat(2 << 20);
    for (args, why) in [
        (&["--kind", "cache", "--memory", "100GiB"][..], "100 GiB more than"),
        (&["--kind", "cuckoo", "--capacity", "99999999999"], "ask for a smaller capacity"),
        (&["--kind", "cuckoo", "--capacity", "100000000"], "GiB more than"),
        (&["--capacity", "1099511627776"], "more than"),
        (&["--capacity", "10000000"], "more than"),
    ] {
        let args: Vec<&str> = ["table", "create", "odd"].iter().chain(args).copied().collect();
        node.barn(&args).ends_with(1).says(why);
        node.barn_with(&["put", "other", "-"], value.as_bytes()).ends_with(0);
    }
    assert_eq!(node.json(&["table", "list"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn room_for_the_capacity_is_made_without_being_asked() {
    let node = Node::start();
    node.barn(&["table", "create", "large", "--capacity", "100000"]).ends_with(0);
    let began = Instant::now();
    while node.json(&["table", "stat", "large"])["slots"].as_u64() < Some(100_000) {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", node.json(&["table", "stat", "large"]));
    }
}

/// Memory of what is gone is had again: at once by whoever needs it, and in a while in any case.
#[test]
fn memory_of_dropped_tables_comes_back() {
    let node = Node::start();
    let value = "v".repeat(100_000);
    let text: String = (0..450).map(|n| format!("{{\"key\":\"{n}\",\"value\":\"{value}\"}}\n")).collect();
    for kind in ["hopscotch", "cuckoo", "tree"] {
        node.barn_with(&["import", "-t", "full", "--create", kind], text.as_bytes()).ends_with(0);
        node.barn(&["table", "drop", "full", "-y"]).ends_with(0);
    }
    node.barn(&["table", "create", "next", "--kind", "cache", "--memory", "50MiB"]).ends_with(0);
    node.barn(&["table", "drop", "next", "-y"]).ends_with(0);
    let began = Instant::now();
    loop {
        let status = node.json(&["status"]);
        let member = &status["nodes"][0];
        let held = member["memory_held_bytes"].as_u64().expect("is a number");
        let memory = status["memory"].as_array().expect("is a list");
        let by_purpose: u64 = memory.iter().filter_map(|used| used["held_bytes"].as_u64()).sum();
        assert_eq!(by_purpose, held, "{status}");
        if held < 16 << 20 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{status}");
    }
}

#[test]
fn a_table_says_how_durable_it_is() {
    let node = Node::start();
    node.barn(&["table", "create", "usual"]).ends_with(0);
    node.barn(&["table", "create", "scratch", "--durability", "memory"]).ends_with(0);
    assert_eq!(node.json(&["table", "stat", "usual"])["durability"], json!(null));
    assert_eq!(node.json(&["table", "stat", "scratch"])["durability"], "memory");
    let listed = node.barn(&["table", "list"]).out();
    assert!(listed.contains("durability") && listed.contains("hopscotch  memory"), "{listed}");
    let cache = ["table", "create", "odd", "--kind", "cache", "--durability", "synced"];
    node.barn(&cache).ends_with(2).says("kept in memory only");
    node.barn(&["table", "create", "odd", "--durability", "disk"])
        .ends_with(2)
        .says("memory, logged, synced");
}

#[test]
fn the_figures_of_a_table_add_up() {
    let node = Node::start();
    for kind in ["hopscotch", "cuckoo", "cache"] {
        let memory: &[&str] = if kind == "cache" { &["--memory", "4MiB"] } else { &[] };
        let args: Vec<&str> =
            ["table", "create", kind, "--kind", kind].iter().chain(memory).copied().collect();
        node.barn(&args).ends_with(0);
        for number in 0..20 {
            node.barn(&["put", &format!("key {number:04}"), "value", "--table", kind]).prints("");
        }
        for key in ["key 0000", "key 0001", "key 0002", "nobody"] {
            node.barn(&["get", key, "--way", "request", "--table", kind]);
        }
        let stat = node.json(&["table", "stat", kind]);
        assert_eq!((&stat["keys"], &stat["payload_bytes"]), (&json!(20), &json!(20 * 13)), "{kind}");
        assert_eq!(
            (&stat["gets"], &stat["hits"], &stat["hit_rate"]),
            (&json!(4), &json!(3), &json!(0.75)),
            "{kind}"
        );
        let memory = stat["memory_bytes"].as_f64().expect("is a number");
        assert_eq!(stat["bytes_per_entry"].as_f64(), Some(memory / 20.0));
        assert_eq!(stat["fill"].as_f64(), Some(20.0 / stat["slots"].as_f64().expect("is a number")));
        let text = node.barn(&["table", "stat", kind]).out();
        for words in [
            &format!("{kind}: {kind}, 1 shard"),
            "keys and values",
            "4 answered by the node, 75.0 % of them hits",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    node.barn(&["table", "stat", "nobody"]).ends_with(1).says("no table `nobody`");
    node.barn(&["table"]).ends_with(2);
}

#[test]
fn every_help_has_an_example() {
    let node = Node::start();
    for command in
        ["get", "put", "del", "incr", "cas", "scan", "table create", "table list", "table stat", "table drop"]
    {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = node.barn(&args);
        help.ends_with(0);
        assert!(help.out().contains("Example:\n  ") && help.out().contains("--node <ADDRESS>"), "{command}");
    }
}
