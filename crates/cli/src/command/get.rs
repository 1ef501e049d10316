//! `barn get`: the values of keys.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use barn::{Answers, Found, Way};
use serde_json::Value;

use crate::command::key::{TableArgs, is_lone_dash};
use crate::command::{Exit, one_of};
use crate::duration;
use crate::entry;

/// What to look up; its help is on [`super::Command::Get`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn get greeting\n  barn get --json user:1 user:2 | jq '.[].value'")]
pub struct Args {
    /// The keys; `-` alone takes them from standard input, one a line, as `barn scan --keys-only` prints
    /// them.
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,

    /// How the table is read: by this process itself (one-sided), by asking the node (request), or
    /// whichever is faster (auto).
    #[arg(long, default_value = "auto", value_parser = one_of::<Way>(Way::CHOICES.map(Way::name)))]
    pub way: Way,

    /// Say version and expiry, too, on standard error.
    #[arg(short, long)]
    pub verbose: bool,

    /// Where the keys are.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Looks the keys up and prints what they have.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let keys = args.table.keys(&args.keys)?;
    let table = args.table.open()?.read_by(args.way);
    let wanted: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut answers = Answers::new();
    table.find_many(&wanted, &mut answers).map_err(io::Error::other)?;

    let mut exit = Exit::Ok;
    let alone = keys.len() == 1 && !is_lone_dash(&args.keys);
    if json {
        print_json(alone, &keys, &answers)?;
    }
    for (key, found) in keys.iter().zip(answers.iter()) {
        let Some(found) = found else {
            exit = args.table.missing(key);
            continue;
        };
        if !json {
            print(alone, key, found)?;
        }
        if args.verbose {
            explain(alone, key, found);
        }
    }
    Ok(exit)
}

/// One object for one key, an array for several.
fn print_json(alone: bool, keys: &[Vec<u8>], answers: &Answers) -> io::Result<()> {
    let mut entries = keys.iter().zip(answers.iter()).map(|(key, found)| {
        let mut object = entry::named(key);
        object.insert("found".into(), found.is_some().into());
        if let Some(found) = found {
            entry::describe(&mut object, found);
        }
        Value::from(object)
    });
    let document = if alone { entries.next().unwrap_or_default() } else { entries.collect() };
    super::print_json(&document)
}

/// The very bytes for one key, a line each for several.
fn print(alone: bool, key: &[u8], found: &Found) -> io::Result<()> {
    // Not through `anstream`, which takes escapes out of what is piped: a value is a value.
    let mut out = io::stdout().lock();
    if !alone {
        return writeln!(out, "{}\t{}", entry::line(key), entry::line(&found.value));
    }
    out.write_all(&found.value)?;
    if out.is_terminal() {
        writeln!(out)?;
    }
    out.flush()
}

fn explain(alone: bool, key: &[u8], found: &Found) {
    let name = if alone { String::new() } else { format!("{}: ", entry::line(key)) };
    let expiry = match entry::left_ms(found) {
        Some(left) => format!("expires in {}", duration::human(left)),
        None => "does not expire".into(),
    };
    anstream::eprintln!("{name}version {}, {} bytes, {expiry}", found.version, found.value.len());
}
