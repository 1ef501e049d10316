//! The planted bugs: each with the gate that should catch it and the test that must fail.
//!
//! A name is what stands in the code: `planted("NAME")`.

use super::gate::{
    Gate, Plant, Target, histories, log, loom, loom_activity, loom_heap, membership, model, own, restart,
    scenario, spaces, tables, unit,
};

/// The test of a client that knew its cluster before anybody in it took objects.
const ASKS_AGAIN: &str = "who_knew_nobody_that_takes_objects_asks_again";

const SLEPT_ON: &str = "a_pipeline_of_many_reads_each_never_sleeps_on_them";
const LONG_REPLACED: &str = "a_long_value_that_is_replaced_where_it_is_has_another_version";
const RUNG: &str = "a_client_that_slept_is_not_rung_for_good";
const TOGETHER: &str = "several_questions_under_way_together_have_each_its_own_answer";
const OWN: &str = "threads_that_share_a_connection_have_their_own_answers";
const HELD: &str = "what_a_grant_holds_is_dropped_before_revoking_returns";
const IN_PART: &str = "a_request_that_arrived_in_part_is_none";
const TAKEN_ONCE: &str = "a_request_that_arrives_often_and_late_is_taken_once";
const ONE_ORDER: &str = "every_history_has_one_order";
const CONFLICTING: &str = "conflicting_commits_have_one_order";
const ONE_ORDER_EACH: &str = "every_key_has_one_order";
const MOVES: &str = "a_key_that_moves_under_a_read_is_not_missed";
const OVERTAKEN: &str = "a_read_that_the_log_overtakes_is_never_believed";
const CUCKOO_BACK: &str = "a_cuckoo_shard_comes_back_as_it_was";
const UNKNOWN_KEY: &str = "an_unknown_key_is_refused_with_its_line_and_the_nearest";
const PRECEDENCE: &str = "a_flag_counts_before_the_environment_that_before_the_file_that_before_the_default";
const CLAIMED: &str = "a_directory_is_claimed_once_until_the_claim_ends";
const OWN_CLOCKS: &str = "rates_are_by_the_nodes_own_clocks";
const NOT_TWICE: &str = "links_that_break_make_nothing_happen_twice";
const EXPELLED: &str = "a_node_stands_still_with_a_lost_transaction_and_is_expelled_all_the_same";
const GO_ON: &str = "handles_from_before_a_restart_go_on_over_tcp";
const TOLD_APART: &str = "another_cluster_at_a_node_s_address_is_not_taken_for_it";
const SPACE_STORIES: &str = "master::tests::stories";
const SPACE_MODEL: &str = "whatever_clients_and_keepers_do_nothing_is_lost_doubled_or_torn";
const WRITER_OVER: &str = "a_writer_whose_lease_has_ended_commits_nothing_though_nobody_else_took_it";
const TREE_MODEL: &str = "a_tree_holds_what_an_ordered_map_would";
const TREE_CLIENT: &str = "a_client_that_remembers_needs_one_read_and_notices_what_it_has_missed";
const TREE_VERSIONS: &str = "a_version_does_not_come_back_though_its_key_was_deleted";
const SPACE_TURNS: &str = "what_is_said_of_an_earlier_lease_does_nothing_to_the_one_that_has_begun";
const WAITED_FOR: &str = "an_object_that_is_being_made_is_waited_for";
/// The gate of objects that are decided and not made yet.
const COMING: Gate =
    Gate { package: "barn", target: Target::Test("real_histories"), filter: WAITED_FOR, loom: false };
const LOST: &str = "lost_clients_leave_all_or_nothing";

