//! `barn table list`: the tables that there are.

use std::io::{self, Write};

use barn::{Barn, TableInfo, TableStats};
use serde_json::Value;

use crate::bytes::human;
use crate::command::{Exit, print_json};
use crate::node::NodeArgs;

/// Whom to ask; its help is on [`super::Action::List`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn table list\n  barn table list --json | jq -r '.[].name'")]
pub struct Args {
    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Lists them.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let barn = args.node.connect()?;
    let tables = barn.tables().map_err(io::Error::other)?;
    // A table of which a node is away is listed all the same, without figures.
    let tables: Vec<_> = tables.into_iter().map(|table| (stats(&barn, &table), table)).collect();
    if json {
        print_json(&tables.iter().map(|(stats, table)| document(stats.as_ref(), table)).collect())?;
        return Ok(Exit::Ok);
    }
    let mut out = anstream::stdout().lock();
    if tables.is_empty() {
        writeln!(out, "no tables yet: `barn put KEY VALUE` makes the first")?;
        return Ok(Exit::Ok);
    }
    let width = tables.iter().map(|(_, table)| table.name.len()).max().unwrap_or(0).max("table".len());
    writeln!(
        out,
        "{:<width$}  {:<9}  {:<10}  {:>6}  {:>12}  {:>10}",
        "table", "kind", "durability", "shards", "keys", "memory"
    )?;
    for (stats, table) in &tables {
        let (keys, memory) = match stats {
            Some(stats) => (stats.shards.keys.to_string(), human(stats.shards.memory_bytes)),
            None => ("?".into(), "?".into()),
        };
        let kind = table.options.kind.to_string();
        let durability = super::durability(&table.options).map_or("-".into(), |it| it.to_string());
        writeln!(
            out,
            "{:<width$}  {kind:<9}  {durability:<10}  {:>6}  {keys:>12}  {memory:>10}",
            table.name, table.shards
        )?;
    }
    Ok(Exit::Ok)
}

fn stats(barn: &Barn, table: &TableInfo) -> Option<TableStats> {
    barn.open_table(&table.name).and_then(|table| table.stats()).ok()
}

fn document(stats: Option<&TableStats>, table: &TableInfo) -> Value {
    let mut object = super::describe(&table.name, &table.options, table.shards);
    if let Some(stats) = stats {
        object.insert("keys".into(), stats.shards.keys.into());
        object.insert("memory_bytes".into(), stats.shards.memory_bytes.into());
    }
    object.into()
}
