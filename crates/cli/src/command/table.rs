//! `barn table`: makes, lists, describes and drops tables.

use std::io;

use barn::{Durability, TableOptions};
use serde_json::{Map, Value, json};

use crate::command::Exit;

pub mod create;
pub mod drop;
pub mod list;
pub mod stat;

/// What to do with tables.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The action.
    #[command(subcommand)]
    pub action: Action,
}

/// Every action on tables.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Make a table with options of its own. (`barn put` makes one with defaults.)
    ///
    /// Four designs: `hopscotch` (FaRM's: one READ in the common case, and transactions), `cuckoo`
    /// (Pilaf's: entries that prove themselves by checksums), `cache` (HERD's: its memory is fixed, and the
    /// oldest values are forgotten) and `tree` (Cell's: keys of up to 128 bytes in their order, and ranges
    /// of them).
    ///
    /// With --json the document is { "name", "kind", "shards", … }. Ends with 1 if there is a table of
    /// this name.
    Create(create::Args),

    /// List the tables, with how many keys they hold.
    ///
    /// With --json the document is an array of { "name", "kind", "shards", "durability", "keys",
    /// "memory_bytes" }; a durability of null is what the node does.
    List(list::Args),

    /// Show what a table holds and how it fares.
    ///
    /// Gets are counted where the node was asked; a client that reads the memory for itself leaves no
    /// trace there. With --json the document is { "name", "kind", "shards", "keys", … }, bytes unscaled.
    Stat(stat::Args),

    /// Drop a table, with all that is in it.
    ///
    /// With --json the document is { "name", "dropped" }. Ends with 1 if there is none of this name.
    Drop(drop::Args),
}

/// Runs an action.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    match &args.action {
        Action::Create(args) => create::run(args, json),
        Action::List(args) => list::run(args, json),
        Action::Stat(args) => stat::run(args, json),
        Action::Drop(args) => drop::run(args, json),
    }
}

/// A table in JSON: its name, its shards, and the options that mean something for its kind.
fn describe(name: &str, options: &TableOptions, shards: usize) -> Map<String, Value> {
    let mut object = Map::new();
    for (field, value) in
        [("name", json!(name)), ("kind", json!(options.kind.to_string())), ("shards", json!(shards))]
    {
        object.insert(field.into(), value);
    }
    object.insert("durability".into(), json!(durability(options).map(|it| it.to_string())));
    for (field, value) in settings(options) {
        object.insert(field.into(), value.into());
    }
    object
}

/// How durable a table is; nothing for what its node does.
fn durability(options: &TableOptions) -> Option<Durability> {
    match options.kind {
        barn::Kind::Cache => Some(Durability::Memory),
        _ => options.durability,
    }
}

/// The options that mean something for a kind.
fn settings(options: &TableOptions) -> Vec<(&'static str, u64)> {
    match options.kind {
        barn::Kind::Hopscotch => vec![
            ("capacity", options.capacity),
            ("key_bytes", options.key_bytes.into()),
            ("inline_bytes", options.inline_bytes.into()),
            ("neighbourhood", options.neighbourhood.into()),
        ],
        barn::Kind::Cuckoo => vec![("capacity", options.capacity)],
        barn::Kind::Tree => vec![("inline_bytes", options.inline_bytes.into())],
        barn::Kind::Cache => {
            vec![("capacity", options.capacity), ("shard_memory_bytes", options.memory_bytes)]
        }
    }
}
