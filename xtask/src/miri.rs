//! Miri: undefined behaviour and weak memory, where a nightly toolchain has it.
//!
//! A test for Miri is a unit test whose path contains `miri`: small, without system calls
//! that Miri lacks, and the same source as loom checks.

use crate::run::{Job, works};
use crate::{Outcome, Stage};

/// The packages that have tests for Miri.
const PACKAGES: [&str; 1] = ["barn-fabric"];
/// Each seed is another schedule and other stale values for weak loads; some 3 s each.
const SEEDS: &str = "-Zmiri-many-seeds=0..8 -Zmiri-disable-isolation";

/// Whether a nightly toolchain with Miri is installed.
pub(crate) fn present() -> bool {
    works("cargo", &["+nightly", "miri", "--version"])
}

pub(crate) fn stage() -> Stage {
    if !present() {
        return Ok(Outcome::Skipped(
            "no nightly toolchain with Miri; install with: rustup toolchain install nightly -c miri -c rust-src".into(),
        ));
    }
    let mut count = 0;
    for package in PACKAGES {
        let args =
            ["+nightly", "miri", "test", "-p", package, "--lib", "--target-dir", "target/miri", "miri"];
        let done = Job::cargo(&args).env("MIRIFLAGS", SEEDS).succeed("Miri")?;
        match done.tests_passed() {
            0 => {
                return Err(format!("{package} has no tests for Miri: nothing was checked"));
            }
            some => count += some,
        }
    }
    Ok(Outcome::Passed(format!("{count} runs, over all seeds")))
}
