//! What the selector chose over time, and what a get took, as plots.

use super::Moment;
use crate::plot::{Axis, Plot, Point, Series};

/// One pair of plots for each transport: the part by request, and the latency.
pub(crate) fn plots(drawings: &[(&str, Vec<Moment>, Vec<f64>)]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (transport, moments, changes) in drawings {
        let mut draw = |what: &str, y: Axis, value: &dyn Fn(&Moment) -> f64| {
            let points = moments.iter().map(|moment| Point::exact(moment.at, value(moment))).collect();
            let plot = Plot::new(format!("{transport}: {what}"), Axis::linear("seconds"), y)
                .caption("Dashed: the node loses its core to other threads, and gets it back.")
                .with(Series::line("auto", points));
            plots.push(Plot { changes: changes.clone(), ..plot });
        };
        draw("gets by request", Axis::linear("%").up_to(100.0), &|moment| moment.by_request * 100.0);
        let mut latencies: Vec<f64> = moments.iter().map(|moment| moment.latency).collect();
        latencies.sort_by(f64::total_cmp);
        // One stray moment does not flatten all others.
        let usual = latencies.get(latencies.len() * 98 / 100).copied().unwrap_or(1.0);
        draw("a get", Axis::linear("µs").up_to(usual * 1.1), &|moment| moment.latency);
    }
    plots
}
