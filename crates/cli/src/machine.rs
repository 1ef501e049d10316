//! The facts about a machine that decide how fast Barn can be on it.
//!
//! A figure without its machine means nothing, so every benchmark's JSON carries a
//! [`Machine`], and `barn doctor` judges the same facts. All of them come through one
//! [`Source`], so that tests can show us machines that we do not have.
//!
//! What always holds: a fact that cannot be read is `None`, zero or "unknown", never a panic.

use barn_layout::bytes::human;
use serde::Serialize;

pub mod cgroup;
pub mod cpu;
pub mod huge_pages;
pub mod kernel;
pub mod memory;
pub mod rdma;
pub mod source;

pub use huge_pages::HugePages;
pub use source::Source;

/// What a benchmark's result says about where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The processor's model, as its vendor names it.
    pub cpu: String,
    /// Cores that this process may run on (affinity, then the cgroup's quota, rounded up).
    pub cores: usize,
    /// Cores that the machine has online.
    pub cores_online: usize,
    /// Memory that this process may use: the machine's, or its cgroup's limit if smaller.
    pub memory_bytes: u64,
    /// Memory that could be allocated now without swapping.
    pub memory_available_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Reserved and transparent huge pages.
    pub huge_pages: HugePages,
    /// Whether this is a virtual machine: its timings include a hypervisor's.
    pub virtualised: bool,
    /// Which hypervisor, where one can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Load over 1, 5 and 15 minutes when the facts were read: a busy machine measures low.
    pub load_average: [f64; 3],
}

impl Machine {
    /// The facts about the machine that this process runs on.
    pub fn here() -> Self {
        Self::read(&Source::live())
    }

    /// The facts that `source` shows.
    pub fn read(source: &Source) -> Self {
        let cores = cpu::Cores::read(source);
        let memory = memory::Memory::read(source);
        Self {
            cpu: cpu::model(source).unwrap_or_else(|| "unknown processor".into()),
            cores: cores.usable(),
            cores_online: cores.online,
            memory_bytes: memory.usable_bytes(),
            memory_available_bytes: memory.available_bytes,
            kernel: kernel::release(source).unwrap_or_else(|| "unknown".into()),
            huge_pages: HugePages::read(source),
            virtualised: cpu::virtualised(source),
            hypervisor: cpu::hypervisor(source),
            load_average: kernel::load_average(source),
        }
    }

    /// The machine in one line.
    pub fn summary(&self) -> String {
        format!(
            "{}, {} of {} core{}, {} of memory, Linux {}{}",
            self.cpu,
            self.cores,
            self.cores_online,
            if self.cores_online == 1 { "" } else { "s" },
            human(self.memory_bytes),
            self.kernel,
            if self.virtualised { ", virtual" } else { "" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_nothing_to_read_is_unknown_not_a_panic() {
        let machine = Machine::read(&Source::fixture("/nonexistent/barn"));
        assert_eq!(machine.cpu, "unknown processor");
        assert_eq!((machine.cores, machine.memory_bytes), (1, 0));
    }

    #[test]
    fn this_machine_can_be_read() {
        let machine = Machine::here();
        assert!(machine.cores >= 1 && machine.memory_bytes > 0, "{machine:?}");
    }
}
