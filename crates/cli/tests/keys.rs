//! The commands on keys, against a real node: what they print, and how they end.

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use common::Node;
use serde_json::json;

#[test]
fn what_was_put_is_got_byte_by_byte() {
    let node = Node::start();
    node.barn(&["put", "greeting", "hello"]).prints("");
    node.barn(&["get", "greeting"]).prints("hello");
    for way in ["one-sided", "request", "auto"] {
        node.barn(&["get", "greeting", "--way", way]).prints("hello");
    }
    // From standard input, in three ways, and from a file; escapes and zeros are kept.
    let odd = b"\x1b[1mone\ntwo\0\xff";
    node.barn_with(&["put", "odd"], odd).prints("");
    node.barn(&["get", "odd"]).prints(odd);
    node.barn_with(&["put", "odd", "-"], b"three\n").prints("");
    node.barn(&["get", "odd"]).prints("three\n");
    let path = node.path("value");
    std::fs::write(&path, odd).expect("writes");
    node.barn(&["put", "odd", "--file", path.to_str().expect("is text")]).prints("");
    node.barn(&["get", "odd"]).prints(odd);
    node.barn(&["put", "empty", ""]).prints("");
    node.barn(&["get", "empty"]).prints("");
    node.barn(&["put", "cold", "-5"]).prints("");
    node.barn(&["get", "cold"]).prints("-5");

    node.barn(&["get", "nobody"]).ends_with(1).says("no key `nobody` in table `default`");
    node.barn(&["get", "greeting", "--way", "by-car"]).ends_with(2).says("one-sided, request, auto");
    node.barn(&["put", "k", "v", "--file", "x"]).ends_with(2);
    node.barn(&["put", "k", "--file", "/nowhere/at/all"]).ends_with(1).says("/nowhere/at/all");
    node.barn(&["get"]).ends_with(2);
}

#[test]
fn json_has_version_expiry_and_base64_where_needed() {
    let node = Node::start();
    let stored = node.json(&["put", "key", "one"]);
    let version = stored["version"].as_str().expect("has a version");
    assert_eq!(stored, json!({ "key": "key", "stored": true, "version": version }));
    let got = node.json(&["get", "key"]);
    assert_eq!(got, json!({ "key": "key", "found": true, "version": version, "value": "one" }));
    node.barn(&["get", "key", "-v"])
        .prints("one")
        .says(&format!("version {version}, 3 bytes, does not expire"));
    node.barn(&["put", "key", "two", "-v"]).prints("").says("version ");

    node.barn_with(&["put", "binary"], b"\xff\x00").prints("");
    assert_eq!(node.json(&["get", "binary"])["value_base64"], "/wA=");
    assert!(node.json(&["get", "binary"]).get("value").is_none());

    let ran = node.barn(&["get", "nobody", "--json"]);
    ran.ends_with(1).says("no key `nobody`");
    assert_eq!(ran.json(), json!({ "key": "nobody", "found": false }));

    node.barn(&["put", "brief", "x", "--ttl", "1h"]).prints("");
    assert!(node.json(&["get", "brief"])["expires_ms"].as_u64().expect("expires") > 1_700_000_000_000);
    node.barn(&["get", "brief", "--verbose"]).prints("x").says("expires in 60 min");
}

#[test]
fn keys_are_any_bytes() {
    let node = Node::start();
    let key = OsStr::from_bytes(b"\xff\tkey");
    node.barn(&[OsStr::new("put"), key, OsStr::new("value")]).prints("");
    node.barn(&[OsStr::new("get"), key]).prints("value");
    node.barn(&["get", "--key-base64", "/wlrZXk="]).prints("value");
    // A zero cannot stand on a command line at all.
    node.barn(&["put", "--key-base64", "AAE=", "zero"]).prints("");
    assert_eq!(node.json(&["get", "--key-base64", "AAE="])["key"], "\0\u{1}");
    let ran = node.barn(&["scan", "--keys-only"]);
    let mut lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["\\x00\\x01", "\\xff\\tkey"]);
    // What was printed leads back to the keys.
    node.barn_with(&["del", "-"], ran.out().as_bytes()).prints("");
    node.barn(&["scan"]).prints("");
    node.barn(&["get", "--key-base64", "?"]).ends_with(2).says("not base64");
    node.barn_with(&["get", "-"], b"\\q\n").ends_with(2).says("backslash");
}

