//! `barn put`: gives a key a value.

use std::ffi::OsString;
use std::io;

use barn::Put;
use barn_fabric::block_on;

use crate::command::Exit;
use crate::command::key::{TableArgs, ValueArgs};
use crate::duration::Time;
use crate::entry;

/// What to put; its help is on [`super::Command::Put`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn put greeting hello\n  \
    curl -s https://example.com | barn put page --ttl 5m")]
pub struct Args {
    /// The key.
    pub key: OsString,

    /// The value.
    #[command(flatten)]
    pub value: ValueArgs,

    /// How long the value is there for, such as 500ms, 30s, 5m, 12h or 7d; a number alone is seconds
    /// [default: for ever].
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Time>,

    /// Only if the key is not there.
    #[arg(long)]
    pub if_absent: bool,

    /// Say the new version, too, on standard error.
    #[arg(short, long, conflicts_with = "if_absent")]
    pub verbose: bool,

    /// Where the key is.
    #[command(flatten)]
    pub table: TableArgs,
}

/// When what is put now expires.
pub(super) fn put_for(ttl: Option<Time>) -> Put {
    ttl.map_or_else(Put::default, |time| Put::expiring_after(time.0))
}

/// Puts it.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let key = args.table.key(&args.key)?;
    let value = args.value.read()?;
    let table = args.table.open_or_create()?;
    let futures = table.futures();
    let mut object = entry::named(&key);
    let stored = if args.if_absent {
        block_on(futures.insert(&key, &value, put_for(args.ttl))).map_err(io::Error::other)?
    } else {
        let version =
            block_on(futures.put_with(&key, &value, put_for(args.ttl))).map_err(io::Error::other)?;
        entry::set_version(&mut object, version);
        if args.verbose {
            anstream::eprintln!("version {version}");
        }
        true
    };
    if json {
        object.insert("stored".into(), stored.into());
        super::print_json(&object.into())?;
    }
    if !stored {
        let name = entry::shortened(&key);
        return Ok(super::no(&format!("`{name}` is there already: nothing was changed")));
    }
    Ok(Exit::Ok)
}
