//! `barn status` and `barn top`: a real cluster, and a real terminal.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use common::{Node, Ran};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::json;

fn busy() -> Node {
    let node = Node::start();
    for number in 0..30 {
        node.barn(&["put", &format!("key {number}"), "value", "--table", "busy"]).prints("");
    }
    node.barn(&["put", "k", "v", "--table", "quiet"]).prints("");
    node.barn(&["get", "k", "nobody", "--way", "request", "--table", "quiet"]).ends_with(1);
    node
}

#[test]
fn status_shows_members_memory_tables_and_hot_spots() {
    let node = busy();
    let status = node.json(&["status", "--over", "10ms"]);
    let first = &status["nodes"][0];
    assert_eq!((&first["member"], &first["process"]), (&json!(1), &json!(node.id())));
    assert!(first["memory_held_bytes"].as_u64() > Some(0) && first["round_trip_ns"].as_f64() > Some(0.0));
    assert!(first["regions"].as_array().is_some_and(|regions| regions.len() >= 2));
    assert!(status["memory"].as_array().is_some_and(|memory| !memory.is_empty()));
    let tables = status["tables"].as_array().expect("is a list");
    let figures: Vec<_> = tables
        .iter()
        .map(|table| (&table["name"], &table["keys"], &table["updates"], &table["gets"]))
        .collect();
    assert_eq!(
        figures,
        [
            (&json!("busy"), &json!(30), &json!(30), &json!(0)),
            (&json!("quiet"), &json!(1), &json!(1), &json!(2))
        ]
    );
    assert_eq!((&status["hot"][0]["table"], &status["hot"][0]["operations"]), (&json!("busy"), &json!(30)));
    assert_eq!(status["rates"]["updates"], 0.0, "nothing happened meanwhile");
    let text = node.barn(&["status", "--over", "10ms"]).ends_with(0).out();
    for words in [
        "cluster: 1 member, configuration",
        "member 1 ",
        "memory by purpose:",
        "hot spots:",
        "busy, shard 0 at member 1",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn top_without_a_terminal_prints_one_view() {
    let node = busy();
    for args in
        [&["top", "--interval", "10ms"][..], &["top", "--once", "--interval", "10ms", "--sort", "name"]]
    {
        let text = node.barn(args).ends_with(0).out();
        assert!(!text.contains('\x1b') && text.starts_with("barn top "), "{text}");
        let names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(names.contains(&"busy") && names.contains(&"quiet"), "{text}");
    }
    assert_eq!(node.json(&["top", "--interval", "10ms"])["tables"][0]["name"], "busy");
}

/// `barn top` on a terminal of 80 columns and 24 rows.
struct Screen {
    master: File,
    slave: OwnedFd,
    child: Child,
    seen: Vec<u8>,
}

impl Screen {
    fn open(node: &Node) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = openpt(flags).expect("opens");
        grantpt(&master).expect("grants");
        unlockpt(&master).expect("unlocks");
        let slave = ioctl_tiocgptpeer(&master, flags).expect("opens");
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).expect("sets");
        let end = || slave.try_clone().expect("clones");
        let child = Command::new(env!("CARGO_BIN_EXE_barn"))
            .args(["top", "--interval", "50ms"])
            .env("BARN_NODE", node.address())
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("starts");
        Self { master: File::from(master), slave, child, seen: Vec::new() }
    }

    /// Reads until words such as these have been shown since the last time.
    fn shows(&mut self, words: &str) {
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(&self.seen).contains(words) {
            let length = self.master.read(&mut piece).expect("reads");
            self.seen.extend_from_slice(&piece[..length]);
        }
        self.seen.clear();
    }

    fn type_key(&mut self, key: &[u8]) {
        self.master.write_all(key).expect("types");
    }
}

#[test]
fn top_on_a_terminal_obeys_its_keys_and_leaves_the_terminal_as_it_was() {
    let node = busy();
    for end in ["q", "\x03", "signal"] {
        let mut screen = Screen::open(&node);
        let before = format!("{:?}", tcgetattr(&screen.slave).expect("asks"));
        // Another screen, no cursor; and the foot line is there.
        screen.shows("\x1b[?1049h\x1b[?25l");
        screen.shows("q quit  s sort (by activity)");
        assert_ne!(format!("{:?}", tcgetattr(&screen.slave).expect("asks")), before, "keys come one by one");
        screen.type_key(b"s");
        screen.shows("s sort (by keys)");
        screen.type_key(b"p");
        screen.shows("[paused]");
        screen.type_key(b"\x1b[A");
        screen.type_key(b"p");
        screen.shows("barn top  1 member");
        match end {
            "signal" => {
                let process = rustix::process::Pid::from_raw(screen.child.id() as i32).expect("is a process");
                rustix::process::kill_process(process, rustix::process::Signal::INT).expect("is sent");
            }
            key => screen.type_key(key.as_bytes()),
        }
        screen.shows("\x1b[?25h\x1b[?1049l");
        assert!(screen.child.wait().expect("ends").success(), "{end:?}");
        assert_eq!(format!("{:?}", tcgetattr(&screen.slave).expect("asks")), before, "{end:?}");
    }
}

#[test]
fn top_goes_on_when_the_node_does_not() {
    let node = busy();
    let mut screen = Screen::open(&node);
    screen.shows("busy ");
    drop(node);
    screen.shows("[no node at ");
    screen.type_key(b"q");
    screen.shows("\x1b[?1049l");
    assert!(screen.child.wait().expect("ends").success());
}

#[test]
fn a_member_that_is_away_makes_status_end_with_1() {
    let first = Node::start_with(&["--tcp", "127.0.0.1:0", "--lease-ms", "60000"]);
    let second = Node::start_with(&["--tcp", "127.0.0.1:0", "--join", &first.tcp()]);
    let process = rustix::process::Pid::from_raw(second.id() as i32).expect("is a process");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("is sent");
    let ran: Ran = first.barn(&["status", "--over", "1ms", "--json"]);
    let status = ran.ends_with(1).json();
    assert!(status["nodes"][1]["trouble"].is_string(), "{status}");
    assert_eq!(status["nodes"][0]["trouble"], json!(null));
}
