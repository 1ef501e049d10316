//! `ib_read_lat` in turn with ours: what else the machine does hits both.
//!
//! The command is the caller's, as it needs a server at the other end. It finds the size in `BYTES`, and prints
//! perftest's table: `#bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%`, in microseconds.

use std::io;
use std::process::{Command, Stdio};

/// The columns of the table, and which of them counts.
const COLUMNS: usize = 9;
const TYPICAL: usize = 4;

/// How long a READ typically takes by that command, in nanoseconds; none if it could not tell.
pub(super) fn typical_ns(command: &str, bytes: usize) -> io::Result<Option<f64>> {
    let run = Command::new("sh")
        .args(["-c", command])
        .env("BYTES", bytes.to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let failed = |why: String| io::Error::other(format!("--read-lat {command:?} {why}"));
    if !run.status.success() {
        return Err(failed(format!("failed: {}", run.status)));
    }
    typical(&String::from_utf8_lossy(&run.stdout)).ok_or_else(|| failed("printed no table of READs".into()))
}

/// The last line that is so many numbers and nothing else; none of none if the time in it is none: perftest says
/// `inf` where the kernel does not know how fast the processor's counter is.
fn typical(output: &str) -> Option<Option<f64>> {
    let numbers =
        |line: &str| -> Option<Vec<f64>> { line.split_whitespace().map(|word| word.parse().ok()).collect() };
    let row = output.lines().filter_map(numbers).rfind(|row| row.len() == COLUMNS)?;
    let microseconds = row[TYPICAL];
    Some((microseconds.is_finite() && microseconds > 0.0).then_some(microseconds * 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_time_is_taken_from_the_table() {
        let table = " #bytes #iterations    t_min[usec] \n 64 1000 49.32 4832.94 56.89 \t 82.82 \t295.26 \t\t257.31 \t\t4832.94\n---\n";
        assert_eq!(typical(table), Some(Some(56_890.0)));
        assert_eq!(typical(" 64 2000 inf inf inf \t inf \t-nan \t\tinf \t\tinf\n"), Some(None));
        assert_eq!(typical("Failed to modify QP\n"), None);
    }

    #[test]
    fn the_command_is_told_the_size_and_what_it_says_wrong_is_an_error() {
        assert_eq!(typical_ns("echo 0 0 0 0 $BYTES 0 0 0 0", 7).expect("it runs"), Some(7000.0));
        let said = typical_ns("echo nothing", 7).expect_err("no table").to_string();
        assert!(said.contains("printed no table"), "{said}");
        assert!(typical_ns("exit 3", 7).is_err());
    }
}
