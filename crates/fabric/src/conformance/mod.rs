//! One suite for every transport: same results, same errors.
//!
//! A case is an async function over a [`Harness`], which starts nodes, connects clients and
//! passes time in its own way; a case never knows which transport it runs on. [`CASES`] is the
//! whole list: each transport runs exactly that. `cargo test` makes one test of each case and
//! transport ([`conformance_tests`](crate::conformance_tests)); the example `conformance` runs
//! the list without a test runner, where there is no toolchain (a machine with RDMA hardware).
//!
//! What always holds: every wait in a case is bounded; a case leaves no node behind; nothing is
//! asserted about how long anything takes.

mod cases;
mod real;
mod service;
mod simulated;
mod support;

pub use real::{Real, RealKind};
pub use service::Methods;
pub use simulated::Simulated;

use crate::error::ConnectError;
use crate::region::{Region, Rights};
use crate::{Connection, Registry, Sender};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A future in a box.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Work that runs beside other work: on a thread of its own, or as a task of its own.
pub type Job = Box<dyn FnOnce() -> Boxed<'static, ()> + Send>;

/// Lets others run.
pub type Pause = Arc<dyn Fn() -> Boxed<'static, ()> + Send + Sync>;

/// How futures are driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Polled in place, by [`crate::block_on`].
    InPlace,
    /// Polled when woken, as an async runtime does.
    Runtime,
}

/// What a case needs of a transport. Nodes are known by a number, which is an address: a node
/// that is started again under its number is found where it was.
pub trait Harness {
    /// The transport, and how it is used: `shm ring`.
    fn name(&self) -> String;

    /// Memory that this transport can serve.
    fn region(&self, bytes: u64, remote: Rights) -> Region;

    /// Starts a node.
    fn start(&self, node: u32, service: Methods) -> Registry;

    /// Stops a node: its connections end.
    fn stop(&self, node: u32);

    /// Sends messages of a node to its peers.
    fn sender(&self, node: u32) -> Sender;

    /// How many peers a node has now.
    fn peers(&self, node: u32) -> u64;

    /// Connects to a node.
    fn connect(&self, node: u32, deadline: Duration) -> Boxed<'static, Result<Connection, ConnectError>>;

    /// Lets time pass.
    fn sleep(&self, time: Duration) -> Boxed<'static, ()>;

    /// Lets others run, from within a job.
    fn pause(&self) -> Pause;

    /// Whether jobs run on threads, where [`crate::Pipeline`] and blocking calls may be used.
    fn has_threads(&self) -> bool;

    /// Runs jobs beside each other until all are done.
    fn parallel(&self, style: Style, jobs: Vec<Job>) -> Boxed<'_, ()>;

