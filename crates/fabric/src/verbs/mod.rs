//! The verbs transport: RDMA hardware, or software that plays it.
//!
//! Its address is `verbs://HOST:PORT`, where HOST:PORT is the node's tcp listener. A connection is
//! one of tcp's (the same handshake, proof and policy) that then asks for queue pairs; the stream
//! stays as its control path: it opens and closes regions, renews queue pairs, and its end is the
//! peer's. Everything else is the device's: one-sided operations never enter the node's process,
//! and messages are WRITEs into the receiver's ring, told by completions.
//!
//! | what | how it is bounded |
//! |---|---|
//! | queue pairs | two for each connection; HERD's mode adds two at the client and one at the node |
//! | pinned memory | 256 KiB of staging and four rings for each connection, and, at the node, each region once for every client that has it open: against the limit of locked memory (`ulimit -l`) |
//! | an operation's time | its deadline; a device that gets no answer tries for ever, and the stream tells that a peer is gone |
//!
//! What READs promise is [`Guarantees::BY_DEVICE`](crate::Guarantees): words of 8 bytes whole, in any
//! order, and atomics that are atomic among clients, not against the owner's CPU. Hardware mostly
//! promises more (whole lines); nothing here depends on it.
//!
//! libibverbs is loaded when it is first asked for: a program that was built with this transport
//! runs where there is none, and says why.

mod at_once;
mod carrier;
mod channel;
mod choose;
mod client;
mod connect;
mod datagrams;
mod echo;
mod faults;
mod id;
mod lane;
mod link;
mod operations;
mod peer;
mod port;
mod report;
mod sys;
mod waiting;
mod window;

pub use echo::{Echo, echo_client, echo_node};
#[cfg(feature = "conformance")]
pub use faults::{forge, last_key, lose};

pub use report::{DeviceReport, PortReport, report};

pub(crate) use connect::connect;
pub(crate) use port::VerbsPort;
