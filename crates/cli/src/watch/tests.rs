//! Looks made up, and what is made of them.

use super::*;
use barn_server::{Activity, PurposeStatus, ShardStatus, TableStatus, Transactions};

/// A node that has been there for so long, with a table of which it holds a shard.
pub(crate) fn node(member: u32, uptime_ms: u64, gets: u64, updates: u64) -> Seen {
    let shard = ShardStatus {
        shard: u64::from(member) - 1,
        keys: 10,
        payload_bytes: 100,
        memory_bytes: 1000,
        gets,
        hits: gets / 2,
        updates,
        ..ShardStatus::default()
    };
    let table = TableStatus { name: "users".into(), kind: "hopscotch".into(), shards: 2, here: vec![shard] };
    let mut status = Status::default();
    status.version = "0.1.0".into();
    status.process = 100 + member;
    status.member = member;
    status.configuration = 7;
    status.memory =
        vec![PurposeStatus { purpose: "tables".into(), objects: 3, object_bytes: 30, held_bytes: 1 << 20 }];
    status.activity = Activity {
        uptime_ms,
        clients: 2,
        messages: gets + updates,
        transactions: Transactions { alone: updates, ..Transactions::default() },
        tables: vec![table],
        memory_budget_bytes: 64 << 20,
        memory_held_bytes: 16 << 20,
        ..Activity::default()
    };
    let addresses = vec![format!("tcp://10.0.0.{member}:7411")];
    Seen { member, addresses, status: Ok(status), round_trip_ns: Some(4200.0) }
}

pub(crate) fn look(nodes: Vec<Seen>) -> Look {
    Look { first: 1, nodes }
}

#[test]
fn rates_are_by_the_nodes_own_clocks() {
    let before = look(vec![node(1, 1000, 0, 0), node(2, 50_000, 100, 0)]);
    let now = look(vec![node(1, 1500, 100, 50), node(2, 52_000, 300, 0)]);
    let report = Report::new(&now, Some(&before));
    let users = &report.tables[0];
    assert_eq!((users.gets_per_second, users.updates_per_second), (Some(200.0 + 100.0), Some(100.0)));
    assert_eq!((users.keys, users.shards, users.shards_seen, users.memory_bytes), (20, 2, 2, 2000));
    let rates = report.rates.expect("has rates");
    assert_eq!((rates.gets, rates.updates, rates.alone, rates.messages), (300.0, 100.0, 100.0, 400.0));
    assert_eq!((report.hot[0].member, report.hot[0].operations_per_second), (1, Some(300.0)));
    assert_eq!(report.memory[0].held_bytes, 2 << 20);
}

#[test]
fn one_look_has_no_rates_and_its_hot_spots_are_by_what_has_happened() {
    let report = Report::new(&look(vec![node(1, 1000, 5, 0), node(2, 1000, 9, 1)]), None);
    assert_eq!(report.rates, None);
    assert_eq!(
        report.hot.iter().map(|row| (row.member, row.operations)).collect::<Vec<_>>(),
        [(2, 10), (1, 5)]
    );
    assert_eq!(report.hot[0].operations_per_second, None);
    assert!(Report::new(&look(vec![node(1, 1000, 0, 0)]), None).hot.is_empty());
}

#[test]
fn a_node_that_was_started_anew_has_no_rate_until_the_next_look() {
    let before = look(vec![node(1, 90_000, 1_000_000, 0)]);
    let mut anew = node(1, 10, 5, 0);
    if let Ok(status) = &mut anew.status {
        status.process += 1;
    }
    assert_eq!(Report::new(&look(vec![anew]), Some(&before)).rates, None);
    let twice = look(vec![node(1, 90_000, 1_000_000, 0)]);
    assert_eq!(Report::new(&twice, Some(&before)).rates, None, "no time has passed");
}

#[test]
fn a_node_that_is_away_is_said_so_and_the_others_are_counted() {
    let away = Seen { member: 2, addresses: vec![], status: Err("no answer".into()), round_trip_ns: None };
    let report = Report::new(&look(vec![node(1, 1000, 5, 0), away]), None);
    assert_eq!(report.nodes[1].trouble.as_deref(), Some("no answer"));
    assert_eq!((report.tables[0].shards, report.tables[0].shards_seen, report.configuration), (2, 1, 7));
}
