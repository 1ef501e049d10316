//! `barn export` and `barn import`: a table that goes out and comes in is the same table.

mod common;

use common::Node;
use serde_json::{Value, json};

/// Puts keys and values of all sorts.
fn fill(node: &Node, table: &str) {
    let lines = [
        json!({ "key": "plain", "value": "text" }),
        json!({ "key": "", "value": "of the empty key" }),
        json!({ "key": "empty", "value": "" }),
        json!({ "key_base64": "/wAK", "value_base64": "AAEC/w==" }),
        json!({ "key": "a,\"b\"\r\nc;\t", "value": "{\"nested\": [1,\n2]}" }),
        json!({ "key": "brief", "value": "x", "expires_ms": 4_000_000_000_000_u64 }),
        json!({ "key": "long", "value": "z".repeat(300_000) }),
    ];
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.extend((0..2500).map(|n| format!("{{\"key\":\"key {n:05}\",\"value\":\"value {n}\"}}\n")));
    let ran =
        node.barn_with(&["import", "--table", table, "--create", "hopscotch", "--json"], text.as_bytes());
    assert_eq!(
        ran.ends_with(0).json(),
        json!({ "table": table, "stored": 2507, "kept": 0, "expired": 0, "failed": 0 })
    );
}

/// All lines of a table, in order, without their versions.
fn content(node: &Node, table: &str) -> Vec<String> {
    let scan = node.barn(&["scan", "--json", "--table", table]).ends_with(0).out();
    let mut lines: Vec<String> = scan
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).expect("is JSON");
            line.as_object_mut().expect("is an object").remove("version");
            line.to_string()
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn a_table_that_went_out_and_came_in_is_the_same() {
    let node = Node::start();
    fill(&node, "one");
    let before = content(&node, "one");
    assert_eq!(before.len(), 2507);
    for (name, kind) in [("out.jsonl", "cuckoo"), ("out.csv", "hopscotch")] {
        let path = node.path(name).display().to_string();
        let wrote = node.json(&["export", &path, "--table", "one"]);
        assert_eq!(wrote, json!({ "table": "one", "file": path, "entries": 2507 }));
        assert!(!node.path(&format!("{name}.partial")).exists());
        node.barn(&["import", &path, "--table", name, "--create", kind])
            .prints(format!("stored 2507 entries in {name}\n"));
        assert_eq!(content(&node, name), before, "{name}");
    }
    // Through pipes, in both forms; and what `barn scan --json` prints can be read as well.
    for (format, args) in
        [("jsonl", &["export"][..]), ("csv", &["export", "--format", "csv"]), ("jsonl", &["scan", "--json"])]
    {
        let out = node.barn(&[args, &["--table", "one"]].concat()).ends_with(0).0.stdout.clone();
        let table = format!("{format}-{}", args[0]);
        node.barn_with(&["import", "--format", format, "-t", &table, "--create", "hopscotch"], &out)
            .ends_with(0);
        assert_eq!(content(&node, &table), before, "{table}");
    }
    let some = node.barn(&["export", "--table", "one", "--prefix", "key 0000"]).ends_with(0).out();
    assert_eq!(some.lines().count(), 10);
}

#[test]
fn keys_that_are_there_are_left_alone_if_asked_and_what_has_expired_stays_away() {
    let node = Node::start();
    node.barn(&["put", "a", "old"]).prints("");
    let text = "key,value,expires_ms\na,new,\nb,new,\nc,gone,1\n";
    let ran = node.barn_with(&["import", "--format", "csv", "--if-absent", "--json"], text.as_bytes());
    assert_eq!(
        ran.ends_with(0).json(),
        json!({ "table": "default", "stored": 1, "kept": 1, "expired": 1, "failed": 0 })
    );
    node.barn(&["get", "a"]).prints("old");
    node.barn(&["get", "c"]).ends_with(1);
    node.barn_with(&["import", "--format", "csv"], text.as_bytes())
        .prints("stored 2 entries in default, 1 had expired\n");
    node.barn(&["get", "a"]).prints("new");
    // Of a key that is there twice, the last counts.
    let twice: String = (0..3000).map(|n| format!("{{\"key\":\"k\",\"value\":\"{n}\"}}\n")).collect();
    node.barn_with(&["import"], twice.as_bytes()).ends_with(0);
    node.barn(&["get", "k"]).prints("2999");
}

