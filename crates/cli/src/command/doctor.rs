//! `barn doctor`: what this machine offers, what limits it, and the command that fixes it.

use std::io::{self, Write};

use crate::command::Exit;
use crate::doctor::{self, Diagnosis, Status};
use crate::machine::Source;

/// Check what this machine offers Barn, what limits it, and how to lift each limit.
///
/// Nothing is changed: every fix is printed as a command for you to run. Findings are
/// `good`, a `note` (worth knowing, nothing lost today) or `limits` (Barn is slower, smaller
/// or less safe here than it could be). With --json the document is
/// { "machine": {…}, "checks": [ { "group", "name", "status", "found", "why", "fix" } ] }.
#[derive(Debug, Default, clap::Args)]
#[command(
    after_help = "Exit codes:\n  0  nothing limits Barn\n  3  at least one finding `limits` it"
)]
pub struct Args {
    /// Say for good findings, too, why they matter.
    #[arg(long)]
    pub why: bool,
}

/// Examines this machine and prints the diagnosis.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let diagnosis = doctor::examine(&Source::live());
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &diagnosis)?;
        writeln!(out)?;
    } else {
        doctor::print(&mut out, &diagnosis, args.why)?;
    }
    Ok(exit(&diagnosis))
}

fn exit(diagnosis: &Diagnosis) -> Exit {
    if diagnosis.count(Status::Limits) > 0 {
        Exit::Limited
    } else {
        Exit::Ok
    }
}
