//! What is measured: one study for each kind of experiment, shared by the papers that it is about.

use std::io;

use super::claim::Paper;
use super::lab::Lab;

mod farm;
mod figures;
mod herd;
mod objects;
mod pilaf;
mod selector;
mod space;

/// An experiment.
pub(super) struct Study {
    /// What it is, for people who wait.
    pub(super) name: &'static str,
    /// The papers whose claims it is about.
    pub(super) papers: &'static [Paper],
    pub(super) run: fn(&mut Lab<'_>) -> io::Result<()>,
}

/// All of them.
pub(super) const ALL: [Study; 12] = [
    Study { name: "probes, READs, retries, space", papers: &[Paper::Pilaf, Paper::Farm], run: figures::rows },
    Study { name: "Pilaf, Figure 6", papers: &[Paper::Pilaf], run: figures::probes },
    Study { name: "Pilaf, Figure 10", papers: &[Paper::Pilaf], run: pilaf::mixes },
    Study { name: "FaRM, Figures 2 and 3", papers: &[Paper::Farm], run: farm::messages },
    Study { name: "FaRM, lock-free reads", papers: &[Paper::Farm], run: objects::reads },
    Study { name: "FaRM, Figures 10 and 11", papers: &[Paper::Farm], run: farm::sizes },
    Study { name: "FaRM, Figures 12 and 13", papers: &[Paper::Farm], run: farm::clients },
    Study { name: "HERD, Figures 9 and 11", papers: &[Paper::Herd], run: herd::puts_and_clients },
    Study { name: "HERD, Figure 10", papers: &[Paper::Herd], run: herd::sizes },
    Study { name: "RStore, section IV", papers: &[Paper::Rstore], run: space::rows },
    Study { name: "Cell, Figure 6", papers: &[Paper::Cell], run: selector::shares },
    Study { name: "Cell, Figure 8", papers: &[Paper::Cell], run: selector::searches },
];