#[test]
fn a_mistake_is_said_with_file_and_line_and_how_many_were_stored() {
    let node = Node::start();
    let path = node.path("bad.jsonl");
    let mut text: String = (1..=1500).map(|n| format!("{{\"key\":\"{n}\",\"value\":\"v\"}}\n")).collect();
    text += "{\"key\":\"1501\"}\n{\"key\":\"1502\",\"value\":\"v\"}\nnonsense\n";
    std::fs::write(&path, text).expect("writes");
    let path = path.display().to_string();
    let ran = node.barn(&["import", &path, "--create", "hopscotch", "--json"]);
    let failure = ran.ends_with(1).failure();
    assert_eq!(failure["error"], format!("{path}:1501: no `value`: write one, or `value_base64`"));
    let hint = failure["hint"].as_str().expect("has a hint");
    assert!(hint.starts_with("1500 entries were stored") && hint.contains("--skip-errors"), "{hint}");
    assert_eq!(content(&node, "default").len(), 1500);

    let ran = node.barn(&["import", &path, "--skip-errors"]);
    ran.ends_with(1).says(&format!("{path}:1501: no `value`")).says(&format!("{path}:1503: "));
    assert_eq!(ran.out(), "stored 1501 entries in default, 2 were skipped for mistakes\n");
    // More mistakes than anybody wants to read are counted.
    let ran = node.barn_with(&["import", "--skip-errors"], "x\n".repeat(50).as_bytes());
    ran.ends_with(1).says("standard input:20: ").says("and 30 mistakes more");
    assert!(!ran.err().contains("standard input:21:"));

    // A key that is too long is the node's to refuse, or the client's: said with its line as well.
    let long = format!(
        "{{\"key\":\"a\",\"value\":\"1\"}}\n{{\"key\":\"{}\",\"value\":\"2\"}}\n",
        "k".repeat(70_000)
    );
    node.barn_with(&["import"], long.as_bytes())
        .ends_with(1)
        .says("standard input:2: key `kkk")
        .says("1 entries were stored");
}

#[test]
fn a_table_that_is_full_says_how_far_it_came() {
    let node = Node::start();
    let value = "v".repeat(100_000);
    let text: String = (0..1000).map(|n| format!("{{\"key\":\"{n}\",\"value\":\"{value}\"}}\n")).collect();
    let ran = node.barn_with(&["import", "--create", "hopscotch", "--json"], text.as_bytes());
    let failure = ran.ends_with(1).failure();
    assert!(failure["error"].as_str().expect("is text").contains("the table is full"), "{failure}");
    let hint = failure["hint"].as_str().expect("has a hint");
    let stored: usize = hint.split(' ').next().expect("has a number").parse().expect("is a number");
    let there = node.barn(&["scan", "--keys-only"]).ends_with(0).out().lines().count();
    assert_eq!(stored, there, "{hint}");
}

#[test]
fn tables_are_not_made_by_accident() {
    let node = Node::start();
    node.barn_with(&["import", "--table", "users"], b"")
        .ends_with(1)
        .says("no table `users`")
        .says("--create hopscotch makes it");
    node.barn_with(&["import", "--table", "users", "--create", "cuckoo"], b"")
        .prints("stored 0 entries in users\n");
    node.barn_with(&["import", "--table", "users", "--create", "cache"], b"")
        .ends_with(1)
        .says("it is cuckoo, not cache");
    node.barn(&["import", "/nowhere/at/all", "--table", "users"]).ends_with(1).says("/nowhere/at/all: ");
    node.barn(&["export", "/nowhere/at/all", "--table", "users"]).ends_with(1).says("/nowhere/at/all: ");
    node.barn(&["export", "--table", "user"]).ends_with(1).says("did you mean `users`?");
    node.barn_with(&["import", "-t", "users", "--format", "csv"], b"name,age\n")
        .ends_with(1)
        .says("standard input:1: no column `key`");
}
