//! `barn space create`: makes a space and prints its keys.

use std::io::{self, Write};

use barn::space::{Refusal, Role, SpaceError};
use barn::{Error, space};
use serde_json::json;

use super::{failed, role};
use crate::bytes::{Bytes, human};
use crate::command::{Exit, no, print_json};
use crate::node::NodeArgs;

/// What those without a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Everyone {
    /// Nothing.
    Nobody,
    /// Map and read.
    Reader,
    /// Read, write, reserve and allocate.
    Writer,
}

/// What to make; its help is on [`super::Action::Create`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn space create images --reserve 1GiB\n  \
    export BARN_SPACE_KEY=$(barn space create scratch --chunk 1MiB --json | jq -r .keys.owner)")]
pub struct Args {
    /// Its name.
    pub name: String,

    /// How long its chunks are, a power of two: what one node holds in a row.
    #[arg(long, value_name = "BYTES", default_value = "64MiB")]
    pub chunk: Bytes,

    /// What those without a key may do.
    #[arg(long, value_enum, default_value_t = Everyone::Nobody)]
    pub everyone: Everyone,

    /// Memory to reserve for it right away, over all nodes.
    #[arg(long, value_name = "BYTES")]
    pub reserve: Option<Bytes>,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Makes it.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let everyone = match args.everyone {
        Everyone::Nobody => Role::Nobody,
        Everyone::Reader => Role::Reader,
        Everyone::Writer => Role::Writer,
    };
    let barn = args.node.connect()?;
    let (space, keys) = match barn.spaces().create_with(&args.name, args.chunk.0, everyone) {
        Err(Error::Space(SpaceError::Refused(Refusal::SpaceExists { name }))) => {
            return Ok(no(&format!("a space `{name}` is there already; `barn space stat {name}` shows it")));
        }
        made => made.map_err(failed)?,
    };
    let reserved = match args.reserve {
        None => 0,
        Some(bytes) => match space.reserve(bytes.0) {
            Ok(reserved) => reserved.reserved_bytes,
            Err(error) => {
                // A space whose keys nobody has seen is of no use to anybody.
                let _ = space.delete();
                return Err(failed(error));
            }
        },
    };
    let space::Keys { owner, writer, reader } = &keys;
    if json {
        print_json(&json!({
            "name": args.name, "chunk_bytes": args.chunk.0, "everyone": role(everyone),
            "keys": { "owner": owner, "writer": writer, "reader": reader }, "reserved_bytes": reserved,
        }))?;
        return Ok(Exit::Ok);
    }
    let mut out = anstream::stdout().lock();
    writeln!(
        out,
        "made space {}: chunks of {}, {} reserved",
        args.name,
        human(args.chunk.0),
        human(reserved)
    )?;
    writeln!(out, "  owner's key   {owner}\n  writer's key  {writer}\n  reader's key  {reader}")?;
    Ok(Exit::Ok)
}
