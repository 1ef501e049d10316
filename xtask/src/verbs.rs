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
mod console;
mod image;
mod jobs;
mod kernel;
mod libraries;
mod machine;
mod packages;
mod verdict;

use jobs::Job;
use machine::{Boot, Guest, Report};

/// From power on to devices: about 20 s where nothing else runs; three busy neighbours make it slower.
const BOOT_SECONDS_MAX: u64 = 120;
const MEMORY_MIB: u64 = 2048;

/// What to run in the guest.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Run this shell command instead of the stage's jobs. Its variables A_IP, A_DEV, A_GID and
    /// B_IP, B_DEV, B_GID name the two ends.
    #[arg(long, value_name = "COMMAND")]
    run: Option<String>,
    /// A program that is put into the guest's /bin, with its libraries. May be given several times.
    #[arg(long, value_name = "PATH", requires = "run")]
    with: Vec<PathBuf>,
    /// How long the command may take.
    #[arg(long, default_value_t = 5, requires = "run")]
    minutes: u64,
}

pub(crate) fn run(args: &Args) -> Stage {
    if let Some(command) = &args.run {
        let job = Job {
            name: "run".into(),
            server: None,
            command: command.clone(),
            seconds_max: args.minutes.max(1) * 60,
        };
        return boot(&[job], &args.with);
    }
    Err("say what to run: --run COMMAND".into())
}

fn boot(jobs: &[Job], programs: &[PathBuf]) -> Stage {
    if let Err(why) = packages::demand() {
        return Ok(Outcome::Skipped(why));
    }
    let dir = root().join("target/verbs");
    forget(&dir);
    let runs = dir.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&runs).map_err(|error| format!("{}: {error}", runs.display()))?;
    let kernel = kernel::get(&dir)?;
    let initramfs = runs.join("initramfs");
    let bytes = image::build(&kernel, programs, jobs)?;
    println!("kernel {}, initramfs of {} MiB", kernel.version, bytes.len() >> 20);
    fs::write(&initramfs, bytes).map_err(|error| format!("{}: {error}", initramfs.display()))?;
    let boot = Boot {
        kernel: &kernel,
        initramfs: &initramfs,
        dir: &runs,
        memory_mib: MEMORY_MIB,
        seconds_max: BOOT_SECONDS_MAX + jobs.iter().map(|job| job.seconds_max + 5).sum::<u64>(),
    };
    let guests = [Guest { role: "one", network: Vec::new() }];
    let reports = machine::run(&boot, &guests);
    // What is left is small: the kernels' messages, for whoever asks why.
    let _ = fs::remove_file(&initramfs);
    conclude(&reports?)
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

/// One line about all jobs of all guests.
fn conclude(reports: &[Report]) -> Stage {
    for report in reports {
        verdict::of(report)?;
    }
    let jobs: Vec<_> = reports.iter().flat_map(|report| &report.transcript.jobs).collect();
    let ended = || jobs.iter().filter_map(|job| Some((&job.name, job.ended.as_ref()?)));
    let failed: Vec<String> =
        ended().filter(|(_, ended)| !ended.well()).map(|(name, ended)| format!("{name} {ended}")).collect();
    let job_seconds = ended().map(|(_, ended)| ended.milliseconds).sum::<u64>() as f64 / 1000.0;
    let boot_seconds = reports.iter().map(|report| report.boot_seconds).fold(0.0, f64::max);
    let line = format!(
        "{} jobs passed, {} failed, boot {boot_seconds:.0} s, jobs {job_seconds:.0} s",
        jobs.len() - failed.len(),
        failed.len()
    );
    if failed.is_empty() { Ok(Outcome::Passed(line)) } else { Err(format!("{line}: {}", failed.join("; "))) }
}