    /// Runs a case to its end.
    fn run(&self, case: Boxed<'_, ()>);
}

/// A case: what must hold, in words, and the function that shows it.
pub type Case = (&'static str, for<'a> fn(&'a dyn Harness) -> Boxed<'a, ()>);

macro_rules! declare_cases {
    ($($module:ident: $($case:ident)+;)+) => {
        /// Every case, in order.
        pub const CASES: &[Case] = &[
            $($((stringify!($case), |harness| Box::pin(cases::$module::$case(harness))),)+)+
        ];

        /// Makes a test of every case: `conformance_tests!(name, || harness)`.
        #[macro_export]
        macro_rules! conformance_tests {
            ($transport:ident, $harness:expr) => {
                mod $transport {
                    use super::*;
                    $($(
                        #[test]
                        fn $case() {
                            $crate::conformance::run_case(&$harness(), stringify!($case));
                        }
                    )+)+
                }
            };
        }
    };
}

declare_cases! {
    operations:
        reads_and_writes_at_every_alignment_and_length
        reading_and_writing_nothing_does_nothing
        one_byte_leaves_its_neighbours
        the_longest_operation_is_whole
        a_compare_swap_succeeds_and_fails
        a_fetch_add_wraps_around
        owner_and_client_see_each_others_stores
        atomics_reach_the_last_word;
    rights:
        each_missing_right_is_refused_for_each_operation
        a_grant_has_what_was_asked_for_and_no_more
        a_refused_operation_changes_nothing;
    bounds:
        ranges_past_the_end_are_refused
        operations_that_are_too_long_are_refused
        misaligned_atomics_are_refused
        versioned_reads_know_the_same_bounds;
    regions:
        a_missing_region_is_not_opened
        a_region_is_not_opened_without_the_right
        one_region_too_many_is_refused_and_a_closed_one_makes_room
        a_region_opens_again_more_often_than_a_peer_may_hold
        two_handles_on_a_region_live_apart
        a_clone_keeps_the_grant
        many_regions_keep_their_own_bytes
        cancelled_opens_leave_no_grant_behind;
    grants:
        revoking_ends_one_peers_grants_only
        a_revoked_peer_may_open_again
        withdrawing_ends_everyones_grants
        a_number_registered_again_gives_the_new_bytes
        one_peer_may_be_allowed_more_than_the_others
        one_peer_may_be_allowed_less_than_the_others
        revoking_a_closed_region_leaves_the_one_opened_since;
    batches:
        a_batch_keeps_its_order
        an_error_in_a_batch_ends_it
        a_batch_of_nothing_is_done
        a_batch_longer_than_the_window_keeps_its_order
        a_batch_spans_regions
        pipelined_operations_are_all_right
        a_runtimes_tasks_get_their_answers
        connections_are_shared_between_threads;
    calls:
        calls_of_every_small_length_are_echoed
        calls_at_the_edges_of_pieces_are_echoed
        the_longest_request_arrives_whole
        the_longest_reply_arrives_whole
        a_request_too_long_by_one_is_refused
        a_reply_too_long_by_one_is_refused
        an_unknown_method_is_named
        a_refusal_says_why
        a_busy_service_says_so
        a_dropped_reply_is_a_refusal
        an_answer_replaces_what_was_there
        calls_follow_each_other_for_long;
    deferred:
        deferred_replies_come_in_any_order
        a_deferred_reply_may_come_from_another_thread
        a_dropped_deferred_reply_is_a_refusal
        requests_held_for_long_do_not_hold_up_others
        a_deferred_reply_to_a_peer_that_is_gone_is_dropped;
    messages:
        messages_to_the_node_arrive_whole_and_in_order
        messages_from_the_node_arrive_whole_and_in_order
        the_longest_messages_arrive_whole
        a_message_too_long_by_one_is_refused
        messages_and_calls_mix
        a_receive_ends_by_its_deadline
        a_cancelled_receive_loses_nothing
        a_message_to_nobody_is_dropped;
    pressure:
        more_calls_than_may_be_outstanding_are_all_answered
        a_full_table_waits_for_a_place
        a_client_that_takes_nothing_for_a_while_gets_all
        a_client_that_never_takes_its_messages_is_sent_away
        cancelled_calls_leave_the_connection_good
        calls_cancelled_halfway_leave_the_connection_good
        messages_cancelled_halfway_leave_the_connection_good
        a_late_answer_is_dropped
        deadlines_are_a_handles_own;
    racing:
        a_contended_counter_is_exact
        a_lock_by_compare_swap_excludes
        neighbours_in_one_word_are_kept_apart
        racing_readers_never_take_a_torn_value;
    death:
        a_stopped_node_ends_what_is_under_way
        after_a_nodes_end_everything_says_so
        a_dropped_client_is_freed_once
        a_client_dropped_in_the_middle_is_freed
        a_node_that_starts_again_is_found_again
        a_connection_to_nobody_is_refused
        a_hundred_connections_are_served
        connections_come_and_go;
}

/// Of the rounds of cases that repeat something only one in so many is run, if the environment says so
/// by `BARN_CONFORMANCE_ONE_IN`: for emulated processors. No case is left out by it.
pub fn rounds_one_in() -> u64 {
    let asked = std::env::var("BARN_CONFORMANCE_ONE_IN").ok().and_then(|number| number.parse().ok());
    asked.unwrap_or(1).max(1)
}

/// Runs the case of that name; panics if it fails.
pub fn run_case(harness: &dyn Harness, name: &str) {
    let (_, case) = CASES.iter().find(|case| case.0 == name).expect("a case of that name");
    harness.run(case(harness));
}

/// Runs every case whose name contains `filter`, on a new harness each; prints each and the
/// count. Gives how many passed and how many failed.
pub fn run_all(mut harness: impl FnMut() -> Box<dyn Harness>, filter: &str) -> (usize, usize) {
    let name = harness().name();
    let (mut passed, mut failed) = (0, 0);
    if rounds_one_in() > 1 {
        println!("conformance {name}: of rounds, one in {}", rounds_one_in());
    }
    for (case, _) in CASES.iter().filter(|case| case.0.contains(filter)) {
        let begun = std::time::Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| run_case(&*harness(), case)));
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("conformance {name}: {case}: {word} ({:.1} s)", begun.elapsed().as_secs_f64());
        if outcome.is_ok() { passed += 1 } else { failed += 1 }
    }
    println!("conformance {name}: {passed} passed, {failed} failed");
    (passed, failed)
}
