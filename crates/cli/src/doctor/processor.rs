//! Cores, features, frequency, clock: what the polling loops and the checksums run on.

use super::{Check, Status};
use crate::machine::{Machine, Source, cpu, kernel};

const GROUP: &str = "Processor";

pub(super) fn checks(source: &Source, machine: &Machine) -> Vec<Check> {
    let mut checks = vec![
        Check::new(
            GROUP,
            "cpu",
            Status::Good,
            machine.cpu.clone(),
            "figures are comparable only on the same processor",
        ),
        cores(source, machine),
        virtualised(machine),
    ];
    checks.extend(features(source));
    checks.push(governor(source));
    checks.push(clock(source));
    checks
}

fn cores(source: &Source, machine: &Machine) -> Check {
    let cores = cpu::Cores::read(source);
    let mut found = format!("{} usable of {} online", machine.cores, cores.online);
    if let Some(quota) = cores.quota {
        found += &format!(" (cgroup quota: {quota:.1})");
    }
    if let Some(affinity) = cores.affinity.filter(|affinity| *affinity < cores.online) {
        found += &format!(" (affinity: {affinity})");
    }
    let quota_cuts = cores.quota.is_some_and(|quota| quota < cores.online as f64);
    let why = "a polling client and a polling server each want a core; on one core every exchange costs two \
               context switches, and a quota stops a poller in mid-exchange";
    let (status, fix) = if machine.cores < 2 && cores.online >= 2 {
        (
            Status::Limits,
            "docker update --cpus 2 CONTAINER   # or: systemctl set-property UNIT CPUQuota=200% ; taskset -p -c 0-1 PID",
        )
    } else if machine.cores < 2 {
        (Status::Limits, "give the machine a second core")
    } else if quota_cuts {
        (
            Status::Note,
            "docker update --cpus 0 CONTAINER   # or, without a quota: docker run --cpuset-cpus=0-1 …",
        )
    } else {
        (Status::Good, "")
    };
    Check::new(GROUP, "cores", status, found, why).fix(fix)
}

fn virtualised(machine: &Machine) -> Check {
    let why = "a hypervisor adds to every wake-up and every TLB miss, and may take the core away in mid-poll";
    match (machine.virtualised, &machine.hypervisor) {
        (false, _) => Check::new(GROUP, "virtualised", Status::Good, "no", why),
        (true, name) => {
            let found = name.as_ref().map_or("yes".into(), |name| format!("yes ({name})"));
            Check::new(GROUP, "virtualised", Status::Note, found, why)
        }
    }
}

fn features(source: &Source) -> Vec<Check> {
    let flags = cpu::flags(source);
    let has = |flag: &str| flags.iter().any(|have| have == flag);
    let found = |yes: bool| {
        if yes {
            "yes"
        } else if flags.is_empty() {
            "unknown"
        } else {
            "no"
        }
    };
    let status = |yes: bool| {
        if yes || flags.is_empty() { Status::Good } else { Status::Note }
    };
    // pclmulqdq on x86, pmull on ARM.
    let multiply = has("pclmulqdq") || has("pmull");
    let wide = if has("avx512f") {
        "AVX-512"
    } else if has("avx2") {
        "AVX2"
    } else if has("sve") {
        "SVE"
    } else if has("asimd") {
        "NEON"
    } else {
        found(false)
    };
    let vectors = wide.contains(|c: char| c.is_ascii_uppercase());
    vec![
        Check::new(
            GROUP,
            "crc hardware",
            status(multiply),
            found(multiply),
            "carry-less multiplication (pclmulqdq, pmull) computes CRC64 many times faster than a table does",
        )
        .fix("choose a processor (or a -cpu model of the hypervisor) with pclmulqdq, for example: qemu -cpu host"),
        Check::new(GROUP, "vectors", status(vectors), wide, "wide loads copy objects out of shared memory faster")
            .fix("choose a processor (or a -cpu model of the hypervisor) with AVX2, for example: qemu -cpu host"),
    ]
}

fn governor(source: &Source) -> Check {
    let why = "a core that starts slow adds its ramp to the latency of whatever wakes it";
    let governor = source.text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    match governor.as_deref() {
        None => {
            Check::new(GROUP, "frequency governor", Status::Good, "none (fixed, or the hypervisor's)", why)
        }
        Some("performance") => Check::new(GROUP, "frequency governor", Status::Good, "performance", why),
        Some(other) => Check::new(GROUP, "frequency governor", Status::Note, other, why)
            .fix("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
    }
}

fn clock(source: &Source) -> Check {
    let why = "deadlines and leases read the clock; tsc and kvm-clock are read without a system call";
    let file = "/sys/devices/system/clocksource/clocksource0/";
    match kernel::clocksource(source).as_deref() {
        None => Check::new(GROUP, "clocksource", Status::Note, "unknown", why),
        Some(name @ ("tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page")) => {
            Check::new(GROUP, "clocksource", Status::Good, name, why)
        }
        Some(other) => Check::new(GROUP, "clocksource", Status::Limits, other, why)
            .fix(format!("cat {file}available_clocksource && echo tsc | sudo tee {file}current_clocksource")),
    }
}
