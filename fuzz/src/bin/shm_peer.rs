//! A shm client that says, sends and scribbles anything, at the node's side of its connection.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_fabric::fuzzing::shm_peer(bytes));
