//! The benchmarks, and what they share.
//!
//! A benchmark starts a node of its own (a real process), measures ours and the limit in turn so
//! that a noisy minute hits both, and reports medians with their spread.

pub mod at;
pub(crate) mod client;
pub mod fabric;
pub mod figures;
pub mod get;
pub(crate) mod node;
pub mod page;
pub mod papers;
pub(crate) mod peer;
pub mod peers;
pub mod put;
pub mod quiet;
pub mod recover;
pub mod selector;
pub mod space;
pub(crate) mod timing;
pub(crate) mod turn;
pub mod tx;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod workload;
pub mod ycsb;
