//! The plants that stand in the sources, which must be those of the table.
//!
//! A name that is misspelt on either side would never be planted, or never be tried.

use std::collections::BTreeSet;
use std::fs;

use super::gate::Plant;
use crate::run::root;
use crate::tidy;

/// Where `planted` itself is, and where names are only talked about.
const NOT_PLANTED: [&str; 2] = ["crates/layout/src/plant.rs", "xtask/src/plants"];

/// Demands that the table and the sources name the same plants.
pub(super) fn agree(plants: &[Plant]) -> Result<(), String> {
    let mut named = BTreeSet::new();
    for path in tidy::files()? {
        if !path.ends_with(".rs") || NOT_PLANTED.iter().any(|start| path.starts_with(start)) {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
        named.extend(
            names(&text).map_err(|line| format!("{path}:{line}: a plant without its name in quotes"))?,
        );
    }
    let table: BTreeSet<String> = plants.iter().map(|plant| plant.name.to_owned()).collect();
    compare(&named, &table)
}

fn compare(named: &BTreeSet<String>, table: &BTreeSet<String>) -> Result<(), String> {
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>| -> Vec<String> {
        these.difference(those).cloned().collect()
    };
    match (only(named, table).join(", "), only(table, named).join(", ")) {
        (missing, _) if !missing.is_empty() => Err(format!("planted, but not in plants/table.rs: {missing}")),
        (_, stray) if !stray.is_empty() => Err(format!("in plants/table.rs, but planted nowhere: {stray}")),
        _ => Ok(()),
    }
}

/// The names that a file's `planted` are given; the number of a line in which one has none that
/// can be read.
fn names(text: &str) -> Result<Vec<String>, usize> {
    let mut names = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        for call in code.split("planted(").skip(1) {
            let name = call.strip_prefix('"').and_then(|rest| rest.split_once('"'));
            names.push(name.ok_or(index + 1)?.0.to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::super::table::PLANTS;
    use super::*;

    #[test]
    fn the_table_and_the_sources_name_the_same_plants() {
        agree(PLANTS).unwrap_or_else(|why| panic!("{why}"));
    }

    #[test]
    fn a_plant_that_only_one_side_names_is_found() {
        let set = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();
        assert_eq!(compare(&set(&["a", "b"]), &set(&["a", "b"])), Ok(()));
        assert!(compare(&set(&["a", "mispelt"]), &set(&["a"])).is_err_and(|why| why.ends_with(": mispelt")));
        assert!(compare(&set(&["a"]), &set(&["a", "lost"])).is_err_and(|why| why.ends_with(": lost")));
    }

    #[test]
    fn names_are_read_from_code_and_must_be_there() {
        let text =
            "// planted(\"talk\")\nif !planted(\"a\") && planted(\"b\") {\nuse barn_layout::planted;\n";
        assert_eq!(names(text), Ok(vec!["a".into(), "b".into()]));
        assert_eq!(names("f();\nif planted(NAME) {\n"), Err(2));
    }
}
