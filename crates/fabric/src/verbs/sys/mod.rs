//! libibverbs in safe clothes: the only place of the transport that has `unsafe`.
//!
//! What always holds:
//! - an object keeps alive what it was made from (queue pair, then completion queue, then
//!   protection domain, then device), so that they are destroyed in the order that the library
//!   asks for;
//! - a device reaches only memory that is registered, and what is registered is kept alive
//!   until it is deregistered: so nothing that is posted can touch memory that was freed;
//! - registered memory is [`Words`](crate::region::Words): no reference into it exists;
//! - every step that can fail is looked at, and fails with what the system said.

mod completion;
mod device;
mod memory;
mod queue_pair;
mod work;

pub(crate) use completion::{COMPLETIONS, Completed, Completion, CompletionQueue, Status};
pub(crate) use device::{Device, Gid, GidKind, Port, device_names};
pub(crate) use memory::{Access, MemoryRegion, ProtectionDomain};
pub(crate) use queue_pair::{AddressHandle, Kind, QueuePair, Remote, Room};
pub(crate) use work::{Local, Receive, Verb, Work};

use crate::VerbsError;
use std::io;

/// Turns a call's result, zero or an errno, into ours.
fn check(step: &'static str, errno: i32) -> Result<(), VerbsError> {
    match errno {
        0 => Ok(()),
        // Some calls give -1 and set errno, others give the errno itself.
        -1 => Err(VerbsError::Step { step, cause: io::Error::last_os_error() }),
        errno => Err(VerbsError::Step { step, cause: io::Error::from_raw_os_error(errno.abs()) }),
    }
}

/// The error of something that could not be made.
fn not_made(what: &'static str) -> VerbsError {
    VerbsError::Exhausted { what, cause: io::Error::last_os_error() }
}
