//! What the tests of the binary share: a node in a process of its own, and commands that talk to it.
#![allow(dead_code, unreachable_pub, reason = "every test binary uses its own part")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// `barn serve` on a private socket; it stops with the test.
pub struct Node {
    child: Child,
    directory: PathBuf,
}

impl Node {
    pub fn start() -> Self {
        Self::start_with(&["--no-tcp"])
    }

    /// The same, with settings of the test's own.
    pub fn start_with(settings: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // ORDER: Relaxed: only that numbers differ matters.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("barn-cli-{}-{number}", std::process::id()));
        let mut child = Command::new(env!("CARGO_BIN_EXE_barn"))
            .args(["serve", "--json", "--until-stdin-ends", "--config", "none", "--data", "none"])
            .args(settings)
            .args(["--memory", "64MiB", "--socket"])
            .arg(directory.join("node.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("is a pipe")).read_line(&mut line).expect("speaks");
        assert!(line.starts_with('{'), "the node did not start: {line}");
        Self { child, directory }
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens on tcp.
    pub fn tcp(&self) -> String {
        self.json(&["ping", "--count", "1"])["node"]["tcp"].as_str().expect("listens on tcp").to_owned()
    }

    pub fn address(&self) -> String {
        format!("shm:{}/node.sock", self.directory.display())
    }

    /// A file of the test's, gone with the node.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Runs a command against the node.
    pub fn barn<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        self.barn_with(args, b"")
    }

    /// Runs a command against the node, with something on its standard input.
    pub fn barn_with<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_barn"))
            .args(args)
            .env("BARN_NODE", self.address())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        // One that does not read its input closes the pipe.
        let _ = child.stdin.take().expect("is a pipe").write_all(input);
        Ran(child.wait_with_output().expect("ends"))
    }

    /// The JSON document of a command that ends well.
    pub fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let ran = self.barn(&args);
        ran.ends_with(0);
        ran.json()
    }
}

/// Runs a command in an environment of the test's own, where no node is known.
pub fn barn_in(environment: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barn"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BARN_") || name.to_string_lossy().starts_with("XDG_") {
            command.env_remove(name);
        }
    }
    let output = command.args(args).envs(environment.iter().copied()).stdin(Stdio::null()).output();
    Ran(output.expect("starts"))
}

/// A directory of the test's own, gone with it.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barn-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("makes");
        Self(path)
    }

    pub fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What a command came to.
pub struct Ran(pub Output);

impl Ran {
    #[track_caller]
    pub fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(self.0.status.code(), Some(code), "{}", self.err());
        self
    }

    #[track_caller]
    pub fn prints(&self, out: impl AsRef<[u8]>) -> &Self {
        self.ends_with(0);
        assert_eq!(String::from_utf8_lossy(&self.0.stdout), String::from_utf8_lossy(out.as_ref()));
        assert_eq!(self.0.stdout, out.as_ref());
        self
    }

    /// Says no, or fails, with words such as these.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.err().contains(words), "{}", self.err());
        self
    }

    /// The failure, as the one object of JSON that it is.
    #[track_caller]
    pub fn failure(&self) -> Value {
        let failure: Value =
            serde_json::from_str(&self.err()).unwrap_or_else(|error| panic!("{error}: {}", self.err()));
        assert_eq!(failure["code"].as_i64(), self.0.status.code().map(i64::from));
        failure
    }

    pub fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("is text")
    }

    pub fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("is text")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.0.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.out()))
    }
}
