//! RStore: section IV, Figures 3 to 7; section V.

use super::{Claim, Paper};
use crate::bench::papers::claim::{Kind, Ours, Rule};

const RATIO: Claim = Claim {
    paper: Paper::Rstore,
    name: "",
    place: "",
    claim: "",
    kind: Kind::RatioHere,
    unit: "×",
    value: 0.0,
    ours: Ours::NotBuilt(""),
    rule: Rule::None,
    otherwise: "there is no network to hide what a call costs",
};
const LATER: Claim = Claim { kind: Kind::NotBuilt, ..RATIO };
/// What the paper's bandwidth is of the most that there can be.
const BANDWIDTH: Rule = Rule::AtLeast { holds: 0.98, direction: 0.8 };

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "section-iv/read-8/shm",
        place: "Section IV-C",
        claim: "reading 8 bytes takes 12 µs where the network takes 9.6 (times, over shm)",
        value: 12.0 / 9.6,
        ours: Ours::Value("space/shm/read-8/latency:ratio"),
        rule: Rule::AtMost { holds: 12.0 / 9.6, direction: 2.0 },
        ..RATIO
    },
    Claim {
        name: "section-iv/read-8/tcp",
        place: "Section IV-C",
        claim: "the same over tcp",
        value: 12.0 / 9.6,
        ours: Ours::Value("space/tcp/read-8/latency:ratio"),
        rule: Rule::AtMost { holds: 12.0 / 9.6, direction: 2.0 },
        ..RATIO
    },
    Claim {
        name: "figure-6/bandwidth/shm",
        place: "Figure 6",
        claim: "one client has 59.1 of 60 Gb/s (over shm: of a memcpy)",
        value: 59.1 / 60.0,
        ours: Ours::Value("space/shm/read-large/bandwidth:ratio"),
        rule: BANDWIDTH,
        ..RATIO
    },
    Claim {
        name: "figure-6/bandwidth/tcp",
        place: "Figure 6",
        claim: "the same over tcp (of a bare socket)",
        value: 59.1 / 60.0,
        ours: Ours::Value("space/tcp/read-large/bandwidth:ratio"),
        rule: BANDWIDTH,
        ..RATIO
    },
    Claim {
        name: "figure-7/aggregate",
        place: "Figure 7",
        claim: "12 servers together have 705 of 720 Gb/s (here: 4 nodes of one machine, of a memcpy)",
        value: 705.0 / 720.0,
        ours: Ours::Value("space/shm/read-large/bandwidth/4-nodes:ratio"),
        rule: Rule::AtLeast { holds: 705.0 / 720.0, direction: 0.8 },
        otherwise: "one memory bus carries all nodes",
        ..RATIO
    },
    Claim {
        name: "figure-3/reserve-cached",
        place: "Section IV-B, Figure 3",
        claim: "reserving again: three orders of magnitude faster (22.1 s and 16.3 ms)",
        value: 22.1 / 0.0163,
        ours: Ours::Ratio("rstore/reserve-cold", "rstore/reserve-cached"),
        rule: Rule::AtLeast { holds: 1000.0, direction: 1.0 },
        otherwise: "what is released is kept, and asking for it is a round trip to the master",
        ..RATIO
    },
    Claim {
        name: "figure-3/map-cached",
        place: "Section IV-B, Figure 3",
        claim: "mapping again: the same (19.9 s and 3.3 ms)",
        value: 19.9 / 0.0033,
        ours: Ours::Ratio("rstore/map-cold", "rstore/map-cached"),
        rule: Rule::AtLeast { holds: 1000.0, direction: 1.0 },
        otherwise: "mapping is short here the first time, too: no connections to 72 servers are made",
        ..RATIO
    },
    Claim {
        name: "figure-4/clients",
        place: "Figure 4",
        claim: "setting up scales gracefully (no figure is given; here: 16 clients take at most 16 times as long as one)",
        value: 16.0,
        ours: Ours::Ratio("space/control/clients-16", "space/control/clients-1"),
        rule: Rule::AtMost { holds: 16.0, direction: 24.0 },
        otherwise: "16 clients share two cores with the node that prepares their memory",
        ..RATIO
    },
    Claim {
        name: "section-v/carafe",
        place: "Section V-B, Figure 10",
        claim: "Carafe computes PageRank 2.6 to 4.2 times as fast as GraphLab and GraphX",
        value: 2.6,
        ours: Ours::NotBuilt("Carafe"),
        ..LATER
    },
    Claim {
        name: "section-v/rsort",
        place: "Section V-C, Figure 12",
        claim: "RSort sorts 256 GB 8 times as fast as Hadoop TeraSort",
        value: 8.0,
        ours: Ours::NotBuilt("RSort"),
        ..LATER
    },
];
