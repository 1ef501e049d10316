//! Pilaf: sections 3 and 5, Figures 6, 7, 9, 10 and 11.

use super::{Claim, Paper, READ_IS_A_LOAD};
use crate::bench::papers::claim::{Kind, Ours, Rule};

const NONE: Claim = Claim {
    paper: Paper::Pilaf,
    name: "",
    place: "",
    claim: "",
    kind: Kind::AnyHardware,
    unit: "",
    value: 0.0,
    ours: Ours::NotBuilt(""),
    rule: Rule::None,
    otherwise: "the table is not as the paper has it",
};
const RATIO: Claim = Claim { kind: Kind::RatioHere, unit: "×", otherwise: READ_IS_A_LOAD, ..NONE };

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "figure-6/cuckoo-mean",
        place: "Figure 6",
        claim: "3-way cuckoo, 75 % full: a lookup looks at 1.6 places",
        unit: "probes",
        value: 1.6,
        ours: Ours::Value("figures/cuckoo/mean-probes/75"),
        rule: Rule::AtMost { holds: 1.6, direction: 2.5 },
        ..NONE
    },
    Claim {
        name: "figure-6/cuckoo-most",
        place: "Figure 6",
        claim: "and at 3 at most",
        unit: "probes",
        value: 3.0,
        ours: Ours::Value("figures/cuckoo/max-probes/75"),
        rule: Rule::AtMost { holds: 3.0, direction: 3.0 },
        ..NONE
    },
    Claim {
        name: "figure-6/linear-mean",
        place: "Figure 6",
        claim: "linear probing as full looks at 2.5",
        unit: "probes",
        value: 2.5,
        ours: Ours::Value("figures/linear/mean-probes/75"),
        rule: Rule::Within { holds: 0.1, direction: 0.5 },
        ..NONE
    },
    Claim {
        name: "figure-6/linear-most",
        place: "Figure 6",
        claim: "and at 213 at most",
        unit: "probes",
        value: 213.0,
        ours: Ours::Value("figures/linear/max-probes/75"),
        rule: Rule::Within { holds: 0.25, direction: 3.0 },
        otherwise: "the longest run grows with the table, and the paper does not say how large its was",
        ..NONE
    },
    Claim {
        name: "section-3/reads-per-get",
        place: "Sections 3.2 and 3.4",
        claim: "a GET takes 1.6 READs for the entry and one for the extent",
        unit: "READs",
        value: 2.6,
        ours: Ours::Value("figures/cuckoo/reads-per-get"),
        rule: Rule::AtMost { holds: 2.6, direction: 3.2 },
        ..NONE
    },
    Claim {
        name: "figure-9/retries",
        place: "Figure 9",
        claim: "with 20,000 keys, less than 0.01 % of the GETs are read again under full load",
        unit: "of the GETs",
        value: 0.0001,
        ours: Ours::Value("figures/retries/20000-keys"),
        rule: Rule::AtMost { holds: 0.0001, direction: 0.001 },
        otherwise: "on two cores a writer can be stopped in the midst of a put, with its entry closed",
        ..NONE
    },
    Claim {
        name: "section-5.2/server-cpu",
        place: "Section 5.2",
        claim: "a GET costs the server no CPU",
        unit: "s",
        value: 0.0,
        ours: Ours::Value("figures/server-cpu-per-get"),
        rule: Rule::AtMost { holds: 1e-9, direction: 1e-8 },
        otherwise: "the node woke up for other reasons meanwhile",
        ..NONE
    },
    Claim {
        name: "section-5.2/get-over-read",
        place: "Section 5.2",
        claim: "a GET takes at least two READs: 1.28 M a second, of 2.449 M bare READs",
        value: 1.28 / 2.449,
        ours: Ours::Ratio("pilaf/one-sided/64/0", "pilaf/read"),
        rule: Rule::Within { holds: 0.25, direction: 0.5 },
        otherwise: "a READ is a load, so hashing and two checksums weigh more than the READs",
        ..RATIO
    },
    Claim {
        name: "figure-10/over-request",
        place: "Figure 10",
        claim: "90 % GETs of 64 bytes: one-sided reads do 2.1 times what requests alone do",
        value: 2.1,
        ours: Ours::Ratio("pilaf/one-sided/64/10", "pilaf/request/64/10"),
        rule: Rule::AtLeast { holds: 2.1, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-10/over-request-4096",
        place: "Figure 10",
        claim: "of 4096 bytes, 1.1 times",
        value: 1.1,
        ours: Ours::Ratio("pilaf/one-sided/4096/10", "pilaf/request/4096/10"),
        rule: Rule::AtLeast { holds: 1.1, direction: 1.0 },
        otherwise: "the checksum of a long value costs the client more than a copy costs the node",
        ..RATIO
    },
    Claim {
        name: "figure-10/over-tcp-store",
        place: "Figure 10",
        claim: "of 64 bytes, 1.3 M a second, of less than 60 k of Redis and memcached over TCP",
        value: 1300.0 / 60.0,
        ours: Ours::Ratio("pilaf/one-sided/64/10", "pilaf/tcp-store/64/10"),
        rule: Rule::AtLeast { holds: 1300.0 / 60.0, direction: 1.0 },
        otherwise: "the tenth that is put is asked of the node, and waits for it",
        ..RATIO
    },
    Claim {
        name: "figure-11/latency",
        place: "Figure 11",
        claim: "90 % GETs of 1024 bytes: a median 9 times lower than that of Redis and memcached",
        value: 9.0,
        ours: Ours::Ratio("pilaf/one-sided/1024/10", "pilaf/tcp-store/1024/10"),
        rule: Rule::AtLeast { holds: 9.0, direction: 1.0 },
        otherwise: "one client waits for its puts as long as for anybody's",
        ..RATIO
    },
];
