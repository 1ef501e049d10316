//! Calls of 32 bytes: one at a time and in windows.

use std::io;

use barn_fabric::{ConnectOptions, Connection, Messaging, Pipeline};
use barn_server::Method;

use super::bare_ring::BareRing;
use super::bare_tcp::{BareTcp, Ends};
use super::{Bench, WINDOWS};
use crate::bench::timing::{in_turn, rates};
use crate::report::Row;

/// A request that fits one cache line with its headers; HERD's and FaRM's small items.
const BODY_BYTES: usize = 32;

/// Every window, on the ring and, over shm, on the request region too.
pub(super) fn measure(bench: &mut Bench, transport: &str) -> io::Result<()> {
    calls(bench, transport, Messaging::Ring, "rpc", &WINDOWS)?;
    if transport == "shm" {
        calls(bench, transport, Messaging::RequestRegion { window: 64 }, "rpc-herd", &[1, 64])?;
    }
    Ok(())
}

fn calls(
    bench: &mut Bench,
    transport: &str,
    messaging: Messaging,
    name: &str,
    windows: &[usize],
) -> io::Result<()> {
    let options = ConnectOptions { messaging, ..ConnectOptions::default() };
    let connection =
        Connection::connect(&bench.node.address(transport), options).wait().map_err(io::Error::other)?;
    for &window in windows {
        let row_name = match window {
            1 => format!("{transport}/{name}/round-trip"),
            _ => format!("{transport}/{name}/window-{window}"),
        };
        if !bench.wants(&row_name) {
            continue;
        }
        bench.progress.show(&row_name);
        let ours = |count| run_calls(&connection, count, window);
        if transport == "shm" {
            let mut bare = BareRing::start(window)?;
            let (ours, theirs) = in_turn(bench.effort, ours, |count| bare.round_trips(count));
            let beside = if window == 1 { "one line there and back" } else { "bare ring" };
            row(bench, transport, window, row_name, &ours, (beside, &theirs));
            continue;
        }
        // A round trip stands beside the fastest that a socket can do. In a window, beside an
        // ordinary echo, whose ends block; and, in a row of its own, beside one that spins.
        if window > 1 {
            let mut bare = BareTcp::start(Ends::Block, BODY_BYTES, BODY_BYTES)?;
            let (ours, theirs) = in_turn(bench.effort, ours, |count| bare.round_trips(count, window));
            row(bench, transport, window, row_name.clone(), &ours, ("bare socket echo", &theirs));
        }
        let mut bare = BareTcp::start(Ends::Spin, BODY_BYTES, BODY_BYTES)?;
        let (ours, theirs) = in_turn(bench.effort, ours, |count| bare.round_trips(count, window));
        let row_name = if window > 1 { format!("{row_name}/against-spinning") } else { row_name };
        row(bench, transport, window, row_name, &ours, ("bare spinning echo", &theirs));
    }
    Ok(())
}

fn row(
    bench: &mut Bench,
    transport: &str,
    window: usize,
    name: String,
    ours: &[f64],
    (beside, theirs): (&str, &[f64]),
) {
    let row = if window == 1 {
        Row::nanoseconds(name, ours).beside(beside, theirs)
    } else {
        Row::rate(name, &rates(ours)).beside(beside, &rates(theirs))
    };
    bench.row(row.with("transport", transport).with("window", window).with("bytes", BODY_BYTES));
}

fn run_calls(connection: &Connection, count: usize, window: usize) {
    let request = [7u8; BODY_BYTES];
    if window == 1 {
        let mut reply = Vec::new();
        for _ in 0..count {
            connection.call(Method::Echo as u16, &request, &mut reply).wait().expect("the node is there");
        }
        return;
    }
    let replies = std::cell::RefCell::new(vec![Vec::with_capacity(64); window]);
    let replies = &replies;
    let calls = (0..count).map(|_| async move {
        let mut reply = replies.borrow_mut().pop().expect("a buffer for each in flight");
        connection.call(Method::Echo as u16, &request, &mut reply).await.expect("the node is there");
        assert_eq!(reply.len(), BODY_BYTES);
        replies.borrow_mut().push(reply);
    });
    Pipeline::new(window).run(calls, |()| {});
}
