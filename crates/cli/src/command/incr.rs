//! `barn incr`: adds to a number.

use std::ffi::OsString;
use std::io::{self, Write};

use barn_fabric::block_on;

use crate::command::Exit;
use crate::command::key::TableArgs;
use crate::command::put::put_for;
use crate::duration::Time;
use crate::entry;

fn whole_number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "it is no whole number, such as 1 or -3, of 64 bits".to_string())
}

/// What to add to; its help is on [`super::Command::Incr`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn incr visits\n  barn incr stock:apples -3")]
pub struct Args {
    /// The key.
    pub key: OsString,

    /// How much to add.
    #[arg(default_value_t = 1, allow_negative_numbers = true, value_parser = whole_number)]
    pub by: i64,

    /// How long a counter that is made by this is there for, such as 30s or 5m [default: for ever].
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Time>,

    /// Where the key is.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Adds, and prints the sum.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let key = args.table.key(&args.key)?;
    let table = args.table.open_or_create()?;
    let sum = block_on(table.futures().increment_with(&key, args.by, put_for(args.ttl)))
        .map_err(io::Error::other)?;
    if json {
        let mut object = entry::named(&key);
        object.insert("value".into(), sum.into());
        super::print_json(&object.into())?;
    } else {
        writeln!(io::stdout(), "{sum}")?;
    }
    Ok(Exit::Ok)
}
