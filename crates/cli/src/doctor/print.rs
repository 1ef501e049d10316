//! The diagnosis for people: grouped, aligned, coloured where the output is a terminal.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use super::{Check, Diagnosis, Status};

fn mark(status: Status) -> (Style, &'static str) {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into())).bold();
    match status {
        Status::Good => (colour(AnsiColor::Green), "good"),
        Status::Note => (colour(AnsiColor::Yellow), "note"),
        Status::Limits => (colour(AnsiColor::Red), "limits"),
    }
}

/// Prints everything found. Styles are written as escapes; the writer (anstream) drops them
/// where the output is no terminal or NO_COLOR is set.
pub fn print(out: &mut impl Write, diagnosis: &Diagnosis, why_good: bool) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "{}", diagnosis.machine.summary())?;
    let width = diagnosis.checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut group = "";
    for check in &diagnosis.checks {
        if check.group != group {
            group = check.group;
            writeln!(out, "\n{bold}{group}{bold:#}")?;
        }
        line(out, check, width, why_good)?;
    }
    let [good, note, limits] =
        [Status::Good, Status::Note, Status::Limits].map(|status| diagnosis.count(status));
    writeln!(out, "\n{bold}{good} good, {note} notes, {limits} limits{bold:#}")
}

fn line(out: &mut impl Write, check: &Check, width: usize, why_good: bool) -> io::Result<()> {
    let (style, word) = mark(check.status);
    let dim = Style::new().dimmed();
    let (name, found) = (check.name, &check.found);
    writeln!(out, "  {style}{word:<6}{style:#}  {name:<width$}  {found}")?;
    let indent = " ".repeat(width + 12);
    if why_good || check.status != Status::Good {
        writeln!(out, "{indent}{dim}why: {}{dim:#}", check.why)?;
    }
    if let Some(fix) = &check.fix {
        writeln!(out, "{indent}fix: {fix}")?;
    }
    Ok(())
}
