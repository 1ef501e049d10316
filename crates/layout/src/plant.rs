//! Planted bugs: faults that are there on purpose, for a gate to prove that it can fail.
//!
//! `if planted("NAME")` stands where the bug does, and `cargo xtask plants` demands that the
//! bug's gate catches it (its table has every name). It is here because every crate has bugs to
//! plant and this is the one that all depend on.
//!
//! What always holds:
//! - [`planted`] is the constant `false` unless `cfg(barn_plants)`, and the code that it guards
//!   is then gone: nothing in the environment can plant anything in a build that somebody uses;
//! - with `cfg(barn_plants)` every bug is compiled in, and at most one is planted: the one that
//!   the environment variable `BARN_PLANT` names when it is first asked for, until the process ends.

/// Whether this bug is planted.
#[cfg(not(barn_plants))]
#[inline(always)]
pub const fn planted(_name: &'static str) -> bool {
    false
}

/// Whether this bug is planted.
#[cfg(barn_plants)]
pub fn planted(name: &'static str) -> bool {
    use std::sync::OnceLock;

    // Of std also under loom: which bug is planted is no part of what a model explores.
    static CHOSEN: OnceLock<String> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("BARN_PLANT").unwrap_or_default()) == name
}

#[cfg(all(test, not(barn_plants)))]
mod tests {
    use super::planted;

    #[test]
    fn nothing_is_planted_in_an_ordinary_build() {
        const { assert!(!planted("tidy_overlooks_unsafe")) };
    }
}
