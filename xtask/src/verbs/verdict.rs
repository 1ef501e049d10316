//! How a run ended, in words: which of the ways to fail it was, and where to look.

use barn_layout::planted;

use super::console::Transcript;
use super::jobs::Job;
use super::machine::{End, Report};
use super::work;
use crate::{Outcome, Stage};

/// One line about all guests and all of their jobs.
pub(super) fn all(reports: &[Report], jobs: &[Job]) -> Stage {
    // One that was ended because of the other says nothing about why: it comes last.
    let (alone, first): (Vec<&Report>, Vec<&Report>) =
        reports.iter().partition(|report| report.end == End::Alone);
    for report in first.into_iter().chain(alone) {
        guest(report)?;
    }
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    for job in jobs {
        match judged(&job.name, reports) {
            Ok(found) => passed.push(found),
            Err(why) => failed.push(why),
        }
    }
    let boot_seconds = reports.iter().map(|report| report.boot_seconds).fold(0.0, f64::max);
    let line = format!(
        "{} jobs passed, {} failed, boot {boot_seconds:.0} s, jobs {:.0} s",
        passed.len(),
        failed.len(),
        reports.iter().map(job_seconds).fold(0.0, f64::max)
    );
    let found = if failed.is_empty() { &mut passed } else { &mut failed };
    found.extend(reports.iter().filter_map(|report| complaint(&log(report))));
    let found: String =
        found.iter().filter(|text| !text.is_empty()).map(|text| format!("; {text}")).collect();
    if failed.is_empty() { Ok(Outcome::Passed(line + &found)) } else { Err(line + &found) }
}

fn job_seconds(report: &Report) -> f64 {
    let ended = report.transcript.jobs.iter().filter_map(|ran| ran.ended.as_ref());
    ended.map(|ended| ended.milliseconds).sum::<u64>() as f64 / 1000.0
}

/// A job over all guests: what it found, or why it failed.
fn judged(name: &str, reports: &[Report]) -> Result<String, String> {
    let mut output = "";
    for report in reports {
        let ran = report.transcript.jobs.iter().find(|ran| ran.name == name);
        match ran.map(|ran| ran.ended.as_ref()) {
            Some(Some(ended)) if ended.well() => {}
            Some(Some(ended)) => return Err(format!("{name} {ended}")),
            Some(None) => return Err(format!("{name} did not end")),
            None if planted("verbs_overlooks_what_did_not_run") => {}
            None => return Err(format!("{name} did not run")),
        }
        // Of two guests the client's words count: it is the last.
        output = ran.map_or("", |ran| &ran.output);
    }
    match work::named(name) {
        Some(work) => (work.check)(output).map_err(|why| format!("{name}: {why}")),
        None => Ok(String::new()),
    }
}

fn log(report: &Report) -> String {
    String::from_utf8_lossy(&std::fs::read(&report.kernel_log).unwrap_or_default()).into_owned()
}

/// The first thing that a kernel complained of and survived. It is told, and fails nothing: on a busy
/// machine an emulated processor may stand still for so long that its kernel takes it for stuck.
fn complaint(kernel_log: &str) -> Option<String> {
    const WORDS: [&str; 5] = ["BUG:", "WARNING:", "Oops:", "stall", "blocked for more than"];
    let line = kernel_log.lines().find(|line| WORDS.iter().any(|word| line.contains(word)))?;
    Some(format!("the kernel complained: {}", line.trim()))
}

/// `Err` if the guest did not get to its end: its kernel panicked, its set-up failed, it hung, qemu
/// died. Jobs that failed are another matter.
fn guest(report: &Report) -> Result<(), String> {
    why(&report.transcript, &report.end, &log(report))
        .map_err(|why| format!("{why}; the kernel's messages are in {}", report.kernel_log.display()))
}

