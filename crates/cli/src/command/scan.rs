//! `barn scan`: the keys of a table, as they come.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use serde_json::Value;

use crate::command::Exit;
use crate::command::key::TableArgs;
use crate::entry;

/// What to list; its help is on [`super::Command::Scan`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn scan --prefix user: --limit 10\n  barn scan --json | jq -r .key")]
pub struct Args {
    /// Only keys that begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<OsString>,

    /// At most so many [default: all].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,

    /// Leave the values out.
    #[arg(long)]
    pub keys_only: bool,

    /// Where the keys are.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Walks through the table and prints a line for each key.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let prefix = args.prefix.as_ref().map(|prefix| args.table.key(prefix)).transpose()?.unwrap_or_default();
    let table = args.table.open()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut scan = table.scan();
    // Not one page more than what was asked for.
    while left > 0 {
        let Some(next) = scan.next() else { break };
        let (key, found) = next.map_err(io::Error::other)?;
        if !key.starts_with(&prefix) {
            continue;
        }
        left -= 1;
        if json {
            let mut object = entry::named(&key);
            if !args.keys_only {
                entry::describe(&mut object, &found);
            }
            serde_json::to_writer(&mut out, &Value::from(object))?;
            writeln!(out)?;
        } else if args.keys_only {
            writeln!(out, "{}", entry::line(&key))?;
        } else {
            writeln!(out, "{}\t{}", entry::line(&key), entry::line(&found.value))?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}
