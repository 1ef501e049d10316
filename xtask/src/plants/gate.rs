//! A planted bug, and the gate that should catch it: a `cargo test` command.

use std::fmt;

/// A bug that somebody could make, and what stands against it.
#[derive(Debug)]
pub(super) struct Plant {
    /// The name that its `planted` is given.
    pub(super) name: &'static str,
    /// The gate that should catch it.
    pub(super) gate: Gate,
    /// A part of the path of the test that must fail.
    pub(super) fails: &'static str,
}

/// A `cargo test` command.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) package: &'static str,
    pub(super) target: Target,
    /// Which tests.
    pub(super) filter: &'static str,
    /// Whether it is compiled under `cfg(loom)`.
    pub(super) loom: bool,
}

/// Which binary of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Lib,
    Bin(&'static str),
    Test(&'static str),
}

impl Target {
    /// How cargo is asked for it.
    pub(super) fn args(self) -> Vec<&'static str> {
        match self {
            Self::Lib => vec!["--lib"],
            Self::Bin(name) => vec!["--bin", name],
            Self::Test(name) => vec!["--test", name],
        }
    }
}

/// A gate of a library's unit tests.
pub(super) const fn unit(package: &'static str, filter: &'static str) -> Gate {
    Gate { package, target: Target::Lib, filter, loom: false }
}

/// A gate of the tests of this program itself.
pub(super) const fn own(filter: &'static str) -> Gate {
    Gate { package: "xtask", target: Target::Bin("xtask"), filter, loom: false }
}

/// A gate of the fabric's loom models.
pub(super) const fn loom(filter: &'static str) -> Gate {
    Gate { package: "barn-fabric", target: Target::Lib, filter, loom: true }
}

/// A gate of the heap's loom models.
pub(super) const fn loom_heap(filter: &'static str) -> Gate {
    Gate { package: "barn-heap", target: Target::Lib, filter, loom: true }
}

/// A scenario on the simulated transport, over many seeds.
pub(super) const fn scenario(filter: &'static str) -> Gate {
    Gate { package: "barn-fabric", target: Target::Test("simulated_scenarios"), filter, loom: false }
}

/// The story of a coordinator and its members, over many seeds.
pub(super) const fn membership() -> Gate {
    Gate {
        package: "barn-cluster",
        target: Target::Test("simulated_membership"),
        filter: "nobody_acts",
        loom: false,
    }
}

/// The models of commit, recovery and reclamation, under schedules that shuttle chooses.
pub(super) const fn model(filter: &'static str) -> Gate {
    Gate { package: "barn-transaction", target: Target::Test("models"), filter, loom: false }
}

/// Histories of clients on the simulated world, over many seeds.
pub(super) const fn histories() -> Gate {
    Gate {
        package: "barn-transaction",
        target: Target::Test("simulated_transactions"),
        filter: "every_history_has_one_order",
        loom: false,
    }
}

/// Histories of clients of tables on the simulated world, over many seeds.
pub(super) const fn tables() -> Gate {
    Gate {
        package: "barn-index",
        target: Target::Test("simulated_tables"),
        filter: "every_key_has_one_order",
        loom: false,
    }
}

/// A gate of real nodes that are killed and started again.
pub(super) const fn restart(filter: &'static str) -> Gate {
    Gate { package: "barn", target: Target::Test("restart"), filter, loom: false }
}

/// A gate of the loom model of how a client's operations are counted.
pub(super) const fn loom_activity() -> Gate {
    Gate { package: "barn-transaction", target: Target::Lib, filter: "loom", loom: true }
}

/// A gate of the log's worlds: stories on a simulated disk, and what comes back after them.
pub(super) const fn log(filter: &'static str) -> Gate {
    Gate { package: "barn-log", target: Target::Lib, filter, loom: false }
}

/// A gate of spaces on real nodes.
pub(super) const fn spaces(filter: &'static str) -> Gate {
    Gate { package: "barn", target: Target::Test("spaces"), filter, loom: false }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.loom { "RUSTFLAGS=\"--cfg loom\" " } else { "" };
        let target = self.target.args().join(" ");
        write!(f, "{flags}cargo test -p {} --profile plants {target} {}", self.package, self.filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_shows_the_command_to_type() {
        assert_eq!(
            unit("barn-cli", "doctor").to_string(),
            "cargo test -p barn-cli --profile plants --lib doctor"
        );
        assert_eq!(
            loom("loom_ring").to_string(),
            "RUSTFLAGS=\"--cfg loom\" cargo test -p barn-fabric --profile plants --lib loom_ring"
        );
    }
}