/// Every plant.
pub(super) const PLANTS: &[Plant] = &[
    Plant { name: "created_unannounced", gate: COMING, fails: WAITED_FOR },
    Plant { name: "coming_is_gone", gate: COMING, fails: WAITED_FOR },
    // A tidy that overlooks `unsafe` would let it spread; its own tests must notice.
    Plant {
        name: "looked_up_before",
        gate: Gate { package: "barn", target: Target::Test("tables"), filter: AS_MANY, loom: false },
        fails: AS_MANY,
    },
    Plant {
        name: "unsettled_at_once_is_absent",
        gate: Gate { package: "barn", target: Target::Test("tables"), filter: AT_ONCE, loom: false },
        fails: AT_ONCE,
    },
    Plant {
        name: "later_answers_begin_anew",
        gate: Gate { package: "barn", target: Target::Test("tables"), filter: TOGETHER, loom: false },
        fails: TOGETHER,
    },
    Plant {
        name: "long_value_keeps_its_version",
        gate: Gate { package: "barn", target: Target::Test("tables"), filter: LONG_REPLACED, loom: false },
        fails: LONG_REPLACED,
    },
    Plant {
        name: "explores_once",
        gate: unit("barn-index", "selector::tests::a_way"),
        fails: "a_way_is_not_taken_for_slow_because_it_has_to_be_woken",
    },
    Plant {
        name: "split_patience_is_blind",
        gate: unit("barn-index", "hopscotch"),
        fails: "memory_that_was_given_back_is_used_at_once",
    },
    Plant {
        name: "heap_replaces_held",
        gate: unit("barn-heap", "replaced_in_one_go"),
        fails: "an_object_is_replaced_in_one_go_unless_it_is_held_gone_or_of_another_length",
    },
    Plant {
        name: "guard_overlooks_growth",
        gate: own("guard"),
        fails: "more_instructions_than_the_tolerance_allows_fail",
    },
    Plant { name: "tidy_overlooks_unsafe", gate: own("tidy"), fails: "unsafe_outside_its_modules_is_found" },
    // A run in the guest that passes whatever happened there would show nothing.
    Plant {
        name: "verbs_overlooks_what_did_not_run",
        gate: own("verbs::verdict"),
        fails: "a_job_that_did_not_run_has_failed",
    },
    Plant {
        name: "verbs_overlooks_a_missing_case",
        gate: own("verbs::checks"),
        fails: "a_case_that_did_not_pass_on_verbs_is_named",
    },
    Plant {
        name: "verbs_overlooks_that_nobody_was_killed",
        gate: own("verbs::checks"),
        fails: "tables_are_checked_only_if_clients_died",
    },
    Plant {
        name: "verbs_overlooks_killed_processes",
        gate: own("verbs::jobs"),
        fails: "each_end_has_its_own_words",
    },
    Plant {
        name: "verbs_takes_a_cut_line_for_success",
        gate: own("verbs::console"),
        fails: "another_mark_or_a_cut_line_is_only_output",
    },
    // A doctor that takes any size of container for the whole machine would plan regions
    // that get a node killed.
    Plant {
        name: "doctor_ignores_cgroups",
        gate: unit("barn-cli", "doctor"),
        fails: "container_is_as_large_as_its_smallest_ancestor_allows",
    },
    // The self-verifying value: each fence and ordering deleted, and the check itself.
    Plant {
        name: "publish_without_release_fence",
        gate: loom("versioned"),
        fails: "loom_readers_never_take_a_torn_body",
    },
    Plant {
        name: "publish_relaxed_version",
        gate: loom("versioned"),
        fails: "loom_readers_never_take_a_torn_body",
    },
    Plant {
        name: "load_relaxed_version",
        gate: loom("versioned"),
        fails: "loom_readers_never_take_a_torn_body",
    },
    Plant {
        name: "load_without_acquire_fence",
        gate: loom("versioned"),
        fails: "loom_readers_never_take_a_torn_body",
    },
    Plant {
        name: "version_check_skipped",
        gate: loom("versioned"),
        fails: "loom_readers_never_take_a_torn_body",
    },
    // The ring: each ordering weakened, room given back too early, payload where a message
    // could start.
    Plant {
        name: "ring_publish_relaxed",
        gate: loom("ring::"),
        fails: "loom_a_message_that_arrived_is_whole",
    },
    Plant { name: "ring_peek_relaxed", gate: loom("ring::"), fails: "loom_a_message_that_arrived_is_whole" },
    Plant { name: "ring_report_relaxed", gate: loom("ring::"), fails: "loom_a_full_ring_is_not_overwritten" },
    Plant { name: "ring_room_relaxed", gate: loom("ring::"), fails: "loom_a_full_ring_is_not_overwritten" },
    Plant {
        name: "ring_head_update_early",
        gate: loom("ring::"),
        fails: "loom_a_full_ring_is_not_overwritten",
    },
    Plant {
        name: "ring_line_not_cleared",
        gate: unit("barn-fabric", "messaging::ring"),
        fails: "payload_never_poses_as_a_message",
    },
    // The request region.
    Plant {
        name: "slot_read_relaxed",
        gate: loom("request_region"),
        fails: "loom_a_request_that_arrived_is_whole",
    },
    Plant {
        name: "slot_publish_relaxed",
        gate: loom("request_region"),
        fails: "loom_a_request_that_arrived_is_whole",
    },
    // Grants and answers, on the real code under the simulated transport.
    Plant {
        name: "revocation_forgotten",
        gate: scenario("a_revoked_grant_is_of_no_use"),
        fails: "a_revoked_grant_is_of_no_use",
    },
    Plant {
        name: "late_answer_taken",
        gate: unit("barn-fabric", "slots"),
        fails: "a_late_answer_to_an_abandoned_operation_is_dropped",
    },
    // Objects: each fence and ordering deleted, and what a reader checks.
    Plant {
        name: "object_publish_without_fence",
        gate: loom_heap("publish"),
        fails: "loom_two_versions_are_told_apart",
    },
    Plant {
        name: "object_publish_relaxed",
        gate: loom_heap("publish"),
        fails: "loom_a_new_object_is_seen_whole",
    },
    Plant {
        name: "incarnation_ignored",
        gate: unit("barn-heap", "object"),
        fails: "a_pointer_to_a_freed_object_is_void",
    },
    Plant {
        name: "checksum_skips_version",
        gate: unit("barn-heap", "object"),
        fails: "no_mix_of_words_is_accepted_in_any_order",
    },
    // A checksum of 8 bits lets one mix in 256 pass; where memory is mapped, versions hold alone.
    Plant {
        name: "checksum_of_8_bits",
        gate: unit("barn-heap", "object"),
        fails: "no_mix_of_words_is_accepted_in_any_order",
    },
    // The allocator: where objects go, and when a place may become another size's.
    Plant {
        name: "hint_ignored",
        gate: unit("barn-heap", "placement"),
        fails: "a_hint_is_followed_to_block_and_region",
    },
    Plant {
        name: "epoch_ignored",
        gate: unit("barn-heap", "reuse"),
        fails: "empty_blocks_wait_for_their_readers",
    },
    Plant {
        name: "floor_forgotten",
        gate: unit("barn-heap", "reuse"),
        fails: "a_block_divided_anew_counts_on",
    },
    // The log: what is answered for, what is replayed, and what is removed when.
    Plant {
        name: "log_torn_frame_accepted",
        gate: log("tests::model::crashes_at_any_moment"),
        fails: "crashes_at_any_moment",
    },
    Plant {
        name: "log_sync_skipped",
        gate: log("tests::model::a_process_killed_at_any_call"),
        fails: "a_process_killed_at_any_call",
    },
    Plant {
        name: "log_manifest_before_end",
        gate: log("tests::model::crashes_at_any_moment"),
        fails: "crashes_at_any_moment",
    },
    Plant {
        name: "log_volatile_tail_replayed",
        gate: log("tests::rot::a_frame_that_an_old_file"),
        fails: "a_frame_that_an_old_file_still_holds_is_not_taken_for_a_new_one",
    },
    Plant {
        name: "log_cleaned_too_early",
        gate: log("tests::model::a_process_killed_at_any_call"),
        fails: "a_process_killed_at_any_call",
    },
    Plant {
        name: "log_recycled_frames_pass",
        gate: log("tests::rot::whatever_rots"),
        fails: "whatever_rots_is_noticed_or_harmless_and_never_misread",
    },
    Plant {
        name: "log_naps_until_sync",
        gate: log("tests::hand_over"),
        fails: "bytes_that_come_before_a_sync_do_not_wait_for_it",
    },
    // The simulated transport itself: what its scenarios must notice.
    Plant {
        name: "simulated_operations_out_of_order",
        gate: scenario("racing_readers_take_no_torn_body"),
        fails: "racing_readers_take_no_torn_body",
    },
    Plant {
        name: "simulated_grant_unchecked",
        gate: scenario("a_revoked_grant_is_of_no_use"),
        fails: "a_revoked_grant_is_of_no_use",
    },
    Plant {
        name: "simulated_grant_checked_once",
        gate: scenario("a_revoked_grant_is_of_no_use"),
        fails: "a_revoked_grant_is_of_no_use",
    },
    Plant {
        name: "simulated_reply_to_wrong_request",
        gate: scenario("acknowledged_increments_are_counted_once"),
        fails: "acknowledged_increments_are_counted_once",
    },
    Plant {
        name: "simulated_request_twice",
        gate: scenario("acknowledged_increments_are_counted_once"),
        fails: "acknowledged_increments_are_counted_once",
    },
    Plant {
        name: "simulated_atomic_in_two_steps",
        gate: scenario("contended_atomics_are_exact"),
        fails: "contended_atomics_are_exact",
    },
    Plant {
        name: "simulated_deadline_ignored",
        gate: scenario("acknowledged_increments_are_counted_once"),
        fails: "acknowledged_increments_are_counted_once",
    },
    // Who holds which region: leases, departures, versions.
    Plant {
        name: "lease_counted_from_answer",
        gate: membership(),
        fails: "nobody_acts_on_an_ended_lease_and_all_agree_in_the_end",
    },
    Plant {
        name: "settled_at_once",
        gate: membership(),
        fails: "nobody_acts_on_an_ended_lease_and_all_agree_in_the_end",
    },
    Plant {
        name: "rejoin_while_held",
        gate: membership(),
        fails: "nobody_acts_on_an_ended_lease_and_all_agree_in_the_end",
    },
    Plant {
        name: "renewed_without_its_life",
        gate: membership(),
        fails: "nobody_acts_on_an_ended_lease_and_all_agree_in_the_end",
    },
    Plant {
        name: "coordinator_forgets_leases",
        gate: membership(),
        fails: "nobody_acts_on_an_ended_lease_and_all_agree_in_the_end",
    },
    Plant {
        name: "lease_without_its_configuration",
        gate: membership(),
        fails: "nobody_acts_on_an_ended_lease_and_all_agree_in_the_end",
    },
    Plant {
        name: "config_version_not_checked",
        gate: unit("barn-cluster", "store::conformance"),
        fails: "the_memory_store_conforms",
    },
    Plant {
        name: "directory_takes_older",
        gate: unit("barn-cluster", "directory"),
        fails: "the_newest_is_kept",
    },
    Plant {
        name: "store_rename_unsynced",
        gate: unit("barn-cluster", "store::file_tests"),
        fails: "a_failure_at_any_step_and_a_crash_leave_the_old_or_the_new",
    },
    // Commits: what the client must not leave out.
    Plant { name: "validation_skipped", gate: histories(), fails: ONE_ORDER },
    Plant { name: "read_only_not_validated", gate: histories(), fails: ONE_ORDER },
    Plant { name: "read_together_not_validated", gate: histories(), fails: ONE_ORDER },
    Plant { name: "told_before_decided", gate: histories(), fails: ONE_ORDER },
    Plant { name: "validation_ignores_locks", gate: model(CONFLICTING), fails: CONFLICTING },
    // Commits: what the node must not.
    Plant { name: "version_not_checked", gate: model(CONFLICTING), fails: CONFLICTING },
    Plant { name: "validated_while_read", gate: model(CONFLICTING), fails: CONFLICTING },
    Plant { name: "decided_and_still_read", gate: model(CONFLICTING), fails: CONFLICTING },
    Plant { name: "applied_when_decided", gate: model(CONFLICTING), fails: CONFLICTING },
    Plant { name: "unlock_early", gate: model(CONFLICTING), fails: CONFLICTING },
    Plant {
        name: "alone_without_close",
        gate: Gate {
            package: "barn-transaction",
            target: Target::Test("alone"),
            filter: "a_reader_of_several_objects",
            loom: false,
        },
        fails: "a_reader_of_several_objects_sees_all_of_a_transaction_or_nothing",
    },
    // Clients that are lost.
    Plant { name: "recovery_without_freeze", gate: model(LOST), fails: LOST },
    Plant { name: "recovery_aborts_decided", gate: model(LOST), fails: LOST },
    Plant { name: "session_end_forgotten", gate: model(LOST), fails: LOST },
    // Memory that is given another shape.
    Plant {
        name: "epoch_left_too_early",
        gate: model("a_block_keeps_its_shape"),
        fails: "a_block_keeps_its_shape_while_it_is_read",
    },
    Plant {
        name: "leave_relaxed",
        gate: loom_activity(),
        fails: "loom_a_place_that_is_read_keeps_its_shape",
    },
    // Tables: what a lookup must not believe, and how the owner must move things.
    Plant { name: "joint_version_skipped", gate: unit("barn-index", MOVES), fails: MOVES },
    Plant { name: "joint_version_ignored", gate: unit("barn-index", MOVES), fails: MOVES },
    Plant {
        name: "bucket_not_looked_at_again",
        gate: unit("barn-index", "hopscotch::tests::direct"),
        fails: "what_changed_since_it_was_opened_is_not_taken",
    },
    Plant {
        name: "tag_past_the_last_slot",
        gate: unit("barn-index", "hopscotch::tagged"),
        fails: "the_slots_with_a_tag_are_found_and_no_others",
    },
    Plant {
        name: "long_key_for_a_time",
        gate: unit("barn-index", "hopscotch::bucket"),
        fails: "an_entry_is_plain_of_a_key_of_its_length_alone",
    },
    Plant {
        name: "cuckoo_unverified",
        gate: unit("barn-index", "cuckoo::tests::plants"),
        fails: "an_extent_that_is_not_what_its_entry_says_is_not_taken",
    },
    Plant {
        name: "cuckoo_moves_from_the_front",
        gate: unit("barn-index", "cuckoo::tests::plants"),
        fails: "a_key_on_its_way_is_never_nowhere",
    },
    Plant { name: "cache_unverified", gate: unit("barn-index", OVERTAKEN), fails: OVERTAKEN },
    // Opening tables again after a restart: each thing that a log must hear of, left out.
    Plant {
        name: "vacated_slot_not_recorded",
        gate: unit("barn-heap", "heap::tests::durable"),
        fails: "objects_are_back_with_their_bytes_and_versions_and_freed_ones_are_not",
    },
    Plant {
        name: "second_part_not_recorded",
        gate: unit("barn-heap", "heap::tests::image"),
        fails: "what_is_put_back_is_what_was_changed_and_what_is_recorded",
    },
    Plant {
        name: "retaken_run_still_waits",
        gate: unit("barn-heap", "heap::tests::durable"),
        fails: "raw_memory_is_taken_again_where_it_was",
    },
    Plant {
        name: "decision_not_noted",
        gate: unit("barn-transaction", "participant::durable_tests"),
        fails: "what_was_decided_is_decided_after_a_restart_and_is_carried_out_once",
    },
    Plant {
        name: "segment_note_forgotten",
        gate: unit("barn-index", "node::tests::restart"),
        fails: "a_hopscotch_shard_comes_back_as_it_was",
    },
    Plant { name: "raw_change_not_recorded", gate: unit("barn-index", CUCKOO_BACK), fails: CUCKOO_BACK },
    Plant { name: "extent_not_recorded", gate: unit("barn-index", CUCKOO_BACK), fails: CUCKOO_BACK },
    Plant {
        name: "versions_not_set_aside",
        gate: unit("barn-index", "node::tests::restart"),
        fails: "a_version_does_not_come_back_though_its_key_was_deleted",
    },
    Plant { name: "old_segment_left", gate: tables(), fails: ONE_ORDER_EACH },
    Plant { name: "swap_ignores_version", gate: tables(), fails: ONE_ORDER_EACH },
    // How a node is told what to be, and what it says of itself.
    Plant { name: "config_ignores_unknown_keys", gate: unit("barn-server", UNKNOWN_KEY), fails: UNKNOWN_KEY },
    Plant { name: "config_environment_over_flags", gate: unit("barn-server", PRECEDENCE), fails: PRECEDENCE },
    Plant { name: "data_shared_by_nodes", gate: unit("barn-server", CLAIMED), fails: CLAIMED },
    Plant { name: "rates_ignore_time", gate: unit("barn-cli", OWN_CLOCKS), fails: OWN_CLOCKS },
    // Pages and figures: what must not look better than it was.
    Plant { name: "markup_less_than", gate: unit("barn-cli", HOSTILE_NAME), fails: HOSTILE_NAME },
    Plant { name: "plot_log_is_linear", gate: unit("barn-cli", LOG_AXIS), fails: LOG_AXIS },
    Plant { name: "page_loaded_is_quiet", gate: unit("barn-cli", LOADED), fails: LOADED },
    Plant { name: "bench_keeps_disturbed", gate: unit("barn-cli", TAKEN_AGAIN), fails: TAKEN_AGAIN },
    Plant { name: "papers_verdict_always_holds", gate: unit("barn-cli", VERDICTS), fails: VERDICTS },
    Plant {
        name: "export_forgets_expiry",
        gate: unit("barn-cli", "json_lines"),
        fails: "what_is_written_is_read_back",
    },
    // What a benchmark says that it measured.
    Plant {
        name: "open_loop_counts_from_the_send",
        gate: unit("barn-cli", "workload::tests::an_open_loop"),
        fails: "an_open_loop_counts_everybody_who_waited_for_a_stalled_store",
    },
    Plant {
        name: "modify_ignores_the_version",
        gate: unit("barn-cli", "workload::tests::clients"),
        fails: "clients_that_modify_the_same_records_lose_no_update",
    },
    Plant {
        name: "latest_is_oldest",
        gate: unit("barn-cli", "workload::trace"),
        fails: "what_latest_reads_is_there_and_mostly_new",
    },
    Plant {
        name: "values_unchecked",
        gate: unit("barn-cli", "workload::tests::a_value"),
        fails: "a_value_that_is_another_keys_is_an_error_however_it_is_read",
    },
    Plant {
        name: "scans_unchecked",
        gate: unit("barn-cli", "workload::tests::a_scan"),
        fails: "a_scan_that_skips_or_mixes_up_its_records_is_an_error",
    },
    // What a device may reach, and what a network may lose.
    Plant { name: "revocation_keeps_the_key", gate: unit("barn-fabric", "registry"), fails: HELD },
    Plant {
        name: "fetch_slept_on",
        gate: Gate {
            package: "barn-fabric",
            target: Target::Test("shm_idle"),
            filter: SLEPT_ON,
            loom: false,
        },
        fails: SLEPT_ON,
    },
    Plant {
        name: "shm_asleep_for_good",
        gate: Gate { package: "barn-fabric", target: Target::Test("shm_idle"), filter: RUNG, loom: false },
        fails: RUNG,
    },
    Plant {
        name: "any_answer_will_do",
        gate: Gate { package: "barn-fabric", target: Target::Test("shm_blocking"), filter: OWN, loom: false },
        fails: OWN,
    },
    Plant { name: "verbs_slot_unchecked", gate: unit("barn-fabric", "request_region"), fails: IN_PART },
    Plant { name: "verbs_lap_taken_again", gate: unit("barn-fabric", "repeated"), fails: TAKEN_ONCE },
    // Nodes that end while others need them.
    Plant {
        name: "clock_too_slow",
        gate: Gate { package: "barn", target: Target::Test("node_loss"), filter: EXPELLED, loom: false },
        fails: EXPELLED,
    },
    // Clients that outlive nodes and clusters.
    Plant { name: "increment_repeated", gate: restart(NOT_TWICE), fails: NOT_TWICE },
    Plant { name: "any_welcome_will_do", gate: restart(TOLD_APART), fails: TOLD_APART },
    Plant { name: "tables_outlive_clusters", gate: restart(GO_ON), fails: GO_ON },
    Plant { name: "roots_outlive_sessions", gate: restart(GO_ON), fails: GO_ON },
    Plant {
        name: "starting_cluster_stays_empty",
        gate: Gate {
            package: "barn-transaction",
            target: Target::Test("starting"),
            filter: ASKS_AGAIN,
            loom: false,
        },
        fails: ASKS_AGAIN,
    },
    // Spaces: keepers, and the bytes that clients move.
    Plant { name: "chunk_not_scrubbed", gate: spaces(LET_GO), fails: LET_GO },
    Plant { name: "mark_forgotten", gate: unit("barn-space", "chunks"), fails: "comes_back_zeroed" },
    Plant { name: "pass_for_readers_writes", gate: unit("barn-space", GATE), fails: GATE },
    Plant { name: "pass_of_any_life", gate: unit("barn-space", GATE), fails: GATE },
    Plant { name: "spread_misses_chunk_boundary", gate: spaces(BOUNDARIES), fails: BOUNDARIES },
    Plant { name: "fresh_chunk_not_filled", gate: spaces(VERSIONS), fails: VERSIONS },
    Plant { name: "writer_commits_holes", gate: spaces(HOLES), fails: HOLES },
    // Spaces: who may do what, and which chunk is whose.
    Plant {
        name: "space_pass_without_rights",
        gate: unit("barn-space", "pass::tests"),
        fails: "a_pass_with_any_field_changed_is_not",
    },
    Plant {
        name: "space_role_unchecked",
        gate: unit("barn-space", "master::tests::refusals"),
        fails: "a_role_that_does_not_suffice_is_refused",
    },
    Plant {
        name: "space_init_past_end",
        gate: unit("barn-space", "master::tests::refusals"),
        fails: "a_range_may_end_short_of_its_last_chunk_and_addresses_stay_apart",
    },
    Plant {
        name: "space_two_writers",
        gate: unit("barn-space", "master::tests::refusals"),
        fails: "what_is_not_there_is_refused",
    },
    Plant {
        name: "space_lease_not_ended",
        gate: unit("barn-space", SPACE_STORIES),
        fails: "a_master_that_stood_still_holds_that_against_nobody",
    },
    Plant {
        name: "space_known_task_grows",
        gate: unit("barn-space", SPACE_STORIES),
        fails: "a_task_that_a_keeper_may_know_does_not_grow_when_its_connection_breaks",
    },
    Plant {
        name: "space_lost_chunk_counted",
        gate: unit("barn-space", SPACE_STORIES),
        fails: "a_lost_member_takes_its_chunks_and_nothing_else",
    },
    Plant { name: "space_writer_lease_not_ended", gate: unit("barn-space", WRITER_OVER), fails: WRITER_OVER },
    Plant { name: "space_zombie_writer_kept", gate: unit("barn-space", WRITER_OVER), fails: WRITER_OVER },
    // Trees.
    Plant { name: "tree_parent_forgotten", gate: unit("barn-index", TREE_MODEL), fails: TREE_MODEL },
    Plant { name: "tree_fences_ignored", gate: unit("barn-index", TREE_CLIENT), fails: TREE_CLIENT },
    Plant {
        name: "tree_versions_not_set_aside",
        gate: unit("barn-index", TREE_VERSIONS),
        fails: TREE_VERSIONS,
    },
    Plant { name: "space_lease_over_renewed", gate: unit("barn-space", WRITER_OVER), fails: WRITER_OVER },
    Plant { name: "space_turns_share_chunks", gate: unit("barn-space", SPACE_TURNS), fails: SPACE_TURNS },
    Plant { name: "space_abandon_any_turn", gate: unit("barn-space", SPACE_TURNS), fails: SPACE_TURNS },
    Plant { name: "space_zombie_kept", gate: unit("barn-space", SPACE_MODEL), fails: SPACE_MODEL },
    Plant { name: "space_freed_under_holders", gate: unit("barn-space", SPACE_MODEL), fails: SPACE_MODEL },
    Plant { name: "space_switch_loses_chunk", gate: unit("barn-space", SPACE_MODEL), fails: SPACE_MODEL },
];

/// Lookups without a future.
const AS_MANY: &str = "as_many_keys_as_are_asked_for_have_each_its_own_value";
const AT_ONCE: &str = "lookups_of_mapped_memory_are_done_at_once_and_what_is_not_plain_goes_the_long_way";
/// Tests of pages and figures.
const HOSTILE_NAME: &str = "a_hostile_name_is_only_text";
const LOG_AXIS: &str = "equal_factors_are_equally_far_apart_on_a_log_axis";
const LOADED: &str = "every_sign_alone_makes_a_loaded_machine_say_that_it_is";
const TAKEN_AGAIN: &str = "a_disturbed_sample_is_taken_again_and_the_least_disturbed_counts";
const VERDICTS: &str = "the_median_decides_and_the_spread_says_how_surely";

/// Tests of spaces.
const LET_GO: &str = "what_is_dropped_is_let_go_and_what_is_freed_comes_back_empty";
const GATE: &str = "nobody_gets_into_a_chunk_without_a_pass";
const BOUNDARIES: &str = "what_one_client_writes_over_chunk_boundaries";
const VERSIONS: &str = "readers_keep_their_version_and_learn_of_the_next_by_its_mark";
const HOLES: &str = "a_writer_whose_write_failed_cannot_commit";
