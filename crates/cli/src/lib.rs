//! Operates and measures Barn: everything behind the one binary, `barn`.
//!
//! - [`command`]: one file for each command, which parses its arguments and applies them;
//! - [`machine`]: the facts about this machine that every benchmark's result carries;
//! - [`doctor`]: what those facts mean for Barn, and the command that improves them;
//! - [`node`], [`entry`]: the node that a command talks to; keys and values as lines and JSON;
//! - [`watch`]: every node of a cluster, looked at again and again, for status and top;
//! - [`transfer`]: entries as files, for import and export;
//! - [`settings`], [`failure`]: the settings of a node as flags; what went wrong, and the exit code;
//! - [`logs`]: how a node's log is written;
//! - [`report`] and [`progress`]: the one form of every benchmark's result, and its bar;
//! - [`plot`] and [`markup`]: results as curves; text made safe for the pages they are on.
//!
//! What always holds: a missing or garbled file under `/proc` or `/sys` is "unknown", never
//! a panic; results go to standard output, everything else to standard error.

#![forbid(unsafe_code)]

use std::process::ExitCode;

pub mod base64;
pub mod bench;
pub mod bytes;
pub mod command;
pub mod doctor;
pub mod duration;
pub mod entry;
pub mod failure;
pub mod logs;
pub mod machine;
pub mod markup;
pub mod node;
pub mod plot;
pub mod progress;
pub mod report;
pub mod settings;
pub mod token;
pub mod transfer;
pub mod watch;

/// Parses the command line, runs the command and turns its outcome into the exit code.
pub fn main() -> ExitCode {
    command::run()
}
