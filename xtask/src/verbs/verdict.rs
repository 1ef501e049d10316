//! How a run ended, in words: which of the ways to fail it was, and where to look.

use super::console::Transcript;
use super::jobs::{Ended, Job, Ran};
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
    let mut results = Vec::new();
    for job in jobs {
        let runs: Vec<&Ran> = reports.iter().filter_map(|report| ran(report, &job.name)).collect();
        if runs.len() != reports.len() {
            return Err(format!("the job {} did not run in every guest", job.name));
        }
        results.push(judged(&job.name, &runs));
    }
    let boot_seconds = reports.iter().map(|report| report.boot_seconds).fold(0.0, f64::max);
    let ended =
        reports.iter().flat_map(|report| &report.transcript.jobs).filter_map(|ran| ran.ended.as_ref());
    let job_seconds =
        ended.map(|ended| ended.milliseconds).sum::<u64>() as f64 / 1000.0 / reports.len() as f64;
    let said = |good: bool| -> Vec<&str> {
        let chosen = results.iter().filter(|result| result.is_ok() == good);
        chosen.map(|result| result.as_ref().unwrap_or_else(|why| why).as_str()).collect()
    };
    let (passed, failed) = (said(true), said(false));
    let line = format!(
        "{} jobs passed, {} failed, boot {boot_seconds:.0} s, jobs {job_seconds:.0} s",
        passed.len(),
        failed.len()
    );
    let list = |of: &[&str]| {
        of.iter().filter(|text| !text.is_empty()).map(|text| format!("; {text}")).collect::<String>()
    };
    if failed.is_empty() { Ok(Outcome::Passed(line + &list(&passed))) } else { Err(line + &list(&failed)) }
}

fn ran<'a>(report: &'a Report, name: &str) -> Option<&'a Ran> {
    report.transcript.jobs.iter().find(|ran| ran.name == name)
}

/// A job over all guests: what it found, or why it failed.
fn judged(name: &str, runs: &[&Ran]) -> Result<String, String> {
    for ran in runs {
        match &ran.ended {
            Some(ended) if Ended::well(ended) => {}
            Some(ended) => return Err(format!("{name} {ended}")),
            None => return Err(format!("{name} did not end")),
        }
    }
    // Of two guests the client's words count: it is the last.
    let (Some(work), Some(client)) = (work::named(name), runs.last()) else { return Ok(String::new()) };
    (work.check)(&client.output).map_err(|why| format!("{name}: {why}"))
}

/// `Err` if the guest did not get to its end: its kernel panicked, its set-up failed, it hung, qemu
/// died. Jobs that failed are another matter.
fn guest(report: &Report) -> Result<(), String> {
    let log = std::fs::read(&report.kernel_log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    why(&report.transcript, &report.end, &log)
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
    use crate::verbs::jobs::Ran;

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
}
