//! The node's port for what its carrier has to do: passes everything on to it.

use super::carrier::Verbs;
use crate::node::{Core, NodeError, Port};
use crate::service::{Outgoing, Service};
use rustix::event::epoll::EventFlags;

/// The port. It listens nowhere: peers come over from tcp.
pub(crate) struct VerbsPort;

impl VerbsPort {
    /// Lets tcp peers come over.
    pub(crate) fn offer(core: &mut Core, number: u8) -> Result<Self, NodeError> {
        core.carrier = Some(Box::new(Verbs::new(&core.options, number)?));
        Ok(Self)
    }
}

impl Port for VerbsPort {
    fn event(&mut self, core: &mut Core, _service: &mut dyn Service, token: u64, _flags: EventFlags) {
        core.with_carrier(|carrier, _| carrier.event(token));
    }

    fn sweep(&mut self, core: &mut Core, service: &mut dyn Service) -> usize {
        core.with_carrier(|carrier, core| carrier.sweep(core, service)).unwrap_or(0)
    }

    fn needs_events(&self) -> bool {
        false
    }

    fn before_sleep(&mut self, core: &mut Core) {
        core.with_carrier(|carrier, _| carrier.before_sleep());
    }

    fn after_sleep(&mut self, core: &mut Core) {
        core.with_carrier(|carrier, _| carrier.after_sleep());
    }

    fn send(&mut self, core: &mut Core, outgoing: &Outgoing) -> bool {
        core.with_carrier(|carrier, core| carrier.send(core, outgoing)).unwrap_or(false)
    }
}
