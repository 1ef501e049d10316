//! Machines that we do not have, as fixture trees, and what the doctor says about them.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::machine::source::{Kernel, SpaceBytes};

/// A directory of files that is one machine, removed when the test ends.
struct Fixture {
    root: PathBuf,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("barn-doctor-{}-{id}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("has a parent")).expect("makes the fixture's directory");
            fs::write(path, text).expect("writes the fixture");
        }
        Self { root }
    }

    fn source(&self) -> Source {
        Source::fixture(&self.root)
    }

    fn examine(&self) -> Diagnosis {
        examine(&self.source())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn check<'a>(diagnosis: &'a Diagnosis, name: &str) -> &'a Check {
    diagnosis.checks.iter().find(|check| check.name == name).expect(name)
}

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 4096                 files
Max locked memory         65536                65536                bytes
";

#[test]
fn rdma_machine_shows_ports_gids_and_mtu() {
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    let zero = "0000:0000:0000:0000:0000:0000:0000:0000\n";
    let files: Vec<(String, &str)> = [
        ("state", "4: ACTIVE\n"),
        ("link_layer", "Ethernet\n"),
        ("gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n"),
        ("gids/1", "0000:0000:0000:0000:0000:ffff:0a09:0001\n"),
        ("gids/2", zero),
        ("gid_attrs/types/0", "IB/RoCE v1\n"),
        ("gid_attrs/types/1", "RoCE v2\n"),
        ("gid_attrs/ndevs/0", "eth1\n"),
        ("gid_attrs/ndevs/1", "eth1\n"),
    ]
    .map(|(path, text)| (format!("{port}/{path}"), text))
    .into();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files.extend([("sys/class/net/eth1/mtu", "1500\n"), ("proc/self/limits", LIMITS)]);
    let machine = Fixture::new(&files);

    let diagnosis = machine.examine();
    let port = check(&diagnosis, "port");
    assert_eq!(
        port.found,
        "mlx5_0 port 1: ACTIVE, Ethernet, link MTU 1500; \
         gid 0: fe80:0000:0000:0000:0000:00ff:fe00:0001 (IB/RoCE v1 on eth1); \
         gid 1: 0000:0000:0000:0000:0000:ffff:0a09:0001 (RoCE v2 on eth1)"
    );
    assert_eq!(port.fix.as_deref(), Some("sudo ip link set eth1 mtu 9000"));
    let verbs = check(&diagnosis, "verbs");
    assert_eq!(verbs.status, Status::Limits, "devices without the library are a limit");
    assert_eq!(verbs.found, "not available on this machine, because libibverbs.so.1 is not installed");
    assert_eq!(check(&diagnosis, "locked memory").status, Status::Limits, "RDMA pins memory");
}

#[test]
fn rdma_machine_with_its_library_in_a_configured_directory_has_verbs() {
    let machine = Fixture::new(&[
        ("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN"),
        ("etc/ld.so.conf.d/x.conf", "# extra\n/opt/rdma/lib\n"),
        ("opt/rdma/lib/libibverbs.so.1", "ELF"),
    ]);
    let diagnosis = machine.examine();
    assert_eq!(check(&diagnosis, "verbs").found, "available (/opt/rdma/lib/libibverbs.so.1)");
    assert_eq!(check(&diagnosis, "port").status, Status::Limits, "the port is down");
}

