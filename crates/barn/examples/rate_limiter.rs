//! A rate limit that several processes keep together: `cargo run --example rate_limiter`.
//!
//! Each caller may do so much in each window of time. A window is a counter that is made by the first
//! call in it and expires by itself: one message to the node for each call, and nothing to clean up.
//! The first process starts a node inside itself and lets the others loose on it.
#![forbid(unsafe_code)]

use barn::{Barn, Table};
use std::error::Error;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PROCESSES: usize = 3;
const CALLERS: [&str; 2] = ["ada", "grace"];
/// Calls that each caller may make in a window, through all processes together.
const LIMIT: i64 = 1_000;
const WINDOW: Duration = Duration::from_millis(500);
const TIME: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => begin(),
        [address] => serve_calls(address),
        _ => Err("give nothing, or an address".into()),
    }
}

/// Makes the table, lets the processes loose on it and adds up what they let through.
fn begin() -> Result<(), Box<dyn Error>> {
    let barn = Barn::embedded()?;
    let limits = barn.table("limits")?;
    let address = barn.address().ok_or("the node listens nowhere")?;
    println!("{PROCESSES} processes, {} callers, {LIMIT} calls each in {WINDOW:?}", CALLERS.len());
    let this_program = std::env::current_exe()?;
    let first = window();
    let children = (0..PROCESSES)
        .map(|_| Command::new(&this_program).arg(&address).stdout(Stdio::piped()).spawn())
        .collect::<Result<Vec<_>, _>>()?;
    let mut allowed = 0;
    for child in children {
        let output = child.wait_with_output()?;
        let line = String::from_utf8(output.stdout)?;
        print!("  {line}");
        let count = line.split(' ').nth(3).and_then(|count| count.parse::<i64>().ok());
        allowed += count.filter(|_| output.status.success()).ok_or("a child failed")?;
    }
    let windows = (window() - first + 1) as i64;
    let most = windows * CALLERS.len() as i64 * LIMIT;
    println!("{allowed} calls let through in {windows} windows, and {most} would have been the most");
    assert!(allowed <= most, "the limit was not kept");
    // Counters go by themselves; only the newest windows have any.
    std::thread::sleep(WINDOW * 3);
    let left = limits.scan().count();
    println!("{left} counters are left a while after");
    Ok(())
}

/// Takes calls as fast as they come, and lets through what may pass.
fn serve_calls(address: &str) -> Result<(), Box<dyn Error>> {
    let limits = Barn::connect(address)?.table("limits")?;
    let (started, mut allowed, mut refused) = (Instant::now(), 0u64, 0u64);
    while started.elapsed() < TIME {
        for caller in CALLERS {
            if may_pass(&limits, caller)? { allowed += 1 } else { refused += 1 }
        }
    }
    println!("process {} allowed {allowed} and refused {refused} calls", std::process::id());
    Ok(())
}

/// Whether a caller may make one more call in this window.
fn may_pass(limits: &Table, caller: &str) -> Result<bool, barn::Error> {
    let key = format!("{caller}:{}", window());
    // The first call in a window makes its counter, which is of no use after the window: twice its
    // length is kept for processes whose clocks are a little behind.
    Ok(limits.increment_for(key.as_bytes(), 1, WINDOW * 2)? <= LIMIT)
}

/// The number of the window that it is now; the same in all processes.
fn window() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis()) / WINDOW.as_millis()
}
