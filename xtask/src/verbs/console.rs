//! What the guest says on its first serial port: its jobs' output, and lines with a mark.
//!
//! What always holds: the mark is new for each run, so that nothing that a job prints is taken for
//! the guest's word. A marked line may begin in the middle of a line that a job left unfinished.

use barn_layout::planted;

use super::jobs::{Ended, Ran};

/// What a marked line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Devices are there, jobs come next.
    Up(String),
    /// The guest could not be set up: this step failed.
    Broken(String),
    Begin(String),
    End(String, Ended),
    /// All jobs ran; the power goes.
    Done,
}

/// A line of the port: what a job printed, and what the guest said after it.
pub(super) fn split<'a>(line: &'a str, mark: &str) -> (&'a str, Option<Event>) {
    let line = line.trim_end_matches(['\n', '\r']);
    let Some((printed, said)) = line.split_once(&format!("{mark} ")) else {
        return (line, None);
    };
    (printed, event(said))
}

fn event(said: &str) -> Option<Event> {
    let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
    Some(match word {
        "up" => Event::Up(rest.into()),
        "broken" => Event::Broken(rest.into()),
        "begin" => Event::Begin(rest.into()),
        "end" => {
            let (name, rest) = rest.split_once(' ')?;
            Event::End(name.into(), ended(rest)?)
        }
        "done" => Event::Done,
        _ => return None,
    })
}

/// `code=0 milliseconds=1200 late=0 killed=0`
fn ended(text: &str) -> Option<Ended> {
    let field = |name: &str| {
        let value = text.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))?;
        value.parse::<u64>().ok()
    };
    if planted("verbs_takes_a_cut_line_for_success") {
        return Some(Ended { code: 0, milliseconds: 0, late: false, killed: 0 });
    }
    Some(Ended {
        code: i32::try_from(field("code")?).ok()?,
        milliseconds: field("milliseconds")?,
        late: field("late")? != 0,
        killed: field("killed")?,
    })
}

/// All that one guest has said so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript {
    /// The kernel and what it found, once the devices are there.
    pub(super) up: Option<String>,
    pub(super) broken: Option<String>,
    pub(super) jobs: Vec<Ran>,
    /// What was said outside of all jobs: the words of a step that failed.
    pub(super) aside: String,
    pub(super) done: bool,
}

impl Transcript {
    pub(super) fn take(&mut self, printed: &str, event: Option<Event>) {
        if !printed.is_empty() || event.is_none() {
            let running = self.jobs.last_mut().filter(|job| job.ended.is_none());
            let to = running.map_or(&mut self.aside, |job| &mut job.output);
            to.push_str(printed);
            to.push('\n');
        }
        match event {
            Some(Event::Up(what)) => self.up = Some(what),
            Some(Event::Broken(step)) => self.broken = Some(step),
            Some(Event::Begin(name)) => self.jobs.push(Ran { name, output: String::new(), ended: None }),
            Some(Event::End(name, ended)) => {
                if let Some(job) = self.jobs.iter_mut().rev().find(|job| job.name == name) {
                    job.ended = Some(ended);
                }
            }
            Some(Event::Done) => self.done = true,
            None => {}
        }
    }

    /// The job that has begun and not ended.
    pub(super) fn running(&self) -> Option<&str> {
        self.jobs.last().filter(|job| job.ended.is_none()).map(|job| job.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        for line in lines {
            let (printed, event) = split(line, "@7");
            transcript.take(printed, event);
        }
        transcript
    }

    #[test]
    fn a_run_is_read_from_its_lines() {
        let transcript = told(&[
            "@7 up 6.1.0, 2 processors\n",
            "@7 begin perftest\n",
            "64 bytes\r\n",
            "no end of line@7 end perftest code=1 milliseconds=1250 late=0 killed=0\n",
            "@7 done\n",
        ]);
        assert_eq!(transcript.up.as_deref(), Some("6.1.0, 2 processors"));
        let ended = Ended { code: 1, milliseconds: 1250, late: false, killed: 0 };
        assert_eq!(transcript.jobs.len(), 1);
        assert_eq!(transcript.jobs[0].output, "64 bytes\nno end of line\n");
        assert_eq!(transcript.jobs[0].ended, Some(ended));
        assert!(transcript.done && transcript.running().is_none());
    }

    #[test]
    fn another_mark_or_a_cut_line_is_only_output() {
        let transcript = told(&["@7 begin x", "@8 done", "@7 end x code=0 millis"]);
        assert!(!transcript.done);
        assert_eq!(transcript.running(), Some("x"));
        assert!(transcript.jobs[0].output.contains("@8 done"));
    }

    #[test]
    fn a_broken_guest_says_at_which_step() {
        let transcript = told(&["RTNETLINK answers: no", "@7 broken ip link add v0"]);
        assert_eq!(transcript.broken.as_deref(), Some("ip link add v0"));
        assert_eq!(transcript.aside, "RTNETLINK answers: no\n");
    }
}
