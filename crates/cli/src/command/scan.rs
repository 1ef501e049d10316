//! `barn scan`: the keys of a table, as they come.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};

use barn::{Error, Found, Kind, Table};
use serde_json::Value;

use crate::command::key::TableArgs;
use crate::command::{Exit, usage};
use crate::entry;

/// What to list; its help is on [`super::Command::Scan`].
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  barn scan --prefix user: --limit 10\n  barn scan --json | jq -r .key\n  \
    barn scan --table events --from 2026-11-01 --to 2026-12-01"
)]
pub struct Args {
    /// Only keys that begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<OsString>,

    /// From this key on (tree).
    #[arg(long, value_name = "KEY")]
    pub from: Option<OsString>,

    /// Before this key (tree).
    #[arg(long, value_name = "KEY")]
    pub to: Option<OsString>,

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

/// Keys with what they have.
type Walk = Box<dyn Iterator<Item = Result<(Vec<u8>, Found), Error>>>;

impl Args {
    /// The part of the table that is asked for; of a table without an order, all of it.
    fn walk(&self, table: &Table, prefix: &[u8]) -> io::Result<Walk> {
        let end = |key: &Option<OsString>| key.as_ref().map(|key| self.table.key(key)).transpose();
        let (from, to) = (end(&self.from)?, end(&self.to)?);
        if table.options().kind != Kind::Tree {
            if from.is_some() || to.is_some() {
                return Err(usage(format!(
                    "--from and --to are for tables of the kind tree, and {} is {}: its keys are in no order",
                    self.table.table,
                    table.options().kind
                )));
            }
            return Ok(Box::new(table.scan()));
        }
        let from = from.unwrap_or_default().max(prefix.to_vec());
        let to = [to, after_prefix(prefix)].into_iter().flatten().min();
        let range = table.range(&from, to.as_deref());
        Ok(Box::new(range.at_most(self.limit.unwrap_or(usize::MAX))))
    }
}

/// The least key after all that begin so; none if there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

/// Walks through the table and prints a line for each key.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let prefix = args.prefix.as_ref().map(|prefix| args.table.key(prefix)).transpose()?.unwrap_or_default();
    let table = args.table.open()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut walk = args.walk(&table, &prefix)?;
    // Not one page more than what was asked for.
    while left > 0 {
        let Some(next) = walk.next() else { break };
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

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn what_comes_after_a_prefix_is_the_least_that_does_not_begin_so() {
        assert_eq!(after_prefix(b"user:"), Some(b"user;".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
