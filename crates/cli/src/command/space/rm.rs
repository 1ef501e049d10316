//! `barn space rm`: deletes a space, once it is clear that this is meant.

use std::io;

use serde_json::json;

use super::{KeyArgs, failed};
use crate::bytes::human;
use crate::command::table::drop::{confirmed, is_asked};
use crate::command::{Exit, no, print_json, say, usage};
use crate::node::NodeArgs;

/// What to delete; its help is on [`super::Action::Rm`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn space rm images --key $OWNER_KEY --yes")]
pub struct Args {
    /// Its name.
    pub name: String,

    /// Do not ask. Needed where nobody can be asked: in scripts.
    #[arg(short, long)]
    pub yes: bool,

    /// The key.
    #[command(flatten)]
    pub key: KeyArgs,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Deletes it.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    if !args.yes && !is_asked() {
        return Err(usage("nobody is there to be asked: --yes deletes the space without a question".into()));
    }
    let barn = args.node.connect()?;
    let space = args.key.join(&barn, &args.name)?;
    if !args.yes {
        let info = space.stat().map_err(failed)?;
        let (ranges, used) = (info.ranges.len(), human(info.used_bytes));
        if !confirmed(&format!("Delete space `{}` with {ranges} ranges, {used}? [y/N] ", args.name))? {
            return Ok(no("nothing was deleted"));
        }
    }
    space.delete().map_err(failed)?;
    match json {
        true => print_json(&json!({ "name": args.name, "deleted": true }))?,
        false => say(&format!("deleted space {}", args.name))?,
    }
    Ok(Exit::Ok)
}
