//! The node that a command talks to: where it is, and how it is reached.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use barn::{Barn, Connect};
use barn_server::ServerOptions;

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
    /// Connects to the node, and through it to its cluster.
    pub fn connect(&self) -> io::Result<Barn> {
        let address = self.node.clone().unwrap_or_else(default_address);
        let mut connect = Connect::new().deadline(Duration::from_millis(self.deadline_ms));
        if let Some(path) = &self.token_file {
            connect = connect.token(crate::token::read(path)?);
        }
        connect.to(&address).map_err(io::Error::other)
    }
}

/// Where this user's node listens if it was started on defaults, or with the same `BARN_SHM`.
pub fn default_address() -> String {
    let given = std::env::var_os("BARN_SHM").filter(|path| !path.is_empty()).map(PathBuf::from);
    format!("shm:{}", given.unwrap_or_else(ServerOptions::default_socket).display())
}
