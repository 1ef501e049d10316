//! Memory: how much there is, how much of it is ours, and on how many nodes it lies.

use super::cgroup;
use super::source::Source;

/// Sizes in bytes; 0 where unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What the machine has.
    pub total_bytes: u64,
    /// What could be allocated without swapping.
    pub available_bytes: u64,
    /// What the cgroup allows.
    pub limit_bytes: Option<u64>,
    /// Swap space.
    pub swap_bytes: u64,
}

impl Memory {
    /// Reads `/proc/meminfo` and the cgroup's limit.
    pub fn read(source: &Source) -> Self {
        let field = |key| source.field("/proc/meminfo", key).and_then(|text| kib(&text)).unwrap_or(0);
        Self {
            total_bytes: field("MemTotal"),
            available_bytes: field("MemAvailable"),
            limit_bytes: cgroup::memory_limit_bytes(source),
            swap_bytes: field("SwapTotal"),
        }
    }

    /// What this process may use: the limit, where it is smaller than the machine.
    pub fn usable_bytes(&self) -> u64 {
        match self.limit_bytes {
            Some(limit) if self.total_bytes == 0 || limit < self.total_bytes => limit,
            _ => self.total_bytes,
        }
    }
}

/// Bytes of a figure such as `24682416 kB`.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// NUMA nodes that have memory; at least 1.
pub fn numa_nodes(source: &Source) -> usize {
    source
        .text("/sys/devices/system/node/has_memory")
        .and_then(|list| super::cpu::count_list(&list))
        .unwrap_or_else(|| {
            let is_node = |name: &String| {
                name.strip_prefix("node")
                    .is_some_and(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()))
            };
            source.list("/sys/devices/system/node").iter().filter(|name| is_node(name)).count()
        })
        .max(1)
}
