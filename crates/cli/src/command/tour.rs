//! `barn` with no command: what this machine is, and what to do next.

use std::io::{self, Write};

use anstyle::Style;

use crate::command::Exit;
use crate::doctor::{self, Status};
use crate::machine::Source;

const NEXT: [(&str, &str); 4] = [
    ("barn doctor", "what this machine offers Barn, and how to lift each limit"),
    ("barn serve", "start a node"),
    ("barn bench fabric", "measure reads and messages beside this machine's own limits"),
    ("barn --help", "everything else"),
];

/// Prints two lines about the machine, then what to do next.
pub fn run(json: bool) -> io::Result<Exit> {
    let diagnosis = doctor::examine(&Source::live());
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &diagnosis.machine)?;
        writeln!(out)?;
        return Ok(Exit::Ok);
    }
    writeln!(out, "{}", diagnosis.machine.summary())?;
    writeln!(
        out,
        "{} things are good for Barn here, {} worth a note, {} limit it.",
        diagnosis.count(Status::Good),
        diagnosis.count(Status::Note),
        diagnosis.count(Status::Limits),
    )?;
    writeln!(out, "\nWhat to do next:")?;
    let bold = Style::new().bold();
    for (command, purpose) in NEXT {
        writeln!(out, "  {bold}{command:<18}{bold:#}  {purpose}")?;
    }
    Ok(Exit::Ok)
}
