//! Every command against what can be wrong: no node, a dead socket, a wrong token, no such table.

mod common;

use common::{Directory, Node, barn_in};

/// Every command that needs a node; `users` is a table.
const COMMANDS: [&[&str]; 16] = [
    &["ping"],
    &["status"],
    &["top"],
    &["get", "k", "--table", "users"],
    &["put", "k", "v", "--table", "users"],
    &["del", "k", "--table", "users"],
    &["incr", "k", "--table", "users"],
    &["cas", "k", "1", "v", "--table", "users"],
    &["scan", "--table", "users"],
    &["import", "--table", "users"],
    &["export", "--table", "users"],
    &["table", "list"],
    &["table", "create", "other"],
    &["table", "stat", "users"],
    &["table", "drop", "users", "--yes"],
    &["table", "create", "cached", "--kind", "cache"],
];

#[test]
fn without_a_node_every_command_says_how_to_start_one() {
    let home = Directory::new("dead");
    // A socket that nobody listens at any more, as a killed node leaves it.
    let dead = home.0.join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).expect("binds"));
    for address in
        ["shm:/nowhere/node.sock".to_string(), format!("shm:{}", dead.display()), "tcp://127.0.0.1:1".into()]
    {
        for args in COMMANDS {
            let ran = barn_in(&[("BARN_NODE", &address)], args);
            ran.ends_with(4).says(&format!("no node at {address}")).says("start one with `barn serve`");
            let failure = barn_in(&[("BARN_NODE", &address)], &[args, &["--json"]].concat()).failure();
            assert!(
                failure["hint"].as_str().is_some_and(|hint| hint.contains("BARN_NODE")),
                "{args:?}: {failure}"
            );
        }
    }
    for args in COMMANDS {
        let ran = barn_in(&[("BARN_NODE", "nonsense")], &[args, &["--json"]].concat());
        assert_eq!(ran.ends_with(2).failure()["hint"], "write shm:PATH or tcp://HOST:PORT", "{args:?}");
    }
}

#[test]
fn a_wrong_token_is_said_so_by_every_command() {
    let home = Directory::new("token");
    let (right, wrong) = (home.text("right"), home.text("wrong"));
    std::fs::write(&right, "0123456789abcdef").expect("writes");
    std::fs::write(&wrong, "fedcba9876543210").expect("writes");
    let node = Node::start_with(&["--tcp", "127.0.0.1:0", "--token-file", &right]);
    let address = node.tcp();
    for args in COMMANDS {
        let ran = barn_in(&[("BARN_NODE", &address), ("BARN_TOKEN_FILE", &wrong)], args);
        ran.ends_with(4).says("the token is not the node's").says("--token-file");
        let ran = barn_in(&[("BARN_NODE", &address)], args);
        ran.ends_with(4).says("the node lets nobody in without its token");
    }
    let around = [("BARN_NODE", &address[..]), ("BARN_TOKEN_FILE", &right[..])];
    barn_in(&around, &["put", "k", "v"]).prints("");
    barn_in(&around, &["get", "k"]).prints("v");
}

#[test]
fn a_table_that_is_not_there_comes_with_the_nearest_name() {
    let node = Node::start();
    node.barn(&["put", "k", "v", "--table", "users"]).prints("");
    for args in [
        &["get", "k", "--table", "usres"][..],
        &["del", "k", "--table", "usres"],
        &["scan", "--table", "usres"],
        &["cas", "k", "1", "v", "--table", "usres"],
        &["export", "--table", "usres"],
        &["import", "--table", "usres"],
        &["table", "stat", "usres"],
        &["table", "drop", "usres", "--yes"],
    ] {
        let ran = node.barn(&[args, &["--json"]].concat());
        let failure = ran.ends_with(1).failure();
        assert_eq!(failure["error"], "no table `usres`", "{args:?}");
        assert!(
            failure["hint"].as_str().expect("has a hint").starts_with("did you mean `users`?"),
            "{failure}"
        );
    }
    node.barn(&["get", "k", "--table", "zebra"]).ends_with(1).says("`barn table create zebra` makes it");
    node.barn(&["get", "k", "--table", "users"]).prints("v");
}

#[test]
fn failures_in_json_are_one_object_on_standard_error() {
    for (args, code) in [
        (&["plough", "--json"][..], 2),
        (&["--json", "get"], 2),
        (&["get", "k", "--way", "by-car", "--json"], 2),
        (&["serve", "--memory", "much", "--json"], 2),
    ] {
        let ran = barn_in(&[], args);
        let failure = ran.ends_with(code).failure();
        assert!(failure["error"].is_string() && failure["hint"].is_string(), "{failure}");
        assert_eq!(ran.out(), "");
    }
    let failure = barn_in(&[], &["statsu", "--json"]).failure();
    assert!(failure["hint"].as_str().expect("has a hint").contains("status"), "{failure}");
    // Help is help, whatever else stands there.
    assert!(barn_in(&[], &["get", "--help", "--json"]).ends_with(0).out().contains("Usage:"));
    let node = Node::start();
    node.barn(&["put", "k", "v"]).prints("");
    let ran = node.barn(&["put", "k", "w", "--if-absent", "--json"]);
    assert!(ran.ends_with(1).failure()["error"].as_str().expect("is text").contains("is there already"));
}

#[test]
fn shells_and_manuals_know_every_command() {
    let home = Directory::new("man");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = barn_in(&[], &["completions", shell]).ends_with(0).out();
        for word in ["import", "export", "config", "status", "top", "checkpoint-bytes"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    assert!(barn_in(&[], &["man"]).ends_with(0).out().contains(".TH barn 1"));
    let pages = home.text("pages");
    let wrote = barn_in(&[], &["man", &pages, "--json"]).ends_with(0).json();
    let pages: Vec<&str> =
        wrote["pages"].as_array().expect("is a list").iter().filter_map(|page| page.as_str()).collect();
    for page in ["barn.1", "barn-serve.1", "barn-table-create.1", "barn-top.1", "barn-bench-fabric.1"] {
        assert!(pages.contains(&page), "{page} {pages:?}");
        assert!(home.0.join("pages").join(page).metadata().expect("is there").len() > 500);
    }
    assert!(!pages.iter().any(|page| page.contains("get-client")), "hidden commands have no page");
    assert_eq!(barn_in(&[], &["completions", "abacus"]).0.status.code(), Some(2));
}
