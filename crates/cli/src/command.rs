//! The command line: one variant here and one file below for each command.
//!
//! To add a command: write `command/NAME.rs` with its arguments (`clap::Args`) and a `run`,
//! then add a variant to [`Command`] and an arm to [`dispatch`]. Nothing else knows the list.

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod bench;
pub mod doctor;
pub mod ping;
pub mod serve;
pub mod tour;

/// What a command ended with. The numbers are part of the interface: scripts test them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and nothing to add.
    Ok,
    /// Done, and the doctor found something that limits Barn.
    Limited,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => ExitCode::SUCCESS,
            Exit::Limited => ExitCode::from(3),
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed; the reason is on standard error
  2  the command line was not understood
  3  `barn doctor` found something that limits Barn on this machine";

/// Keeps data in the memory of a group of machines, where any process reads it directly.
///
/// Without a command, Barn shows what this machine is and what to do next.
#[derive(Debug, Parser)]
#[command(name = "barn", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// Print one JSON document on standard output instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Every command of the binary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check what this machine offers Barn, what limits it, and how to lift each limit.
    ///
    /// Nothing is changed: every fix is printed as a command for you to run. A finding is
    /// `good`, a `note` (worth knowing; nothing is lost today) or `limits` (Barn is slower,
    /// smaller or less safe here than it could be).
    ///
    /// With --json the document is { "machine": {…}, "checks": [ { "group", "name",
    /// "status", "found", "why", "fix" } ] }; `fix` is there where something can be done.
    Doctor(doctor::Args),

    /// Start a node: it offers its memory to other processes and answers their requests.
    ///
    /// On defaults it listens for this user's processes on a Unix socket (shm: they read its
    /// memory directly) and on loopback (tcp), and needs no configuration. With --json it prints
    /// one line of JSON once it is ready.
    Serve(serve::Args),

    /// Ask a node whether it is there, what it holds, and how long a round trip takes.
    Ping(ping::Args),

    /// Measure Barn beside the limits of this machine, in the same run.
    ///
    /// With --json the document is { "bench", "machine", "rows" }; a row has name, unit, value,
    /// low, high, better and, where something was measured beside it, beside, beside_value and
    /// ratio (ours over theirs).
    Bench(bench::Args),
}

/// Parses the command line, runs it, and reports a failure on standard error.
pub fn run() -> ExitCode {
    match dispatch(&Cli::parse()) {
        Ok(exit) => exit.into(),
        // `barn doctor | head` closes our output early; that is the reader's choice.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("barn: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: &Cli) -> io::Result<Exit> {
    match &cli.command {
        None => tour::run(cli.json),
        Some(Command::Doctor(args)) => doctor::run(args, cli.json),
        Some(Command::Serve(args)) => serve::run(args, cli.json),
        Some(Command::Ping(args)) => ping::run(args, cli.json),
        Some(Command::Bench(args)) => bench::run(args, cli.json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_may_stand_before_or_after_the_command() {
        for line in [["barn", "--json", "doctor"], ["barn", "doctor", "--json"]] {
            assert!(Cli::try_parse_from(line).expect("parses").json);
        }
    }

    #[test]
    fn help_documents_every_exit_code() {
        let help = Cli::command().render_long_help().to_string();
        for code in ["0  done", "1  failed", "2  the command", "3  `barn doctor`"] {
            assert!(help.contains(code), "{code}");
        }
    }
}
