//! What the stages need: room on the disk, and tools, installed where we can, named exactly where we cannot.

use crate::run::{Job, root, works};
use crate::{Outcome, Stage};

/// A program, how to tell that it is there, and where to get it.
struct Tool {
    name: &'static str,
    probe: (&'static str, &'static [&'static str]),
    from: From,
}

enum From {
    /// A component of the Rust toolchain.
    Rustup(&'static str),
    /// A package of Debian and Ubuntu.
    Apt(&'static str),
}

const TOOLS: [Tool; 6] = [
    Tool { name: "rustfmt", probe: ("cargo", &["fmt", "--version"]), from: From::Rustup("rustfmt") },
    Tool { name: "clippy", probe: ("cargo", &["clippy", "--version"]), from: From::Rustup("clippy") },
    // libFuzzer is C++, and is compiled from its crate.
    Tool { name: "a C++ compiler", probe: ("c++", &["--version"]), from: From::Apt("g++") },
    // The verbs transport's bindings are made from rdma-core's headers when it is built.
    Tool { name: "cmake", probe: ("cmake", &["--version"]), from: From::Apt("cmake") },
    Tool { name: "libclang", probe: ("sh", &["-c", FIND_LIBCLANG]), from: From::Apt("libclang-dev") },
    Tool { name: "git", probe: ("git", &["--version"]), from: From::Apt("git") },
];

/// Installed where we can, and done without where we cannot.
const WANTED: [Tool; 3] = [
    // Counts instructions.
    Tool { name: "valgrind", probe: ("valgrind", &["--version"]), from: From::Apt("valgrind") },
    // What the benchmarks compare with.
    Tool { name: "redis-server", probe: ("redis-server", &["--version"]), from: From::Apt("redis-server") },
    Tool { name: "memcached", probe: ("memcached", &["--version"]), from: From::Apt("memcached") },
];

/// It is a library: found where bindgen looks for it, the usual places of the usual distributions. Not every
/// `libclang*` is it: `libclang-cpp` comes with other packages, and bindgen cannot use it.
const FIND_LIBCLANG: &str = "test -n \"$LIBCLANG_PATH\" && exit 0
    for d in ${LIBCLANG_PLACES:-/usr/lib/llvm-*/lib /usr/lib /usr/lib64 /usr/lib/*-linux-gnu}
    do for f in \"$d\"/libclang.so* \"$d\"/libclang-[0-9]*.so*; do test -e \"$f\" && exit 0; done; done; exit 1";

/// What all stages together write below `target`, from nothing (9.8 GiB), with something to spare.
const ROOM_GIB: f64 = 14.0;

/// What they write even where most of it is built already.
const ROOM_GIB_MIN: f64 = 4.0;

/// Demands room on the disk: without it each stage would fail for a reason of its own, far from this one.
fn room() -> Result<String, String> {
    let (free, built) = (gib("df", &["-Pk", "."], |line| line.split_whitespace().nth(3)), built());
    // Whoever cannot ask goes on, and finds out.
    let Some(free) = free else { return Ok("room on the disk unknown".into()) };
    let needed = (ROOM_GIB - built).max(ROOM_GIB_MIN);
    if free >= needed {
        return Ok(format!("{free:.0} GiB of disk free"));
    }
    let root = root();
    Err(format!(
        "the stages write up to {needed:.0} GiB, and the disk of {} has {free:.1} GiB left: make room; what \
         earlier builds left there is {built:.1} GiB, which `cargo clean` removes",
        root.display()
    ))
}

/// The size of what is built.
fn built() -> f64 {
    gib("du", &["-sk", "target"], |line| line.split_whitespace().next()).unwrap_or(0.0)
}

/// A figure in KiB in the last line of what a program says.
fn gib(program: &str, args: &[&str], figure: fn(&str) -> Option<&str>) -> Option<f64> {
    let done = Job::new(program, args).quiet().run().ok().filter(|done| done.status.success())?;
    let kib: f64 = figure(done.output.lines().last()?)?.parse().ok()?;
    Some(kib / f64::from(1 << 20))
}

/// Demands room and every tool, installing those that are missing.
pub(crate) fn stage() -> Stage {
    let room = room()?;
    let mut missing = Vec::new();
    for tool in &TOOLS {
        let (program, args) = tool.probe;
        if !works(program, args) && !install(tool) {
            missing.push(format!("{}: {}", tool.name, command(&tool.from)));
        }
    }
    if !missing.is_empty() {
        return Err(format!("missing; install with: {}", missing.join("; ")));
    }
    // Stages that need these are skipped without them: wanted, not demanded.
    for tool in WANTED.iter().filter(|tool| !works(tool.probe.0, tool.probe.1)) {
        install(tool);
    }
    let optional = [
        ("cargo-nextest", works("cargo", &["nextest", "--version"])),
        ("cargo-deny", works("cargo", &["deny", "--version"])),
        ("Miri", crate::miri::present()),
        ("qemu", works("qemu-system-x86_64", &["--version"])),
        ("valgrind", crate::guard::present()),
        ("redis-server", works("redis-server", &["--version"])),
        ("memcached", works("memcached", &["--version"])),
    ];
    let optional =
        optional.map(|(name, there)| format!("{name} {}", if there { "present" } else { "absent" }));
    Ok(Outcome::Passed(format!("{room}; {} there; optional: {}", TOOLS.len(), optional.join(", "))))
}

fn command(from: &From) -> String {
    match from {
        From::Rustup(component) => format!("rustup component add {component}"),
        From::Apt(package) => format!("sudo apt-get install -y {package}"),
    }
}

/// Installs the tool if this machine lets us, and says whether it is there then.
fn install(tool: &Tool) -> bool {
    println!("{} is missing; trying: {}", tool.name, command(&tool.from));
    let done = match tool.from {
        From::Rustup(component) => Job::new("rustup", &["component", "add", component]).run(),
        From::Apt(package) => return apt(&[package]) && works(tool.probe.0, tool.probe.1),
    };
    done.is_ok_and(|done| done.status.success()) && works(tool.probe.0, tool.probe.1)
}

/// Installs packages of Debian and Ubuntu, where we are root and there is apt-get.
pub(crate) fn apt(packages: &[&str]) -> bool {
    let root = Job::new("id", &["-u"]).quiet().run().is_ok_and(|done| done.output.trim() == "0");
    if !root || !works("apt-get", &["--version"]) {
        return false;
    }
    let _ = Job::new("apt-get", &["update", "-q"]).quiet().run();
    let args = [&["install", "-y", "-q", "--no-install-recommends"], packages].concat();
    // At this run level no package starts its service: a server that we want is one that we start.
    let job = Job::new("apt-get", &args).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    let done = job.run();
    done.is_ok_and(|done| done.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_library_that_bindgen_can_use_counts_as_libclang() {
        let place = std::env::temp_dir().join(format!("barn-libclang-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a place of our own");
        let found = |file: &str| {
            let path = place.join(file);
            std::fs::write(&path, []).expect("is written");
            let job = Job::new("sh", &["-c", FIND_LIBCLANG]).env("LIBCLANG_PATH", "");
            let job = job.env("LIBCLANG_PLACES", &place);
            let done = job.quiet().run().expect("a shell runs");
            std::fs::remove_file(path).expect("is removed");
            done.status.success()
        };
        for (file, counts) in [
            ("libclang.so", true),
            ("libclang.so.1", true),
            ("libclang-14.so.14.0.6", true),
            ("libclang-cpp.so.14", false),
            ("libclangBasic.a", false),
        ] {
            assert_eq!(found(file), counts, "{file}");
        }
        std::fs::remove_dir_all(place).expect("is empty");
    }
}
