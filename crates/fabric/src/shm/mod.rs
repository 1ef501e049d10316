//! The shm transport.
use crate::ConnectOptions;
use crate::error::ConnectError;
use crate::link::Link;
use crate::node::{Core, NodeError, Port};
use crate::service::{Outgoing, Service};
use rustix::event::epoll::EventFlags;
use std::path::Path;
use std::sync::Arc;
pub(crate) fn connect(path: &Path, _options: &ConnectOptions) -> Result<Arc<dyn Link>, ConnectError> {
    Err(ConnectError::Address { address: path.display().to_string() })
}
pub(crate) struct ShmPort;
impl ShmPort {
    pub(crate) fn listen(_core: &mut Core, _path: &Path, _port: u8) -> Result<Self, NodeError> {
        Ok(Self)
    }
}
impl Port for ShmPort {
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
