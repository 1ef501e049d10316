//! Times, as people write and read them.

use std::str::FromStr;
use std::time::Duration;

/// A time from the command line: `500ms`, `30s`, `5m`, `12h`, `7d`; a number alone is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// Longest first, so that `ms` is not taken for `s`.
const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];

/// A hundred years: what is to be kept for longer does not expire.
const SECONDS_MAX: f64 = 100.0 * 365.0 * 86400.0;

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| lower.strip_suffix(name).map(|number| (number, *unit)))
            .unwrap_or((lower.as_str(), 1.0));
        let wrong = || format!("`{text}` is no time: write 500ms, 30s, 5m, 12h or 7d");
        let seconds = number.trim().parse::<f64>().map_err(|_| wrong())? * unit;
        if seconds.is_nan() {
            return Err(wrong());
        }
        // Values expire by the millisecond.
        if !(0.001..=SECONDS_MAX).contains(&seconds) {
            return Err(format!("`{text}` is out of bounds: from 1ms to a hundred years (36500d)"));
        }
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

/// A time in two digits or so: `850 ms`, `29.5 s`, `12 min`.
pub fn human(milliseconds: u64) -> String {
    let seconds = milliseconds as f64 / 1e3;
    match seconds {
        s if s < 1.0 => format!("{milliseconds} ms"),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("30", 30_000),
            ("1.5 m", 90_000),
            ("2H", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(text.parse(), Ok(Time(Duration::from_millis(milliseconds))), "{text}");
        }
        for text in ["", "s", "0", "-1s", "soon", "1y", "NaN", "inf", "1e300d", "0.1ms"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_scaled() {
        assert_eq!(
            [human(850), human(29_500), human(720_000), human(86_400_000), human(864_000_000)],
            ["850 ms", "29.5 s", "12 min", "24 h", "10 days"]
        );
    }
}