#[test]
fn several_keys_at_once() {
    let node = Node::start();
    for (key, value) in [("a", "1"), ("b", "2\n"), ("c", "3")] {
        node.barn(&["put", key, value]).prints("");
    }
    node.barn(&["get", "a", "b"]).prints("a\t1\nb\t2\\n\n");
    node.barn_with(&["get", "-"], b"c\na\n").prints("c\t3\na\t1\n");
    let ran = node.barn(&["get", "a", "nobody", "c", "--json"]);
    ran.ends_with(1).says("no key `nobody`");
    let found: Vec<bool> =
        ran.json().as_array().expect("is an array").iter().map(|one| one["found"] == true).collect();
    assert_eq!(found, [true, false, true]);
    let ran = node.barn_with(&["get", "-", "--json"], b"c\n");
    assert_eq!(ran.json()[0]["value"], "3", "a list of one is a list");

    let ran = node.barn(&["del", "a", "nobody", "c", "--json"]);
    ran.ends_with(1).says("no key `nobody`");
    assert_eq!(ran.json()["deleted"], 2);
    assert_eq!(ran.json()["keys"][1], json!({ "key": "nobody", "deleted": false }));
    node.barn(&["del", "b"]).prints("");
    node.barn(&["del", "b"]).ends_with(1);
    node.barn_with(&["del", "-"], b"").prints("");
}

#[test]
fn a_value_goes_when_its_time_is_over() {
    let node = Node::start();
    node.barn(&["put", "brief", "x", "--ttl", "700ms"]).prints("");
    let put = Instant::now();
    node.barn(&["get", "brief"]).prints("x");
    node.barn(&["put", "brief", "y", "--if-absent"]).ends_with(1).says("`brief` is there already");
    std::thread::sleep(Duration::from_millis(750).saturating_sub(put.elapsed()));
    node.barn(&["get", "brief"]).ends_with(1).says("no key `brief`");
    assert_eq!(
        node.json(&["put", "brief", "y", "--if-absent", "--ttl", "1d"]),
        json!({ "key": "brief", "stored": true })
    );
    let ran = node.barn(&["put", "brief", "z", "--if-absent", "--json"]);
    ran.ends_with(1);
    assert_eq!(ran.json()["stored"], false);
    node.barn(&["get", "brief"]).prints("y");
    node.barn(&["incr", "window", "--ttl", "1h"]).prints("1\n");
    assert!(node.json(&["get", "window"])["expires_ms"].is_u64());
    // A counter that is there keeps its end, or has none.
    node.barn(&["put", "for ever", "5"]).prints("");
    node.barn(&["incr", "for ever", "--ttl", "1ms"]).prints("6\n");
    assert_eq!(node.json(&["get", "for ever"])["expires_ms"], json!(null));
    node.barn(&["put", "brief", "x", "--ttl", "100000d"]).ends_with(2).says("36500d");
    node.barn(&["put", "brief", "x", "--ttl", "soon"]).ends_with(2).says("write 500ms, 30s");
}

#[test]
fn numbers_are_added_to() {
    let node = Node::start();
    node.barn(&["incr", "visits"]).prints("1\n");
    node.barn(&["incr", "visits", "41"]).prints("42\n");
    node.barn(&["incr", "visits", "-2"]).prints("40\n");
    assert_eq!(node.json(&["incr", "visits", "0"]), json!({ "key": "visits", "value": 40 }));
    node.barn(&["get", "visits"]).prints("40");
    node.barn(&["put", "word", "many"]).prints("");
    node.barn(&["incr", "word"]).ends_with(1).says("cannot be incremented");
    node.barn(&["incr", "visits", "some"]).ends_with(2);
}

