//! Named places at which a test can kill or stop the process.
//!
//! `BARN_FAILPOINT=checkpoint-after-image=kill` kills it (SIGKILL) when it first comes there;
//! `=stop` stops it (SIGSTOP); `=kill@3` waits for the third time. Several are separated by commas.
//! The process first says so on its standard error, because it may be long in dying: threads that wait for
//! a disk are waited for. The variable is read once; without it a place costs one load.

use rustix::process::{Signal, getpid, kill_process};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every place there is.
pub const FAILPOINTS: [&str; 14] = [
    "write-before",
    "write-after",
    "sync-after",
    "rotate-before",
    "rotate-after-header",
    "rotate-after-name",
    "checkpoint-before-image",
    "checkpoint-after-image",
    "checkpoint-before-manifest",
    "checkpoint-after-manifest",
    "clean-before",
    "clean-after-one",
    "recover-after-replay",
    "recover-after-segment",
];

/// What the process says on its standard error when it has come to such a place, before the place's name.
pub const REACHED: &str = "at the failpoint ";

struct Armed {
    name: String,
    signal: Signal,
    /// How often the place is passed before something happens.
    passes: AtomicU64,
}

fn parse(text: &str) -> Vec<Armed> {
    let armed = |part: &str| {
        let (name, what) = part.split_once('=')?;
        let (what, time) = what.split_once('@').unwrap_or((what, "1"));
        let signal = match what {
            "kill" => Signal::KILL,
            "stop" => Signal::STOP,
            _ => return None,
        };
        let passes = time.parse::<u64>().ok()?.checked_sub(1)?;
        Some(Armed { name: name.trim().to_string(), signal, passes: AtomicU64::new(passes) })
    };
    text.split(',').filter_map(armed).collect()
}

/// Something may happen here, if a test wants it.
#[inline]
pub(crate) fn failpoint(name: &'static str) {
    static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();
    debug_assert!(FAILPOINTS.contains(&name), "{name}");
    let armed = ARMED.get_or_init(|| parse(&std::env::var("BARN_FAILPOINT").unwrap_or_default()));
    for armed in armed.iter().filter(|armed| armed.name == name) {
        // ORDER: Relaxed: a count that orders nothing.
        let passed =
            armed.passes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if passed.is_err() {
            eprintln!("{REACHED}{name}");
            let _ = kill_process(getpid(), armed.signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_text() {
        let armed = parse("write-after=kill, clean-before=stop@3,nonsense,x=y,z=kill@0");
        let all: Vec<_> = armed
            .iter()
            .map(|armed| (armed.name.as_str(), armed.signal, armed.passes.load(Ordering::Relaxed)))
            .collect();
        assert_eq!(all, [("write-after", Signal::KILL, 0), ("clean-before", Signal::STOP, 2)]);
        // Not armed: nothing happens.
        failpoint("write-after");
    }
}
