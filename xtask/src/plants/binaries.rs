//! The gates' binaries, with every plant compiled in: built once, run for each plant.
//!
//! `cfg(barn_plants)` is given to our own crates only, by a wrapper around rustc: dependencies
//! need not be compiled anew for it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::gate::{Gate, Plant, Target};
use crate::run::{Job, root};

/// What was built.
#[derive(Debug)]
pub(super) struct Binaries(Vec<Binary>);

/// A test binary.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    /// Cargo's name for the package, with its place and version.
    package: String,
    /// `lib`, `bin` or `test`...
    kind: String,
    /// ...of this name.
    name: String,
    loom: bool,
    path: PathBuf,
    /// The package's directory, which is where cargo runs its tests.
    dir: PathBuf,
}

impl Binaries {
    /// Builds all that these plants' gates need.
    pub(super) fn build(plants: &[&Plant]) -> Result<Self, String> {
        let mut binaries = Vec::new();
        for loom in [false, true] {
            let gates: Vec<&Gate> =
                plants.iter().map(|plant| &plant.gate).filter(|gate| gate.loom == loom).collect();
            if !gates.is_empty() {
                binaries.extend(build(&gates, loom)?);
            }
        }
        Ok(Self(binaries))
    }

    /// A run of the gate's binary.
    pub(super) fn job(&self, gate: &Gate, args: &[&str]) -> Result<Job, String> {
        let binary = self.0.iter().find(|binary| binary.is_for(gate));
        let binary = binary.ok_or_else(|| format!("cargo built no binary for {gate}"))?;
        Ok(Job::new(&binary.path.to_string_lossy(), args).dir(&binary.dir))
    }
}

impl Binary {
    /// The binary that one of cargo's messages announces, if it does.
    fn announced(message: &Value, loom: bool) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        // What is not a test has none.
        let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
        Some(Self {
            package: text(&message["package_id"])?,
            kind: text(&message["target"]["kind"][0])?,
            name: text(&message["target"]["name"])?,
            loom,
            path: path.into(),
            dir: Path::new(message["manifest_path"].as_str()?).parent()?.into(),
        })
    }

    fn is_for(&self, gate: &Gate) -> bool {
        let is_target = match gate.target {
            Target::Lib => self.kind == "lib",
            Target::Bin(name) => self.kind == "bin" && self.name == name,
            Target::Test(name) => self.kind == "test" && self.name == name,
        };
        // `path+file:///…/crates/heap#barn-heap@0.1.0`, or `path+file:///…/xtask#0.1.0`.
        let of = |end: String| self.package.contains(&end);
        let is_package = of(format!("#{}@", gate.package)) || of(format!("/{}#", gate.package));
        is_target && is_package && self.loom == gate.loom
    }
}

/// Builds the binaries of all these gates by one command.
fn build(gates: &[&Gate], loom: bool) -> Result<Vec<Binary>, String> {
    // Loom's flags differ, and with them every dependency.
    let target_dir = root().join("target/plants").join(if loom { "loom" } else { "plain" });
    let target_dir = target_dir.to_string_lossy();
    let mut args = vec!["test", "--no-run", "--profile", "plants", "--target-dir", &target_dir];
    args.push("--message-format=json-render-diagnostics");
    let packages: BTreeSet<_> = gates.iter().map(|gate| gate.package).collect();
    args.extend(packages.iter().flat_map(|package| ["--package", package]));
    let targets: BTreeSet<_> = gates.iter().map(|gate| gate.target).collect();
    args.extend(targets.iter().flat_map(|target| target.args()));
    let built = Job::cargo(&args)
        .env("CARGO_TERM_COLOR", "never")
        .env("RUSTFLAGS", if loom { "--cfg loom" } else { "" })
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper()?)
        .quiet()
        .run()?;
    if !built.status.success() {
        built.output.lines().filter(|line| !line.starts_with('{')).for_each(|line| println!("{line}"));
        return Err(format!("with the plants compiled in: cargo {}", built.how()));
    }
    println!("built{} in {:.1} s", if loom { " for loom" } else { "" }, built.seconds);
    let messages = built.output.lines().filter_map(|line| serde_json::from_str(line).ok());
    Ok(messages.filter_map(|message: Value| Binary::announced(&message, loom)).collect())
}

/// A program that runs rustc with `cfg(barn_plants)`.
fn wrapper() -> Result<PathBuf, String> {
    const SCRIPT: &str = "#!/bin/sh\nexec \"$@\" --cfg barn_plants\n";
    let dir = root().join("target/plants");
    let path = dir.join("rustc");
    let write = || {
        fs::create_dir_all(&dir)?;
        if fs::read_to_string(&path).is_ok_and(|have| have == SCRIPT) {
            return Ok(());
        }
        fs::write(&path, SCRIPT)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(package_id: &str, kind: &str, name: &str) -> Value {
        json!({
            "reason": "compiler-artifact",
            "package_id": package_id,
            "manifest_path": "/barn/crates/heap/Cargo.toml",
            "target": { "kind": [kind], "name": name },
            "profile": { "test": true },
            "executable": "/barn/target/heap-1",
        })
    }

    #[test]
    fn a_gate_finds_its_own_binary_and_no_other() {
        let gate = |package, target, loom| Gate { package, target, filter: "", loom };
        let heap = "path+file:///barn/crates/heap#barn-heap@0.1.0";
        let lib = Binary::announced(&message(heap, "lib", "barn_heap"), false).expect("a test binary");
        assert_eq!(lib.dir, Path::new("/barn/crates/heap"));
        assert!(lib.is_for(&gate("barn-heap", Target::Lib, false)));
        assert!(!lib.is_for(&gate("barn-heap", Target::Lib, true)), "loom's is another");
        assert!(!lib.is_for(&gate("barn", Target::Lib, false)), "of another package");
        assert!(!lib.is_for(&gate("barn-heap", Target::Test("barn_heap"), false)));
        let test = Binary::announced(&message(heap, "test", "models"), true).expect("a test binary");
        assert!(test.is_for(&gate("barn-heap", Target::Test("models"), true)));
        assert!(!test.is_for(&gate("barn-heap", Target::Test("alone"), true)));
        let bin = message("path+file:///barn/xtask#0.1.0", "bin", "xtask");
        let bin = Binary::announced(&bin, false).expect("a test binary");
        assert!(bin.is_for(&gate("xtask", Target::Bin("xtask"), false)));
    }

    #[test]
    fn what_is_no_test_is_no_gate() {
        let mut program = message("path+file:///barn/xtask#0.1.0", "bin", "xtask");
        program["profile"]["test"] = false.into();
        assert_eq!(Binary::announced(&program, false), None);
        assert_eq!(Binary::announced(&json!({ "reason": "build-finished" }), false), None);
    }
}
