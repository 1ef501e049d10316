//! Cell's Figure 6: the selector beside every fixed mix, by how much of a core the node has; and how searches of a
//! tree go, alone and while it grows.

use std::io;
use std::time::Duration;

use barn::{Kind, Way};

use crate::bench::papers::claim::Paper;
use crate::bench::papers::lab::Lab;
use crate::bench::selector::Site;
use crate::plot::{Axis, Plot, Point, Series};
use crate::report::Spread;

/// Those who have as much of the node's core as it has, each.
const RIVALS: [usize; 4] = [0, 1, 2, 4];

/// Every mix and `auto`, over both transports.
pub(in crate::bench::papers) fn shares(lab: &mut Lab<'_>) -> io::Result<()> {
    // Long enough for the scheduler to give every thread of the node's core its turn, several times.
    let (slice, repeats) =
        if lab.quick { (Duration::from_millis(100), 3) } else { (Duration::from_millis(250), 5) };
    let tenths = lab.some(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[0, 5, 10]);
    for transport in ["shm", "tcp"] {
        let mut site = Site::start(transport, Kind::Tree)?;
        let curves = ["auto", "best", "request", "one-sided"];
        let mut points = vec![Vec::new(); curves.len()];
        for rivals in lab.some(&RIVALS, &[0, 1, 3]) {
            let sweep = site.sweep(tenths.iter().copied(), rivals, slice, repeats)?;
            let all = [&sweep.auto, sweep.best().1, sweep.mix(10), sweep.mix(0)];
            for ((name, samples), points) in curves.iter().zip(all).zip(&mut points) {
                points.push(Point::new(100.0 / (rivals + 1) as f64, Spread::of(samples)));
                lab.values.set(format!("cell/{transport}/{rivals}/{name}"), samples.to_vec());
            }
        }
        let mut plot = Plot::new(
            format!("Cell, Figure 6: the selector by the node's CPU, over {transport}"),
            Axis::linear("of one core for the node, %").up_to(100.0),
            Axis::log("gets/s"),
        )
        .caption(format!(
            "The node has all of a core or down to a fifth of it, where the paper gives its server 1 to 8 \
             cores; gets of a tree of 100,000 keys of 16 bytes with values of 32 in its leaves, where the paper \
             searches one of 20 million; one client. The best fixed mix is the best of {}, found afterwards.",
            tenths.len()
        ));
        let titles = ["selector", "best fixed mix", "by request only", "one-sided only"];
        for (title, points) in titles.into_iter().zip(points) {
            plot = plot.with(Series::new(title, points.into_iter().rev().collect()));
        }
        lab.draw(Paper::Cell, plot);
    }
    Ok(())
}

/// READs of a search, and how long searches take while the tree grows.
pub(in crate::bench::papers) fn searches(lab: &mut Lab<'_>) -> io::Result<()> {
    let (slice, repeats) =
        if lab.quick { (Duration::from_millis(60), 3) } else { (Duration::from_millis(250), 7) };
    let mut afar = Site::start("tcp", Kind::Tree)?;
    // All inner nodes have been seen by then.
    let reads = afar.reads_per_get(slice * 5, slice)?;
    lab.values.set("cell/reads-per-search", vec![reads]);
    drop(afar);
    let mut site = Site::start("shm", Kind::Tree)?;
    let ways = [("auto", Way::Auto), ("request", Way::Request)];
    let mut still = [vec![], vec![]];
    let mut growing = [[vec![], vec![]], [vec![], vec![]]];
    site.latencies(Way::Auto, slice)?;
    for _ in 0..repeats {
        for ((_, way), still) in ways.iter().zip(&mut still) {
            still.push(site.latencies(*way, slice)?[0]);
        }
        let grower = site.grow()?;
        for ((_, way), growing) in ways.iter().zip(&mut growing) {
            for (taken, samples) in site.latencies(*way, slice)?.into_iter().zip(growing) {
                samples.push(taken);
            }
        }
        grower.end()?;
    }
    for (((name, _), still), [median, p90]) in ways.iter().zip(still).zip(growing) {
        lab.values.set(format!("cell/still/{name}/p50"), still);
        lab.values.set(format!("cell/growing/{name}/p50"), median);
        lab.values.set(format!("cell/growing/{name}/p90"), p90);
    }
    Ok(())
}
