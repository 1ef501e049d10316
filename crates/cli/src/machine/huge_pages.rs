//! Huge pages: those set aside, and those that the kernel makes by itself.
//!
//! Random 64-byte reads in 4 GiB run 1.5 to 1.8 times faster with them, because the TLB
//! covers what is read.

use serde::Serialize;

use super::source::Source;
use barn_fabric::region::Pages;

/// Reserved and transparent huge pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HugePages {
    /// Pages of 2 MiB set aside.
    pub reserved_2mib: u64,
    /// Of those, not in use.
    pub free_2mib: u64,
    /// Pages of 1 GiB set aside.
    pub reserved_1gib: u64,
    /// Of those, not in use.
    pub free_1gib: u64,
    /// Transparent huge pages for private memory.
    pub transparent: Option<String>,
    /// Transparent huge pages for shared memory, which is what regions are.
    pub transparent_shared: Option<String>,
    /// Whether a region of 2 MiB got a transparent huge page when that was tried: since Linux 6.1 it can, whatever
    /// the setting says, unless that is `deny`.
    pub given_to_a_region: bool,
    /// How hard the kernel works for a huge page at the moment of a page fault.
    pub defrag: Option<String>,
}

impl HugePages {
    /// Reads all of it.
    pub fn read(source: &Source) -> Self {
        let pool = |size_kb: u32, file: &str| {
            source.parse(&format!("/sys/kernel/mm/hugepages/hugepages-{size_kb}kB/{file}")).unwrap_or(0)
        };
        let transparent = |file: &str| source.choice(&format!("/sys/kernel/mm/transparent_hugepage/{file}"));
        Self {
            reserved_2mib: pool(2048, "nr_hugepages"),
            free_2mib: pool(2048, "free_hugepages"),
            reserved_1gib: pool(1_048_576, "nr_hugepages"),
            free_1gib: pool(1_048_576, "free_hugepages"),
            transparent: transparent("enabled"),
            transparent_shared: transparent("shmem_enabled"),
            given_to_a_region: source.kernel.region_pages == Some(Pages::Transparent),
            defrag: transparent("defrag"),
        }
    }

    /// Whether a region gets transparent huge pages if it asks for them.
    pub fn shared_by_madvise(&self) -> bool {
        self.given_to_a_region
            || matches!(
                self.transparent_shared.as_deref(),
                Some("always" | "within_size" | "advise" | "force")
            )
    }
}
