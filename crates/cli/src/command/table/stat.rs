//! `barn table stat`: what a table holds and how it fares.

use std::io::{self, Write};

use barn::{Kind, TableInfo, TableStats};
use serde_json::{Value, json};

use crate::bytes::human;
use crate::command::{Exit, print_json};
use crate::node::{NodeArgs, open_table};

/// Which table; its help is on [`super::Action::Stat`].
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  barn table stat default\n  barn table stat sessions --json | jq .hit_rate"
)]
pub struct Args {
    /// Its name.
    pub name: String,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Asks the table's nodes and prints what they say, all together.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let barn = args.node.connect()?;
    let stats = open_table(&barn, &args.name)?.stats().map_err(io::Error::other)?;
    let tables = barn.tables().map_err(io::Error::other)?;
    let dropped = || io::Error::other(format!("table `{}` has just been dropped", args.name));
    let table = tables.iter().find(|table| table.name == args.name).ok_or_else(dropped)?;
    if json {
        print_json(&document(table, &stats)?)?;
    } else {
        print(table, &stats)?;
    }
    Ok(Exit::Ok)
}

/// A part of a whole; nothing where there is no whole.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn document(table: &TableInfo, stats: &TableStats) -> io::Result<Value> {
    let mut object = super::describe(&table.name, &table.options, table.shards);
    let shards = &stats.shards;
    if let Value::Object(counts) = serde_json::to_value(shards)? {
        object.extend(counts);
    }
    for (name, value) in [
        ("bytes_per_entry", ratio(shards.memory_bytes, shards.keys)),
        ("fill", ratio(shards.keys, shards.slots)),
        ("hit_rate", ratio(shards.hits, shards.gets)),
    ] {
        object.insert(name.into(), json!(value));
    }
    Ok(object.into())
}

fn print(table: &TableInfo, stats: &TableStats) -> io::Result<()> {
    let shards = &stats.shards;
    let percent =
        |part, whole| ratio(part, whole).map_or("-".into(), |part| format!("{:.1} %", part * 100.0));
    let each = |bytes| ratio(bytes, shards.keys).map_or("-".into(), |bytes| format!("{bytes:.0} B"));
    let plural = if table.shards == 1 { "" } else { "s" };
    let mut lines = vec![
        ("table", format!("{}: {}, {} shard{plural}", table.name, table.options.kind, table.shards)),
        (
            "durability",
            super::durability(&table.options).map_or("what the node does".into(), |it| it.to_string()),
        ),
        ("keys", shards.keys.to_string()),
        (
            "keys and values",
            format!("{}, {} an entry", human(shards.payload_bytes), each(shards.payload_bytes)),
        ),
        ("memory", format!("{}, {} an entry", human(shards.memory_bytes), each(shards.memory_bytes))),
        match table.options.kind {
            Kind::Tree => ("nodes", shards.nodes.to_string()),
            _ => ("fill", format!("{} of {} places", percent(shards.keys, shards.slots), shards.slots)),
        },
    ];
    if table.options.kind == Kind::Hopscotch {
        lines.push((
            "overflow",
            format!("{} keys, {}", shards.overflowed, percent(shards.overflowed, shards.keys)),
        ));
    }
    if table.options.kind != Kind::Cache {
        lines.push(("moves", format!("{}, to make room", shards.moves)));
        lines.push(("grown", format!("{} times", shards.grown)));
    }
    let hits = match shards.gets {
        0 => "none asked of the node".into(),
        gets => format!("{gets} answered by the node, {} of them hits", percent(shards.hits, gets)),
    };
    lines.push(("gets", hits));
    lines.push(("updates", format!("{}, and {} combined", shards.updates, shards.combined)));
    if table.options.kind == Kind::Cache {
        lines.push(("evicted", format!("{}, to make room", shards.evicted)));
    }
    lines.push(("expired", shards.expired.to_string()));
    let mut out = anstream::stdout().lock();
    for (name, figure) in lines {
        writeln!(out, "{name:<16} {figure}")?;
    }
    Ok(())
}
