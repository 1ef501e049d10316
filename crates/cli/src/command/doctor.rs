//! `barn doctor`: what this machine offers, what limits it, and the command that fixes it.

use std::io::{self, Write};

use crate::command::Exit;
use crate::doctor::{self, Diagnosis, Status};
use crate::machine::Source;

/// The arguments of `barn doctor`; its help is on [`super::Command::Doctor`].
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Exit codes:\n  0  nothing limits Barn\n  3  at least one finding `limits` it")]
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
    if diagnosis.count(Status::Limits) > 0 { Exit::Limited } else { Exit::Ok }
}
