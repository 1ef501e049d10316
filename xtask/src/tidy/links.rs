//! Markdown links to files of the repository lead somewhere.

use super::Finding;

/// Checks every relative link of a Markdown file.
pub(super) fn check(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for target in targets(&without_code(line)) {
            let file = target.split(['#', '?']).next().unwrap_or("");
            let external = target.contains("://") || target.starts_with("mailto:") || file.is_empty();
            let resolved = resolve(path, file);
            if !external && !resolved.as_deref().is_some_and(exists) {
                let message = format!("the link to `{target}` leads nowhere");
                findings.push(Finding { path: path.into(), line: index + 1, message, warning: false });
            }
        }
    }
    findings
}

/// The line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// What stands in the parentheses of `[text](target "title")`.
fn targets(line: &str) -> Vec<String> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .filter_map(|(target, _)| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

/// The target from the repository's root; `None` if it leaves it.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts = path.split('/').collect();
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
