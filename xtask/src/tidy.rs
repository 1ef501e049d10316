//! `cargo xtask tidy`: tidiness that a program can check, a program checks.
//!
//! The rules are functions from one file to findings (`tidy/rules.rs`, `tidy/manifest.rs`,
//! `tidy/links.rs`), so that each is shown to fire on a bad snippet (`tidy/tests.rs`). Rust
//! is read through a small lexer that sets strings and comments apart from code: a rule's
//! own name in a string, or in a comment, is no offence.

use std::fmt;
use std::fs;

use crate::run::{Job, root};
use crate::{Outcome, Stage};

mod lexer;
mod links;
mod manifest;
mod rules;
#[cfg(test)]
mod tests;

/// What a rule found, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    message: String,
    /// A warning is printed; only an error fails.
    warning: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        write!(f, "{}:{}: {kind}: {}", self.path, self.line.max(1), self.message)
    }
}

pub(crate) fn stage() -> Stage {
    let files = files()?;
    let mut findings = Vec::new();
    for path in &files {
        // A file that is not text has no lines to check.
        let Ok(text) = fs::read_to_string(root().join(path)) else {
            continue;
        };
        findings.extend(check(path, &text, &|target| root().join(target).exists()));
    }
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.warning).count();
    let warnings = findings.len() - errors;
    if errors > 0 {
        return Err(format!("{errors} untidy places in {} files ({warnings} warnings)", files.len()));
    }
    Ok(Outcome::Passed(format!("{} files, {warnings} warnings", files.len())))
}

/// Everything that the rules have to say about one file.
fn check(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    match path.rsplit('.').next() {
        Some("rs") => rules::rust(path, text),
        Some("md") => links::check(path, text, exists),
        Some("toml") if path.ends_with("Cargo.toml") => manifest::layers(path, text),
        Some("sh") => rules::script(path, text),
        _ if path.starts_with(".ci/") => rules::script(path, text),
        _ => Vec::new(),
    }
}

/// Every file that is, or is about to be, in the repository.
pub(crate) fn files() -> Result<Vec<String>, String> {
    let list = Job::new("git", &["ls-files", "--cached", "--others", "--exclude-standard"]).quiet();
    let output = list.succeed("git ls-files")?.output;
    // A file that was removed and not yet committed is still listed.
    let mut files: Vec<String> =
        output.lines().filter(|path| root().join(path).is_file()).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    Ok(files)
}
