//! Watched clients on real nodes: every history has one order that explains all that was read.
#![forbid(unsafe_code)]

use barn::Barn;
use barn::node::{Node, NodeConfig};
use barn_transaction::scenario::{Plan, one_history};

/// Given so many nodes in this process and clients that reach them so, histories are serializable.
fn histories(nodes: usize, by_tcp: bool, transactions: u64) {
    let mut started: Vec<Node> = Vec::new();
    for _ in 0..nodes {
        let tcp = Some(([127, 0, 0, 1], 0).into());
        let join = started.first().and_then(Node::address);
        let config = NodeConfig { tcp, join, ..NodeConfig::embedded() };
        started.push(Node::start(config).expect("the node starts"));
    }
    let address = match started[0].tcp_address().filter(|_| by_tcp) {
        Some(tcp) => format!("tcp://{tcp}"),
        None => started[0].address().expect("it listens"),
    };
    let connect = || Barn::connect(&address).map(|barn| barn.client().clone());
    // Few objects and all kinds of contention; and many.
    for (seed, roots, hot_one_in) in [(1, 8, 2), (2, 100, 8)] {
        let plan = Plan { threads: 2, workers: 8, roots, hot_one_in, transactions, seed };
        let judged = one_history(&plan, || connect().map_err(|error| error.to_string()));
        let judged = judged.unwrap_or_else(|violation| panic!("{plan:?}: {violation}"));
        assert!(
            judged.summary.committed as u64 > transactions / 20,
            "nearly nothing went through: {judged:?}"
        );
    }
}

#[test]
fn one_node_over_shm() {
    histories(1, false, 20_000);
}

#[test]
fn three_nodes_over_shm() {
    histories(3, false, 10_000);
}

#[test]
fn two_nodes_over_tcp() {
    histories(2, true, 4_000);
}
