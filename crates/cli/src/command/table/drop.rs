//! `barn table drop`: drops a table, once it is clear that this is meant.

use std::io::{self, IsTerminal, Write};

use serde_json::json;

use crate::command::{Exit, no, print_json, say, usage};
use crate::node::{NodeArgs, explained, open_table};

/// What to drop; its help is on [`super::Action::Drop`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn table drop sessions --yes")]
pub struct Args {
    /// Its name.
    pub name: String,

    /// Do not ask. Needed where nobody can be asked: in scripts.
    #[arg(short, long)]
    pub yes: bool,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Drops it.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    if !args.yes && !is_asked() {
        return Err(usage("nobody is there to be asked: --yes drops the table without a question".into()));
    }
    let barn = args.node.connect()?;
    if !args.yes {
        let table = open_table(&barn, &args.name)?;
        let keys = table.stats().map_or_else(|_| "its".into(), |stats| stats.shards.keys.to_string());
        if !confirmed(&format!("Drop table `{}` with {keys} keys? [y/N] ", args.name))? {
            return Ok(no("nothing was dropped"));
        }
    }
    barn.drop_table(&args.name).map_err(|error| explained(&barn, error))?;
    if json {
        print_json(&json!({ "name": args.name, "dropped": true }))?;
    } else {
        say(&format!("dropped table {}", args.name))?;
    }
    Ok(Exit::Ok)
}

/// Whether somebody is there to be asked.
pub(in crate::command) fn is_asked() -> bool {
    io::stdin().is_terminal()
}

/// Asks on the terminal.
pub(in crate::command) fn confirmed(question: &str) -> io::Result<bool> {
    let mut err = anstream::stderr();
    write!(err, "{question}")?;
    err.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
