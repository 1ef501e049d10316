//! `barn bench papers`: the headline claims of the five papers, each beside what is measured here.
//!
//! | kind | what it is |
//! |---|---|
//! | `any hardware` | probes, READs, retries, space, CPU: what no hardware changes |
//! | `ratio here` | one way beside another on this machine; the paper's network is not here |
//! | `not built yet` | what Barn does not have yet |
//!
//! What always holds: `claims` has every claim with the paper's value and its rule, and nothing measured;
//! `studies` measure, and judge nothing; a verdict is computed from both. Curves are in the papers' own axes,
//! and each caption says what is scaled.

use std::io;
use std::path::PathBuf;

use crate::bench::timing::Affinity;
use crate::plot::Plot;
use crate::progress::Progress;
use crate::report::{Better, Report, Row};

mod claim;
mod claims;
mod clients;
mod crowd;
mod lab;
mod print;
mod stores;
mod studies;
mod values;

pub use claim::Paper;
use claim::{Claim, Ours, Rule, Verdict};
use lab::Lab;
pub use print::write_table;

/// What to measure.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Only this paper's claims and figures.
    #[arg(long, value_name = "PAPER")]
    pub paper: Option<Paper>,

    /// Fewer points, and fewer and shorter repeats.
    #[arg(long)]
    pub quick: bool,

    /// Write the figures as SVG files into this directory.
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// The claims as rows, and the figures.
#[derive(Debug)]
pub struct Papers {
    /// One row for each claim.
    pub report: Report,
    /// In the order of the papers.
    pub plots: Vec<Plot>,
    /// Studies that failed, and why: their claims are not measured.
    pub failed: Vec<String>,
}

/// Measures, and writes the figures where they are wanted.
pub fn run(args: &Args) -> io::Result<Papers> {
    let papers = measure(args, &[]);
    if let Some(directory) = &args.svg {
        std::fs::create_dir_all(directory)?;
        for plot in &papers.plots {
            std::fs::write(directory.join(plot.file_name()), plot.svg())?;
        }
    }
    Ok(papers)
}

/// Measures. Rows of benchmarks that have been run are taken from there. A study that fails leaves the others.
pub fn measure(args: &Args, known: &[&Report]) -> Papers {
    let studies: Vec<_> = studies::ALL
        .into_iter()
        .filter(|study| args.paper.is_none_or(|paper| study.papers.contains(&paper)))
        .collect();
    let mut lab = Lab::new(args.quick, known);
    let mut progress = Progress::new(studies.len() as u64);
    for study in studies {
        progress.show(study.name);
        // A study may keep this thread on one core; the next begins anywhere.
        let _anywhere = Affinity::keep();
        if let Err(error) = (study.run)(&mut lab) {
            lab.failed.push(format!("{}: {error}", study.name));
        }
        progress.step(study.name);
    }
    let mut report = Report::new("papers");
    report.rows = claims::of(args.paper).map(|claim| row(claim, &lab)).collect();
    let wanted = |paper: &Paper| args.paper.is_none_or(|wanted| wanted == *paper);
    let plots = lab.plots.into_iter().filter(|(paper, _)| wanted(paper)).map(|(_, plot)| plot).collect();
    Papers { report, plots, failed: lab.failed }
}

/// A claim, what we have, and what follows.
fn row(claim: &Claim, lab: &Lab<'_>) -> Row {
    let better = match claim.rule {
        Rule::AtMost { .. } => Better::Lower,
        _ => Better::Higher,
    };
    let ours = lab.values.find(claim.ours);
    let verdict = match (ours, claim.ours) {
        (_, Ours::NotBuilt(what)) => Verdict::NotBuilt { what: what.to_owned() },
        (_, Ours::NotHere(why)) => Verdict::NotMeasured { why: why.to_owned() },
        (Ok(spread), _) => claim.judge(spread),
        (Err(missing), _) => {
            let why: Vec<&str> = lab.failed.iter().chain(&lab.absent).map(String::as_str).collect();
            Verdict::NotMeasured { why: if why.is_empty() { missing.to_owned() } else { why.join("; ") } }
        }
    };
    let samples = ours.map_or(Vec::new(), |spread| vec![spread.low, spread.median, spread.high]);
    let place = format!("{}, {}", claim.paper, claim.place);
    Row::new(claim.row_name(), claim.unit, better, &samples)
        .beside(place, &[claim.value])
        .with("paper", claim.paper.to_string())
        .with("place", claim.place)
        .with("claim", claim.claim)
        .with("kind", claim.kind.to_string())
        .with("rule", claim.rule.words())
        .with("measured", ours.is_ok())
        .with("verdict", verdict.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, lab: &Lab<'_>) -> Row {
        let claim = claims::of(None).find(|claim| claim.row_name() == name).expect("is a claim");
        row(claim, lab)
    }

    #[test]
    fn a_verdict_follows_from_what_was_measured_and_from_nothing_else() {
        let name = "farm/section-3.6/reads-per-lookup";
        let mut lab = Lab::new(true, &[]);
        assert_eq!(
            judged(name, &lab).extra["verdict"],
            "not measured: figures/hopscotch/reads-per-lookup/h8/90"
        );
        for (ours, verdict) in [
            (1.02, "holds"),
            (1.3, "holds in direction"),
            (2.0, "does not hold here: the structure is not as the paper has it"),
        ] {
            lab.values.set("figures/hopscotch/reads-per-lookup/h8/90", vec![ours]);
            let row = judged(name, &lab);
            assert_eq!(row.extra["verdict"], verdict);
            assert_eq!((row.value, row.beside_value), (ours, Some(1.04)));
        }
    }

    #[test]
    fn a_store_that_is_not_installed_is_named_with_what_brings_it() {
        let mut lab = Lab::new(true, &[]);
        lab.values.set("farm/lookups/one-sided/1", vec![1e6]);
        lab.absent.push("memcached is not there; sudo apt-get install -y memcached".into());
        let row = judged("farm/figure-12/over-tcp-store", &lab);
        let verdict = row.extra["verdict"].as_str().expect("is text");
        assert!(verdict.contains("apt-get install -y memcached"), "{verdict}");
        assert_eq!(row.extra["measured"], false);
    }

    #[test]
    fn what_is_missing_is_not_built_yet_whatever_was_measured() {
        let row = judged("farm/figure-14/replication", &Lab::new(true, &[]));
        assert_eq!(row.extra["verdict"], "not built yet: replication");
        assert_eq!(row.extra["kind"], "not built yet");
        let row = judged("cell/figure-5/servers", &Lab::new(true, &[]));
        let verdict = row.extra["verdict"].as_str().expect("is text");
        assert!(verdict.starts_with("not measured: it takes machines"), "{verdict}");
    }

    #[test]
    fn rows_of_a_benchmark_that_ran_already_are_taken_from_there() {
        let mut report = Report::new("figures");
        report.push(Row::new("heap/fragmentation/mean", "of a slot", Better::Lower, &[0.017]));
        let known = [&report];
        let mut lab = Lab::new(true, &known);
        lab.take("figures", || panic!("is known")).expect("is known");
        assert_eq!(judged("farm/section-3.2/fragmentation-mean", &lab).extra["verdict"], "holds");
    }

    #[test]
    fn every_paper_has_a_study_for_its_claims() {
        for claim in claims::of(None) {
            assert!(studies::ALL.iter().any(|study| study.papers.contains(&claim.paper)), "{}", claim.name);
        }
    }
}
