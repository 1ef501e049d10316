//! The jobs of the stage: one table.
//!
//! To add one: an entry in [`WORK`]. A program of ours is built with optimisations (the emulated
//! processor is slow enough), and put into the guest's /bin. `check` reads what the job printed: it says what was
//! found, or why that is not enough, for a job that ended well.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::jobs::{Job, Server};
use super::{checks, compare, perftest};
use crate::run::{self, root};

/// Where perftest's servers listen.
const PERFTEST_PORT: u16 = 18_515;

/// The jobs whose figures count: the first one's are compared with perftest's.
const MEASURED: [&str; 2] = ["bench", "workloads"];

/// A program of ours: what cargo must be told to build it, and its name.
#[derive(Debug)]
pub(super) struct Program {
    cargo: &'static [&'static str],
    name: &'static str,
}

/// One job of the stage.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
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
        check: checks::doctor,
    },
    conformance("conformance-ring", "conformance names; BARN_CONFORMANCE_ONE_IN=10 conformance verbs-ring"),
    conformance(
        "conformance-ring-runtime",
        "conformance names; BARN_CONFORMANCE_ONE_IN=10 conformance verbs-runtime",
    ),
    conformance("conformance-herd", "conformance names; BARN_CONFORMANCE_ONE_IN=10 conformance verbs-herd"),
    conformance(
        "conformance-herd-runtime",
        "conformance names; BARN_CONFORMANCE_ONE_IN=10 conformance verbs-herd-runtime",
    ),
    Work {
        name: "device",
        server: None,
        command: "verbs_device --ignored --test-threads 1",
        seconds_max: 600,
        programs: &[DEVICE],
        check: checks::device,
    },
    Work {
        name: "racing",
        // Each end on a processor of its own: on one, nothing is ever torn.
        server: Some(("exec taskset 2 racing node $A_IP:7420", 7420)),
        command: "taskset 1 racing client verbs://$A_IP:7420 $B_IP",
        seconds_max: 180,
        programs: &[RACING],
        check: checks::racing,
    },
    Work {
        name: "tables",
        server: Some((NODES, BOTH_PORT)),
        command: include_str!("guest/tables.client.sh"),
        seconds_max: 300,
        programs: &[BARN, LINEAR],
        check: checks::tables,
    },
    Work {
        name: "transactions",
        server: Some((NODES, BOTH_PORT)),
        command: "real_histories --address verbs://$A_IP:7411 --bind $B_IP --nodes 2 --transactions 3000 \
                  --each 3000 --threads 2 --workers 4 --roots 64",
        seconds_max: 120,
        programs: &[BARN, REAL],
        check: checks::transactions,
    },
    Work {
        name: MEASURED[0],
        server: Some((include_str!("guest/bench.server.sh"), 7411)),
        command: include_str!("guest/bench.client.sh"),
        seconds_max: 600,
        programs: &[BARN],
        check: compare::check,
    },
    Work {
        name: MEASURED[1],
        server: None,
        // Few records: an emulated processor loads some thousand a second.
        command: "barn bench ycsb --over verbs,tcp --way one-sided,request --quick --keys 2000 --slice-ms 400",
        seconds_max: 300,
        programs: &[BARN],
        check: checks::workloads,
    },
    Work {
        name: "without-library",
        server: None,
        command: include_str!("guest/without.sh"),
        seconds_max: 90,
        programs: &[BARN],
        check: checks::without_library,
    },
];

/// The whole suite, on one way to carry messages. The emulated processor gets fewer rounds of what is
/// only repeated; no case is left out (`fabric/src/conformance/support.rs`).
const fn conformance(name: &'static str, command: &'static str) -> Work {
    Work { name, server: None, command, seconds_max: 420, programs: SUITE, check: checks::conformance }
}

const SUITE: &[Program] = &[CONFORMANCE];

/// Two nodes of one cluster.
const NODES: &str = include_str!("guest/nodes.server.sh");
const BOTH_PORT: u16 = 7413;

const BARN: Program =
    Program { cargo: &["-p", "barn-cli", "--features", "verbs", "--bin", "barn"], name: "barn" };
const CONFORMANCE: Program = Program {
    cargo: &["-p", "barn-fabric", "--features", "conformance,verbs", "--example", "conformance"],
    name: "conformance",
};
const DEVICE: Program = Program {
    cargo: &["-p", "barn-fabric", "--features", "conformance,verbs", "--test", "verbs_device"],
    name: "verbs_device",
};
const RACING: Program =
    Program { cargo: &["-p", "barn", "--features", "verbs", "--example", "racing"], name: "racing" };
const LINEAR: Program = Program {
    cargo: &["-p", "barn", "--features", "verbs", "--example", "linear_histories"],
    name: "linear_histories",
};
const REAL: Program = Program {
    cargo: &["-p", "barn", "--features", "verbs", "--example", "real_histories"],
    name: "real_histories",
};

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
    // Only who measures waits for the linker to optimise.
    let profile = if work.iter().any(|work| MEASURED.contains(&work.name)) { "release" } else { "checkers" };
    let mut built: Vec<(&str, PathBuf)> = Vec::new();
    for program in work.iter().flat_map(|work| work.programs) {
        if built.iter().all(|(name, _)| *name != program.name) {
            built.push((program.name, program.build(profile)?));
        }
    }
    Ok(built.into_iter().map(|(_, path)| path).collect())
}

impl Program {
    fn build(&self, profile: &str) -> Result<PathBuf, String> {
        let args = [&["build", "--profile", profile, "--message-format=json-render-diagnostics"], self.cargo]
            .concat();
        let done = run::Job::cargo(&args).env("CARGO_TERM_COLOR", "never").quiet().run()?;
        if !done.status.success() {
            done.output.lines().filter(|line| !line.starts_with('{')).for_each(|line| println!("{line}"));
            return Err(format!("cargo build --profile {profile} {} {}", self.cargo.join(" "), done.how()));
        }
        println!("built {} in {:.1} s", self.name, done.seconds);
        let built = executable(&done.output, self.name);
        self.under_its_name(built.ok_or_else(|| format!("cargo built no program {}", self.name))?)
    }

    /// A test's program has a number in its name, which is another after every change.
    fn under_its_name(&self, path: PathBuf) -> Result<PathBuf, String> {
        if path.file_name().is_some_and(|file| file == self.name) {
            return Ok(path);
        }
        let dir = root().join("target/verbs/programs");
        let to = dir.join(self.name);
        let copied = std::fs::create_dir_all(&dir).and_then(|()| std::fs::copy(&path, &to));
        copied.map(|_| to).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The program of this name among those that cargo says it built.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is = |path: &Path| {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        file == name || file.rsplit_once('-').is_some_and(|(test, _)| test == name)
    };
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
    fn a_built_program_is_found_in_cargos_messages() {
        let messages =
            "Compiling\n{\"executable\":null}\n{\"executable\":\"/t/release/examples/conformance\"}\n";
        assert_eq!(executable(messages, "conformance"), Some("/t/release/examples/conformance".into()));
        assert_eq!(executable(messages, "barn"), None);
        let test = "{\"executable\":\"/t/release/deps/verbs_device-0123abcd\"}\n";
        assert_eq!(executable(test, "verbs_device"), Some("/t/release/deps/verbs_device-0123abcd".into()));
    }
}
