//! The tools that the stages need: installed where we can, named exactly where we cannot.

use crate::run::{Job, works};
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
const WANTED: [Tool; 1] =
    // Counts instructions.
    [Tool { name: "valgrind", probe: ("valgrind", &["--version"]), from: From::Apt("valgrind") }];

/// It is a library: found where bindgen looks for it, the usual places of the usual distributions.
const FIND_LIBCLANG: &str = "test -n \"$LIBCLANG_PATH\" && exit 0
    for f in /usr/lib/llvm-*/lib/libclang*.so* /usr/lib*/libclang*.so* /usr/lib/*-linux-gnu/libclang-[0-9]*.so*
    do test -e \"$f\" && exit 0; done; exit 1";

/// Demands every tool, installing those that are missing.
pub(crate) fn stage() -> Stage {
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
        // What the benchmarks compare with.
        ("redis-server", works("redis-server", &["--version"])),
        ("memcached", works("memcached", &["--version"])),
    ];
    let optional =
        optional.map(|(name, there)| format!("{name} {}", if there { "present" } else { "absent" }));
    Ok(Outcome::Passed(format!("{} there; optional: {}", TOOLS.len(), optional.join(", "))))
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
    let done = Job::new("apt-get", &args).env("DEBIAN_FRONTEND", "noninteractive").run();
    done.is_ok_and(|done| done.status.success())
}
