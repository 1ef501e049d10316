//! The protocols under schedules that shuttle chooses, against the real participant, heap and rules.
//!
//! `BARN_SCHEDULES` says how many schedules all models together explore (10 million in
//! `cargo xtask shuttle`), `BARN_SEED` from which seed, and `BARN_SCHEDULE` replays one that failed.

/// How operations are counted: the client's own file, on shuttle's atomics.
#[path = "../../src/client/activity.rs"]
mod activity;
mod atomics {
    //! What `activity` counts with.
    pub(super) use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
}
mod commit;
mod explore;
mod node;
mod reclaim;
mod recover;

use explore::explore;

/// Two clients with conflicting transactions of every shape, nobody dies; a reader of both objects.
#[test]
fn conflicting_commits_have_one_order() {
    explore("conflicting_commits_have_one_order", 50, || commit::model(commit::Lives::Long));
}

/// As above, where clients die after any message and nodes give up clients that live.
#[test]
fn lost_clients_leave_all_or_nothing() {
    explore("lost_clients_leave_all_or_nothing", 30, || commit::model(commit::Lives::Short));
}

/// Memory is given another shape only after its readers have left, or their leases have ended.
#[test]
fn a_block_keeps_its_shape_while_it_is_read() {
    explore("a_block_keeps_its_shape_while_it_is_read", 20, reclaim::model);
}
