//! A node's frames at a tcp client, cut anywhere.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_fabric::fuzzing::client_frames(bytes));
