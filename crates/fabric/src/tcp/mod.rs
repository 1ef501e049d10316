//! The tcp transport: any network; the node's agent plays the NIC.

use crate::ConnectOptions;
use crate::error::ConnectError;
use crate::link::Link;
use crate::node::{Core, NodeError, Port};
use crate::service::{Outgoing, Service};
use rustix::event::epoll::EventFlags;
use std::net::SocketAddr;
use std::sync::Arc;

/// Connects to `host`, which is HOST:PORT.
pub(crate) fn connect(host: &str, _options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    Err(ConnectError::Address { address: host.to_string() })
}

/// The listening side.
pub(crate) struct TcpPort;

impl TcpPort {
    pub(crate) fn listen(
        _core: &mut Core,
        address: SocketAddr,
        _port: u8,
    ) -> Result<(Self, SocketAddr), NodeError> {
        Ok((Self, address))
    }
}

impl Port for TcpPort {
    fn event(&mut self, _: &mut Core, _: &mut dyn Service, _: u64, _: EventFlags) {}
    fn sweep(&mut self, _: &mut Core, _: &mut dyn Service) -> usize {
        0
    }
    fn before_sleep(&mut self) {}
    fn after_sleep(&mut self) {}
    fn send(&mut self, _: &mut Core, _: &Outgoing) -> bool {
        false
    }
}
