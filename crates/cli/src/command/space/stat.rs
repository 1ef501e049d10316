//! `barn space stat`: a space and its ranges.

use std::io::{self, Write};

use serde_json::Value;

use super::{failed, list, role};
use crate::bytes::human;
use crate::command::{Exit, print_json};
use crate::node::NodeArgs;

/// Which space; its help is on [`super::Action::Stat`].
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  barn space stat images\n  barn space stat images --json | jq '.ranges[].address'"
)]
pub struct Args {
    /// Its name.
    pub name: String,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Asks the master and prints what it says.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let barn = args.node.connect()?;
    let space = barn.spaces().stat(&args.name).map_err(failed)?;
    if json {
        let ranges: Value = serde_json::to_value(&space.ranges)?;
        print_json(&list::document(&space, ranges))?;
        return Ok(Exit::Ok);
    }
    let mut out = anstream::stdout().lock();
    for (name, figure) in [
        ("space", space.name.clone()),
        ("chunks", format!("of {}", human(space.chunk_bytes))),
        ("reserved", human(space.reserved_bytes)),
        ("used", human(space.used_bytes)),
        ("sessions", space.sessions.to_string()),
        ("everyone", role(space.everyone).to_string()),
    ] {
        writeln!(out, "{name:<10} {figure}")?;
    }
    if !space.ranges.is_empty() {
        writeln!(out, "\n{:>18}  {:>10}  {:>8}  {:>6}  kind", "address", "bytes", "version", "holds")?;
    }
    for range in &space.ranges {
        let mut kind = if range.copy_on_write { "copy-on-write".to_string() } else { "plain".into() };
        if range.writer {
            kind += ", being written";
        }
        if range.lost {
            kind += ", LOST in part with its node";
        }
        writeln!(
            out,
            "{:>#18x}  {:>10}  {:>8}  {:>6}  {kind}",
            range.address,
            human(range.bytes),
            range.version,
            range.holds
        )?;
    }
    Ok(Exit::Ok)
}

/// What a range is in JSON comes from its own type; this is what tests compare with.
#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_range_in_json_has_the_fields_that_help_names() {
        let range = barn::space::RangeInfo {
            address: 1,
            bytes: 2,
            copy_on_write: true,
            version: 3,
            holds: 4,
            writer: false,
            lost: false,
        };
        let expected = json!({ "address": 1, "bytes": 2, "copy_on_write": true, "version": 3, "holds": 4,
            "writer": false, "lost": false });
        assert_eq!(serde_json::to_value(range).expect("serializes"), expected);
    }
}
