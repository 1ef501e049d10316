//! Cell: sections 3 to 5, Figures 4 to 9, measured on a tree of one node.

use super::{Claim, Paper, READ_IS_A_LOAD};
use crate::bench::papers::claim::{Kind, Ours, Rule};

const RATIO: Claim = Claim {
    paper: Paper::Cell,
    name: "",
    place: "",
    claim: "",
    kind: Kind::RatioHere,
    unit: "×",
    value: 0.0,
    ours: Ours::NotBuilt(""),
    rule: Rule::None,
    otherwise: "the selector took the slower way too often",
};
/// What the selector may lose by trying the other way.
const AS_GOOD: Rule = Rule::AtLeast { holds: 0.95, direction: 0.8 };

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "figure-6/plenty/shm",
        place: "Figure 6",
        claim: "the selector is as good as the best fixed ratio: with a core for the node, over shm",
        kind: Kind::AnyHardware,
        value: 1.0,
        ours: Ours::Ratio("cell/shm/0/auto", "cell/shm/0/best"),
        rule: AS_GOOD,
        ..RATIO
    },
    Claim {
        name: "figure-6/little/shm",
        place: "Figure 6",
        claim: "with a fifth of a core, over shm",
        kind: Kind::AnyHardware,
        value: 1.0,
        ours: Ours::Ratio("cell/shm/4/auto", "cell/shm/4/best"),
        rule: AS_GOOD,
        ..RATIO
    },
    Claim {
        name: "figure-6/plenty/tcp",
        place: "Figure 6",
        claim: "with a core, over tcp",
        kind: Kind::AnyHardware,
        value: 1.0,
        ours: Ours::Ratio("cell/tcp/0/auto", "cell/tcp/0/best"),
        rule: AS_GOOD,
        ..RATIO
    },
    Claim {
        name: "figure-6/little/tcp",
        place: "Figure 6",
        claim: "with a fifth of a core, over tcp",
        kind: Kind::AnyHardware,
        value: 1.0,
        ours: Ours::Ratio("cell/tcp/4/auto", "cell/tcp/4/best"),
        rule: AS_GOOD,
        otherwise: "who reads over tcp waits for the node's core either way, and both ways look alike",
        ..RATIO
    },
    Claim {
        name: "section-4/over-server-side",
        place: "Section 4",
        claim: "with little CPU: 439 k where requests alone do 164 k (over shm)",
        value: 439.0 / 164.0,
        ours: Ours::Ratio("cell/shm/4/auto", "cell/shm/4/request"),
        rule: Rule::AtLeast { holds: 439.0 / 164.0, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "section-4/over-client-side",
        place: "Section 4",
        claim: "with 8 cores: 3.7 times what reading alone does (here: one core, over tcp)",
        value: 3.7,
        ours: Ours::Ratio("cell/tcp/0/auto", "cell/tcp/0/one-sided"),
        rule: Rule::AtLeast { holds: 3.7, direction: 1.0 },
        otherwise: "inner nodes are remembered, so that a search is one READ, where the paper's are four and more",
        ..RATIO
    },
    Claim {
        name: "section-4/over-server-side-plenty",
        place: "Section 4",
        claim: "and 1.07 times what requests alone do (over shm)",
        value: 1.07,
        ours: Ours::Ratio("cell/shm/0/auto", "cell/shm/0/request"),
        rule: Rule::AtLeast { holds: 1.07, direction: 1.0 },
        otherwise: READ_IS_A_LOAD,
        ..RATIO
    },
    Claim {
        name: "figure-5/servers",
        place: "Figure 5",
        claim: "16 servers search 9.2 times as often as one, and 70 % more than by requests alone",
        value: 9.2,
        ours: Ours::NotHere("it takes machines of their own, and here are two cores"),
        rule: Rule::AtLeast { holds: 9.2, direction: 1.0 },
        otherwise: "there is one machine",
        ..RATIO
    },
    Claim {
        name: "section-3/reads-per-search",
        place: "Section 3, node size",
        claim: "4 READs of 1 KB for a search, with what is remembered (a value in the leaf, over tcp)",
        kind: Kind::AnyHardware,
        unit: "READs",
        value: 4.0,
        ours: Ours::Value("cell/reads-per-search"),
        rule: Rule::AtMost { holds: 4.0, direction: 5.0 },
        otherwise: "what was remembered did not last",
        ..RATIO
    },
    Claim {
        name: "figure-8/splits",
        place: "Figure 8",
        claim: "searches keep their latency while nodes split (the median, over shm, beside that of a tree at rest)",
        value: 1.0,
        ours: Ours::Ratio("cell/growing/auto/p50", "cell/still/auto/p50"),
        rule: Rule::AtMost { holds: 1.25, direction: 2.0 },
        otherwise: "who puts keys takes its share of the reader's core",
        ..RATIO
    },
    Claim {
        name: "figure-8/p90",
        place: "Figure 8",
        claim: "and nine of ten are sooner done than by requests alone, which wait for the writers",
        value: 1.0,
        ours: Ours::Ratio("cell/growing/auto/p90", "cell/growing/request/p90"),
        rule: Rule::AtMost { holds: 1.0, direction: 1.1 },
        otherwise: "the node had time for both",
        ..RATIO
    },
];
