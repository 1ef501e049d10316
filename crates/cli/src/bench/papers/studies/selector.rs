//! Cell's Figure 6: the selector beside every fixed mix, by how much of a core the node has.

use std::io;
use std::time::Duration;

use crate::bench::papers::claim::Paper;
use crate::bench::papers::lab::Lab;
use crate::bench::selector::Site;
use crate::plot::{Axis, Plot, Point, Series};
use crate::report::Spread;

/// Threads that never rest, with which the node shares its core.
const RIVALS: [usize; 4] = [0, 1, 2, 4];

/// Every mix and `auto`, over both transports.
pub(in crate::bench::papers) fn shares(lab: &mut Lab<'_>) -> io::Result<()> {
    // Long enough for the scheduler to give every thread of the node's core its turn, several times.
    let (slice, repeats) =
        if lab.quick { (Duration::from_millis(100), 3) } else { (Duration::from_millis(250), 5) };
    let tenths = lab.some(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], &[0, 5, 10]);
    for transport in ["shm", "tcp"] {
        let mut site = Site::start(transport)?;
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
            "The node shares a core with 0 to 4 threads that never rest, where the paper gives its server 1 to 8 \
             cores; gets of a table, where the paper searches a tree; one client. The best fixed mix is the best of \
             {}, found afterwards.",
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
