//! `cargo xtask layout`: writes `docs/layout.md` from the declarations in `crates/layout`.
//!
//! A test of that crate compares the two, so a stale drawing cannot land.

use crate::run::root;
use crate::{Outcome, Stage};

/// Writes the drawing.
pub(crate) fn run() -> Stage {
    let path = root().join("docs/layout.md");
    std::fs::write(&path, barn_layout::diagram::document())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Outcome::Passed("docs/layout.md is written".to_string()))
}
