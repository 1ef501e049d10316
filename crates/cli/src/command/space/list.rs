//! `barn space list`: the spaces that there are.

use std::io::{self, Write};

use barn::space::SpaceInfo;
use serde_json::{Value, json};

use super::{failed, role};
use crate::bytes::human;
use crate::command::{Exit, print_json};
use crate::node::NodeArgs;

/// Whom to ask; its help is on [`super::Action::List`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn space list\n  barn space list --json | jq -r '.[].name'")]
pub struct Args {
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Lists them.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let barn = args.node.connect()?;
    let mut spaces = barn.spaces().list().map_err(failed)?;
    spaces.sort_by(|one, other| one.name.cmp(&other.name));
    if json {
        print_json(&spaces.iter().map(|space| document(space, json!(space.ranges.len()))).collect())?;
        return Ok(Exit::Ok);
    }
    let mut out = anstream::stdout().lock();
    if spaces.is_empty() {
        writeln!(out, "no spaces yet: `barn space create NAME` makes the first")?;
        return Ok(Exit::Ok);
    }
    let width = spaces.iter().map(|space| space.name.len()).max().unwrap_or(0).max("space".len());
    writeln!(
        out,
        "{:<width$}  {:>8}  {:>10}  {:>10}  {:>6}  {:>8}  everyone",
        "space", "chunk", "reserved", "used", "ranges", "sessions"
    )?;
    for space in &spaces {
        writeln!(
            out,
            "{:<width$}  {:>8}  {:>10}  {:>10}  {:>6}  {:>8}  {}",
            space.name,
            human(space.chunk_bytes),
            human(space.reserved_bytes),
            human(space.used_bytes),
            space.ranges.len(),
            space.sessions,
            role(space.everyone)
        )?;
    }
    Ok(Exit::Ok)
}

/// A space in JSON.
pub(super) fn document(space: &SpaceInfo, ranges: Value) -> Value {
    json!({
        "name": space.name, "chunk_bytes": space.chunk_bytes, "everyone": role(space.everyone),
        "reserved_bytes": space.reserved_bytes, "used_bytes": space.used_bytes,
        "sessions": space.sessions, "ranges": ranges,
    })
}
