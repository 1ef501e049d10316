//! Watched clients on real nodes, over shm, tcp or verbs: every history is checked for one order that
//! explains all that was read.
//!
//! `real_histories [--transactions TOTAL] [--seconds MAX] [--transport shm|tcp|both] [--nodes N]
//! [--address ADDRESS [--bind IP]] [--threads N] [--workers N] [--roots N] [--hot-one-in N]
//! [--each PER_HISTORY] [--seed SEED]`
//!
//! With `--address`, such as `verbs://10.9.0.1:7411`, the nodes are other processes that are there
//! already, `--nodes` says how many, and `--bind` names the address that the clients come from.
//!
//! A history is a few hundred thousand transactions on fresh objects, so that memory stays bounded;
//! each thread writes down its own, by one clock, and they are put together in the end.
#![forbid(unsafe_code)]

use barn::Connect;
use barn::node::{Node, NodeConfig};
use barn_fabric::ConnectOptions;
use barn_transaction::scenario::{Judged, Plan, one_history};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, default: u64) -> u64 {
    argument(name).and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Nodes of one cluster, all in this process.
fn cluster(nodes: u64) -> Result<Vec<Node>, barn::Error> {
    let mut started: Vec<Node> = Vec::new();
    for _ in 0..nodes {
        let tcp = Some(([127, 0, 0, 1], 0).into());
        let join = started.first().and_then(Node::address);
        started.push(Node::start(NodeConfig { tcp, join, ..NodeConfig::embedded() })?);
    }
    Ok(started)
}

/// Clients come from the address that was given, if one was.
fn connect() -> Result<Connect, String> {
    let bind = argument("--bind").map(|ip| ip.parse().map_err(|error| format!("--bind {ip}: {error}")));
    Ok(Connect::new().fabric(ConnectOptions { bind: bind.transpose()?, ..ConnectOptions::default() }))
}

fn main() -> ExitCode {
    let given = argument("--address");
    let by_address = given.as_deref().and_then(|address| address.split([':', '/']).next());
    let transports = match (by_address, argument("--transport").as_deref()) {
        (Some(transport), _) => vec![transport],
        (None, Some("tcp")) => vec!["tcp"],
        (None, Some("both")) => vec!["shm", "tcp"],
        _ => vec!["shm"],
    };
    let connect = match connect() {
        Ok(connect) => connect,
        Err(why) => {
            println!("{why}");
            return ExitCode::FAILURE;
        }
    };
    let (total, seconds) = (number("--transactions", 1_000_000), number("--seconds", u64::MAX));
    let (nodes, threads, each) = (number("--nodes", 2), number("--threads", 2), number("--each", 200_000));
    let (roots, seed) = (number("--roots", 256) as usize, number("--seed", 1));
    let (workers, hot_one_in) = (number("--workers", 16), number("--hot-one-in", 16));
    for transport in transports {
        let started = match cluster(if given.is_some() { 0 } else { nodes }) {
            Ok(started) => started,
            Err(error) => {
                println!("the nodes did not start: {error}");
                return ExitCode::FAILURE;
            }
        };
        let address = match (&given, transport, started.first().and_then(Node::tcp_address)) {
            (Some(given), ..) => given.clone(),
            (None, "tcp", Some(address)) => format!("tcp://{address}"),
            _ => started.first().and_then(Node::address).unwrap_or_default(),
        };
        let (begun, mut sum, mut histories) = (Instant::now(), Judged::default(), 0);
        while sum.transactions() < total && begun.elapsed() < Duration::from_secs(seconds) {
            let transactions = each.min(total - sum.transactions()).max(workers * threads * 64);
            let plan = Plan { threads, workers, roots, hot_one_in, transactions, seed: seed + histories };
            let client = || connect.clone().to(&address).map(|barn| barn.client().clone());
            match one_history(&plan, || client().map_err(|error| error.to_string())) {
                Ok(judged) => sum.add(&judged),
                Err(failure) => {
                    println!("history {histories} over {transport} failed: {failure}");
                    return ExitCode::FAILURE;
                }
            }
            histories += 1;
        }
        let (total, Judged { summary, ran, checked }) = (sum.transactions(), sum);
        let rate = |time: Duration| total as f64 / time.as_secs_f64();
        println!(
            "{transport}, {nodes} nodes, {threads} threads with {workers} workers each: {total} transactions in {histories} histories ({} committed, \
             {} refused, {} of unknown outcome), {} reads, {} writes, one order for each; {:.0} transactions/s \
             ({:.0}/s run, {:.0}/s checked), {:.0} s",
            summary.committed,
            summary.aborted,
            summary.unknown_happened + summary.unknown_unseen,
            summary.reads,
            summary.writes,
            rate(begun.elapsed()),
            rate(ran),
            rate(checked),
            begun.elapsed().as_secs_f64()
        );
    }
    ExitCode::SUCCESS
}
