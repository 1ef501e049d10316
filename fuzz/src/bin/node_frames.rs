//! A tcp client's frames at a node, cut anywhere: the frame reader and the agent that plays the NIC.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| barn_fabric::fuzzing::node_frames(bytes));
