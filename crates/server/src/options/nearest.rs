//! The known name that somebody probably meant.

/// How alike two names must be: one letter in four may be off.
const ALIKE_MIN: f64 = 0.75;

/// The name nearest to `wrong` among `known`, if any is near.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = wrong.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(&lower, &name.to_lowercase()), name))
        // Of two that are equally near, the first.
        .fold(None, |best: Option<(f64, &str)>, one| match best {
            Some(best) if best.0 >= one.0 => Some(best),
            _ => Some(one),
        })
        // A part of a name is near, too: `lease` is `lease_ms`.
        .filter(|(alike, name)| *alike >= ALIKE_MIN || is_start(&lower, &name.to_lowercase()))
        .map(|(_, name)| name)
}

fn is_start(part: &str, name: &str) -> bool {
    part.len() >= 3 && name.starts_with(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let known = ["memory", "metrics", "lease_ms", "users", "user"];
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("MEMORY", known), Some("memory"));
        assert_eq!(nearest("lease", known), Some("lease_ms"));
        assert_eq!(nearest("user", known), Some("user"));
        assert_eq!(nearest("ploughshare", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest("x", []), None);
    }
}
