//! The configuration of a node, from every source, and its life as a service.

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use common::{Directory, Node, barn_in};
use serde_json::json;

#[test]
fn what_config_prints_is_what_a_node_runs_on_and_can_be_read_again() {
    let home = Directory::new("config");
    std::fs::create_dir_all(home.0.join(".config/barn")).expect("makes");
    let file = home.text(".config/barn/barn.toml");
    std::fs::write(&file, "# mine\nmemory = \"96MiB\"\nlease_ms = 700\n").expect("writes");
    let around = [("HOME", home.0.to_str().expect("is text")), ("BARN_LEASE_MS", "800")];
    let shown = barn_in(&around, &["config", "--tcp", "none"]).ends_with(0).out();
    for line in [
        "memory = \"96MiB\"",
        &format!("# From: {file}, line 2."),
        "lease_ms = 800",
        "# From: environment variable BARN_LEASE_MS.",
        "tcp = \"none\"",
        "# From: flag --tcp.",
        "durability = \"logged\"",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    std::fs::write(home.0.join("again.toml"), &shown).expect("writes");
    let again = home.text("again.toml");
    let json = barn_in(&[("HOME", "/nowhere"), ("BARN_CONFIG", &again)], &["config", "--json"]);
    let settings = json.ends_with(0).json()["settings"].clone();
    assert_eq!(
        (&settings["memory"]["value"], &settings["lease_ms"]["value"]),
        (&json!("96MiB"), &json!(800))
    );
    assert_eq!((&settings["tcp"]["from"], &settings["tcp"]["file"]), (&json!("file"), &json!(again)));
}

#[test]
fn mistakes_in_a_file_are_said_with_file_line_and_the_nearest_key() {
    let home = Directory::new("mistakes");
    let file = home.text("barn.toml");
    for (text, said) in [
        ("tcp = \"none\"\nmemroy = \"1GiB\"\n", ":2: no setting `memroy`; did you mean `memory`?"),
        ("lease_ms = 3", ":1: lease_ms: `3` is not a number of milliseconds from 50 to 600000"),
        ("\nmemory = lots", ":2: not TOML: "),
    ] {
        std::fs::write(&file, text).expect("writes");
        for command in ["config", "serve"] {
            let ran = barn_in(&[], &[command, "--config", &file, "--json"]);
            let failure = ran.ends_with(2).failure();
            assert!(
                failure["error"].as_str().expect("is text").contains(&format!("{file}{said}")),
                "{failure}"
            );
        }
        // Who looks for a node by this file is told the same.
        barn_in(&[("BARN_CONFIG", &file)], &["get", "k"]).ends_with(2).says(said);
    }
    barn_in(&[], &["config", "--config", "/nowhere/barn.toml"]).ends_with(2).says("/nowhere/barn.toml: ");
    barn_in(&[], &["config", "--lease-ms", "3"]).ends_with(2).says("from 50 to 600000");
    barn_in(&[("BARN_JOIN", "me")], &["serve"]).ends_with(2).says("BARN_JOIN: `me` is no node's address");
    barn_in(&[], &["serve", "--no-shm", "--no-tcp"]).ends_with(2).says("listens nowhere");
    barn_in(&[], &["serve", "--memory", "1000TiB"]).ends_with(1).says("ask for less (--memory)");
}

#[test]
fn clients_find_the_node_by_the_same_file() {
    let node = Node::start();
    let file = node.path("barn.toml").display().to_string();
    std::fs::write(&file, format!("socket = \"{}\"\n", &node.address()[4..])).expect("writes");
    barn_in(&[("BARN_CONFIG", &file)], &["put", "k", "v"]).prints("");
    barn_in(&[("BARN_CONFIG", &file)], &["get", "k"]).prints("v");
}

#[test]
fn a_second_node_joins_the_first() {
    let first = Node::start_with(&["--tcp", "127.0.0.1:0"]);
    let second = Node::start_with(&["--tcp", "127.0.0.1:0", "--join", &first.tcp()]);
    let members = first.json(&["status", "--over", "1ms"])["nodes"].as_array().map(Vec::len);
    assert_eq!(members, Some(2));
    second.barn(&["put", "k", "v"]).prints("");
    first.barn(&["get", "k"]).prints("v");
    barn_in(
        &[],
        &[
            "serve",
            "--config",
            "none",
            "--no-tcp",
            "--memory",
            "64MiB",
            "--socket",
            "/tmp/barn-never/s",
            "--data",
            "none",
            "--join",
            "shm:/nowhere/s",
        ],
    )
    .ends_with(1)
    .says("/nowhere/s");
    let _ = std::fs::remove_dir("/tmp/barn-never");
}

#[test]
fn a_data_directory_is_one_nodes_alone() {
    let home = Directory::new("data");
    let data = home.text("data");
    // A later `--data` would be refused as a second one: the setting of the helper is replaced here.
    let socket = home.text("node.sock");
    let args = ["serve", "--json", "--until-stdin-ends", "--config", "none", "--no-tcp", "--memory", "64MiB"];
    let mut node = Command::new(env!("CARGO_BIN_EXE_barn"))
        .args(args)
        .args(["--data", &data, "--socket", &socket])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(node.stdout.take().expect("is a pipe")).read_line(&mut line).expect("speaks");
    let other = home.text("other.sock");
    let args = [&args[..], &["--data", &data, "--socket", &other]].concat();
    let failure = barn_in(&[], &args).ends_with(1).failure();
    assert!(failure["error"].as_str().expect("is text").contains("in use by another node"), "{failure}");
    drop(node.stdin.take());
    assert!(node.wait().expect("ends").success());
    // The claim ended with the node: now it is free.
    barn_in(&[], &args).ends_with(0);
}

#[test]
fn a_service_manager_hears_of_start_and_end_and_sigterm_ends_it_in_order() {
    let home = Directory::new("service");
    let manager = UnixDatagram::bind(home.0.join("notify")).expect("binds");
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut node = Command::new(env!("CARGO_BIN_EXE_barn"))
            .args([
                "serve", "--config", "none", "--data", "none", "--no-tcp", "--memory", "64MiB", "--socket",
            ])
            .arg(home.0.join("node.sock"))
            .env("NOTIFY_SOCKET", home.0.join("notify"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut heard = [0; 256];
        let length = manager.recv(&mut heard).expect("hears");
        assert_eq!(&heard[..length], b"READY=1\nSTATUS=member 1 serves\n");
        let process = rustix::process::Pid::from_raw(node.id() as i32).expect("is a process");
        rustix::process::kill_process(process, signal).expect("is sent");
        let length = manager.recv(&mut heard).expect("hears");
        assert!(heard[..length].starts_with(b"STOPPING=1\n"));
        assert!(node.wait().expect("ends").success(), "it ended in order");
        assert!(!home.0.join("node.sock").exists(), "its socket is gone");
    }
}

#[test]
fn nodes_with_a_long_lease_do_not_wait_for_it_to_end_when_they_stop() {
    // Ten minutes: were the lease waited for, nobody would wait for this test.
    let first = Node::start_with(&["--tcp", "127.0.0.1:0", "--lease-ms", "600000"]);
    let second = Node::start_with(&["--tcp", "127.0.0.1:0", "--join", &first.tcp()]);
    drop(second);
    assert_eq!(
        first.json(&["status", "--over", "1ms"])["nodes"].as_array().map(Vec::len),
        Some(1),
        "it has left"
    );
    drop(first);
}

#[test]
fn the_unit_file_starts_what_there_is() {
    let unit = include_str!("../../../contrib/barn.service");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("starts something");
    let args: Vec<&str> =
        start.split_whitespace().skip(1).map(|word| if word == "serve" { "config" } else { word }).collect();
    let args: Vec<&str> =
        args.into_iter().map(|word| if word.ends_with("barn.toml") { "none" } else { word }).collect();
    barn_in(&[], &args).ends_with(0);
    assert!(unit.contains("Type=notify"));
}
