//! Numbers of bytes, as people write and read them.

use std::str::FromStr;

/// A number of bytes from the command line: `4096`, `64MiB`, `1.5GiB`, `2GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| lower.strip_suffix(name).map(|number| (number, *unit)))
            .unwrap_or((lower.as_str(), 1));
        let wrong = || format!("`{text}` is no number of bytes: write 4096, 64MiB or 1.5GiB");
        let value: f64 = number.trim().parse().map_err(|_| wrong())?;
        let bytes = value * unit as f64;
        if !bytes.is_finite() || bytes < 0.0 || bytes > (1u64 << 53) as f64 {
            return Err(wrong());
        }
        Ok(Self(bytes as u64))
    }
}

/// A number of bytes as [`Bytes`] reads it, without loss: in the largest unit that divides it.
pub(super) fn written(bytes: u64) -> String {
    let whole = |(name, unit): &(&'static str, u64)| {
        (*unit > 1 && bytes >= *unit && bytes.is_multiple_of(*unit))
            .then(|| format!("{}{name}", bytes / unit))
    };
    let units = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    units.iter().find_map(whole).unwrap_or_else(|| bytes.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("1.5 gib", 3 << 29), ("2GB", 2_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "x", "-1", "1e300", "12 parsecs", "MiB", "inf", "NaN"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for (bytes, text) in
            [(0, "0"), (1000, "1000"), (1 << 10, "1KiB"), (3 << 29, "1536MiB"), (5 << 40, "5TiB")]
        {
            assert_eq!((written(bytes).as_str(), text.parse()), (text, Ok(Bytes(bytes))));
        }
    }
}
