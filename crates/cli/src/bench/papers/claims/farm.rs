//! FaRM: sections 2, 3.2, 3.5, 3.6 and 4, Figures 2, 3 and 10 to 15.

use super::{Claim, Paper, READ_IS_A_LOAD};
use crate::bench::papers::claim::{Kind, Ours, Rule};

const NONE: Claim = Claim {
    paper: Paper::Farm,
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
const RATIO: Claim = Claim { kind: Kind::RatioHere, unit: "×", otherwise: READ_IS_A_LOAD, ..NONE };
const LATER: Claim = Claim { kind: Kind::NotBuilt, unit: "×", ..NONE };

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "section-3.6/reads-per-lookup",
        place: "Section 3.6",
        claim: "hopscotch with H = 8, 90 % full: 1.04 READs for a lookup",
        unit: "READs",
        value: 1.04,
        ours: Ours::Value("figures/hopscotch/reads-per-lookup/h8/90"),
        rule: Rule::AtMost { holds: 1.04, direction: 1.6 },
        ..NONE
    },
    Claim {
        name: "section-3.6/space",
        place: "Section 3.6, Figure 11",
        claim: "with H = 6, 62 % of the memory is keys and values",
        unit: "of the memory",
        value: 0.62,
        ours: Ours::Value("figures/hopscotch/space/h6"),
        rule: Rule::AtLeast { holds: 0.62, direction: 0.5 },
        ..NONE
    },
    Claim {
        name: "section-4.1/reads-against-pilaf",
        place: "Section 4.1",
        claim: "a third of Pilaf's READs for a lookup",
        unit: "×",
        value: 3.0,
        ours: Ours::Ratio("figures/cuckoo/reads-per-get", "figures/hopscotch/reads-per-lookup/h8/90"),
        rule: Rule::AtLeast { holds: 3.0, direction: 1.0 },
        otherwise: "our cuckoo's entry tells a wrong key without its extent: 2.6 READs, where the paper counts 3.2",
        ..NONE
    },
    Claim {
        name: "section-3.2/fragmentation-mean",
        place: "Section 3.2",
        claim: "size classes waste 1.8 % on average",
        unit: "of a slot",
        value: 0.018,
        ours: Ours::Value("figures/heap/fragmentation/mean"),
        rule: Rule::AtMost { holds: 0.018, direction: 0.036 },
        ..NONE
    },
    Claim {
        name: "section-3.2/fragmentation-worst",
        place: "Section 3.2",
        claim: "and 3.6 % at worst",
        unit: "of a slot",
        value: 0.036,
        ours: Ours::Value("figures/heap/fragmentation/worst"),
        rule: Rule::AtMost { holds: 0.036, direction: 0.072 },
        ..NONE
    },
    Claim {
        name: "section-3.5/lock-free-reads",
        place: "Section 3.5",
        claim: "a lock-free read of an object is one READ",
        unit: "READs",
        value: 1.0,
        ours: Ours::Value("farm/lock-free/reads-per-operation"),
        rule: Rule::AtMost { holds: 1.0, direction: 1.1 },
        otherwise: "somebody wrote meanwhile",
        ..NONE
    },
    Claim {
        name: "section-3.5/lock-free-messages",
        place: "Section 3.5",
        claim: "and no message",
        unit: "messages",
        value: 0.0,
        ours: Ours::Value("farm/lock-free/messages-per-operation"),
        rule: Rule::AtMost { holds: 1e-3, direction: 1e-2 },
        otherwise: "leases were renewed meanwhile",
        ..NONE
    },
    Claim {
        name: "section-3.5/over-transaction",
        place: "Section 3.5",
        claim: "a lock-free read costs less than a transaction that reads the same (no figure is given)",
        value: 1.0,
        ours: Ours::Ratio("farm/lock-free/rate", "farm/transaction/rate"),
        rule: Rule::AtLeast { holds: 1.0, direction: 0.9 },
        otherwise: "a transaction that reads one object is read lock-free here, too",
        ..RATIO
    },
    Claim {
        name: "figure-2/message-over-tcp",
        place: "Figure 2",
        claim: "32 bytes: messages by RDMA come 9 to 11 times as often as over TCP",
        value: 9.0,
        ours: Ours::Ratio("farm/message/window", "farm/tcp/window"),
        rule: Rule::AtLeast { holds: 9.0, direction: 1.0 },
        otherwise: "loopback carries a whole window in one call",
        ..RATIO
    },
    Claim {
        name: "figure-2/read-over-message",
        place: "Figure 2",
        claim: "and one-sided READs twice as often as those",
        value: 2.0,
        ours: Ours::Ratio("farm/read/window", "farm/message/window"),
        rule: Rule::AtLeast { holds: 2.0, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-3/read-latency",
        place: "Figure 3",
        claim: "one at a time: a READ takes a twelfth of a request over TCP",
        value: 12.0,
        ours: Ours::Ratio("farm/read/alone", "farm/tcp/alone"),
        rule: Rule::AtLeast { holds: 12.0, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-12/over-tcp-store",
        place: "Figure 12",
        claim: "lookups: an order of magnitude more than a store over TCP",
        value: 10.0,
        ours: Ours::Ratio("farm/lookups/one-sided/1", "farm/lookups/tcp-1/1"),
        rule: Rule::AtLeast { holds: 10.0, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-12/zipf",
        place: "Figure 12",
        claim: "with YCSB's skew, 100 M lookups where there are 146 M without",
        value: 100.0 / 146.0,
        ours: Ours::Ratio("farm/lookups/one-sided-zipf/1", "farm/lookups/one-sided/1"),
        rule: Rule::AtLeast { holds: 100.0 / 146.0, direction: 0.5 },
        otherwise: "there is one node, and no hot one",
        ..RATIO
    },
    Claim {
        name: "figure-13/multi-get-24",
        place: "Figure 13",
        claim: "8 times the lookups of a TCP store that is asked for 24 keys at once",
        value: 8.0,
        ours: Ours::Ratio("farm/lookups/one-sided/1", "farm/lookups/tcp-24/1"),
        rule: Rule::AtLeast { holds: 8.0, direction: 1.0 },
        otherwise: "loopback carries a whole batch in one call, and no batch is split over 20 machines",
        ..RATIO
    },
    Claim {
        name: "figure-13/multi-get-100",
        place: "Figure 13",
        claim: "3 times those of one that is asked for 100",
        value: 3.0,
        ours: Ours::Ratio("farm/lookups/one-sided/1", "farm/lookups/tcp-100/1"),
        rule: Rule::AtLeast { holds: 3.0, direction: 1.0 },
        otherwise: "loopback carries a whole batch in one call, and no batch is split over 20 machines",
        ..RATIO
    },
    Claim {
        name: "section-4.1/over-messages",
        place: "Section 4.1",
        claim: "one-sided lookups instead of messages double the rate",
        value: 2.0,
        ours: Ours::Ratio("farm/lookups/one-sided/1", "farm/lookups/request/1"),
        rule: Rule::AtLeast { holds: 2.0, direction: 1.0 },
        ..RATIO
    },
    Claim {
        name: "figure-14/replication",
        place: "Figures 14 and 15",
        claim: "logging to SSDs in two replicas costs 30 % of the rate at 5 % updates",
        value: 0.7,
        ours: Ours::NotBuilt("replication"),
        ..LATER
    },
    Claim {
        name: "section-4.2/tao",
        place: "Section 4.2",
        claim: "Tao's graph: 10 times the rate and a fortieth to a fiftieth of the latency",
        value: 10.0,
        ours: Ours::NotBuilt("the graph store"),
        ..LATER
    },
];
