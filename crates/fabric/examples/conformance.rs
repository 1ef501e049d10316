//! Runs the conformance suite on a transport and prints the count, without a test runner:
//! `cargo run --release -p barn-fabric --features conformance --example conformance [TRANSPORT] [CASE]`.
//!
//! TRANSPORT is a name of the table below, or a part of several. `names` prints the cases and runs none.

use barn_fabric::Messaging;
use barn_fabric::conformance::{CASES, Harness, Real, RealKind, Simulated, Style, run_all};
use std::process::ExitCode;

/// A transport's name, and how to make a harness for it.
type Entry = (&'static str, fn() -> Box<dyn Harness>);

const TRANSPORTS: &[Entry] = &[
    ("shm-ring", || Box::new(Real::new(RealKind::Shm(Messaging::Ring), Style::InPlace))),
    ("shm-request-region", || {
        Box::new(Real::new(RealKind::Shm(Messaging::RequestRegion { window: 16 }), Style::InPlace))
    }),
    ("shm-runtime", || Box::new(Real::new(RealKind::Shm(Messaging::Ring), Style::Runtime))),
    ("tcp", || Box::new(Real::new(RealKind::Tcp, Style::InPlace))),
    ("tcp-runtime", || Box::new(Real::new(RealKind::Tcp, Style::Runtime))),
    ("simulated", || Box::new(Simulated::new(1))),
    ("verbs-ring", || Box::new(Real::new(RealKind::Verbs(Messaging::Ring), Style::InPlace))),
    ("verbs-runtime", || Box::new(Real::new(RealKind::Verbs(Messaging::Ring), Style::Runtime))),
    ("verbs-herd", || {
        Box::new(Real::new(RealKind::Verbs(Messaging::RequestRegion { window: 16 }), Style::InPlace))
    }),
    ("verbs-herd-runtime", || {
        Box::new(Real::new(RealKind::Verbs(Messaging::RequestRegion { window: 16 }), Style::Runtime))
    }),
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (transport, case) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    if transport == "names" {
        CASES.iter().for_each(|(name, _)| println!("case {name}"));
        return ExitCode::SUCCESS;
    }
    let exact = TRANSPORTS.iter().any(|entry| entry.0 == transport);
    // Verbs need a device, which most machines have not: they are run when they are asked for.
    let asked = |name: &str| match transport.as_str() {
        "" => !name.starts_with("verbs"),
        _ if exact => name == transport,
        _ => name.contains(&transport),
    };
    let chosen: Vec<&Entry> = TRANSPORTS.iter().filter(|entry| asked(entry.0)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TRANSPORTS.iter().map(|entry| entry.0).collect();
        eprintln!("no transport `{transport}`; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let failed: usize = chosen.iter().map(|(_, harness)| run_all(harness, &case).1).sum();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
