//! `barn del`: removes keys.

use std::ffi::OsString;
use std::io;

use serde_json::{Value, json};

use crate::command::Exit;
use crate::command::key::TableArgs;
use crate::entry;

/// What to remove; its help is on [`super::Command::Del`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn del greeting\n  barn scan --prefix tmp: --keys-only | barn del -")]
pub struct Args {
    /// The keys; `-` alone takes them from standard input, one a line, as `barn scan --keys-only` prints
    /// them.
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<OsString>,

    /// Where the keys are.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Removes them, one after another.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let keys = args.table.keys(&args.keys)?;
    let table = args.table.open()?;
    let (mut exit, mut objects) = (Exit::Ok, Vec::new());
    for key in &keys {
        let deleted = table.delete(key).map_err(io::Error::other)?;
        if !deleted {
            exit = args.table.missing(key);
        }
        let mut object = entry::named(key);
        object.insert("deleted".into(), deleted.into());
        objects.push((deleted, Value::from(object)));
    }
    if json {
        let deleted = objects.iter().filter(|(deleted, _)| *deleted).count();
        let keys: Value = objects.into_iter().map(|(_, object)| object).collect();
        super::print_json(&json!({ "deleted": deleted, "keys": keys }))?;
    }
    Ok(exit)
}
