//! What was measured, as rows.

use serde_json::{Map, Value};

use super::runner::Measured;
use super::workload::{Case, Contention, Operation};
use crate::report::{Row, Spread};

/// Ours, beside the best peer; all of them in `peers`.
pub(crate) fn ours(
    place: &str,
    case: Case,
    window: usize,
    ours: &Measured,
    peers: &[(&str, &Measured)],
) -> Row {
    let row = figures(Row::rate(name(place, case, window), &ours.rates), ours).with("window", window);
    let median = |measured: &Measured| Spread::of(&measured.rates).median;
    let best = peers.iter().max_by(|a, b| median(a.1).total_cmp(&median(b.1)));
    let rates: Map<String, Value> =
        peers.iter().map(|(name, measured)| ((*name).to_owned(), Value::from(median(measured)))).collect();
    match best {
        Some((name, measured)) => row
            .beside(*name, &measured.rates)
            .with("beside_p50_ns", measured.percentile_ns(50))
            .with("beside_p99_ns", measured.percentile_ns(99))
            .with("peers", rates),
        None => row,
    }
}

/// A row's name. Reading from one node is the plain case, and has the plain name.
pub(crate) fn name(place: &str, case: Case, window: usize) -> String {
    let place =
        if case.operation == Operation::Read4 { place.trim_end_matches("/single-node") } else { place };
    let both = case.operation == Operation::Rmw2 && case.contention == Contention::Low;
    format!("{place}/{}{}", case.name(), if both && window == 1 { "/blocking" } else { "" })
}

/// A peer's own figures.
pub(crate) fn peer(name: &str, case: Case, measured: &Measured) -> Row {
    figures(Row::rate(format!("peer/{name}/{}", case.name()), &measured.rates), measured)
}

fn figures(row: Row, measured: &Measured) -> Row {
    row.with("abort_rate", measured.abort_rate())
        .with("p50_ns", measured.percentile_ns(50))
        .with("p99_ns", measured.percentile_ns(99))
        .with("messages_per_op", measured.each(measured.counters.messages))
        .with("reads_per_op", measured.each(measured.counters.reads))
        .with("version_reads_per_op", measured.each(measured.counters.version_reads))
}