#[test]
fn a_swap_is_lost_if_somebody_was_faster() {
    let node = Node::start();
    node.barn(&["put", "config", "blue"]).prints("");
    let version = node.json(&["get", "config"])["version"].as_str().expect("has a version").to_owned();
    let swapped = node.json(&["cas", "config", &version, "green"]);
    assert_eq!(swapped["swapped"], true);
    let now = swapped["version"].as_str().expect("has a version");
    node.barn(&["cas", "config", &version, "red"])
        .ends_with(1)
        .says(&format!("`config` has version {now}, not {version}: nothing was changed"));
    let lost = node.barn(&["cas", "config", &version, "red", "--json"]);
    lost.ends_with(1);
    assert_eq!(lost.json(), json!({ "key": "config", "swapped": false, "version": now }));
    node.barn(&["get", "config"]).prints("green");
    node.barn_with(&["cas", "config", now, "-", "-v"], b"red").prints("").says("version ");
    node.barn(&["get", "config"]).prints("red");
    node.barn(&["cas", "nobody", "1", "x"]).ends_with(1).says("no key `nobody`");
    node.barn(&["cas", "config", "latest", "x"]).ends_with(2);
}

#[test]
fn a_scan_finds_all_or_those_that_begin_so_or_so_many() {
    let node = Node::start();
    for number in 0..30 {
        node.barn(&["put", &format!("user:{number}"), &format!("name {number}")]).prints("");
    }
    node.barn(&["put", "other", "x"]).prints("");
    assert_eq!(node.barn(&["scan"]).out().lines().count(), 31);
    let users = node.barn(&["scan", "--prefix", "user:"]).out();
    assert_eq!(users.lines().count(), 30);
    assert!(users.lines().any(|line| line == "user:7\tname 7"));
    assert_eq!(node.barn(&["scan", "--limit", "4"]).out().lines().count(), 4);
    node.barn(&["scan", "--limit", "0"]).prints("");
    node.barn(&["scan", "--prefix", "oth", "--keys-only"]).prints("other\n");
    let ran = node.barn(&["scan", "--json"]);
    let lines: Vec<serde_json::Value> =
        ran.out().lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert_eq!(lines.len(), 31);
    assert!(lines.iter().all(|line| line["version"].is_string() && line["value"].is_string()));
    node.barn(&["scan", "--json", "--keys-only", "--prefix", "oth"]).prints("{\"key\":\"other\"}\n");
}

#[test]
fn a_missing_table_is_named_and_made_by_the_first_put() {
    let node = Node::start();
    for args in [&["get", "k"][..], &["del", "k"], &["scan"], &["cas", "k", "1", "v"]] {
        node.barn(args).ends_with(1).says("no table `default`: `barn table list` shows what there is");
    }
    node.barn(&["put", "k", "v", "--table", "users"]).prints("");
    node.barn(&["incr", "k", "-t", "counters"]).prints("1\n");
    node.barn(&["get", "k", "-t", "users"]).prints("v");
    node.barn(&["get", "k", "-t", "counters"]).prints("1");
    node.barn(&["get", "k"]).ends_with(1).says("no table `default`");
    node.barn(&["put", "k", "v", "--table", "no good name"])
        .ends_with(1)
        .says("letters, digits and _-.:/ only");
}

#[test]
fn a_node_that_is_not_there_is_said_so() {
    let node = Node::start();
    node.barn(&["put", "k", "v"]).prints("");
    for option in ["--node", "--connect"] {
        node.barn(&["get", "k", option, &node.address()]).prints("v");
        node.barn(&["get", "k", option, "shm:/nowhere/node.sock"])
            .ends_with(4)
            .says("no node at shm:/nowhere/node.sock")
            .says("start one with `barn serve`");
    }
    node.barn(&["get", "k", "--node", "nonsense"]).ends_with(2).says("write shm:PATH or tcp://HOST:PORT");
    node.barn(&["ping", "--count", "1"]).ends_with(0);
}
