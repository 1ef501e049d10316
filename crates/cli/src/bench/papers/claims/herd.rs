//! HERD: section 5, Figures 9 to 12. The paper's other systems are emulated there without their stores;
//! here they are whole: Pilaf's cuckoo table, and FaRM's hopscotch table with values inside and outside.
//!
//! Ratios of requests to READs are measured over tcp, where a READ is a round trip as in the paper, and over
//! shm, where it is not.

use super::{AGENT_IS_A_CPU, Claim, Paper, READ_IS_A_LOAD};
use crate::bench::papers::claim::{Kind, Ours, Rule};

const NONE: Claim = Claim {
    paper: Paper::Herd,
    name: "",
    place: "",
    claim: "",
    kind: Kind::AnyHardware,
    unit: "",
    value: 0.0,
    ours: Ours::NotBuilt(""),
    rule: Rule::None,
    otherwise: "the structure is not as the paper has it",
};
const RATIO: Claim = Claim { kind: Kind::RatioHere, unit: "×", otherwise: AGENT_IS_A_CPU, ..NONE };

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "section-5.1/reads-inline",
        place: "Section 5.1.2",
        claim: "FaRM with values inside: approximately one READ for a GET",
        unit: "READs",
        value: 1.0,
        ours: Ours::Value("herd/reads/inline"),
        rule: Rule::AtMost { holds: 1.1, direction: 1.5 },
        ..NONE
    },
    Claim {
        name: "section-5.1/reads-outside",
        place: "Section 5.1.2",
        claim: "with values outside: two",
        unit: "READs",
        value: 2.0,
        ours: Ours::Value("herd/reads/outside"),
        rule: Rule::AtMost { holds: 2.1, direction: 2.5 },
        ..NONE
    },
    Claim {
        name: "section-5.1/reads-cuckoo",
        place: "Section 5.1.1",
        claim: "Pilaf: 2.6, 75 % full",
        unit: "READs",
        value: 2.6,
        ours: Ours::Value("herd/reads/cuckoo"),
        rule: Rule::AtMost { holds: 2.6, direction: 3.2 },
        ..NONE
    },
    Claim {
        name: "section-5.1/reads-request",
        place: "Section 4",
        claim: "HERD: none",
        unit: "READs",
        value: 0.0,
        ours: Ours::Value("herd/reads/request"),
        rule: Rule::AtMost { holds: 0.0, direction: 0.01 },
        ..NONE
    },
    Claim {
        name: "figure-9/over-pilaf/tcp",
        place: "Figure 9",
        claim: "5 % PUTs, over tcp: requests do 26 M where Pilaf's READs do 9.9 M",
        value: 26.0 / 9.9,
        ours: Ours::Ratio("herd/puts/tcp/request/5", "herd/puts/tcp/cuckoo/5"),
        rule: Rule::AtLeast { holds: 26.0 / 9.9, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-9/over-pilaf/shm",
        place: "Figure 9",
        claim: "the same over shm",
        value: 26.0 / 9.9,
        ours: Ours::Ratio("herd/puts/shm/request/5", "herd/puts/shm/cuckoo/5"),
        rule: Rule::AtLeast { holds: 26.0 / 9.9, direction: 1.0 },
        otherwise: READ_IS_A_LOAD,
        ..RATIO
    },
    Claim {
        name: "figure-9/over-farm/tcp",
        place: "Figure 9",
        claim: "over tcp: 26 M where FaRM's single READ does 17.2 M",
        value: 26.0 / 17.2,
        ours: Ours::Ratio("herd/puts/tcp/request/5", "herd/puts/tcp/inline/5"),
        rule: Rule::AtLeast { holds: 26.0 / 17.2, direction: 1.0 },
        otherwise: "one READ and one request are one round trip each, and here both end at a CPU",
        ..RATIO
    },
    Claim {
        name: "figure-9/over-farm/shm",
        place: "Figure 9",
        claim: "the same over shm",
        value: 26.0 / 17.2,
        ours: Ours::Ratio("herd/puts/shm/request/5", "herd/puts/shm/inline/5"),
        rule: Rule::AtLeast { holds: 26.0 / 17.2, direction: 1.0 },
        otherwise: READ_IS_A_LOAD,
        ..RATIO
    },
    Claim {
        name: "figure-9/one-read-over-two/tcp",
        place: "Figure 9",
        claim: "over tcp: one READ does 17.2 M where two do 11.4 M",
        value: 17.2 / 11.4,
        ours: Ours::Ratio("herd/puts/tcp/inline/0", "herd/puts/tcp/outside/0"),
        rule: Rule::AtLeast { holds: 17.2 / 11.4, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-9/one-read-over-two/shm",
        place: "Figure 9",
        claim: "the same over shm",
        value: 17.2 / 11.4,
        ours: Ours::Ratio("herd/puts/shm/inline/0", "herd/puts/shm/outside/0"),
        rule: Rule::AtLeast { holds: 17.2 / 11.4, direction: 1.0 },
        otherwise: READ_IS_A_LOAD,
        ..RATIO
    },
    Claim {
        name: "figure-9/mixes",
        place: "Figure 9",
        claim: "requests: half of them PUTs or few, the rate is the same",
        value: 1.0,
        ours: Ours::Ratio("herd/puts/shm/request/50", "herd/puts/shm/request/5"),
        rule: Rule::Within { holds: 0.15, direction: 0.4 },
        otherwise: "a PUT writes the log of the cache and its index, which no network hides here",
        ..RATIO
    },
    Claim {
        name: "figure-11/one-read-latency/tcp",
        place: "Figure 11",
        claim: "over tcp, one client: FaRM's single READ has the lowest latency, below a request's (times)",
        value: 1.0,
        ours: Ours::Ratio("herd/latency/tcp/inline/1", "herd/latency/tcp/request/1"),
        rule: Rule::AtMost { holds: 1.0, direction: 1.1 },
        ..RATIO
    },
    Claim {
        name: "figure-11/two-reads-latency/tcp",
        place: "Figure 11",
        claim: "and two READs have a higher one than a request (times)",
        value: 1.0,
        ours: Ours::Ratio("herd/latency/tcp/outside/1", "herd/latency/tcp/request/1"),
        rule: Rule::AtLeast { holds: 1.0, direction: 0.9 },
        ..RATIO
    },
    Claim {
        name: "figure-12/clients",
        place: "Figure 12",
        claim: "requests: the rate stays at its highest as clients come, up to 260 (here: 4, over shm)",
        value: 1.0,
        ours: Ours::Ratio("herd/clients/shm/request/4", "herd/clients/shm/request/best"),
        rule: Rule::AtLeast { holds: 0.9, direction: 0.6 },
        otherwise: "clients that spin share two cores with the node that they wait for",
        ..RATIO
    },
];
