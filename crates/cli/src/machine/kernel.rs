//! The kernel: its release, its load, its clock, its switches, and this process's limits.

use super::source::Source;

/// The kernel's release, such as `6.1.0-18-amd64`.
pub fn release(source: &Source) -> Option<String> {
    source.text("/proc/sys/kernel/osrelease")
}

/// Major and minor of the release.
pub fn version(source: &Source) -> Option<(u32, u32)> {
    let release = release(source)?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Load over 1, 5 and 15 minutes; zeros if unknown.
pub fn load_average(source: &Source) -> [f64; 3] {
    let text = source.text("/proc/loadavg").unwrap_or_default();
    let mut load = [0.0; 3];
    for (slot, word) in load.iter_mut().zip(text.split_whitespace()) {
        *slot = word.parse().ok().filter(|load: &f64| load.is_finite()).unwrap_or(0.0);
    }
    load
}

/// The clock that the kernel keeps time by.
pub fn clocksource(source: &Source) -> Option<String> {
    source.text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// A resource limit of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    Unlimited,
    /// At most this many (bytes, files).
    AtMost(u64),
}

/// Soft and hard limit of the row called `name` in `/proc/self/limits`.
pub fn limit(source: &Source, name: &str) -> Option<(Limit, Limit)> {
    let text = source.text("/proc/self/limits")?;
    let row = text.lines().find_map(|line| line.strip_prefix(name))?;
    let mut values = row.split_whitespace().map(|word| match word {
        "unlimited" => Some(Limit::Unlimited),
        number => number.parse().ok().map(Limit::AtMost),
    });
    Some((values.next()??, values.next()??))
}
