//! Cell: sections 4 and 5, Figures 4 to 9. What its selector does is measured on tables: the tree is not
//! there yet.

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
const LATER: Claim = Claim { kind: Kind::NotBuilt, ..RATIO };
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
        otherwise: "a table's lookup is one READ, where a tree's is one for each level",
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
        ours: Ours::NotBuilt("the tree"),
        ..LATER
    },
    Claim {
        name: "figure-8/splits",
        place: "Figure 8",
        claim: "searches keep their latency while nodes and meganodes split",
        value: 1.0,
        ours: Ours::NotBuilt("the tree"),
        ..LATER
    },
];
