//! Which node to measure over verbs. Builds without verbs know these options too, and say what is missing.

use std::net::IpAddr;

/// A node that is there already, and where the client comes from.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct At {
    /// With `--transport verbs`: measure this node, `verbs://HOST:PORT`, and start none. It needs
    /// `--verbs auto` and `--raw-memory`, and for bare echoes `barn bench echo-node HOST:PORT+1` beside it.
    #[arg(long, value_name = "ADDRESS")]
    pub at: Option<String>,

    /// With `--transport verbs`: the address that the client comes from, and by it its RDMA device.
    #[arg(long, value_name = "IP")]
    pub bind: Option<IpAddr>,

    /// With `--transport verbs`: a shell command that times READs of $BYTES bytes and prints `ib_read_lat`'s table.
    /// It runs in turn with ours, and stands beside them. Its server, at the node, must serve again and again.
    #[arg(long, value_name = "COMMAND")]
    pub read_lat: Option<String>,

    /// With `--transport verbs`: the same for the rate of READs, by `ib_read_bw`'s table.
    #[arg(long, value_name = "COMMAND")]
    pub read_bw: Option<String>,
}

/// What a build without verbs says.
#[cfg(not(feature = "verbs"))]
pub(crate) fn without_verbs() -> std::io::Error {
    std::io::Error::other(
        "this program was built without verbs; build it with: cargo build --release -p barn-cli --features verbs",
    )
}
