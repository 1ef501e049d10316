//! Tests, simulates, checks and tidies the workspace: `cargo xtask help`.
//!
//! One file for each command. A command that is also a stage of `cargo xtask test` has a
//! function that returns an [`Outcome`]; the table in `test.rs` is the only list of stages.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod crash;
mod fuzz;
mod guard;
mod layout;
mod licences;
mod linearizable;
mod loom;
mod miri;
mod plants;
mod run;
mod serializable;
mod shuttle;
mod simulate;
mod test;
mod tidy;
mod tools;
mod verbs;

/// How a stage ended well. Ending badly is an `Err` with the reason in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and held; the text says how much ran.
    Passed(String),
    /// It could not run here; the text says why, and what would let it.
    Skipped(String),
}

/// What every stage returns.
pub(crate) type Stage = Result<Outcome, String>;

/// Tests, simulates, checks and tidies the workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything that must hold before a change goes in: the one test command.
    Test(test::Args),
    /// Check the tidiness that a program can check.
    Tidy,
    /// Plant each known bug and demand that its gate catches it.
    Plants(plants::Args),
    /// Run the simulated fabric from seeds; a seed replays exactly.
    Simulate(simulate::Args),
    /// Fuzz the parsers with coverage; needs a C++ compiler and nothing else.
    Fuzz(fuzz::Args),
    /// Check every interleaving of the copy, ring and reclamation protocols.
    Loom,
    /// Explore schedules of commit, recovery and reclamation; a failure prints one that replays.
    Shuttle(shuttle::Args),
    /// Check histories of clients on simulated worlds for strict serializability; a seed replays.
    Serializable(serializable::Args),
    /// Check what clients of tables saw, on real nodes and simulated worlds: one order for each key.
    Linearizable(linearizable::Args),
    /// Kill nodes under load, and compare what they recover with what clients were told.
    Crash(crash::Args),
    /// Run the tests that Miri can run, where a nightly toolchain has it.
    Miri,
    /// Run real RDMA verbs on software RoCE devices, in a virtual machine.
    Verbs(verbs::Args),
    /// Count the instructions of one operation on each hot path, and compare with those that are kept.
    Guard(guard::Args),
    /// Write docs/layout.md from the declarations in crates/layout.
    Layout,
    /// Check licences and sources of all dependencies against deny.toml.
    Licences,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test(args) => return test::run(&args),
        Command::Tidy => tidy::stage(),
        Command::Plants(args) => plants::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Loom => loom::stage(),
        Command::Shuttle(args) => shuttle::run(&args),
        Command::Serializable(args) => serializable::run(&args),
        Command::Linearizable(args) => linearizable::run(&args),
        Command::Crash(args) => crash::run(&args),
        Command::Miri => miri::stage(),
        Command::Verbs(args) => verbs::run(&args),
        Command::Guard(args) => guard::run(&args),
        Command::Layout => layout::run(),
        Command::Licences => licences::stage(),
    };
    match outcome {
        Ok(Outcome::Passed(what)) => {
            println!("passed: {what}");
            ExitCode::SUCCESS
        }
        Ok(Outcome::Skipped(why)) => {
            println!("skipped: {why}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("failed: {why}");
            ExitCode::FAILURE
        }
    }
}