fn why(transcript: &Transcript, end: &End, kernel_log: &str) -> Result<(), String> {
    let place = match (transcript.running(), &transcript.up) {
        (Some(job), _) => format!("in the job {job}"),
        (None, Some(_)) => "between jobs".into(),
        (None, None) => "while booting".into(),
    };
    if let Some(panic) = kernel_log.lines().find(|line| line.contains("Kernel panic")) {
        return Err(format!("the guest's kernel panicked {place}: {}", panic.trim()));
    }
    if let Some(step) = &transcript.broken {
        let said = transcript.aside.trim().lines().last().unwrap_or("nothing");
        return Err(format!("the guest could not be set up: `{step}` failed and said: {said}"));
    }
    match end {
        _ if transcript.done => Ok(()),
        End::Off => Err(format!("the guest switched off {place}, before it was done: its time was up")),
        End::Died(how) => Err(format!("qemu died {place}: {how}")),
        End::Late(seconds) => {
            let last = kernel_log.trim().lines().last().unwrap_or("nothing");
            Err(format!(
                "the guest hung {place} and was ended after {seconds} s; its kernel said last: {last}"
            ))
        }
        End::Alone => Err(format!("the guest was ended {place}, because the other one had ended")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::jobs::{Ended, Ran};

    fn running(job: &str) -> Transcript {
        let job = Ran { name: job.into(), output: String::new(), ended: None };
        Transcript { up: Some("6.1".into()), jobs: vec![job], ..Transcript::default() }
    }

    fn said(transcript: &Transcript, end: &End, log: &str) -> String {
        why(transcript, end, log).expect_err("it failed")
    }

    #[test]
    fn a_panic_a_hang_a_dead_qemu_and_a_failed_step_are_told_apart() {
        let panic = said(&running("x"), &End::Off, "[1.0] Kernel panic - not syncing: oops\n");
        assert!(panic.contains("panicked in the job x"), "{panic}");
        let hang = said(&running("x"), &End::Late(90), "rcu stall\n");
        assert!(hang.contains("hung in the job x") && hang.contains("rcu stall"), "{hang}");
        let boot = said(&Transcript::default(), &End::Late(90), "");
        assert!(boot.contains("hung while booting"), "{boot}");
        let died = said(&running("x"), &End::Died("signal 9".into()), "");
        assert!(died.contains("qemu died in the job x: signal 9"), "{died}");
        let broken =
            Transcript { broken: Some("ip link".into()), aside: "no\n".into(), ..Default::default() };
        assert!(said(&broken, &End::Off, "").contains("`ip link` failed and said: no"));
    }

    #[test]
    fn a_guest_that_was_done_is_well_even_if_it_had_to_be_ended() {
        let done = Transcript { done: true, ..running("x") };
        assert_eq!(why(&done, &End::Late(9), ""), Ok(()));
    }

    fn job(name: &str) -> Job {
        Job { name: name.into(), server: None, command: String::new(), seconds_max: 1 }
    }

    /// A guest that ran one job, `x`, with this code.
    fn report(code: i32) -> Report {
        let ended = Ended { code, milliseconds: 1500, late: false, killed: 0 };
        let ran = Ran { name: "x".into(), output: String::new(), ended: Some(ended) };
        Report {
            transcript: Transcript { done: true, jobs: vec![ran], ..Transcript::default() },
            end: End::Off,
            kernel_log: "/nowhere".into(),
            boot_seconds: 12.0,
        }
    }

    #[test]
    fn a_run_is_told_in_one_line() {
        let line = "1 jobs passed, 0 failed, boot 12 s, jobs 2 s";
        assert_eq!(all(&[report(0)], &[job("x")]), Ok(Outcome::Passed(line.into())));
        let why = all(&[report(0), report(3)], &[job("x")]).expect_err("one of the two failed");
        assert!(why.contains("0 jobs passed, 1 failed") && why.contains("x ended with code 3"), "{why}");
    }

    #[test]
    fn a_job_that_did_not_run_has_failed() {
        let why = all(&[report(0)], &[job("x"), job("y")]).expect_err("y did not run");
        assert!(why.contains("1 jobs passed, 1 failed") && why.contains("y did not run"), "{why}");
    }

    #[test]
    fn a_guest_that_was_ended_for_the_others_sake_is_not_blamed() {
        let ended = |end| Report { transcript: Transcript::default(), end, ..report(0) };
        let why = all(&[ended(End::Alone), ended(End::Died("no socket".into()))], &[]).expect_err("it died");
        assert!(why.contains("no socket"), "{why}");
    }

    #[test]
    fn what_a_kernel_survived_is_told() {
        let log = "[1.0] fine\n[2.0] watchdog: BUG: soft lockup - CPU#1 stuck for 26s!\n";
        assert!(complaint(log).is_some_and(|said| said.contains("soft lockup")));
        assert_eq!(complaint("[1.0] fine\n"), None);
    }
}
