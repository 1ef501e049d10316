//! Watched clients on real nodes: every history has one order that explains all that was read.
#![forbid(unsafe_code)]

use barn::node::{Node, NodeConfig};
use barn::{Barn, CommitStep, Connect, Observer, Pointer};
use barn_transaction::scenario::{Plan, one_history};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// Asks for objects while they are being made.
struct Asks {
    reader: Barn,
    pointers: Mutex<Vec<Pointer>>,
    told: Mutex<Vec<String>>,
}

impl Observer for Asks {
    fn at(&self, step: CommitStep) -> bool {
        if step == CommitStep::Decided {
            for pointer in self.pointers.lock().unwrap().iter() {
                let told = match self.reader.read(*pointer) {
                    Ok(object) => format!("{} bytes", object.len()),
                    Err(error) => format!("{error:?}"),
                };
                self.told.lock().unwrap().push(told);
                // Nor is a function that is to run next to it; of nothing, as it may do so after its time is over.
                let told = self.reader.call("barn.add", *pointer, &0i64.to_le_bytes());
                self.told.lock().unwrap().push(format!("{told:?}"));
            }
        }
        true
    }
}

/// Given objects that one transaction makes on two nodes, whoever has a pointer to one waits for it once it is
/// decided that it will be there: he is never told that there is none.
#[test]
fn an_object_that_is_being_made_is_waited_for() {
    let first = Node::start(NodeConfig::embedded()).expect("the node starts");
    let address = first.address().expect("it listens");
    let second = NodeConfig { join: Some(address.clone()), ..NodeConfig::embedded() };
    let _second = Node::start(second).expect("the node starts");
    let reader = Connect::new().deadline(Duration::from_millis(50)).to(&address).expect("a client connects");
    let asks = Arc::new(Asks { reader, pointers: Mutex::default(), told: Mutex::default() });
    let barn = Connect::new().observer(asks.clone()).to(&address).expect("a client connects");
    let mut tx = barn.begin();
    let mut pointers: Vec<Pointer> = Vec::new();
    // Until two are on different nodes: those of one are in a region of its own.
    while pointers.iter().all(|pointer| pointer.address.region() == pointers[0].address.region()) {
        pointers.push(tx.alloc(b"an object").expect("there is room"));
        assert!(pointers.len() < 1000, "all of one node");
    }
    let pointers = [pointers[0], pointers[pointers.len() - 1]];
    asks.pointers.lock().unwrap().extend(pointers);
    tx.commit().expect("nothing is in the way");
    let told = asks.told.lock().unwrap();
    let waited = |told: &String| ["Contended", "Deadline"].iter().any(|error| told.contains(error));
    assert!(told.len() == 4 && told.iter().all(waited), "{told:?}");
    for pointer in pointers {
        assert_eq!(barn.read(pointer).expect("it is there").into_bytes(), b"an object");
    }
}
