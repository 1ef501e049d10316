//! What no hardware changes: the rows of `barn bench figures`, and Pilaf's Figures 6 and 9.

use std::io;

use barn_index::cuckoo;

use crate::bench::figures;
use crate::bench::papers::claim::Paper;
use crate::bench::papers::lab::Lab;
use crate::plot::{Axis, Plot, Point, Series};

/// The table is the same in every run.
const SEED: u64 = 1;

/// The rows, and from them Figure 9.
pub(in crate::bench::papers) fn rows(lab: &mut Lab<'_>) -> io::Result<()> {
    let args = figures::Args { rows: String::new(), quick: lab.quick };
    let report = lab.take("figures", || figures::run(&args))?;
    let retries = report.rows.iter().filter(|row| row.name.starts_with("retries/"));
    let points = retries.filter_map(|row| {
        let keys = row.extra.get("keys")?.as_f64()?;
        Some(Point::exact(keys, row.value * 100.0))
    });
    lab.draw(
        Paper::Pilaf,
        Plot::new(
            "Pilaf, Figure 9: GETs that are read again",
            Axis::log("unique keys"),
            Axis::linear("GETs read again, %"),
        )
        .caption(
            "Entries and extents together; one client puts and one gets, each as fast as it goes, where the \
             paper has as many as saturate its server. The paper's bound is 0.01 % from 20,000 keys on.",
        )
        .with(Series::new("cuckoo, one-sided, under puts", points.collect())),
    );
    Ok(())
}

/// Figure 6: places that a lookup looks at, by how full the table is.
pub(in crate::bench::papers) fn probes(lab: &mut Lab<'_>) -> io::Result<()> {
    let fills = lab.some(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.89], &[0, 4, 7, 10]);
    // The bar reaches up to the most that any lookup needs, as the paper's does.
    let point = |fill: f64, probes: cuckoo::Probes| Point {
        x: fill * 100.0,
        y: probes.mean,
        low: probes.mean,
        high: probes.most as f64,
    };
    let cuckoo = fills.iter().filter_map(|fill| Some(point(*fill, cuckoo::probes(*fill, SEED)?)));
    let linear = fills.iter().map(|fill| point(*fill, cuckoo::linear_probes(*fill, SEED)));
    let plot = Plot::new(
        "Pilaf, Figure 6: probes of a lookup",
        Axis::linear("hash table fill, %").up_to(100.0),
        Axis::log("probes"),
    )
    .caption(
        "The mean, with a bar up to the most. Cuckoo: 65,536 places; linear probing: 16,777,216, and its \
         longest run grows with them.",
    )
    .with(Series::new("3-way cuckoo", cuckoo.collect()))
    .with(Series::new("linear probing", linear.collect()));
    lab.draw(Paper::Pilaf, plot);
    Ok(())
}
