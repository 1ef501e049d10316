//! `cargo xtask verbs`: real RDMA verbs without RDMA hardware.
//!
//! Hosts that tests run on have no RDMA device, and may load no kernel module. So a Debian kernel
//! is booted in qemu, where two software RoCE devices (`rdma_rxe`) talk to each other through the
//! kernel's own verbs. What it shows is that our calls are right; what it does not show is speed:
//! the processor is emulated, 10 to 30 times slower.
//!
//! What always holds: nothing is installed but packages that the stage names; a run ends within a
//! time that is known when it starts; how it failed is told apart (`verdict.rs`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::root;
use crate::{Outcome, Stage};

mod archive;
mod checks;
mod compare;
mod console;
mod image;
mod jobs;
mod kernel;
mod libraries;
mod machine;
mod packages;
mod perftest;
mod verdict;
mod work;

use jobs::Job;
use machine::{Boot, Guest};
use work::{WORK, Work};

/// From power on to devices: 10 to 20 s where nothing else runs. Neighbours on the same processors
/// have been seen to double that.
const BOOT_SECONDS_MAX: u64 = 120;
/// What killing a job that is late may take, and what lies between jobs.
const BETWEEN_SECONDS_MAX: u64 = 5;
const MEMORY_MIB: u64 = 2048;
/// Two guests share the processors of one.
const MEMORY_OF_TWO_MIB: u64 = 1024;

/// What to run in the guest.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Run this shell command instead of the stage's jobs. Its variables A_IP, A_DEV, A_GID and
    /// B_IP, B_DEV, B_GID name the two ends; ROLE is one, a or b.
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// A program that is put into the guest's /bin, with its libraries. May be given several times.
    #[arg(long, value_name = "PATH", requires = "run")]
    with: Vec<PathBuf>,
    /// How long the command may take.
    #[arg(long, default_value_t = 5, requires = "run")]
    minutes: u64,
    /// Boot two guests with a network between them. The stage's jobs run between the two; a command
    /// runs in both.
    #[arg(long)]
    two: bool,
    /// Only the stage's jobs whose name contains this; several with commas.
    #[arg(long, value_name = "TEXT", default_value = "", conflicts_with = "run")]
    jobs: String,
}

/// The jobs that every test run has, so that the stage stays below eight minutes: each way to carry messages,
/// each style, every checker. The others, among them the benchmarks, are for `cargo xtask verbs`.
const STAGE: [&str; 10] = [
    "read-latency",
    "read-rate",
    "doctor",
    "conformance-ring",
    "conformance-herd-runtime",
    "device",
    "racing",
    "tables",
    "transactions",
    "without-library",
];

pub(crate) fn stage() -> Stage {
    let args = Args { run: None, with: Vec::new(), minutes: 0, two: false, jobs: String::new() };
    let first = perform(&args, |name| STAGE.contains(&name));
    let late = first.as_ref().err().and_then(|why| only_late(why));
    let (Err(why), Some(late)) = (&first, late) else { return first };
    // Real processes on an emulated processor: who only was late has a second go, and is named.
    println!("late, and tried once more in another guest: {}", late.join(", "));
    match perform(&args, |name| late.contains(&name))? {
        Outcome::Passed(again) => {
            Ok(Outcome::Passed(format!("FLAKY: {}; first: {why}; again: {again}", late.join(", "))))
        }
        skipped @ Outcome::Skipped(_) => Ok(skipped),
    }
}

/// The jobs whose time was up, if nothing else has failed.
fn only_late(why: &str) -> Option<Vec<&'static str>> {
    let is_late = |name: &&str| why.contains(&format!("; {name} was stopped: its "));
    let late: Vec<&str> = STAGE.into_iter().filter(is_late).collect();
    let all = why.contains(&format!(", {} failed,", late.len()));
    (all && !late.is_empty()).then_some(late)
}

pub(crate) fn run(args: &Args) -> Stage {
    perform(args, |name| args.jobs.split(',').any(|text| name.contains(text)))
}

fn perform(args: &Args, is_wanted: impl Fn(&str) -> bool) -> Stage {
    let dir = root().join("target/verbs");
    if let Err(why) = packages::demand().and_then(|()| kernel::demand(&dir)) {
        // Whoever asks for a command is told that it did not run; a stage may be skipped.
        return if args.run.is_some() { Err(why) } else { Ok(Outcome::Skipped(why)) };
    }
    if let Some(command) = &args.run {
        let seconds_max = args.minutes.max(1) * 60;
        let job = Job { name: "run".into(), server: None, command: command.clone(), seconds_max };
        // ldd is run elsewhere, so that a relative path would not do.
        let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|error| error.to_string());
        let programs: Vec<PathBuf> = args.with.iter().map(absolute).collect::<Result<_, _>>()?;
        return boot(&dir, &[job], &programs, args.two);
    }
    let chosen = |work: &&Work| is_wanted(work.name) && (work.between_hosts() || !args.two);
    let work: Vec<&Work> = WORK.iter().filter(chosen).collect();
    if work.is_empty() {
        let names: Vec<String> = WORK.iter().map(|work| work.job().name).collect();
        return Err(format!("no job has `{}` in its name; there are: {}", args.jobs, names.join(", ")));
    }
    let programs = work::programs(&work)?;
    let jobs: Vec<Job> = work.iter().map(|work| work.job()).collect();
    boot(&dir, &jobs, &programs, args.two)
}

fn boot(dir: &Path, jobs: &[Job], programs: &[PathBuf], two: bool) -> Stage {
    forget(dir);
    let runs = dir.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&runs).map_err(|error| format!("{}: {error}", runs.display()))?;
    let kernel = kernel::get(dir)?;
    let initramfs = runs.join("initramfs");
    let bytes = image::build(&kernel, programs, jobs)?;
    println!("kernel {}, initramfs of {} MiB", kernel.version, bytes.len() >> 20);
    fs::write(&initramfs, bytes).map_err(|error| format!("{}: {error}", initramfs.display()))?;
    // Two guests on the same processors take twice as long.
    let slower = if two { 2 } else { 1 };
    let jobs_seconds: u64 = jobs.iter().map(|job| job.seconds_max + BETWEEN_SECONDS_MAX).sum();
    let boot = Boot {
        kernel: &kernel,
        initramfs: &initramfs,
        dir: &runs,
        memory_mib: if two { MEMORY_OF_TWO_MIB } else { MEMORY_MIB },
        seconds_max: slower * BOOT_SECONDS_MAX + jobs_seconds,
    };
    let guests = if two { Guest::pair(&runs) } else { vec![Guest::alone()] };
    let reports = machine::run(&boot, &guests);
    // What is left is small: the kernels' messages, for whoever asks why.
    let _ = fs::remove_file(&initramfs);
    verdict::all(&reports?, jobs)
}

/// Removes what earlier runs have left. Those that still run keep theirs.
fn forget(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_prefix("run-") else { continue };
        if !Path::new("/proc").join(id).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_late_and_nothing_else_has_a_second_go() {
        let late =
            "9 jobs passed, 1 failed, boot 8 s, jobs 90 s; transactions was stopped: its 120 s were up";
        assert_eq!(only_late(late), Some(vec!["transactions"]));
        let both =
            "8 jobs passed, 2 failed, boot 8 s, jobs 90 s; racing: torn; tables was stopped: its 9 s were up";
        assert_eq!(only_late(both), None, "one of them failed by itself");
        assert_eq!(only_late("qemu died"), None);
        assert_eq!(only_late("10 jobs passed, 0 failed, boot 8 s"), None);
    }
}
