//! perftest's tools in turn with ours: what else the machine does hits both.
//!
//! A tool's command is the caller's, as it needs a server at the other end. It finds the size in `BYTES`, and prints
//! the tool's table.

use std::io;
use std::process::{Command, Stdio};

/// One of perftest's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// `#bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%`, in microseconds.
    ReadLat,
    /// `#bytes #iterations BW_peak BW_average MsgRate`, the last in millions a second.
    ReadBw,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadLat => "ib_read_lat",
            Self::ReadBw => "ib_read_bw",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::ReadLat => "--read-lat",
            Self::ReadBw => "--read-bw",
        }
    }

    /// The columns of its table.
    fn columns(self) -> usize {
        match self {
            Self::ReadLat => 9,
            Self::ReadBw => 5,
        }
    }

    /// What of it counts, in nanoseconds or operations a second.
    fn figure(self, row: &[f64]) -> f64 {
        match self {
            Self::ReadLat => row[4] * 1e3,
            Self::ReadBw => row[4] * 1e6,
        }
    }

    /// What a tool says of READs: how long one typically takes, in nanoseconds, or how many there are in a second; none
    /// if it could not tell.
    pub(super) fn measure(self, command: &str, bytes: usize) -> io::Result<Option<f64>> {
        let run = Command::new("sh")
            .args(["-c", command])
            .env("BYTES", bytes.to_string())
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        let failed = |why: String| io::Error::other(format!("{} {command:?} {why}", self.option()));
        if !run.status.success() {
            return Err(failed(format!("failed: {}", run.status)));
        }
        let said = self.read(&String::from_utf8_lossy(&run.stdout));
        said.ok_or_else(|| failed("printed no table of READs".into()))
    }

    /// The last line that is so many numbers and nothing else; none of none if what counts in it is none: perftest
    /// says `inf`, or that there were none, where the kernel does not know how fast the processor's counter is.
    fn read(self, output: &str) -> Option<Option<f64>> {
        let numbers = |line: &str| -> Option<Vec<f64>> {
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let row = output.lines().filter_map(numbers).rfind(|row| row.len() == self.columns())?;
        let figure = self.figure(&row);
        Some((figure.is_finite() && figure > 0.0).then_some(figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_taken_from_the_table() {
        let table = " #bytes #iterations    t_min[usec] \n 64 1000 49.32 4832.94 56.89 \t 82.82 \t295.26 \t\t257.31 \t\t4832.94\n---\n";
        assert_eq!(Tool::ReadLat.read(table), Some(Some(56_890.0)));
        assert_eq!(Tool::ReadBw.read(table), None, "another tool's");
        assert_eq!(Tool::ReadLat.read(" 64 2000 inf inf inf \t inf \t-nan \t\tinf \t\tinf\n"), Some(None));
        assert_eq!(Tool::ReadLat.read("Failed to modify QP\n"), None);
        assert_eq!(Tool::ReadBw.read(" 64 5000 1.13 1.09 \t\t 0.017876\n"), Some(Some(17_876.0)));
        assert_eq!(Tool::ReadBw.read(" 64 5000 0.00 0.00 0.000000\n"), Some(None));
    }

    #[test]
    fn the_command_is_told_the_size_and_what_it_says_wrong_is_an_error() {
        let said = Tool::ReadLat.measure("echo 0 0 0 0 $BYTES 0 0 0 0", 7);
        assert_eq!(said.expect("it runs"), Some(7000.0));
        let said = Tool::ReadBw.measure("echo nothing", 7).expect_err("no table").to_string();
        assert!(said.contains("--read-bw") && said.contains("printed no table"), "{said}");
        assert!(Tool::ReadLat.measure("exit 3", 7).is_err());
    }
}
