//! `barn bench figures`: what the papers measured that does not depend on hardware, measured here.
//!
//! | row | paper | figure |
//! |---|---|---|
//! | `hopscotch/reads-per-lookup/h8/90` | FaRM, section 3.6 | READs for a key, H = 8, 90 % full |
//! | `hopscotch/space/h6` | FaRM, section 3.6 | bytes of keys and values, of the memory they take, H = 6 |
//! | `cuckoo/mean-probes/75`, `…/max-probes/75` | Pilaf, Figure 6 | places that a lookup looks at, 75 % full |
//! | `linear/…` | Pilaf, Figure 6 | the same of linear probing |
//! | `cuckoo/reads-per-get` | Pilaf, section 3 | READs for a GET through the API |
//! | `retries/N-keys` | Pilaf, Figure 9 | GETs that read again while somebody puts as fast as it goes |
//! | `server-cpu-per-get` | Pilaf, section 3 | CPU of the node for a one-sided GET: none |
//! | `heap/fragmentation/…` | FaRM, section 3.2 | part of a slot that is wasted, over all sizes |
//!
//! Beside each stands the paper's value; `bound` is what ours must keep.

use std::io;
use std::time::Duration;

use crate::progress::Progress;
use crate::report::{Better, Bound, Report, Row};

mod heap;
mod index;
mod retries;
mod server_cpu;

/// What to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only rows whose name contains this, such as `cuckoo` or `retries`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Smaller tables and shorter loads.
    #[arg(long)]
    pub quick: bool,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Keys of a hopscotch table.
    hopscotch_keys: u64,
    /// How long each load of puts and gets lasts.
    load: Duration,
    /// One-sided GETs under the eyes of the node's clock.
    gets: u64,
}

const FULL: Scale = Scale { hopscotch_keys: 400_000, load: Duration::from_secs(2), gets: 20_000_000 };
const QUICK: Scale = Scale { hopscotch_keys: 200_000, load: Duration::from_secs(1), gets: 10_000_000 };

/// One kind of figures: what its rows begin with, and how they are measured.
type Part = (&'static [&'static str], fn(Scale) -> io::Result<Vec<Row>>);

const PARTS: [Part; 4] = [
    (index::ROWS, index::measure),
    (heap::ROWS, heap::measure),
    (retries::ROWS, retries::measure),
    (server_cpu::ROWS, server_cpu::measure),
];

/// Measures.
pub fn run(args: &Args) -> io::Result<Report> {
    let scale = if args.quick { QUICK } else { FULL };
    let mut report = Report::new("figures");
    let mut progress = Progress::new(PARTS.len() as u64);
    for (names, measure) in PARTS {
        progress.show(names[0]);
        if names.iter().any(|name| name.contains(&args.rows)) {
            let rows = measure(scale)?;
            debug_assert!(rows.iter().all(|row| names.contains(&row.name.as_str())));
            report.rows.extend(rows.into_iter().filter(|row| row.name.contains(&args.rows)));
        }
        progress.step(names[0]);
    }
    Ok(report)
}

/// A figure beside the paper's, with what ours must keep.
pub(crate) fn figure(name: &str, unit: &str, ours: f64, paper: (&str, f64), bound: Bound) -> Row {
    let better = if matches!(bound, Bound::AtMost(_)) { Better::Lower } else { Better::Higher };
    Row::new(name, unit, better, &[ours]).beside(paper.0, &[paper.1]).bound(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_the_papers_value_and_the_bound() {
        let row = figure("cuckoo/mean-probes/75", "probes", 1.5, ("Pilaf", 1.6), Bound::AtMost(1.6));
        let json = serde_json::to_value(&row).expect("serializes");
        assert_eq!((&json["value"], &json["beside_value"]), (&1.5.into(), &1.6.into()));
        assert_eq!((&json["bound_is"], &json["holds"]), (&"at most".into(), &true.into()));
        assert_eq!(json["better"], "lower");
    }

    #[test]
    fn the_figures_that_need_no_node_hold() {
        let rows = heap::measure(QUICK).expect("measures");
        assert_eq!(rows.len(), heap::ROWS.len());
        assert!(rows.iter().all(|row| row.extra["holds"] == true), "{rows:?}");
    }

    #[test]
    fn no_two_rows_have_one_name() {
        let mut names: Vec<_> = PARTS.iter().flat_map(|(names, _)| names.iter()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), PARTS.iter().map(|(names, _)| names.len()).sum::<usize>());
    }
}
