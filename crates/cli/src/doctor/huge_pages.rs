//! Huge pages: the largest single gain for random reads that a machine has to give.

use super::{Check, Status};
use crate::machine::{HugePages, Machine};

const GROUP: &str = "Huge pages";
const WHY: &str = "random 64-byte reads run 1.5 to 2 times faster when a region lies in huge pages";
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let pages = &machine.huge_pages;
    vec![
        reserved_2mib(pages, machine.memory_bytes),
        reserved_1gib(pages),
        shared(pages, machine.memory_bytes),
        private(pages),
        defrag(pages),
    ]
}

/// A quarter of the memory: enough to try, and little enough that nothing else suffers.
fn pages_to_reserve(memory_bytes: u64) -> u64 {
    (memory_bytes / 4 / (2 << 20)).clamp(64, 2048)
}

fn reserved_2mib(pages: &HugePages, memory_bytes: u64) -> Check {
    let found = format!("{} free of {} reserved", pages.free_2mib, pages.reserved_2mib);
    // With transparent ones for shared memory, nothing is lost without a reserve.
    let status = match (pages.free_2mib, pages.shared_by_madvise()) {
        (1.., _) => Status::Good,
        (0, true) => Status::Note,
        (0, false) => Status::Limits,
    };
    let count = pages_to_reserve(memory_bytes);
    Check::new(GROUP, "2 MiB pages", status, found, WHY).fix(format!(
        "sudo sysctl -w vm.nr_hugepages={count}   # for good: echo vm.nr_hugepages={count} | sudo tee /etc/sysctl.d/90-barn.conf"
    ))
}

fn reserved_1gib(pages: &HugePages) -> Check {
    let found = format!("{} free of {} reserved", pages.free_1gib, pages.reserved_1gib);
    let why = "one TLB entry for each GiB helps regions past a few GiB; 2 MiB pages give most of the gain";
    Check::new(GROUP, "1 GiB pages", Status::Good, found, why)
}

fn shared(pages: &HugePages, memory_bytes: u64) -> Check {
    let name = "transparent, shared";
    let fix = format!("echo advise | sudo tee {TRANSPARENT}/shmem_enabled");
    let why = "regions are shared memory: before Linux 6.1 `never` means no transparent huge pages for them, and \
               random 64-byte reads run 1.5 to 2 times faster with huge pages";
    match pages.transparent_shared.as_deref() {
        None => Check::new(GROUP, name, Status::Note, "not in this kernel", why)
            .fix(format!("sudo sysctl -w vm.nr_hugepages={}", pages_to_reserve(memory_bytes))),
        Some(value) if pages.given_to_a_region => {
            Check::new(GROUP, name, Status::Good, format!("{value}; a region got them"), why)
        }
        Some(value) if pages.shared_by_madvise() => Check::new(GROUP, name, Status::Good, value, why),
        Some(value) => {
            let status = if pages.free_2mib > 0 { Status::Note } else { Status::Limits };
            Check::new(GROUP, name, status, value, why).fix(fix)
        }
    }
}

fn private(pages: &HugePages) -> Check {
    let why = "a node's private tables and logs ask for them by madvise";
    let status = match pages.transparent.as_deref() {
        Some("always" | "madvise") => Status::Good,
        _ => Status::Note,
    };
    let found = pages.transparent.as_deref().unwrap_or("not in this kernel");
    Check::new(GROUP, "transparent, private", status, found, why)
        .fix(format!("echo madvise | sudo tee {TRANSPARENT}/enabled"))
}

fn defrag(pages: &HugePages) -> Check {
    let why = "`never` leaves regions in small pages on a fragmented machine; `always` stalls faults of everybody else";
    let status = match pages.defrag.as_deref() {
        Some("madvise" | "defer+madvise" | "defer") => Status::Good,
        _ => Status::Note,
    };
    let found = pages.defrag.as_deref().unwrap_or("not in this kernel");
    Check::new(GROUP, "defragmentation", status, found, why)
        .fix(format!("echo madvise | sudo tee {TRANSPARENT}/defrag"))
}
