//! The kernel: its age, its switches, and how many descriptors it lets us hold.

use super::{Check, Status};
use crate::machine::Source;
use crate::machine::kernel::{self, Limit};

const GROUP: &str = "Kernel";
/// `F_SEAL_FUTURE_WRITE` came with 5.1; 5.10 is the oldest that distributions still support.
const VERSION_MIN: (u32, u32) = (5, 1);
/// A connection takes a socket, an eventfd and a memfd for its rings: 4096 is some 1300 clients.
const FILES_MIN: u64 = 4096;

pub(super) fn checks(source: &Source) -> Vec<Check> {
    vec![version(source), open_files(source), event_poll(source), io_uring(source), perf(source)]
}

fn version(source: &Source) -> Check {
    let why = "sealing data regions against later writers needs Linux 5.1 (F_SEAL_FUTURE_WRITE)";
    let found = kernel::release(source).unwrap_or_else(|| "unknown".into());
    let status = match kernel::version(source) {
        Some(version) if version >= VERSION_MIN => Status::Good,
        Some(_) => Status::Limits,
        None => Status::Note,
    };
    Check::new(GROUP, "version", status, found, why)
        .fix("sudo apt-get install linux-image-amd64 && sudo reboot")
}

fn open_files(source: &Source) -> Check {
    let why = "each client holds about three descriptors on the node: a socket, an eventfd, its rings' memfd";
    let fix = "ulimit -n 65536   # for good: printf '* soft nofile 65536\\n* hard nofile 65536\\n' | sudo tee \
               /etc/security/limits.d/91-barn.conf ; systemd: LimitNOFILE=65536";
    let (status, found) = match kernel::limit(source, "Max open files") {
        None => (Status::Note, "unknown".into()),
        Some((Limit::Unlimited, _)) => (Status::Good, "unlimited".into()),
        Some((Limit::AtMost(soft), _)) => {
            (if soft < FILES_MIN { Status::Limits } else { Status::Good }, soft.to_string())
        }
    };
    Check::new(GROUP, "open files", status, found, why).fix(fix)
}

fn event_poll(source: &Source) -> Check {
    let why = "an idle node sleeps on these and uses no CPU; without them it could only spin";
    match &source.kernel.event_poll {
        None => Check::new(GROUP, "eventfd, epoll", Status::Note, "not tried", why),
        Some(Ok(())) => Check::new(GROUP, "eventfd, epoll", Status::Good, "work", why),
        Some(Err(error)) => Check::new(GROUP, "eventfd, epoll", Status::Limits, error.clone(), why).fix(
            "docker run --security-opt seccomp=unconfined …   # allow eventfd2, epoll_create1, epoll_wait",
        ),
    }
}

fn io_uring(source: &Source) -> Check {
    let why = "logs may be written with fewer system calls through it; nothing depends on it";
    let check = |status, found: &str| Check::new(GROUP, "io_uring", status, found, why);
    match source.text("/proc/sys/kernel/io_uring_disabled").as_deref() {
        Some("0") => check(Status::Good, "enabled"),
        Some("1") => check(Status::Note, "for privileged processes only")
            .fix("sudo sysctl -w kernel.io_uring_disabled=0"),
        Some("2") => check(Status::Note, "disabled").fix("sudo sysctl -w kernel.io_uring_disabled=0"),
        // The switch came with 6.6, io_uring itself with 5.1.
        _ if kernel::version(source).is_some_and(|version| version >= (5, 1)) => {
            check(Status::Good, "in this kernel, without a switch")
        }
        _ => check(Status::Note, "unknown"),
    }
}

fn perf(source: &Source) -> Check {
    let why = "`perf stat` and `perf record` of your own processes need 2 or less; benchmarks can then count cache and TLB misses";
    match source.parse::<i32>("/proc/sys/kernel/perf_event_paranoid") {
        None => Check::new(GROUP, "perf_event_paranoid", Status::Note, "unknown", why),
        Some(level) => {
            let status = if level <= 2 { Status::Good } else { Status::Note };
            Check::new(GROUP, "perf_event_paranoid", status, level.to_string(), why)
                .fix("sudo sysctl -w kernel.perf_event_paranoid=2")
        }
    }
}