#[test]
fn container_is_as_large_as_its_smallest_ancestor_allows() {
    let machine = Fixture::new(&[
        ("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\nSwapTotal: 0 kB\n"),
        ("proc/self/cgroup", "0::/kube/pod7/barn\n"),
        ("sys/fs/cgroup/kube/pod7/barn/memory.max", "max\n"),
        ("sys/fs/cgroup/kube/pod7/memory.max", "2147483648\n"),
        ("sys/fs/cgroup/kube/memory.max", "34359738368\n"),
        ("sys/fs/cgroup/kube/pod7/barn/cpu.max", "50000 100000\n"),
        ("sys/devices/system/cpu/online", "0-15\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-3,8\n"),
        ("proc/self/limits", LIMITS),
    ]);
    let diagnosis = machine.examine();
    assert_eq!(diagnosis.machine.memory_bytes, 2 << 30);
    assert_eq!((diagnosis.machine.cores, diagnosis.machine.cores_online), (1, 16));
    let limit = check(&diagnosis, "cgroup memory limit");
    assert_eq!((limit.status, limit.found.as_str()), (Status::Limits, "2 GiB"));
    let cores = check(&diagnosis, "cores");
    assert_eq!(cores.found, "1 usable of 16 online (cgroup quota: 0.5) (affinity: 5)");
    assert_eq!(cores.status, Status::Limits);
    assert_eq!(check(&diagnosis, "open files").status, Status::Limits);
    assert_eq!(check(&diagnosis, "locked memory").status, Status::Note, "nothing pins without RDMA");
}

#[test]
fn cgroup_v1_limits_count_and_its_unlimited_does_not() {
    let files = [
        ("proc/meminfo", "MemTotal: 67108864 kB\n"),
        ("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n"),
        // The container sees its own group as the root of the mount.
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "8589934592\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"),
        ("sys/devices/system/cpu/online", "0-7\n"),
    ];
    let diagnosis = Fixture::new(&files).examine();
    assert_eq!((diagnosis.machine.memory_bytes, diagnosis.machine.cores), (8 << 30, 3));

    let unlimited = Fixture::new(&[
        ("proc/meminfo", "MemTotal: 1048576 kB\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
    ])
    .examine();
    assert_eq!(check(&unlimited, "cgroup memory limit").found, "none");
}

