//! The jobs of the stage: one table.
//!
//! To add one: an entry in [`WORK`]. A program of ours is built in release (the emulated processor is
//! slow enough), and put into the guest's /bin. `check` reads what the job printed: it says what was
//! found, or why that is not enough, for a job that ended well.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::jobs::{Job, Server};
use super::perftest;
use crate::run;

/// Where perftest's servers listen.
const PERFTEST_PORT: u16 = 18_515;

/// A program of ours: what cargo must be told to build it, and its name.
#[derive(Debug)]
pub(super) struct Program {
    cargo: &'static [&'static str],
    name: &'static str,
}

/// One job of the stage.
#[derive(Debug)]
pub(super) struct Work {
    name: &'static str,
    /// The server's command, and its port.
    server: Option<(&'static str, u16)>,
    command: &'static str,
    seconds_max: u64,
    programs: &'static [Program],
    /// What the output shows.
    pub(super) check: fn(&str) -> Result<String, String>,
}

/// Every job of the stage. Those with a server also run between two guests.
pub(super) const WORK: &[Work] = &[
    Work {
        name: "read-latency",
        server: Some(("ib_read_lat -d $A_DEV -x $A_GID -s 64 -n 2000", PERFTEST_PORT)),
        command: "ib_read_lat -d $B_DEV -x $B_GID -s 64 -n 2000 $A_IP",
        seconds_max: 60,
        programs: &[],
        check: perftest::latency,
    },
    Work {
        name: "read-rate",
        server: Some(("ib_read_bw -d $A_DEV -x $A_GID -s 64 -n 5000", PERFTEST_PORT)),
        command: "ib_read_bw -d $B_DEV -x $B_GID -s 64 -n 5000 $A_IP",
        seconds_max: 60,
        programs: &[],
        check: perftest::rate,
    },
    Work {
        name: "doctor",
        server: None,
        command: "barn doctor",
        seconds_max: 60,
        programs: &[BARN],
        check: doctor,
    },
];

const BARN: Program = Program { cargo: &["-p", "barn-cli", "--bin", "barn"], name: "barn" };

/// `barn doctor` must find both devices, up, with the addresses that they were given.
fn doctor(output: &str) -> Result<String, String> {
    for (device, address) in [("rxe0", "ffff:0a09:0001 (RoCE v2"), ("rxe1", "ffff:0a09:0002 (RoCE v2")] {
        let fine = |line: &str| {
            line.trim().starts_with("good")
                && [device, "ACTIVE", address].iter().all(|word| line.contains(word))
        };
        if !output.lines().any(fine) {
            return Err(format!("barn doctor is not content with {device}"));
        }
    }
    Ok("barn doctor finds both devices".into())
}

impl Work {
    /// Whether it has two ends that may be on two hosts.
    pub(super) fn between_hosts(&self) -> bool {
        self.server.is_some()
    }

    pub(super) fn job(&self) -> Job {
        Job {
            name: self.name.into(),
            server: self.server.map(|(command, port)| Server { command: command.into(), port }),
            command: self.command.into(),
            seconds_max: self.seconds_max,
        }
    }
}

/// The job of this name.
pub(super) fn named(name: &str) -> Option<&'static Work> {
    WORK.iter().find(|work| work.name == name)
}

/// Builds what these jobs run, each program once.
pub(super) fn programs(work: &[&Work]) -> Result<Vec<PathBuf>, String> {
    let mut built: Vec<(&str, PathBuf)> = Vec::new();
    for program in work.iter().flat_map(|work| work.programs) {
        if built.iter().all(|(name, _)| *name != program.name) {
            built.push((program.name, program.build()?));
        }
    }
    Ok(built.into_iter().map(|(_, path)| path).collect())
}

impl Program {
    fn build(&self) -> Result<PathBuf, String> {
        let args = [&["build", "--release", "--message-format=json-render-diagnostics"], self.cargo].concat();
        let done = run::Job::cargo(&args).env("CARGO_TERM_COLOR", "never").quiet().run()?;
        if !done.status.success() {
            done.output.lines().filter(|line| !line.starts_with('{')).for_each(|line| println!("{line}"));
            return Err(format!("cargo build --release {} {}", self.cargo.join(" "), done.how()));
        }
        println!("built {} in {:.1} s", self.name, done.seconds);
        executable(&done.output, self.name).ok_or_else(|| format!("cargo built no program {}", self.name))
    }
}

/// The program of this name among those that cargo says it built.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is = |path: &Path| path.file_name().is_some_and(|file| file == name);
    messages.filter_map(|message| Some(PathBuf::from(message["executable"].as_str()?))).find(|path| is(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_names_that_can_be_files_and_are_distinct() {
        let mut names: Vec<_> = WORK.iter().map(|work| work.name).collect();
        let fine =
            |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        assert!(names.iter().all(|name| fine(name)), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WORK.len());
    }

    #[test]
    fn a_doctor_that_misses_a_device_is_not_enough() {
        let port = |number: u8, word: &str| {
            let device = number - 1;
            format!(
                "  {word:<6}  port  rxe{device} port 1: ACTIVE; gid 1: 0000:ffff:0a09:000{number} (RoCE v2 on v0)\n"
            )
        };
        assert!(doctor(&(port(1, "good") + &port(2, "good"))).is_ok());
        assert!(doctor(&port(1, "good")).is_err());
        assert!(doctor(&(port(1, "good") + &port(2, "limits"))).is_err());
    }

    #[test]
    fn a_built_program_is_found_in_cargos_messages() {
        let messages =
            "Compiling\n{\"executable\":null}\n{\"executable\":\"/t/release/examples/conformance\"}\n";
        assert_eq!(executable(messages, "conformance"), Some("/t/release/examples/conformance".into()));
        assert_eq!(executable(messages, "barn"), None);
    }
}
