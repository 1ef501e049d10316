//! The node that a command talks to: where it is, and how it is reached.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use barn::{Barn, Connect, Error, Table, TableError};
use barn_fabric::ConnectOptions;
use barn_server::options::nearest;

use crate::failure::no_table;
use crate::settings::SettingsArgs;

/// How a node is reached; the same for all commands that read and change tables.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub struct NodeArgs {
    /// A node of the cluster: shm:PATH or tcp://HOST:PORT [default: the shm socket of this user's
    /// node].
    #[arg(long, visible_alias = "connect", value_name = "ADDRESS", env = "BARN_NODE")]
    pub node: Option<String>,

    /// A file with the token that the node demands.
    #[arg(long, value_name = "FILE", env = "BARN_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// How long to wait for each answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    pub deadline_ms: u64,
}

impl NodeArgs {
    /// Where the node is.
    pub fn address(&self) -> io::Result<String> {
        address(self.node.as_deref())
    }

    /// How it is reached.
    pub fn options(&self) -> io::Result<ConnectOptions> {
        Ok(ConnectOptions {
            deadline: Duration::from_millis(self.deadline_ms),
            token: self.token_file.as_deref().map(crate::token::read).transpose()?,
            ..ConnectOptions::default()
        })
    }

    /// Connects to the node, and through it to its cluster.
    pub fn connect(&self) -> io::Result<Barn> {
        let deadline = Duration::from_millis(self.deadline_ms);
        let connect = Connect::new().fabric(self.options()?).deadline(deadline);
        connect.to(&self.address()?).map_err(io::Error::other)
    }
}

/// The address that was given, or that of this user's node.
pub fn address(given: Option<&str>) -> io::Result<String> {
    match given {
        Some(address) => Ok(address.to_owned()),
        None => default_address(),
    }
}

/// Where this user's node listens, by the same environment and file that `barn serve` reads.
fn default_address() -> io::Result<String> {
    let options = SettingsArgs::default().resolve()?.options();
    let shm = options.shm.map(|path| format!("shm:{}", path.display()));
    Ok(shm.or_else(|| options.tcp.map(|tcp| format!("tcp://{tcp}"))).unwrap_or_default())
}

/// Opens a table that must be there; if it is not, says which was probably meant.
pub fn open_table(barn: &Barn, name: &str) -> io::Result<Table> {
    barn.open_table(name).map_err(|error| explained(barn, error))
}

/// The error, with the name that was probably meant where there is no such table.
pub fn explained(barn: &Barn, error: Error) -> io::Error {
    let Error::Table(TableError::NoTable(name)) = &error else { return io::Error::other(error) };
    let tables = barn.tables().unwrap_or_default();
    let meant = nearest(name, tables.iter().map(|table| table.name.as_str()));
    no_table(name, meant).into()
}
