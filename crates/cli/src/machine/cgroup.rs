//! The limits that a container or a service manager put on this process, in cgroup v1 or v2.
//!
//! A limit may sit on any ancestor, so the smallest on the way to the root is the one that
//! counts. Inside a container the path in `/proc/self/cgroup` may not exist below the
//! mount; the mount's own root is then the container's group.

use super::source::Source;
use barn_layout::planted;

const MOUNT: &str = "/sys/fs/cgroup";
/// cgroup v1 writes "no limit" as the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// The smallest memory limit that applies, in bytes.
pub fn memory_limit_bytes(source: &Source) -> Option<u64> {
    if planted("doctor_ignores_cgroups") {
        return None;
    }
    let v2 = smallest(source, "", &["", "unified"], |dir| source.parse(&format!("{dir}/memory.max")));
    let v1 =
        smallest(source, "memory", &["memory"], |dir| source.parse(&format!("{dir}/memory.limit_in_bytes")));
    v2.into_iter().chain(v1).filter(|limit| *limit < UNLIMITED).min()
}

/// The smallest CPU quota that applies, in cores.
pub fn cpu_quota(source: &Source) -> Option<f64> {
    let v2 = smallest(source, "", &["", "unified"], |dir| {
        let text = source.text(&format!("{dir}/cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        cores(quota.parse().ok()?, period.trim().parse().ok()?)
    });
    let v1 = smallest(source, "cpu", &["cpu", "cpu,cpuacct"], |dir| {
        let quota = source.parse(&format!("{dir}/cpu.cfs_quota_us"))?;
        cores(quota, source.parse(&format!("{dir}/cpu.cfs_period_us"))?)
    });
    v2.into_iter().chain(v1).min_by(f64::total_cmp)
}

fn cores(quota_us: i64, period_us: i64) -> Option<f64> {
    // A quota of -1 is v1's way to say that there is none.
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// The smallest of what `limit` finds in this process's group and in all its ancestors.
/// `controller` is empty for v2, whose one hierarchy has no controller's name.
fn smallest<T: PartialOrd>(
    source: &Source,
    controller: &str,
    mounts: &[&str],
    limit: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let path = path_of(source, controller).unwrap_or_default();
    let mut least: Option<T> = None;
    for mount in mounts {
        let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
        loop {
            let dir = [&[MOUNT, mount][..], &parts[..]].concat();
            let dir = dir.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
            if let Some(found) = limit(&dir) {
                least = Some(match least {
                    Some(least) if least <= found => least,
                    _ => found,
                });
            }
            if parts.pop().is_none() {
                break;
            }
        }
    }
    least
}

/// The group's path in the hierarchy of `controller`: the lines are `id:controllers:path`.
fn path_of(source: &Source, controller: &str) -> Option<String> {
    source.text("/proc/self/cgroup")?.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
    })
}
