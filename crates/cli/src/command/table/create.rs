//! `barn table create`: makes a table with options of its own.

use std::io;

use barn::{Durability, Error, Kind, TableError, TableOptions};

use crate::bytes::{Bytes, human};
use crate::command::{Exit, no, one_of, print_json, say, usage};
use crate::node::NodeArgs;

/// How the table should be; its help is on [`super::Action::Create`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn table create sessions --kind cache --memory 16MiB\n  \
    barn table create users --capacity 1000000 --inline-bytes 64\n  \
    barn table create scratch --durability memory\n  \
    barn table create events --kind tree")]
pub struct Args {
    /// Its name.
    pub name: String,

    /// Its design.
    #[arg(long, default_value = "hopscotch", value_parser = one_of::<Kind>(Kind::ALL.map(Kind::name)))]
    pub kind: Kind,

    /// How many keys to make room for at once, over all shards; tables grow past it. Of a cache, whose
    /// memory is fixed, it decides how much is index: from an eighth to a half (not tree) [default: 1024].
    #[arg(long, value_name = "KEYS")]
    pub capacity: Option<u64>,

    /// The length of most keys; longer ones take a detour (hopscotch) [default: 16].
    #[arg(long, value_name = "BYTES")]
    pub key_bytes: Option<Bytes>,

    /// Values up to this long lie in the buckets or nodes themselves (hopscotch, tree) [default: 128].
    #[arg(long, value_name = "BYTES")]
    pub inline_bytes: Option<Bytes>,

    /// FaRM's H, twice the slots of a bucket: 2, 4, 6, 8, 12 or 16 (hopscotch) [default: 8].
    #[arg(long, value_name = "H")]
    pub neighbourhood: Option<u32>,

    /// The memory of each shard, such as 16MiB (cache) [default: 64MiB].
    #[arg(long, value_name = "BYTES")]
    pub memory: Option<Bytes>,

    /// When a change counts as made: memory (the table is empty after a restart of its node), logged
    /// (written to the node's log) or synced (on its disk) [default: what the node does; a cache is always
    /// in memory].
    #[arg(long, value_parser = one_of::<Durability>(Durability::ALL.map(Durability::name)))]
    pub durability: Option<Durability>,

    /// In how many parts the table is divided [default: one at each node].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub shards: Option<u32>,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

impl Args {
    fn options(&self) -> Result<TableOptions, String> {
        let narrow =
            |bytes: Bytes| u32::try_from(bytes.0).map_err(|_| format!("{} are too many", human(bytes.0)));
        let usual = TableOptions::default();
        let options = TableOptions {
            kind: self.kind,
            capacity: self.capacity.unwrap_or(usual.capacity),
            key_bytes: self.key_bytes.map_or(Ok(usual.key_bytes), narrow)?,
            inline_bytes: self.inline_bytes.map_or(Ok(usual.inline_bytes), narrow)?,
            neighbourhood: self.neighbourhood.unwrap_or(usual.neighbourhood),
            memory_bytes: self.memory.map_or(usual.memory_bytes, |memory| memory.0),
            durability: self.durability,
            ..usual
        };
        let of_others = [
            (self.capacity.is_some(), "--capacity", &[Kind::Hopscotch, Kind::Cuckoo, Kind::Cache][..]),
            (self.key_bytes.is_some(), "--key-bytes", &[Kind::Hopscotch]),
            (self.inline_bytes.is_some(), "--inline-bytes", &[Kind::Hopscotch, Kind::Tree]),
            (self.neighbourhood.is_some(), "--neighbourhood", &[Kind::Hopscotch]),
            (self.memory.is_some(), "--memory", &[Kind::Cache]),
        ];
        for (given, name, kinds) in of_others {
            if given && !kinds.contains(&self.kind) {
                let kinds: Vec<String> = kinds.iter().map(Kind::to_string).collect();
                let kinds = kinds.join(" and ");
                return Err(format!("{name} is for {kinds} tables, and this one is {}", self.kind));
            }
        }
        options.validate().map_err(|error| error.to_string())?;
        Ok(options)
    }
}

/// Makes it.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let options = args.options().map_err(usage)?;
    let barn = args.node.connect()?;
    let table = match barn.create_table(&args.name, options, args.shards.unwrap_or(0)) {
        Err(Error::Table(TableError::Exists(name))) => {
            return Ok(no(&format!("a table `{name}` is there already; `barn table stat {name}` shows it")));
        }
        made => made.map_err(io::Error::other)?,
    };
    // The shards are made when they are first asked for: if there is no memory for one, now is the
    // time to say so.
    if let Err(error) = table.stats() {
        let _ = barn.drop_table(&args.name);
        return Err(io::Error::other(error));
    }
    let listed = barn.tables().map_err(io::Error::other)?;
    let shards = listed.iter().find(|listed| listed.name == args.name).map_or(0, |listed| listed.shards);
    if json {
        print_json(&super::describe(&args.name, table.options(), shards).into())?;
    } else {
        let plural = if shards == 1 { "" } else { "s" };
        say(&format!("made table {}: {}, {shards} shard{plural}", args.name, table.options().kind))?;
    }
    Ok(Exit::Ok)
}
