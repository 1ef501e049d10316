//! Running other programs: with their output shown, kept, and bounded in time.

use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The workspace's root: the parent of this package.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies below the root").to_owned()
}

/// Works on all of these, on as many at a time as there are cores; gives what came of each, in their order.
pub(crate) fn side_by_side<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..cores.min(all.len()) {
            scope.spawn(|| {
                loop {
                    // ORDER: Relaxed: only that each is given out once.
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(at) else { return };
                    let result = work(one);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A program to be run at the workspace's root.
#[derive(Debug)]
pub(crate) struct Job {
    command: Command,
    timeout: Option<Duration>,
    quiet: bool,
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    /// Standard output and standard error, in the order in which lines arrived.
    pub(crate) output: String,
    pub(crate) seconds: f64,
    /// It was stopped because its time was up.
    pub(crate) timed_out: bool,
}

impl Job {
    pub(crate) fn new(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).current_dir(root());
        if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        // What is built once needs nothing kept for the next time, which takes room on disk.
        if std::env::var_os("CI").is_some() && std::env::var_os("CARGO_INCREMENTAL").is_none() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        Self { command, timeout: None, quiet: false }
    }

    pub(crate) fn cargo(args: &[&str]) -> Self {
        Self::new("cargo", args)
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Runs it there instead.
    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Shows nothing; the output is kept all the same.
    pub(crate) fn quiet(mut self) -> Self {
        self.quiet = true;
        self
    }

    /// Stops it, and all that it started, after this long.
    pub(crate) fn timeout(mut self, timeout: Duration) -> Self {
        // A group of its own, so that a test binary dies with the cargo that started it.
        self.command.process_group(0);
        self.timeout = Some(timeout);
        self
    }

    /// Runs it to its end. `Err` if it cannot be started.
    pub(crate) fn run(mut self) -> Result<Done, String> {
        let started = Instant::now();
        let name = self.command.get_program().to_string_lossy().into_owned();
        let mut child = self
            .command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let output = Arc::new(Mutex::new(String::new()));
        let readers = [
            child.stdout.take().map(|pipe| follow(pipe, &output, self.quiet)),
            child.stderr.take().map(|pipe| follow(pipe, &output, self.quiet)),
        ];
        let (status, timed_out) =
            wait(&mut child, self.timeout).map_err(|error| format!("{name}: {error}"))?;
        for reader in readers.into_iter().flatten() {
            let _ = reader.join();
        }
        let output = std::mem::take(&mut *output.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        Ok(Done { status, output, seconds: started.elapsed().as_secs_f64(), timed_out })
    }

    /// Runs it, and takes any end but success for an error.
    pub(crate) fn succeed(self, what: &str) -> Result<Done, String> {
        let done = self.run()?;
        if done.status.success() { Ok(done) } else { Err(format!("{what} {}", done.how())) }
    }
}

impl Done {
    /// How it ended, in words.
    pub(crate) fn how(&self) -> String {
        match (self.timed_out, self.status.code(), self.status.signal()) {
            (true, ..) => format!("was stopped after {:.0} s", self.seconds),
            (_, Some(0), _) => "succeeded".into(),
            (_, Some(code), _) => format!("ended with code {code}"),
            (_, _, Some(signal)) => format!("was killed by signal {signal}"),
            _ => "failed".into(),
        }
    }

    /// How many tests passed, over all test binaries that it ran.
    pub(crate) fn tests_passed(&self) -> u64 {
        let passed = |line: &str| -> Option<u64> {
            let (_, rest) = line.split_once("test result: ")?;
            let (before, _) = rest.split_once(" passed")?;
            before.split_whitespace().last()?.parse().ok()
        };
        self.output.lines().filter_map(passed).sum()
    }
}

fn follow(
    pipe: impl Read + Send + 'static,
    output: &Arc<Mutex<String>>,
    quiet: bool,
) -> thread::JoinHandle<()> {
    let output = Arc::clone(output);
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while pipe.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let line = String::from_utf8_lossy(&bytes);
            if !quiet {
                let _ = std::io::stdout().write_all(line.as_bytes());
            }
            if let Ok(mut output) = output.lock() {
                output.push_str(&line);
            }
            bytes.clear();
        }
    })
}

fn wait(child: &mut Child, timeout: Option<Duration>) -> std::io::Result<(ExitStatus, bool)> {
    let Some(timeout) = timeout else {
        return Ok((child.wait()?, false));
    };
    let started = Instant::now();
    while started.elapsed() < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        thread::sleep(Duration::from_millis(20));
    }
    // The whole group: std can only kill the one process.
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
    let _ = child.kill();
    Ok((child.wait()?, true))
}

/// Whether the program can be started and says that all is well.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_and_the_end_is_told() {
        let done = Job::new("sh", &["-c", "echo out; echo err >&2; exit 3"]).quiet().run().expect("runs");
        assert!(done.output.contains("out\n") && done.output.contains("err\n"));
        assert_eq!(done.how(), "ended with code 3");
    }

    #[test]
    fn side_by_side_each_is_done_once_and_in_order() {
        assert_eq!(side_by_side(&[3, 1, 2], |number| number * 10), [30, 10, 20]);
        assert!(side_by_side(&[] as &[u8], |_| ()).is_empty());
    }

    #[test]
    fn a_job_past_its_time_is_stopped_with_its_children() {
        let job = Job::new("sh", &["-c", "sleep 60 & sleep 60"]).quiet().timeout(Duration::from_millis(100));
        let done = job.run().expect("runs");
        assert!(done.timed_out && done.seconds < 30.0, "{}", done.how());
    }

    #[test]
    fn passed_tests_are_counted_over_all_binaries() {
        let script =
            "echo 'test result: ok. 12 passed; 0 failed'; echo 'test result: FAILED. 3 passed; 1 failed'";
        let done = Job::new("sh", &["-c", script]).quiet().run().expect("runs");
        assert_eq!(done.tests_passed(), 15);
    }
}
