//! `barn space`: makes, lists, describes and deletes spaces, and copies files into them and out of them.

use std::io;

use barn::space::{Role, Space};
use barn::{Barn, Error};

use crate::command::Exit;

pub mod cp;
pub mod create;
pub mod list;
pub mod place;
pub mod rm;
pub mod stat;

/// What to do with spaces.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The action.
    #[command(subcommand)]
    pub action: Action,
}

/// Every action on spaces.
#[derive(Debug, clap::Subcommand)]
pub enum Action {
    /// Make a space, and print its keys.
    ///
    /// A space is a flat namespace of raw bytes, striped in chunks over the nodes' memory. Whoever shows its
    /// reader's, writer's or owner's key may do as much; the keys are shown once, here. A space lives as long
    /// as the cluster's first node does: it is memory.
    ///
    /// With --json the document is { "name", "chunk_bytes", "everyone", "keys": { "owner", "writer",
    /// "reader" }, "reserved_bytes" }. Ends with 1 if there is a space of this name.
    Create(create::Args),

    /// List the spaces.
    ///
    /// With --json the document is an array of { "name", "chunk_bytes", "everyone", "reserved_bytes",
    /// "used_bytes", "ranges", "sessions" }.
    List(list::Args),

    /// Show a space, with its ranges.
    ///
    /// With --json the document is { "name", "chunk_bytes", "everyone", "reserved_bytes", "used_bytes",
    /// "sessions", "ranges": [ { "address", "bytes", "copy_on_write", "version", "holds", "writer", "lost" } ] }.
    Stat(stat::Args),

    /// Delete a space, whoever still uses it. It takes the owner's key.
    ///
    /// With --json the document is { "name", "deleted" }.
    Rm(rm::Args),

    /// Copy a file into a space, or a range of a space into a file.
    ///
    /// A place in a space is space:NAME for a new range, or for the only one that there is, or
    /// space:NAME/ADDRESS for the range at that address. A file is copied into a new range, for which memory is
    /// reserved if need be, or into one that is there: a copy-on-write range is replaced at once, under its
    /// readers. `-` is standard output.
    ///
    /// With --json the document is { "space", "address", "bytes", "file", "seconds" }.
    Cp(cp::Args),
}

/// Runs an action.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    match &args.action {
        Action::Create(args) => create::run(args, json),
        Action::List(args) => list::run(args, json),
        Action::Stat(args) => stat::run(args, json),
        Action::Rm(args) => rm::run(args, json),
        Action::Cp(args) => cp::run(args, json),
    }
}

/// The key that a command shows.
#[derive(Debug, clap::Args)]
pub struct KeyArgs {
    /// A key of the space, as `barn space create` printed it.
    #[arg(long, value_name = "KEY", env = "BARN_SPACE_KEY", hide_env_values = true)]
    pub key: Option<String>,
}

impl KeyArgs {
    /// Joins a space with the key.
    fn join(&self, barn: &Barn, name: &str) -> io::Result<Space> {
        barn.spaces().join(name, self.key.as_deref()).map_err(failed)
    }
}

fn failed(error: Error) -> io::Error {
    io::Error::other(error)
}

/// A role's name, as it is written.
fn role(role: Role) -> &'static str {
    match role {
        Role::Nobody => "nobody",
        Role::Reader => "reader",
        Role::Writer => "writer",
        Role::Owner => "owner",
    }
}
