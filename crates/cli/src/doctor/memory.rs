//! Memory, its limits, and the ways in which a process shares it.

use super::{Check, Status};
use crate::bytes::human;
use crate::machine::kernel::{self, Limit};
use crate::machine::memory::{Memory, numa_nodes};
use crate::machine::{Machine, Source, rdma};

const GROUP: &str = "Memory";
/// One region of 2 GiB, the largest, with as much again to copy it into.
const COMFORTABLE_BYTES: u64 = 4 << 30;

pub(super) fn checks(source: &Source, machine: &Machine) -> Vec<Check> {
    let memory = Memory::read(source);
    vec![
        total(&memory),
        limit(&memory),
        locked(source),
        swap(&memory),
        numa(source),
        dev_shm(source, machine),
        sealed(source),
    ]
}

fn total(memory: &Memory) -> Check {
    let why = "regions are memory: what is available now bounds what a node can hold";
    if memory.total_bytes == 0 {
        return Check::new(GROUP, "memory", Status::Note, "unknown", why).fix("mount -t proc proc /proc");
    }
    let found = format!("{} available of {}", human(memory.available_bytes), human(memory.total_bytes));
    let status = if memory.available_bytes < COMFORTABLE_BYTES { Status::Note } else { Status::Good };
    Check::new(GROUP, "memory", status, found, why)
        .fix("ps -eo rss,pid,comm --sort=-rss | head   # see who holds it")
}

fn limit(memory: &Memory) -> Check {
    let why = "past its cgroup's limit the kernel kills the node, whatever the machine has free";
    match memory.limit_bytes {
        Some(limit) if limit < memory.total_bytes || memory.total_bytes == 0 => {
            let status = if limit < COMFORTABLE_BYTES { Status::Limits } else { Status::Note };
            Check::new(GROUP, "cgroup memory limit", status, human(limit), why).fix(
                "docker update --memory 8g --memory-swap 8g CONTAINER   # or: sudo systemctl set-property UNIT MemoryMax=8G",
            )
        }
        _ => Check::new(GROUP, "cgroup memory limit", Status::Good, "none", why),
    }
}

fn locked(source: &Source) -> Check {
    let why =
        "RDMA pins every registered region, and pinning counts against this limit (shm and tcp do not pin)";
    let fix = "ulimit -l unlimited   # for good: printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo \
               tee /etc/security/limits.d/90-barn.conf ; systemd: LimitMEMLOCK=infinity ; docker run --ulimit memlock=-1";
    let Some((soft, _)) = kernel::limit(source, "Max locked memory") else {
        return Check::new(GROUP, "locked memory", Status::Note, "unknown", why).fix(fix);
    };
    let (status, found) = match soft {
        Limit::Unlimited => (Status::Good, "unlimited".into()),
        Limit::AtMost(most) if rdma::ports(source).is_empty() => (Status::Note, human(most)),
        Limit::AtMost(most) => (Status::Limits, human(most)),
    };
    Check::new(GROUP, "locked memory", status, found, why).fix(fix)
}

fn swap(memory: &Memory) -> Check {
    let why = "a region's page that was swapped out turns a 100 ns read into milliseconds of disk";
    if memory.swap_bytes == 0 {
        return Check::new(GROUP, "swap", Status::Good, "none", why);
    }
    Check::new(GROUP, "swap", Status::Note, human(memory.swap_bytes), why)
        .fix("sudo sysctl -w vm.swappiness=1   # or: sudo swapoff -a")
}

fn numa(source: &Source) -> Check {
    let why = "a load from the other socket's memory takes longer: keep a node's threads by its regions";
    match numa_nodes(source) {
        1 => Check::new(GROUP, "numa nodes", Status::Good, "1", why),
        nodes => Check::new(GROUP, "numa nodes", Status::Note, nodes.to_string(), why)
            .fix("numactl --cpunodebind=0 --membind=0 barn serve   # one node of Barn for each NUMA node"),
    }
}

fn dev_shm(source: &Source, machine: &Machine) -> Check {
    let why = "regions are memfds and do not count against it, but tools and other stores that you compare with live here";
    let Some(space) = source.kernel.dev_shm else {
        return Check::new(GROUP, "/dev/shm", Status::Note, "not mounted, or unknown", why)
            .fix("sudo mount -t tmpfs -o size=50% tmpfs /dev/shm");
    };
    let found = format!("{} free of {}", human(space.free), human(space.total));
    // Docker's default of 64 MiB is the usual surprise.
    let small = space.total < (1 << 30) && machine.memory_bytes > (2 << 30);
    let status = if small { Status::Note } else { Status::Good };
    Check::new(GROUP, "/dev/shm", status, found, why)
        .fix("sudo mount -o remount,size=50% /dev/shm   # or: docker run --shm-size=4g …")
}

fn sealed(source: &Source) -> Check {
    let why = "data regions are sealed memfds: without F_SEAL_FUTURE_WRITE a client could reopen one writable, without \
               F_SEAL_SHRINK a truncation would kill every reader";
    match &source.kernel.sealed_memfd {
        None => Check::new(GROUP, "sealed memfd", Status::Note, "not tried", why),
        Some(Ok(())) => Check::new(GROUP, "sealed memfd", Status::Good, "works (shrink, grow, future write)", why),
        Some(Err(error)) => Check::new(GROUP, "sealed memfd", Status::Limits, error.clone(), why)
            .fix("sudo apt-get install linux-image-amd64 && sudo reboot   # Linux 5.1 or later; in a sandbox, allow memfd_create and fcntl(F_ADD_SEALS)"),
    }
}
