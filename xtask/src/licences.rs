//! Licences and sources of every dependency, checked against `deny.toml`.
//!
//! cargo-deny reads the same file and knows more (advisories, duplicates), but takes minutes
//! to compile. So what must always hold is checked here, from `cargo metadata`, in under a
//! second; cargo-deny runs as well where it is installed.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::run::{Job, root, works};
use crate::{Outcome, Stage};

/// How every package of the default registry names its source, whichever mirror served it.
const DEFAULT_REGISTRY: &str = "/crates.io-index";
/// The workspace, and the fuzz targets, which are one of their own.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "fuzz/Cargo.toml"];

pub(crate) fn stage() -> Stage {
    let policy =
        fs::read_to_string(root().join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let allowed = allowed(&policy).ok_or("deny.toml has no list `allow` in [licenses]")?;
    let mut seen = BTreeSet::new();
    let mut faults = BTreeSet::new();
    for manifest in MANIFESTS {
        let args = ["metadata", "--format-version", "1", "--manifest-path", manifest];
        let mut command = std::process::Command::new("cargo");
        let output = command
            .args(args)
            .current_dir(root())
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata of {manifest}: {error}"))?;
        for package in metadata["packages"].as_array().ok_or("cargo metadata lists no packages")? {
            let id = format!(
                "{} {}",
                package["name"].as_str().unwrap_or("?"),
                package["version"].as_str().unwrap_or("?")
            );
            faults.extend(faults_of(&id, package, &allowed));
            seen.insert(id);
        }
    }
    if !faults.is_empty() {
        return Err(faults.into_iter().collect::<Vec<_>>().join("; "));
    }
    let deny = deny()?;
    Ok(Outcome::Passed(format!("{} packages allowed by deny.toml; {deny}", seen.len())))
}

/// Runs cargo-deny where it is installed.
fn deny() -> Result<String, String> {
    if !works("cargo", &["deny", "--version"]) {
        return Ok(
            "advisories not checked: cargo-deny is not installed (cargo install --locked cargo-deny)".into()
        );
    }
    Job::cargo(&["deny", "check", "licenses", "bans", "sources"]).succeed("cargo deny")?;
    let done = Job::cargo(&["deny", "check", "advisories"]).run()?;
    match (done.status.success(), done.output.contains("failed to fetch")) {
        (true, _) => Ok("cargo-deny agrees, no advisories".into()),
        // Without a network there is no database; that is no fault of the dependencies.
        (false, true) => Ok("cargo-deny agrees; its advisories could not be fetched".into()),
        (false, false) => Err("cargo deny check advisories found something".into()),
    }
}

fn faults_of(id: &str, package: &Value, allowed: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    match package["license"].as_str() {
        Some(licence) if permitted(licence, allowed) => {}
        Some(licence) => faults.push(format!("{id}: licence `{licence}` is not allowed by deny.toml")),
        None => faults.push(format!("{id}: states no licence")),
    }
    // Our own packages have no source.
    if let Some(source) = package["source"].as_str().filter(|source| !source.ends_with(DEFAULT_REGISTRY)) {
        faults.push(format!("{id}: comes from {source}, not from the default registry"));
    }
    faults
}

/// The strings of `allow = [ … ]` in the section `[licenses]`.
fn allowed(policy: &str) -> Option<Vec<String>> {
    let lines = policy.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let section: Vec<&str> = lines
        .skip_while(|line| *line != "[licenses]")
        .skip(1)
        .take_while(|line| !line.starts_with("["))
        .collect();
    let section = section.join("\n");
    let (_, list) = section.split_once("allow = [")?;
    let (list, _) = list.split_once(']')?;
    Some(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Whether an SPDX expression can be satisfied by the allowed licences.
fn permitted(expression: &str, allowed: &[String]) -> bool {
    // Old crates write `MIT/Apache-2.0` for OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let answer = either(&mut rest, allowed);
    rest.is_empty() && answer == Some(true)
}

/// `both OR both …`; OR binds loosest.
fn either(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut answer = both(words, allowed)?;
    while words.first() == Some(&"OR") {
        *words = &words[1..];
        answer |= both(words, allowed)?;
    }
    Some(answer)
}

/// `one AND one …`.
fn both(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut answer = one(words, allowed)?;
    while words.first() == Some(&"AND") {
        *words = &words[1..];
        answer &= one(words, allowed)?;
    }
    Some(answer)
}

/// A licence, with or without an exception, or an expression in parentheses.
fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let answer = either(words, allowed)?;
        let (close, rest) = words.split_first()?;
        *words = rest;
        return (*close == ")").then_some(answer);
    }
    let mut licence = (*first).to_owned();
    if let [with, exception, rest @ ..] = *words
        && *with == "WITH"
    {
        licence = format!("{licence} WITH {exception}");
        *words = rest;
    }
    Some(allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn expressions_are_satisfied_by_what_is_allowed() {
        let allowed = list(&["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"]);
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND MIT",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(permitted(good, &allowed), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND NCSA", "", "MIT OR", "( MIT", "MIT MIT"]
        {
            assert!(!permitted(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn the_policy_is_read() {
        let policy = "[bans]\nallow = [\"no\"]\n[licenses]\n# why\nallow = [\n  \"MIT\", # short\n  \"ISC\",\n]\n[sources]\n";
        assert_eq!(allowed(policy), Some(list(&["MIT", "ISC"])));
        assert_eq!(allowed("[bans]\nallow = [\"MIT\"]\n"), None);
    }

    #[test]
    fn a_foreign_source_and_a_missing_licence_are_faults() {
        let allowed = list(&["MIT"]);
        let package = json!({ "license": null, "source": "git+https://example.org/x" });
        assert_eq!(faults_of("x 1.0.0", &package, &allowed).len(), 2);
        let package = json!({ "license": "MIT", "source": null });
        assert!(faults_of("x 1.0.0", &package, &allowed).is_empty());
    }
}
