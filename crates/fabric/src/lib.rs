//! Moves bytes between processes: READ, WRITE, compare-and-swap, fetch-and-add, message.
//!
//! One interface, shaped like RDMA verbs, over several transports: `shm` (one host: a READ is a
//! load), `tcp` (any network: the node's agent plays the NIC), `verbs` (RDMA devices; a cargo
//! feature) and `simulated` (one seed decides everything). Every operation is written once, as a
//! future, and runs in three styles: blocking in place, many at once on one thread, or under any
//! async runtime; see [`drive`].
//!
//! What always holds: registered memory is reached only by whole words ([`region`]); what a
//! transport promises about READs is stated ([`Guarantees`]), and readers verify what they read;
//! every operation has a deadline and a typed error; every bound is a named constant
//! (`barn_layout::limits`).
#![deny(unsafe_code)]

#[cfg(not(loom))]
mod call;
#[cfg(not(loom))]
mod confirmed;
#[cfg(all(feature = "conformance", not(loom)))]
pub mod conformance;
#[cfg(not(loom))]
mod connection;
mod crc64;
#[cfg(not(loom))]
pub mod drive;
#[cfg(not(loom))]
mod error;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(not(loom))]
mod link;
pub mod messaging;
#[cfg(not(loom))]
mod node;
#[cfg(not(loom))]
mod read_many;
pub mod region;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod remote_region;
#[cfg(not(loom))]
pub mod seam;
#[cfg(not(loom))]
mod service;
#[cfg(not(loom))]
mod shm;
#[cfg(not(loom))]
pub mod simulated;
#[cfg(not(loom))]
mod slots;
#[cfg(not(loom))]
mod tcp;
#[cfg(not(loom))]
mod verb;
#[cfg(all(feature = "verbs", not(loom)))]
pub mod verbs;
#[cfg(not(loom))]
mod verbs_error;
#[cfg(not(loom))]
mod verbs_option;

pub use crc64::{Crc64, crc64, crc64_joined};
#[cfg(not(loom))]
pub use {
    barn_layout::RegionId,
    call::{Call, DetachedCall, Receive, Sending},
    confirmed::{Confirmation, Confirmed},
    connection::{ConnectOptions, Connecting, Connection, Messaging},
    drive::{Fetching, Pipeline, block_on, block_on_alone},
    error::{CallError, ConnectError, OpenError, OperationError},
    link::{Guarantees, WHOLE_WORDS_BYTES_MAX, WordOrder},
    node::{Node, NodeError, NodeOptions, NodeStats, Stopper, TransportStats},
    region::{AccessError, MapError, Pages, Region, RegionError, RegionOptions, Rights, Whereabouts, Words},
    registry::{PeerId, RegisterError, Registry},
    remote_region::{Atomic, Batch, Open, RemoteRegion, Transfer},
    service::{Deferred, Reply, Request, Sender, Service},
    verbs_error::VerbsError,
    verbs_option::{DeviceChoice, VerbsOption},
};
