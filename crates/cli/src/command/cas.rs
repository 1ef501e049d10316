//! `barn cas`: gives a key a value if nobody has changed it meanwhile.

use std::ffi::OsString;
use std::io;

use barn::Swapped;
use barn_fabric::block_on;

use crate::command::Exit;
use crate::command::key::{TableArgs, ValueArgs};
use crate::command::put::put_for;
use crate::duration::Time;
use crate::entry;

fn version(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "it is no version: `barn get --json` says the key's".to_string())
}

/// What to swap; its help is on [`super::Command::Cas`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  version=$(barn get config --json | jq -r .version)\n  \
    barn cas config $version \"$(barn get config | sed s/blue/green/)\"")]
pub struct Args {
    /// The key.
    pub key: OsString,

    /// The version that it must still have, as `barn get --json` said.
    #[arg(value_parser = version)]
    pub version: u64,

    /// The new value.
    #[command(flatten)]
    pub value: ValueArgs,

    /// How long the value is there for, such as 30s or 5m [default: for ever].
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<Time>,

    /// Say the new version, too, on standard error.
    #[arg(short, long)]
    pub verbose: bool,

    /// Where the key is.
    #[command(flatten)]
    pub table: TableArgs,
}

/// Swaps, or says why not.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let key = args.table.key(&args.key)?;
    let value = args.value.read()?;
    let table = args.table.open()?;
    let swapped = block_on(table.futures().swap(&key, args.version, &value, put_for(args.ttl)))
        .map_err(io::Error::other)?;
    if json {
        let mut object = entry::named(&key);
        object.insert("swapped".into(), matches!(swapped, Swapped::Done(_)).into());
        if let Swapped::Done(version) | Swapped::Different(version) = swapped {
            entry::set_version(&mut object, version);
        }
        super::print_json(&object.into())?;
    }
    Ok(match swapped {
        Swapped::Done(version) => {
            if args.verbose {
                anstream::eprintln!("version {version}");
            }
            Exit::Ok
        }
        Swapped::Different(version) => super::no(&format!(
            "`{}` has version {version}, not {}: nothing was changed",
            entry::shortened(&key),
            args.version
        )),
        Swapped::Absent => args.table.missing(&key),
    })
}
