//! The names of a log's files. Numbers have sixteen digits, so that names sort as they count.

/// Held by the one process that has the directory open.
pub const LOCK: &str = "lock";
/// A segment that is being made.
pub(crate) const SEGMENT_NEW: &str = "log.new";
/// A manifest that is being made.
pub(crate) const MANIFEST_NEW: &str = "manifest.new";

const SEGMENT: &str = "log-";
const SPARE: &str = "spare-";
const IMAGE: &str = "image-";
const MANIFEST: &str = "manifest-";
const DIGITS: usize = 16;
/// What a file that was put aside ends in.
pub const DAMAGED: &str = ".damaged";

/// The segment with a number.
pub fn segment(number: u64) -> String {
    format!("{SEGMENT}{number:0DIGITS$}")
}

/// A segment that waits to be used again.
pub fn spare(number: u64) -> String {
    format!("{SPARE}{number:0DIGITS$}")
}

/// The image of a checkpoint.
pub fn image(number: u64) -> String {
    format!("{IMAGE}{number:0DIGITS$}")
}

/// The manifest of a checkpoint.
pub fn manifest(number: u64) -> String {
    format!("{MANIFEST}{number:0DIGITS$}")
}

/// What a file of the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    Segment(u64),
    Spare(u64),
    Image(u64),
    Manifest(u64),
    /// Left by a process that died while it made it.
    Unfinished,
    /// None of ours, or put aside.
    Other,
}

/// What a name means.
pub(crate) fn parse(name: &str) -> Name {
    let number = |prefix: &str| {
        let digits = name.strip_prefix(prefix)?;
        let decimal = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        if decimal { digits.parse().ok() } else { None }
    };
    if name == SEGMENT_NEW || name == MANIFEST_NEW {
        return Name::Unfinished;
    }
    let segment = number(SEGMENT).map(Name::Segment).or_else(|| number(SPARE).map(Name::Spare));
    let checkpoint = || number(IMAGE).map(Name::Image).or_else(|| number(MANIFEST).map(Name::Manifest));
    segment.or_else(checkpoint).unwrap_or(Name::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_what_they_were_made_for() {
        assert_eq!(segment(1), "log-0000000000000001");
        assert_eq!(parse(&segment(17)), Name::Segment(17));
        assert_eq!(parse(&spare(17)), Name::Spare(17));
        assert_eq!(parse(&image(2)), Name::Image(2));
        assert_eq!(parse(&manifest(3)), Name::Manifest(3));
        assert_eq!(parse("log.new"), Name::Unfinished);
        for other in ["lock", "log-1", "log-+000000000000001", "log-0000000000000001.damaged", "log-"] {
            assert_eq!(parse(other), Name::Other, "{other}");
        }
    }
}
