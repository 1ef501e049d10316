//! One-way layers: a crate depends only on crates above it in the design's list.

use super::Finding;

/// The design's list: each knows only those before it.
const LAYERS: [&str; 12] = [
    "layout",
    "fabric",
    "log",
    "heap",
    "cluster",
    "space",
    "transaction",
    "index",
    "barn",
    "server",
    "gateway",
    "cli",
];

/// Checks the dependencies of `crates/NAME/Cargo.toml`.
pub(super) fn layers(path: &str, text: &str) -> Vec<Finding> {
    let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else {
        return Vec::new();
    };
    let finding = |line: usize, message: String| Finding { path: path.into(), line, message, warning: false };
    let Some(layer) = LAYERS.iter().position(|layer| *layer == name) else {
        return vec![finding(
            1,
            format!("`{name}` is not in the list of layers (LAYERS in xtask, and the design)"),
        )];
    };
    let mut findings = Vec::new();
    let mut dependencies = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        // `[dependencies.barn-fabric]` names one in the header itself.
        let key = if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            dependencies = header.ends_with("dependencies");
            header.rsplit_once("dependencies.").map(|(_, key)| key)
        } else {
            dependencies.then(|| line.split(['=', '.', ' ']).next().unwrap_or(""))
        };
        let Some(other) = key.and_then(ours) else {
            continue;
        };
        match LAYERS.iter().position(|layer| *layer == other) {
            Some(above) if above < layer => {}
            Some(above) if above == layer => {}
            Some(_) => findings
                .push(finding(index + 1, format!("`{name}` must not know `{other}`, which is below it"))),
            None => findings.push(finding(index + 1, format!("`{other}` is not in the list of layers"))),
        }
    }
    findings
}

/// The layer that a dependency's key names, if it is one of ours.
fn ours(key: &str) -> Option<&str> {
    let key = key.trim_matches('"');
    if key == "barn" { Some(key) } else { key.strip_prefix("barn-") }
}