#[test]
fn numa_bare_metal_with_slow_settings_gets_a_fix_for_each() {
    let machine = Fixture::new(&[
        ("sys/devices/system/node/has_memory", "0-1\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("proc/cpuinfo", "processor : 0\nmodel name : Old   CPU\nflags : fpu sse2\n"),
        ("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\nSwapTotal: 1048576 kB\n"),
        ("proc/sys/kernel/osrelease", "4.19.0-generic\n"),
        ("proc/sys/kernel/io_uring_disabled", "2\n"),
        ("proc/sys/kernel/perf_event_paranoid", "4\n"),
    ]);
    let diagnosis = machine.examine();
    assert_eq!(diagnosis.machine.cpu, "Old CPU");
    assert!(!diagnosis.machine.virtualised);
    for name in [
        "numa nodes",
        "frequency governor",
        "clocksource",
        "crc hardware",
        "vectors",
        "swap",
        "version",
        "io_uring",
        "perf_event_paranoid",
    ] {
        let check = check(&diagnosis, name);
        assert!(check.status != Status::Good && check.fix.is_some(), "{check:?}");
    }
}

#[test]
fn huge_pages_limit_only_where_shared_memory_gets_none_of_either_kind() {
    let shmem = "sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let reserved = "sys/kernel/mm/hugepages/hugepages-2048kB";
    let never = (shmem, "always within_size advise [never] deny force\n");
    let advise = (shmem, "always within_size [advise] never deny force\n");
    let (total, free) = (format!("{reserved}/nr_hugepages"), format!("{reserved}/free_hugepages"));
    let pool = [(total.as_str(), "128\n"), (free.as_str(), "100\n")];

    let statuses = |files: &[(&str, &str)]| {
        let diagnosis = Fixture::new(files).examine();
        (check(&diagnosis, "2 MiB pages").status, check(&diagnosis, "transparent, shared").status)
    };
    assert_eq!(statuses(&[never]), (Status::Limits, Status::Limits));
    assert_eq!(statuses(&[advise]), (Status::Note, Status::Good));
    assert_eq!(statuses(&[never, pool[0], pool[1]]), (Status::Good, Status::Note));

    let diagnosis = Fixture::new(&[never]).examine();
    assert_eq!(
        check(&diagnosis, "transparent, shared").fix.as_deref(),
        Some("echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled")
    );

    // What a region got counts, whatever the setting says.
    let machine = Fixture::new(&[never]);
    let mut source = machine.source();
    source.kernel.region_pages = Some(barn_fabric::region::Pages::Transparent);
    let diagnosis = examine(&source);
    assert_eq!(check(&diagnosis, "transparent, shared").status, Status::Good);
    assert_eq!(check(&diagnosis, "2 MiB pages").status, Status::Note);
}

#[test]
fn kernel_that_refuses_seals_or_has_a_tiny_dev_shm_is_told_so() {
    let machine = Fixture::new(&[("proc/meminfo", "MemTotal: 67108864 kB\n")]);
    let mut source = machine.source();
    source.kernel = Kernel {
        sealed_memfd: Some(Err("F_SEAL_FUTURE_WRITE: Invalid argument".into())),
        event_poll: Some(Err("Function not implemented".into())),
        dev_shm: Some(SpaceBytes { total: 64 << 20, free: 64 << 20 }),
        region_pages: None,
        library_path: vec![],
    };
    let diagnosis = examine(&source);
    assert_eq!(check(&diagnosis, "sealed memfd").status, Status::Limits);
    assert_eq!(check(&diagnosis, "eventfd, epoll").status, Status::Limits);
    assert_eq!(check(&diagnosis, "/dev/shm").found, "64 MiB free of 64 MiB");
    assert_eq!(check(&diagnosis, "/dev/shm").status, Status::Note);
}

/// Every file that the doctor reads, filled with each of these, must leave it standing.
#[test]
fn garbled_or_missing_files_never_panic() {
    let paths = [
        "proc/cpuinfo",
        "proc/meminfo",
        "proc/loadavg",
        "proc/self/cgroup",
        "proc/self/limits",
        "proc/self/status",
        "proc/sys/kernel/osrelease",
        "proc/sys/kernel/io_uring_disabled",
        "proc/sys/kernel/perf_event_paranoid",
        "sys/fs/cgroup/memory.max",
        "sys/fs/cgroup/cpu.max",
        "sys/fs/cgroup/memory/memory.limit_in_bytes",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "sys/devices/system/node/has_memory",
        "sys/devices/system/cpu/online",
        "sys/class/infiniband/x/ports/1/state",
        "sys/class/infiniband/x/ports/1/gids/0",
        "sys/class/infiniband/x/ports/zz/gids/notanumber",
        "sys/class/net/eth0/mtu",
        "etc/ld.so.conf",
    ];
    for garbage in [
        "",
        "\n",
        ":",
        "[",
        "]",
        "a: b: c",
        "-1",
        "18446744073709551616",
        "NaN NaN NaN",
        "0-",
        "9-1",
        "\u{fffd}\0",
        "MemTotal: 18446744073709551615 kB",
        "0::/../../..",
        "1:memory:\n2",
        "max 0",
        "0 0",
        "Max open files -3 x",
    ] {
        let files: Vec<_> = paths.iter().map(|path| (*path, garbage)).collect();
        let diagnosis = Fixture::new(&files).examine();
        assert!(diagnosis.checks.iter().all(|check| !check.why.is_empty()), "{garbage:?}");
        print(&mut Vec::new(), &diagnosis, true).expect("prints");
    }
    Fixture::new(&[]).examine();
}

#[test]
fn json_has_the_promised_form() {
    let diagnosis = Fixture::new(&[]).examine();
    let json = serde_json::to_value(&diagnosis).expect("serializes");
    for key in ["cpu", "cores", "memory_bytes", "kernel", "huge_pages", "virtualised", "load_average"] {
        assert!(json["machine"].get(key).is_some(), "{key}");
    }
    let first = &json["checks"][0];
    for key in ["name", "status", "found", "why"] {
        assert!(first[key].is_string(), "{key}");
    }
    assert_eq!(first["status"], "good");
    assert!(first.get("fix").is_none(), "a good finding has nothing to fix");
}
