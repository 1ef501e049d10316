//! `barn bench report`: everything that is measured, as one page that needs nothing else.
//!
//! Parts run one after another; each has its table, its figures and the command that measures it alone, so
//! that anybody can challenge a figure. What others on the same cores did is watched all the time, and the page
//! begins with whether the machine was loaded.
//!
//! What always holds: a part that fails is named on the page with what went wrong, and what was measured is
//! there all the same; then the command ends with an error.

use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use crate::bench::quiet::{self, Disturbance};
use crate::bench::timing::Affinity;
use crate::machine::Machine;
use crate::plot::Plot;
use crate::progress::Progress;
use crate::report::Report;

mod html;
mod markdown;
mod noise;
mod parts;
mod rows;
mod when;

pub use noise::Noise;
use noise::Watch;
use parts::{ALL, Measured, Part};

/// How much to measure, and where it goes.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Fewer and shorter repeats, in less than three minutes: what is done if neither is said.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Everything, as long as it takes: about half an hour.
    #[arg(long)]
    pub full: bool,

    /// Where the page goes.
    #[arg(long, value_name = "FILE", default_value = "barn-report.html")]
    pub out: PathBuf,

    /// Write the tables as Markdown, too.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,

    /// Only this part, such as `fabric` or `papers`; may be given several times.
    #[arg(long, value_name = "PART", value_parser = clap::builder::PossibleValuesParser::new(Part::names()))]
    pub only: Vec<String>,
}

/// A whole report.
#[derive(Debug, Serialize)]
pub struct Page {
    /// The command that made it.
    pub command: String,
    /// When it was begun.
    pub when: String,
    /// On what.
    pub machine: Machine,
    /// How noisy it was.
    pub noise: Noise,
    /// Why it counts as loaded; empty if it was quiet.
    pub loaded: Vec<String>,
    /// What was measured.
    pub sections: Vec<Section>,
}

/// A part of it.
#[derive(Debug, Serialize)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// What it is about.
    pub about: String,
    /// The command that measures it alone.
    pub command: String,
    /// Its rows; nothing if all of it failed.
    pub report: Option<Report>,
    /// Its figures.
    #[serde(skip)]
    pub plots: Vec<Plot>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What others on the same cores did meanwhile.
    pub disturbance: Option<Disturbance>,
    /// By which part its figures may differ in the next run, beside what their repeats show.
    pub margin: f64,
}

/// Measures, writes the page, and says where it is.
pub fn run(args: &Args, json: bool) -> io::Result<()> {
    // Whoever cannot write the page should learn it before, not after.
    let mut file = std::fs::File::create(&args.out).map_err(|error| {
        io::Error::other(format!("{}: {error}; name another file with --out", args.out.display()))
    })?;
    let page = measure(args);
    file.write_all(html::page(&page).as_bytes())?;
    if let Some(path) = &args.markdown {
        std::fs::write(path, markdown::page(&page))?;
    }
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &page)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{}", page.noise.headline())?;
        writeln!(out, "The report is in {}", args.out.display())?;
    }
    let failed: Vec<&str> =
        page.sections.iter().filter(|it| it.failed.is_some()).map(|it| it.command.as_str()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => {
            Err(io::Error::other(format!("not everything could be measured; try: {}", failed.join(", "))))
        }
    }
}

fn measure(args: &Args) -> Page {
    let (when, machine) = (when::now(), Machine::here());
    let wanted: Vec<&Part> = ALL.iter().filter(|part| part.wanted(args)).collect();
    let mut progress = Progress::new(wanted.len() as u64);
    progress.show("watching what others do");
    quiet::watch();
    let watch = Watch::begin();
    let mut sections: Vec<Section> = Vec::new();
    for part in wanted {
        progress.show(part.title);
        let mark = quiet::mark();
        // A part may keep this thread on one core; the next begins anywhere.
        let anywhere = Affinity::keep();
        let done: Vec<&Report> = sections.iter().filter_map(|section| section.report.as_ref()).collect();
        let measured = part.measure(args, &done);
        drop(anywhere);
        sections.push(Section::new(part, args, measured, quiet::since(mark)));
        progress.step(part.title);
    }
    let noise = watch.end();
    let size = if args.full { "--full" } else { "--quick" };
    let only: String = args.only.iter().map(|part| format!(" --only {part}")).collect();
    let command = format!("barn bench report {size}{only}");
    Page { command, when, machine, loaded: noise.loaded(), noise, sections }
}

impl Section {
    fn new(
        part: &Part,
        args: &Args,
        measured: io::Result<Measured>,
        disturbance: Option<Disturbance>,
    ) -> Self {
        let (report, plots, failed) = match measured {
            Ok(measured) => (Some(measured.report), measured.plots, measured.failed),
            Err(error) => (None, Vec::new(), Some(error.to_string())),
        };
        let (title, about) = (part.title.to_owned(), part.about.to_owned());
        let (command, margin) = (part.command(args), rows::margin(disturbance));
        Self { title, about, command, report, plots, failed, disturbance, margin }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::plot::{Axis, Point, Series};
    use crate::report::{Better, Bound, Row};

    /// A page with one of everything, and names that an enemy chose.
    pub(super) fn page() -> Page {
        let mut fabric = Report::new("fabric");
        fabric.push(
            Row::rate("shm/<b>|read", &[8e7, 7e7, 9e7]).beside("bare \"load\" & loop", &[1e8]).aim(0.9),
        );
        fabric.push(Row::new("bound", "READs", Better::Lower, &[1.2]).bound(Bound::AtMost(1.04)));
        let mut papers = Report::new("papers");
        let claim = Row::new("cell/figure-6", "×", Better::Higher, &[0.9, 1.0, 1.1])
            .beside("Cell, Figure 6", &[1.0])
            .with("paper", "Cell")
            .with("place", "Figure 6")
            .with("claim", "a < b & c")
            .with("kind", "ratio here")
            .with("rule", "at least 0.95")
            .with("measured", true)
            .with("verdict", "holds");
        papers.push(claim);
        let plot = Plot::new("Cell, Figure 6", Axis::linear("<x>"), Axis::log("y"))
            .caption("scaled & \"small\"")
            .with(Series::new("<s>", vec![Point::exact(1.0, 2.0), Point::exact(2.0, 30.0)]));
        let section = |title: &str, report, plots, failed: Option<&str>| Section {
            title: title.into(),
            about: "About <it>.".into(),
            command: "barn bench x --quick".into(),
            report,
            plots,
            failed: failed.map(str::to_owned),
            disturbance: None,
            margin: 0.05,
        };
        let noise = Noise { others_during_cores: Some(1.5), ..Noise::default() };
        Page {
            command: "barn bench report --quick".into(),
            when: "2026-03-09 17:05 UTC".into(),
            machine: Machine { cpu: "<script>alert(1)</script> CPU".into(), ..Machine::here() },
            loaded: noise.loaded(),
            noise,
            sections: vec![
                section("The <fabric>", Some(fabric), Vec::new(), None),
                section("The papers", Some(papers), vec![plot], None),
                section("Broken", None, Vec::new(), Some("no <disk> & no | luck")),
            ],
        }
    }

    #[test]
    fn a_part_that_fails_is_a_section_that_says_so() {
        let section = Section::new(&ALL[0], &Args::default(), Err(io::Error::other("no node")), None);
        assert_eq!(
            (section.failed.as_deref(), section.command.as_str()),
            (Some("no node"), "barn bench fabric --quick")
        );
    }
}
