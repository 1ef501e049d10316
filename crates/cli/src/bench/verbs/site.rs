//! The two ends of a measurement over verbs: a node with an RDMA device, and where its client comes from.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

use barn_fabric::verbs::report;
use barn_fabric::{ConnectOptions, Messaging};

use crate::bench::at::At;
use crate::bench::node::BenchNode;

/// Where bare echoes are served if the node is one that was started elsewhere: one port further.
const ECHO_PORTS_FURTHER: u16 = 1;

/// The node, and how to get there. What was started is stopped with it.
pub(super) struct Site {
    /// `verbs://HOST:PORT`.
    pub(super) address: String,
    pub(super) bind: IpAddr,
    /// Where bare echoes are served.
    pub(super) echoes: SocketAddr,
    _node: Option<BenchNode>,
    _echo: Option<Echoes>,
}

/// A process that serves bare echoes, killed when dropped.
struct Echoes(Child);

impl Drop for Echoes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Site {
    /// Takes the node that was named, or starts one with so much memory.
    pub(super) fn new(at: &At, memory_bytes: u64, raw_bytes: u64) -> io::Result<Self> {
        let (first, last) = ends()?;
        let bind = at.bind.unwrap_or(last);
        if let Some(address) = &at.at {
            let host = address.strip_prefix("verbs://").and_then(|host| host.parse::<SocketAddr>().ok());
            let host = host.ok_or_else(|| io::Error::other("--at takes verbs://IP:PORT"))?;
            let echoes = SocketAddr::new(host.ip(), host.port() + ECHO_PORTS_FURTHER);
            return Ok(Self { address: address.clone(), bind, echoes, _node: None, _echo: None });
        }
        let node = BenchNode::start_on_verbs(memory_bytes, raw_bytes, first)?;
        let address = node.address("tcp").replacen("tcp://", "verbs://", 1);
        let free = TcpListener::bind((first, 0)).and_then(|listener| listener.local_addr())?;
        let child = Command::new(std::env::current_exe()?)
            .args(["bench", "echo-node", &free.to_string()])
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { address, bind, echoes: free, _node: Some(node), _echo: Some(Echoes(child)) })
    }

    pub(super) fn options(&self, messaging: Messaging) -> ConnectOptions {
        ConnectOptions { messaging, bind: Some(self.bind), ..ConnectOptions::default() }
    }
}

/// The IPv4 addresses of the first port that is up and of the last: a node's and its clients'.
pub(crate) fn ends() -> io::Result<(IpAddr, IpAddr)> {
    let ports = report().map_err(io::Error::other)?.into_iter().flat_map(|device| device.ports);
    let addresses = ports.filter(|port| port.active).flat_map(|port| port.addresses);
    let addresses: Vec<IpAddr> =
        addresses.map(|(_, address)| address.to_canonical()).filter(IpAddr::is_ipv4).collect();
    match addresses[..] {
        [one] => Ok((one, one)),
        [first, .., last] => Ok((first, last)),
        [] => Err(io::Error::other(
            "no RDMA device here is up and has an IPv4 address; `barn doctor` says what is missing",
        )),
    }
}

/// Serves bare echoes until it is killed.
pub fn echo_node(at: SocketAddr) -> io::Result<()> {
    // The port may be taken: said before the loop, which does not say it.
    drop(TcpListener::bind(at)?);
    barn_fabric::verbs::echo_node(at);
    Err(io::Error::other("the echo node has ended"))
}
