//! FaRM's section 3.6 and Pilaf's Figure 6: what a lookup looks at, and what a table takes.

use std::io;

use barn_index::{cuckoo, hopscotch};

use super::{Scale, figure};
use crate::report::{Better, Bound, Row};

pub(super) const ROWS: &[&str] = &[
    "hopscotch/reads-per-lookup/h8/90",
    "hopscotch/space/h6",
    "cuckoo/mean-probes/75",
    "cuckoo/max-probes/75",
    "linear/mean-probes/75",
    "linear/max-probes/75",
];

const FARM: &str = "FaRM 3.6";
const PILAF: &str = "Pilaf, Figure 6";
const FILL: f64 = 0.75;
const SEED: u64 = 1;
/// The places of the tables that `cuckoo::probes` and `linear_probes` fill. The longest run of taken
/// places grows with the table, so that it is told.
const CUCKOO_SLOTS: u64 = 1 << 16;
const LINEAR_SLOTS: u64 = 1 << 24;

/// All of them, on tables as they are.
pub(super) fn measure(scale: Scale) -> io::Result<Vec<Row>> {
    let keys = scale.hopscotch_keys;
    let (h8, h6) = (hopscotch::figures(8, keys), hopscotch::figures(6, keys));
    // What is no number would be taken for zero, which keeps every bound.
    if [h8.reads_per_lookup, h6.space].iter().any(|figure| !figure.is_finite()) {
        return Err(io::Error::other("the hopscotch table could not be filled"));
    }
    let cuckoo =
        cuckoo::probes(FILL, SEED).ok_or_else(|| io::Error::other("the cuckoo table holds no 75 %"))?;
    let linear = cuckoo::linear_probes(FILL, SEED);
    let information = |name: &str, ours: f64, paper: f64| {
        Row::new(name, "probes", Better::Lower, &[ours]).beside(PILAF, &[paper]).with("slots", LINEAR_SLOTS)
    };
    Ok(vec![
        figure(ROWS[0], "READs", h8.reads_per_lookup, (FARM, 1.04), Bound::AtMost(1.04))
            .with("keys", keys)
            .with("occupancy", h8.occupancy),
        figure(ROWS[1], "of the memory", h6.space, (FARM, 0.62), Bound::AtLeast(0.62))
            .with("keys", keys)
            .with("occupancy", h6.occupancy),
        figure(ROWS[2], "probes", cuckoo.mean, (PILAF, 1.6), Bound::AtMost(1.6)).with("slots", CUCKOO_SLOTS),
        figure(ROWS[3], "probes", cuckoo.most as f64, (PILAF, 3.0), Bound::AtMost(3.0))
            .with("slots", CUCKOO_SLOTS),
        information(ROWS[4], linear.mean, 2.5),
        information(ROWS[5], linear.most as f64, 213.0),
    ])
}
