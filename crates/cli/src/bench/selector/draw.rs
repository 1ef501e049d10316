//! Draws what the selector chose over time, and what a get took.

use std::fmt::Write;

use super::Moment;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 30.0;

/// One pair of plots for each transport: the part by request, and the latency.
pub(crate) fn svg(drawings: &[(&str, Vec<Moment>, Vec<f64>)]) -> String {
    let plots = drawings.len() as f64 * 2.0;
    let (width, height) = (WIDTH + LEFT + 20.0, plots * (HEIGHT + TOP) + TOP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let mut top = TOP;
    for (transport, moments, changes) in drawings {
        let parts = |moment: &Moment| moment.by_request * 100.0;
        plot(
            &mut svg,
            top,
            &format!("{transport}: gets by request, %"),
            moments,
            changes,
            parts,
            Some(100.0),
        );
        top += HEIGHT + TOP;
        let latencies = |moment: &Moment| moment.latency;
        plot(&mut svg, top, &format!("{transport}: a get, µs"), moments, changes, latencies, None);
        top += HEIGHT + TOP;
    }
    svg.push_str("</svg>\n");
    svg
}

fn plot(
    svg: &mut String,
    top: f64,
    title: &str,
    moments: &[Moment],
    changes: &[f64],
    value: impl Fn(&Moment) -> f64,
    most: Option<f64>,
) {
    let end = moments.iter().map(|moment| moment.at).fold(0.1, f64::max);
    let mut values: Vec<f64> = moments.iter().map(&value).collect();
    values.sort_by(f64::total_cmp);
    // One stray moment does not flatten all others.
    let usual = values.get(values.len() * 98 / 100).copied().unwrap_or(1.0);
    let most = most.unwrap_or(usual * 1.1).max(f64::MIN_POSITIVE);
    let x = |at: f64| LEFT + at / end * WIDTH;
    let y = |value: f64| top + HEIGHT - (value / most).min(1.0) * HEIGHT;
    let bottom = top + HEIGHT;
    let right = LEFT + WIDTH;
    let _ = write!(
        svg,
        "<text x=\"{LEFT}\" y=\"{}\">{title}</text>\n<path d=\"M{LEFT} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#888\"/>\n<text x=\"5\" y=\"{}\">{most:.1}</text>\n<text x=\"{}\" y=\"{}\">{end:.1} s</text>\n",
        top - 6.0,
        top + 10.0,
        right - 24.0,
        bottom + 14.0,
    );
    for change in changes {
        let at = x(*change);
        let _ = writeln!(
            svg,
            "<path d=\"M{at:.1} {top}V{bottom}\" stroke=\"#c33\" stroke-dasharray=\"4 3\" fill=\"none\"/>"
        );
    }
    let mut path = String::new();
    for (number, moment) in moments.iter().enumerate() {
        let command = if number == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x(moment.at), y(value(moment)));
    }
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"#236\" stroke-width=\"1.2\"/>");
}
