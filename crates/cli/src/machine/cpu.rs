//! Processor: model, features, the cores that we may use, and whether it is a real one.

use super::cgroup;
use super::source::Source;

const CPUINFO: &str = "/proc/cpuinfo";

/// The model's name (x86), or what other architectures put in its place.
pub fn model(source: &Source) -> Option<String> {
    ["model name", "Model", "Processor", "cpu"]
        .iter()
        .find_map(|key| source.field(CPUINFO, key))
        .map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|name| !name.is_empty())
}

/// The feature flags of the first core.
pub fn flags(source: &Source) -> Vec<String> {
    ["flags", "Features"]
        .iter()
        .find_map(|key| source.field(CPUINFO, key))
        .map(|flags| flags.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Whether the processor says that a hypervisor runs below us, or the firmware does.
pub fn virtualised(source: &Source) -> bool {
    flags(source).iter().any(|flag| flag == "hypervisor") || hypervisor(source).is_some()
}

/// The hypervisor's name, where its firmware, its clock or Xen's own file betrays it.
pub fn hypervisor(source: &Source) -> Option<String> {
    if let Some(kind) = source.text("/sys/hypervisor/type") {
        return Some(kind);
    }
    let firmware = ["sys_vendor", "product_name"]
        .iter()
        .filter_map(|file| source.text(&format!("/sys/class/dmi/id/{file}")))
        .collect::<Vec<_>>()
        .join(" ");
    let clocks =
        source.text("/sys/devices/system/clocksource/clocksource0/available_clocksource").unwrap_or_default();
    [
        ("KVM", "kvm"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Virtual Machine", "hyper-v"),
        ("Amazon EC2", "amazon"),
        ("Google Compute", "google"),
        ("kvm-clock", "kvm"),
        ("hyperv", "hyper-v"),
    ]
    .iter()
    // EC2's `.metal` types carry Amazon's name and have no hypervisor below them.
    .find(|(mark, _)| (firmware.contains(mark) && !firmware.contains(".metal")) || clocks.contains(mark))
    .map(|(_, name)| (*name).to_owned())
}

/// How many cores there are, and what takes some away.
#[derive(Clone, Debug, PartialEq)]
pub struct Cores {
    /// Online in the machine; at least 1.
    pub online: usize,
    /// Allowed to this process by its affinity mask; `None` if unknown.
    pub affinity: Option<usize>,
    /// The cgroup's quota, in cores; `None` if there is none.
    pub quota: Option<f64>,
}

impl Cores {
    /// Reads the three figures.
    pub fn read(source: &Source) -> Self {
        let online = source
            .text("/sys/devices/system/cpu/online")
            .and_then(|list| count_list(&list))
            .or_else(|| {
                let info = source.text(CPUINFO)?;
                Some(info.lines().filter(|line| line.starts_with("processor")).count())
            })
            .unwrap_or(1)
            .max(1);
        let affinity =
            source.field("/proc/self/status", "Cpus_allowed_list").and_then(|list| count_list(&list));
        Self { online, affinity, quota: cgroup::cpu_quota(source) }
    }

    /// Cores that can be kept busy: a quota of 1.5 is 2, of which one is throttled.
    pub fn usable(&self) -> usize {
        let allowed = self.affinity.unwrap_or(self.online).min(self.online);
        let quota = self.quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
        allowed.min(quota).max(1)
    }
}

/// Counts a kernel list such as `0-3,8,10-11`. `None` if it is not one.
pub fn count_list(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_counted_and_garbage_is_refused() {
        assert_eq!(count_list("0-3,8,10-11\n"), Some(7));
        assert_eq!(count_list("0"), Some(1));
        for bad in ["", "3-1", "a-b", "0-18446744073709551615,1", "-"] {
            assert_eq!(count_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_smallest_limit_decides() {
        let cores = |online, affinity, quota| Cores { online, affinity, quota }.usable();
        assert_eq!(cores(8, None, None), 8);
        assert_eq!(cores(8, Some(4), Some(1.5)), 2);
        assert_eq!(cores(8, Some(4), Some(f64::INFINITY)), 4);
        assert_eq!(cores(8, Some(4), Some(0.0)), 1);
    }
}
