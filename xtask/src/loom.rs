//! Loom: the copy, ring and reclamation protocols under every interleaving and reordering.
//!
//! A loom test is a unit test whose path contains `loom`, compiled under `cfg(loom)`. It has
//! a target directory of its own, because its flags differ from those of every other build and
//! sharing one would rebuild the world twice.

use crate::run::Job;
use crate::{Outcome, Stage};

/// The packages that have loom tests.
const PACKAGES: [&str; 3] = ["barn-fabric", "barn-heap", "barn-transaction"];

pub(crate) fn stage() -> Stage {
    let mut count = 0;
    for package in PACKAGES {
        // Release: loom explores some ten times more interleavings in the same time.
        let args =
            ["test", "-p", package, "--profile", "checkers", "--lib", "--target-dir", "target/loom", "loom"];
        let done = Job::cargo(&args).env("RUSTFLAGS", "--cfg loom").succeed("loom")?;
        // A filter that matches nothing passes; a gate must not.
        match done.tests_passed() {
            0 => return Err(format!("{package} has no loom tests: nothing was checked")),
            some => count += some,
        }
    }
    Ok(Outcome::Passed(format!("{count} models explored")))
}
