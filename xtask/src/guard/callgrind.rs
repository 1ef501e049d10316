//! What callgrind has written, as far as it is needed: how much each function took with all that it called.
//!
//! The format is that of valgrind's manual, "Callgrind Format Specification": a line `cfn=(ID) NAME` names
//! the function that is called (the name only the first time), `calls=` follows, and the line after that
//! has the inclusive cost of those calls as its second number.

use std::collections::HashMap;

/// Inclusive instructions of each function that was called, by its name.
pub(super) fn inclusive(text: &str) -> HashMap<String, u64> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut costs: HashMap<String, u64> = HashMap::new();
    let (mut called, mut counts) = ("", false);
    for line in text.lines() {
        if let Some(function) = line.strip_prefix("fn=") {
            name(&mut names, function);
        } else if let Some(function) = line.strip_prefix("cfn=") {
            called = name(&mut names, function);
        } else if line.starts_with("calls=") {
            counts = true;
        } else if std::mem::take(&mut counts) {
            let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0u64);
            *costs.entry(called.to_owned()).or_default() += cost;
        }
    }
    costs
}

/// The name behind `(ID) NAME` or `(ID)`; a name without a number stands for itself.
fn name<'a>(names: &mut HashMap<&'a str, &'a str>, function: &'a str) -> &'a str {
    let Some((id, name)) = function.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
        return function;
    };
    match name.trim() {
        "" => names.get(id).copied().unwrap_or(""),
        name => {
            names.insert(id, name);
            name
        }
    }
}

/// A path's figures, for one operation: the client's part, and the node's if it had to do anything.
pub(super) fn parts(
    costs: &HashMap<String, u64>,
    path: &str,
    operations: f64,
) -> Result<Vec<(String, f64)>, String> {
    let sum = |function: &str| -> u64 {
        let wanted = format!("{path}::{function}");
        costs.iter().filter(|(name, _)| is(name, &wanted)).map(|(_, cost)| cost).sum()
    };
    let (whole, node) = (sum("whole"), sum("node"));
    if whole == 0 {
        return Err(format!("callgrind saw no {path}::whole: was it inlined, or renamed?"));
    }
    let each = |cost: u64| cost as f64 / operations;
    if node == 0 {
        return Ok(vec![(path.to_owned(), each(whole))]);
    }
    Ok(vec![(format!("{path}.client"), each(whole - node)), (format!("{path}.node"), each(node))])
}

/// Whether a demangled name is that of the function: `hot_paths::paths::get::whole`, possibly followed by
/// the hash that older mangling adds, and by a `'2` of callgrind's for recursion.
fn is(name: &str, wanted: &str) -> bool {
    let plain = name.split('\'').next().unwrap_or(name);
    let plain = match plain.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            before
        }
        _ => plain,
    };
    plain.starts_with("hot_paths") && plain.ends_with(&format!("::{wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "events: Ir\n\nfn=(1) main\n16 3\ncfn=(2) hot_paths::paths::get::whole\n\
                           calls=1 10\n17 1000\ncfn=(5) hot_paths::paths::forget::whole\ncalls=1 0\n+2 77\n\n\
                           fn=(2)\n20 100\ncfi=(9) other.rs\ncfn=(3) hot_paths::paths::get::node::h0123456789abcdef\n\
                           calls=4 0\n* 300\n+1 5\nfn=(4) poll\ncfn=(3)\ncalls=2 0\n* 100\n";

    #[test]
    fn inclusive_costs_are_those_of_all_calls() {
        let costs = inclusive(PROFILE);
        assert_eq!(costs["hot_paths::paths::get::whole"], 1000);
        assert_eq!(costs["hot_paths::paths::get::node::h0123456789abcdef"], 400);
    }

    #[test]
    fn the_node_is_told_from_the_client() {
        let parts = parts(&inclusive(PROFILE), "get", 10.0).expect("both are there");
        assert_eq!(parts, [("get.client".to_owned(), 60.0), ("get.node".to_owned(), 40.0)]);
    }

    #[test]
    fn a_path_that_was_not_seen_is_an_error_not_a_zero() {
        assert!(parts(&inclusive(PROFILE), "put", 10.0).is_err());
        assert_eq!(parts(&inclusive(PROFILE), "forget", 1.0).expect("seen"), [("forget".to_owned(), 77.0)]);
    }
}
