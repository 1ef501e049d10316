//! What a report is made of: one entry for each part, which is all that a new one needs.
//!
//! What always holds: a part is measured with exactly the arguments that its printed command has.

use std::io;

use super::Args;
use crate::bench::{fabric, figures, get, papers, peers, put, space, tx, ycsb};
use crate::plot::Plot;
use crate::report::Report;

/// A part: a title, the words of its command, what it is about, and how it is measured.
pub(super) struct Part {
    pub(super) title: &'static str,
    words: &'static [&'static str],
    /// Further words where it is to be quick.
    quick: &'static [&'static str],
    pub(super) about: &'static str,
    run: fn(&Run<'_>) -> io::Result<Measured>,
}

/// What a part gave.
pub(super) struct Measured {
    pub(super) report: Report,
    pub(super) plots: Vec<Plot>,
    /// What of it failed.
    pub(super) failed: Option<String>,
}

/// What a part is given.
pub(super) struct Run<'a> {
    words: Vec<&'static str>,
    /// Parts that have been measured.
    done: &'a [&'a Report],
}

const QUICK: &[&str] = &["--quick"];

/// All parts, in the order in which they are measured. The papers come last: they use the rows of others.
pub(super) const ALL: &[Part] = &[
    Part {
        title: "The fabric",
        words: &["fabric"],
        quick: QUICK,
        about: "READs and calls beside the bare limit of the same memory or socket.",
        run: |run| plain(fabric::run(&run.args()?)),
    },
    Part {
        title: "Gets",
        words: &["get"],
        quick: QUICK,
        about: "Lookups in a table beside bare loads, dashmap, Redis and memcached.",
        run: |run| plain(get::run(&run.args()?)),
    },
    Part {
        title: "Workloads",
        words: &["ycsb"],
        quick: &["--quick", "--workload", "a,c,e", "--over", "shm,tcp"],
        about: "YCSB's workloads: rates, latencies and what they cost in CPU.",
        run: |run| plain(ycsb::run(&run.args()?)),
    },
    Part {
        title: "Peers",
        words: &["peers"],
        quick: &["--quick", "--workload", "b,e"],
        about: "The same records and clients at Redis, memcached, dashmap and BTreeMap, in turn with ours.",
        run: |run| plain(peers::run(&run.args()?)),
    },
    Part {
        title: "Puts",
        words: &["put"],
        quick: QUICK,
        about: "What durability costs, beside a bare log of the same disk and Redis.",
        run: |run| plain(put::run(&run.args()?)),
    },
    Part {
        title: "Transactions",
        words: &["tx"],
        quick: QUICK,
        about: "Beside the best of SQLite, LMDB, redb and Redis.",
        run: |run| plain(tx::run(&run.args()?)),
    },
    Part {
        title: "Spaces",
        words: &["space"],
        quick: QUICK,
        about: "Raw bytes beside bare READs, memcpy and bare sockets.",
        run: |run| plain(space::run(&run.args()?)),
    },
    Part {
        title: "Figures",
        words: &["figures"],
        quick: QUICK,
        about: "What no hardware changes, beside the papers' values.",
        run: |run| plain(figures::run(&run.args()?)),
    },
    Part {
        title: "The papers",
        words: &["papers"],
        quick: QUICK,
        about: "Headline claims of Pilaf, FaRM, HERD, RStore and Cell: their value, ours, a verdict that follows from both, and their figures.",
        run: |run| Ok(papers::measure(&run.args()?, run.done).into()),
    },
];

fn plain(report: io::Result<Report>) -> io::Result<Measured> {
    Ok(Measured { report: report?, plots: Vec::new(), failed: None })
}

impl From<papers::Papers> for Measured {
    fn from(papers: papers::Papers) -> Self {
        let failed = (!papers.failed.is_empty()).then(|| papers.failed.join("; "));
        Self { report: papers.report, plots: papers.plots, failed }
    }
}

impl Part {
    /// The words after `barn bench`.
    fn words(&self, args: &Args) -> Vec<&'static str> {
        let quick = if args.full { &[] } else { self.quick };
        self.words.iter().chain(quick).copied().collect()
    }

    /// The command that measures this part alone.
    pub(super) fn command(&self, args: &Args) -> String {
        format!("barn bench {}", self.words(args).join(" "))
    }

    /// Whether it is wanted.
    pub(super) fn wanted(&self, args: &Args) -> bool {
        args.only.is_empty() || args.only.iter().any(|only| self.words.first() == Some(&only.as_str()))
    }

    /// Measures it.
    pub(super) fn measure(&self, args: &Args, done: &[&Report]) -> io::Result<Measured> {
        (self.run)(&Run { words: self.words(args), done })
    }

    /// The first words of all parts.
    pub(super) fn names() -> Vec<&'static str> {
        ALL.iter().filter_map(|part| part.words.first()).copied().collect()
    }
}

impl Run<'_> {
    /// The arguments, as the command line would have them.
    fn args<A: clap::Args>(&self) -> io::Result<A> {
        let matches = A::augment_args(clap::Command::new("barn bench")).try_get_matches_from(&self.words);
        matches.and_then(|matches| A::from_arg_matches(&matches)).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_measured_with_the_arguments_of_its_command() {
        for (full, quick, command) in [(false, true, "barn bench tx --quick"), (true, false, "barn bench tx")]
        {
            let args = Args { full, ..Args::default() };
            let part = ALL.iter().find(|part| part.title == "Transactions").expect("is a part");
            assert_eq!(part.command(&args), command);
            let parsed: tx::Args = Run { words: part.words(&args), done: &[] }.args().expect("parses");
            assert_eq!((parsed.quick, parsed.objects), (quick, 100_000));
        }
    }

    #[test]
    fn every_command_of_the_table_is_a_command() {
        use clap::CommandFactory;
        for full in [false, true] {
            for part in ALL {
                let command = part.command(&Args { full, ..Args::default() });
                let parsed = crate::command::Cli::command().try_get_matches_from(command.split(' '));
                assert!(parsed.is_ok(), "{command}");
            }
        }
    }

    #[test]
    fn only_what_was_asked_for_is_measured() {
        let args = Args { only: vec!["figures".into()], ..Args::default() };
        let wanted: Vec<&str> = ALL.iter().filter(|part| part.wanted(&args)).map(|part| part.title).collect();
        assert_eq!(wanted, ["Figures"]);
        assert!(ALL.iter().all(|part| part.wanted(&Args::default())));
    }
}
