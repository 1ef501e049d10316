//! What a node shows of itself over HTTP: metrics for Prometheus, health, readiness.
//!
//! What always holds: whoever asks here asks nothing of the poll loop, and can neither slow the node
//! down nor change anything (see [`http`]).

mod http;
mod render;
mod request;
mod table;

use barn::node::Probe;
use http::{Answer, Port};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A poll loop that has written nothing down for so long stands still: it does so ten times a lease,
/// and this is five of the default leases.
const STILL: Duration = Duration::from_secs(5);

/// The port where a node's metrics are. Closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Metrics {
    port: Port,
}

impl Metrics {
    /// Listens, and answers from now on.
    pub(crate) fn open(address: SocketAddr, probe: Probe) -> io::Result<Self> {
        let answers = Arc::new(move |path: &str| answer(path, &probe));
        Ok(Self { port: Port::open(address, answers)? })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.port.address()
    }
}

fn answer(path: &str, probe: &Probe) -> Answer {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    match path {
        "/metrics" => Answer { status: 200, kind, body: render::render(probe) },
        "/healthz" => verdict(is_alive(probe)),
        "/readyz" => verdict(is_alive(probe).and_then(|()| is_member(probe))),
        "/" => Answer::text(200, "/metrics\n/healthz\n/readyz\n"),
        _ => Answer::text(404, "nothing is here: /metrics, /healthz and /readyz are\n"),
    }
}

fn verdict(outcome: Result<(), String>) -> Answer {
    match outcome {
        Ok(()) => Answer::text(200, "ok\n"),
        Err(why) => Answer::text(503, format!("{why}\n")),
    }
}

fn is_alive(probe: &Probe) -> Result<(), String> {
    let still = STILL.max(probe.directory().configuration().lease() * 5);
    match probe.age() {
        // It has not been up for long enough to say anything.
        None => Ok(()),
        Some(age) if age < still => Ok(()),
        Some(age) => Err(format!("the poll loop has stood still for {} ms", age.as_millis())),
    }
}

fn is_member(probe: &Probe) -> Result<(), String> {
    match probe.age() {
        None => Err("the node is starting".into()),
        Some(_) if probe.lease_left().is_zero() => {
            Err("the node has no lease in its cluster: it serves nobody until it has".into())
        }
        Some(_) => Ok(()),
    }
}
