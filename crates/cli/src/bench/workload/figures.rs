//! What was measured of a workload, as a row.

use super::crew::Measured;
use crate::report::Row;

/// A rate, and beside it how long operations took and what they cost.
///
/// | field | what |
/// |---|---|
/// | `p50_ns`, `p99_ns`, `p999_ns`, `max_ns` | times of operations over all repeats, those of a group together |
/// | `timed` | operations that were timed |
/// | `client_cpu_s_per_million`, `server_cpu_s_per_million` | seconds of CPU for a million operations; of the client also those that it waits away |
/// | `unserved` | operations of an open loop whose turn came and whom the store did not get to |
/// | `misses`, `retries` | reads that found nothing (`cache`); swaps that met another's change |
/// | `short_scans` | scans that came to the last key before they had as many as they wanted |
pub(crate) fn row(name: String, measured: &Measured) -> Row {
    let mut row = Row::rate(name, &measured.rates)
        .with("p50_ns", measured.latencies.percentile(50.0))
        .with("p99_ns", measured.latencies.percentile(99.0))
        .with("p999_ns", measured.latencies.percentile(99.9))
        .with("max_ns", measured.latencies.max())
        .with("timed", measured.latencies.len())
        .with("client_cpu_s_per_million", measured.per_million(measured.client_seconds))
        .with("server_cpu_s_per_million", measured.per_million(measured.server_seconds));
    let tally = measured.tally;
    for (name, count) in [
        ("unserved", measured.unserved),
        ("misses", tally.misses),
        ("retries", tally.retries),
        ("short_scans", tally.short),
    ] {
        if count > 0 {
            row = row.with(name, count);
        }
    }
    row
}
