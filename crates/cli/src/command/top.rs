//! `barn top`: a live view of a cluster, once a second.
//!
//! What always holds: the terminal is as it was when the command ends, whether by a key, a signal or
//! a panic; a frame is one write, no larger than the terminal.

mod frame;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::command::{Exit, print_json};
use crate::duration::Time;
use crate::failure::Failure;
use crate::node::NodeArgs;
use crate::watch::{Look, Report, Watch};
use frame::{Sort, View};
use terminal::{Key, Terminal};

/// A look that takes longer would hold up the keys.
const DEADLINE_MAX: Duration = Duration::from_secs(2);
/// Where there is no terminal, a frame is as large as it likes.
const PLAIN_COLUMNS: usize = 100;

/// Whom to watch; its help is on [`super::Command::Top`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn top\n  barn top --once | head -5")]
pub struct Args {
    /// How often to look.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub interval: Time,

    /// Print one view as text and end; also where standard output is not a terminal.
    #[arg(long)]
    pub once: bool,

    /// What tables are sorted by: activity, keys, memory or name.
    #[arg(long, value_enum, default_value = "activity")]
    pub sort: Sort,

    /// The node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Shows the view until it is told to stop.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let mut options = args.node.options()?;
    options.deadline = options.deadline.min(DEADLINE_MAX);
    let mut watch = Watch::new(args.node.address()?, options);
    let before = watch.look()?;
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let live = io::stdout().is_terminal() && io::stdin().is_terminal() && !dumb;
    if json || args.once || !live {
        std::thread::sleep(args.interval.0);
        let report = Report::new(&watch.look()?, Some(&before));
        if json {
            print_json(&serde_json::to_value(&report)?)?;
            return Ok(Exit::Ok);
        }
        let view = View { address: watch.address(), report: &report, sort: args.sort, note: "" };
        let mut out = io::stdout().lock();
        for line in view.lines(PLAIN_COLUMNS, usize::MAX) {
            writeln!(out, "{}", line.text.trim_end())?;
        }
        return Ok(Exit::Ok);
    }
    watch_live(args, &mut watch, before)
}

/// The live view.
fn watch_live(args: &Args, watch: &mut Watch, first: Look) -> io::Result<Exit> {
    let mut terminal = Terminal::take()?;
    let mut report = Report::new(&first, None);
    let mut last = first;
    let (mut sort, mut paused, mut trouble) = (args.sort, false, String::new());
    let mut next = Instant::now() + args.interval.0;
    loop {
        let note = match (&trouble[..], paused) {
            ("", true) => "paused",
            ("", false) => "",
            (trouble, _) => trouble,
        };
        terminal.draw(&View { address: watch.address(), report: &report, sort, note })?;
        match terminal.wait(next)? {
            Some(Key::Quit) => return Ok(Exit::Ok),
            Some(Key::Sort) => sort = sort.next(),
            Some(Key::Pause) => paused = !paused,
            // A new size, or a key that means nothing: draw again.
            Some(Key::Other) => {}
            None => {
                next = Instant::now() + args.interval.0;
                if paused {
                    continue;
                }
                match watch.look() {
                    Ok(look) => {
                        report = Report::new(&look, Some(&last));
                        last = look;
                        trouble.clear();
                    }
                    // The node may come back: the figures stay, and the line says since when they stand.
                    Err(error) => trouble = Failure::of(&error).error,
                }
            }
        }
    }
}
