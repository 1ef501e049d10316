//! `barn serve`: runs a node until it is told to stop.
//!
//! SIGINT or SIGTERM stops it in order: it leaves its cluster, so that nobody waits for its lease to
//! end. A second one ends the process at once, as does one that comes before the node serves.

use std::io::{self, IsTerminal, Read, Write};
use std::process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use barn::node::{Progress, RecoveryStage, ShowProgress};
use barn_fabric::Stopper;
use barn_server::options::LogFormat;
use barn_server::{Server, ServerOptions, notify};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bytes::{Bytes, human};
use crate::command::Exit;
use crate::command::status::region_line;
use crate::machine::Machine;
use crate::settings::{SettingsArgs, check_memory};

/// How the node should be.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn serve --memory 1GiB\n  barn serve --config /etc/barn/barn.toml\n  \
    barn serve --tcp 10.0.0.2:7411 --token-file token --join tcp://10.0.0.1:7411")]
pub struct Args {
    /// The settings.
    #[command(flatten)]
    pub settings: SettingsArgs,

    /// Bytes of memory that every client may read as it is, for measurements.
    #[arg(long, value_name = "BYTES", default_value = "0", hide = true)]
    pub raw_memory: Bytes,

    /// Stop when standard input ends: for programs that start a node of their own.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}

/// Runs the node; returns when it was stopped.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let effective = args.settings.resolve()?;
    for (name, meant) in &effective.suspects {
        warn(&format!("environment variable {name} means nothing; {meant} would"));
    }
    let mut options = effective.options();
    crate::logs::start(&options.log_level.to_string(), options.log_format == LogFormat::Json)?;
    options.raw_bytes = args.raw_memory.0;
    options.token = options.token_file.as_deref().map(crate::token::read).transpose()?;
    let asked = options.memory_bytes.saturating_add(options.raw_bytes).saturating_add(options.scratch_bytes);
    check_memory(asked, &Machine::here())?;

    options.progress = show_recovery();
    let stop = on_signals()?;
    let server = Server::start(&options).map_err(io::Error::other)?;
    let stopper = server.stopper();
    *stop.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(stopper.clone());
    announce(&server, &options, json)?;
    told(notify::ready(&format!("member {} serves", server.status().member)));
    if args.until_stdin_ends {
        std::thread::spawn(move || {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            stopper.stop();
        });
    }
    server.run().map_err(io::Error::other)?;
    if !json {
        writeln!(anstream::stdout(), "stopped")?;
    }
    Ok(Exit::Ok)
}

/// Shows on a terminal how a recovery comes along.
fn show_recovery() -> Option<ShowProgress> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let drawn = Mutex::new((Instant::now(), false));
    Some(ShowProgress::new(move |progress: Progress| {
        let mut drawn = drawn.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let done = progress.done_bytes >= progress.total_bytes;
        // Ten times a second; what takes less time than that is not shown at all.
        if drawn.0.elapsed() < Duration::from_millis(100) && !(done && drawn.1) {
            return;
        }
        *drawn = (Instant::now(), true);
        let what = match progress.stage {
            RecoveryStage::Image => "loading the checkpoint",
            RecoveryStage::Log => "replaying the log",
        };
        let percent = progress.done_bytes * 100 / progress.total_bytes.max(1);
        let bar = "█".repeat(percent.min(100) as usize / 4);
        let (part, all) = (human(progress.done_bytes), human(progress.total_bytes));
        // A terminal that has gone away is no reason not to recover.
        let _ = write!(io::stderr(), "\r\x1b[2K{bar:░<25} {part} of {all}, {what}");
        if done {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }))
}

fn warn(what: &str) {
    anstream::eprintln!("barn: warning: {what}");
}

/// A service manager that cannot be told is no reason not to serve.
fn told(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        warn(&format!("the service manager ($NOTIFY_SOCKET) was not told: {error}"));
    }
}

/// Where the thread that waits for signals finds what to stop.
type Stop = Arc<Mutex<Option<Stopper>>>;

/// Waits for signals from now on: what comes before the node serves ends the process at once.
fn on_signals() -> io::Result<Stop> {
    let stop = Stop::default();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn({
        let stop = stop.clone();
        move || {
            for signal in signals.forever() {
                // Taken: the next signal finds nothing to stop, and ends the process.
                match stop.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take() {
                    Some(stopper) => {
                        told(notify::stopping());
                        stopper.stop();
                    }
                    None => process::exit(128 + signal),
                }
            }
        }
    });
    Ok(stop)
}

/// Memory comes in multiples of this at the least: a huge page.
const REGION_ROUND_BYTES: u64 = 2 << 20;

/// Says where the node is, once it is ready: one line of JSON, or words.
fn announce(server: &Server, options: &ServerOptions, json: bool) -> io::Result<()> {
    let status = server.status();
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &status)?;
        writeln!(out)?;
        return out.flush();
    }
    if let Some(recovery) = &status.recovery {
        writeln!(out, "recovered {}", recovery.said)?;
    }
    let total: u64 = status.regions.iter().map(|region| region.bytes).sum();
    writeln!(
        out,
        "barn {} serves {} in {} regions, as member {} of {}",
        status.version,
        human(total),
        status.regions.len(),
        status.member,
        status.members.len()
    )?;
    for region in &status.regions {
        writeln!(out, "  {}", region_line(region))?;
    }
    if let Some(shm) = &status.shm {
        writeln!(out, "  {shm}")?;
    }
    if let Some(tcp) = &status.tcp {
        writeln!(out, "  {tcp}")?;
    }
    if let Some(metrics) = server.metrics_address() {
        writeln!(out, "  http://{metrics}/metrics")?;
    }
    match &options.data {
        Some(data) => writeln!(
            out,
            "  data in {}, {} unless a table says otherwise",
            data.display(),
            options.durability
        )?,
        None => writeln!(out, "  no data directory: nothing survives it")?,
    }
    let held: u64 =
        status.regions.iter().filter(|region| region.purpose == "objects").map(|region| region.bytes).sum();
    // What was asked for is rounded up to whole regions' blocks.
    if held > options.memory_bytes.max(1).next_multiple_of(REGION_ROUND_BYTES) {
        warn(&format!(
            "the data directory has {} of memory in it, which is kept: --memory {} was less",
            human(held),
            human(options.memory_bytes)
        ));
    }
    // A node at the usual place is found without being named.
    let usual = options.shm.as_deref() == Some(&ServerOptions::default_socket());
    let address = status.shm.as_ref().or(status.tcp.as_ref()).filter(|_| !usual);
    let named = address.map(|address| format!(" {address}")).unwrap_or_default();
    writeln!(out, "Ctrl-C stops it; `barn ping{named}` in another terminal talks to it.")?;
    if let Some(address) = address {
        writeln!(out, "Other commands find it by --node {address}, or BARN_NODE.")?;
    }
    out.flush()
}
