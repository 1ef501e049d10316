//! A process is killed at every failpoint in turn; what it said was synced is there afterwards.
//!
//! The child is this test's own binary: it counts in memory (`counting`), with checkpoints, cleaning and
//! changes of segment on the way. A failpoint that is not met is a failure, too.

mod counting;

use barn_log::{FAILPOINTS, REACHED};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

const CHILD: &str = "BARN_FAILPOINT_DIRECTORY";
/// About 24 MiB of log, of which 2 MiB are a segment and 4 MiB a checkpoint.
const COUNTS: u64 = 3000;

#[test]
fn a_process_that_dies_at_any_failpoint_loses_nothing_that_was_synced() {
    if let Ok(directory) = std::env::var(CHILD) {
        counting::count(Path::new(&directory), COUNTS);
        return;
    }
    for name in FAILPOINTS {
        let directory = std::env::temp_dir().join(format!("barn-failpoints-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        // Some are met at once, at the first start: what is of interest comes a little later.
        let time = match name {
            "write-before" | "write-after" | "sync-after" => 40,
            "rotate-after-header" | "rotate-after-name" => 3,
            _ => 1,
        };
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "a_process_that_dies_at_any_failpoint_loses_nothing_that_was_synced",
                "--nocapture",
            ])
            .env(CHILD, &directory)
            .env("BARN_FAILPOINT", format!("{name}=kill@{time}"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(child.status.signal(), Some(9), "{name} was not met");
        let told = String::from_utf8_lossy(&child.stderr);
        assert!(told.lines().any(|line| line.strip_prefix(REACHED) == Some(name)), "{name}: {told}");
        let said = String::from_utf8_lossy(&child.stdout);
        let counts = said.lines().filter_map(|line| line.strip_prefix("synced ")?.parse::<u64>().ok());
        let said = counts.max().unwrap_or(0);
        let (count, report) = counting::recovered(&directory);
        assert!(count >= said, "{name}: {said} was synced, {count} was recovered: {report}");
        assert!(said > 0 || name.starts_with("recover"), "{name}: it died before it said anything");
        let (again, report) = counting::recovered(&directory);
        assert_eq!(count, again, "{name}: recovering twice: {report}");
        let _ = std::fs::remove_dir_all(&directory);
    }
}
