//! The command line: one variant here and one file below for each command.
//!
//! To add a command: write `command/NAME.rs` with its arguments (`clap::Args`) and a `run`,
//! then add a variant to [`Command`] and an arm to [`dispatch`]. Nothing else knows the list.

use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use serde_json::Value;

use crate::failure::{self, Failure, USAGE};

pub mod bench;
pub mod cas;
pub mod completions;
pub mod config;
pub mod del;
pub mod doctor;
pub mod export;
pub mod get;
pub mod import;
pub mod incr;
pub mod key;
pub mod man;
pub mod ping;
pub mod put;
pub mod scan;
pub mod serve;
pub mod space;
pub mod status;
pub mod table;
pub mod top;
pub mod tour;

/// What a command ended with. The numbers are part of the interface: scripts test them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and nothing to add.
    Ok,
    /// Done, and the answer is no: not found, not swapped, already there.
    No,
    /// Done, and the doctor found something that limits Barn.
    Limited,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Ok => ExitCode::SUCCESS,
            Exit::No => ExitCode::from(1),
            Exit::Limited => ExitCode::from(3),
        }
    }
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or not found, not swapped, already there; standard error says which
  2  the command line or the configuration was not understood
  3  `barn doctor` found something that limits Barn on this machine
  4  the node could not be reached, or did not let us in

With --json, a failure is one object on standard error: { \"error\", \"hint\", \"code\" }.";

/// Keeps data in the memory of a group of machines, where any process reads it directly.
///
/// Without a command, Barn shows what this machine is and what to do next.
#[derive(Debug, Parser)]
#[command(name = "barn", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// Print one JSON document on standard output instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Every command of the binary.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a node: it offers its memory to other processes and answers their requests.
    ///
    /// On defaults it listens for this user's processes on a Unix socket (shm: they read its
    /// memory directly) and on loopback (tcp), and needs no configuration. With --json it prints
    /// one line of JSON once it is ready.
    ///
    /// Settings come from flags, from the environment and from a file `barn.toml`; `barn config` shows
    /// what counts, and why.
    Serve(serve::Args),

    /// Show the configuration that `barn serve` would run on, and where each value comes from.
    ///
    /// Prints a commented `barn.toml` that leads to the same configuration. Takes the same settings as
    /// `barn serve`. With --json the document is { "file", "settings": { KEY: { "value", "from", … } } }:
    /// `from` is default, file (with `file` and `line`), environment (`variable`) or flag (`flag`).
    Config(config::Args),

    /// Ask a node whether it is there, what it holds, and how long a round trip takes.
    Ping(ping::Args),

    /// Show the whole cluster: members, memory, tables, clients, and where it is busy.
    ///
    /// Asks every member, watches for half a second, and shows what happened each second. Lookups that
    /// clients make in shared memory leave no trace at the nodes and are in no figure. Ends with 1 if a
    /// member did not answer.
    ///
    /// With --json the document is { "configuration", "nodes", "memory", "tables", "hot", "rates" }; `hot`
    /// are the busiest shards, those first that have most to do.
    Status(status::Args),

    /// Watch the cluster live, once a second.
    ///
    /// Keys: q quits, s sorts the tables in another way, p pauses. Where standard output is not a
    /// terminal, one view is printed as text; with --json, the document of `barn status`.
    Top(top::Args),

    /// Print the value of a key, or of several.
    ///
    /// The value of one key is printed as it is, with a line's end only on a terminal. Several keys
    /// are printed as `barn scan` does. Ends with 1 if a key is not there.
    ///
    /// With --json the document is { "key", "found", "version", "expires_ms", "value" }, or an array of
    /// them for several keys. `version` is a string, for it has 64 bits; `expires_ms`, since 1970, is
    /// there for what expires; what is not text is in `key_base64` and `value_base64`.
    Get(get::Args),

    /// Give a key a value.
    ///
    /// A key has up to 64 KiB, a value up to 64 MiB. The table is made if it is not there. Ends with 1 if
    /// --if-absent was given and the key is there. With --json the document is { "key", "stored",
    /// "version" }, without a version for --if-absent.
    Put(put::Args),

    /// Remove keys.
    ///
    /// Ends with 1 if one of them was not there; the others are removed all the same. With --json the
    /// document is { "deleted", "keys": [ { "key", "deleted" } ] }.
    Del(del::Args),

    /// Add to a number, and print the sum.
    ///
    /// The value is a decimal number; a key that is not there counts as 0. The table is made if it is
    /// not there. With --json the document is { "key", "value" }.
    Incr(incr::Args),

    /// Give a key a value if it still has the version that was read.
    ///
    /// Ends with 1 if it has another, or is not there. With --json the document is { "key", "swapped",
    /// "version" }: the version that it has now.
    Cas(cas::Args),

    /// Print the keys and values of a table, in no order but that of a tree.
    ///
    /// Of a table of the kind `tree`, keys come in their order, and --from, --to and --prefix read that part
    /// alone; of the others, --prefix looks at every key.
    ///
    /// A line for each key: the key, a tab, the value. Control characters, backslashes and what is not
    /// text are escaped as \n, \t, \\ and \x00. With --json, each line is { "key", "version",
    /// "expires_ms", "value" }, as in `barn get`. What is there all the time is met once; what comes or
    /// goes meanwhile may be met or not.
    Scan(scan::Args),

    /// Make, list, describe and drop tables.
    Table(table::Args),

    /// Make, list, describe, fill and delete spaces: raw bytes, striped over the nodes' memory.
    Space(space::Args),

    /// Put the entries of a file into a table: JSON lines or CSV.
    ///
    /// A line of JSON is { "key", "value", "expires_ms" }, with `key_base64` and `value_base64` for what
    /// is not text, as `barn export` and `barn scan --json` write it; `expires_ms`, in milliseconds since
    /// 1970, may be left out. CSV begins with a header, and its columns have the same names, in any
    /// order. Of a key that is there twice, the last counts. Entries that have expired are passed over.
    ///
    /// At the first mistake it stops, says file, line and how many entries were stored, and ends with
    /// 1; with --skip-errors it goes on, and ends with 1 as well. With --json the document is { "table",
    /// "stored", "kept", "expired", "failed" }.
    Import(import::Args),

    /// Write the entries of a table into a file: JSON lines or CSV.
    ///
    /// `barn import` makes the same table of it. What comes or goes meanwhile may be met or not. A file
    /// has its name only once it is whole. With --json, and a file, the document is { "table", "file",
    /// "entries" }.
    Export(export::Args),

    /// Check what this machine offers Barn, what limits it, and how to lift each limit.
    ///
    /// Nothing is changed: every fix is printed as a command for you to run. A finding is
    /// `good`, a `note` (worth knowing; nothing is lost today) or `limits` (Barn is slower,
    /// smaller or less safe here than it could be).
    ///
    /// With --json the document is { "machine": {…}, "checks": [ { "group", "name",
    /// "status", "found", "why", "fix" } ] }; `fix` is there where something can be done.
    Doctor(doctor::Args),

    /// Measure Barn beside the limits of this machine, in the same run.
    ///
    /// With --json the document is { "bench", "machine", "rows" }; a row has name, unit, value,
    /// low, high, better and, where something was measured beside it, beside, beside_value and
    /// ratio (ours over theirs).
    Bench(bench::Args),

    /// Print a script by which a shell completes Barn's commands.
    Completions(completions::Args),

    /// Print the manual's page, or write all pages into a directory.
    ///
    /// With --json the document is { "directory", "pages" }.
    Man(man::Args),
}

/// Parses the command line, runs it, and reports a failure on standard error.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error),
    };
    failure::speak_json(cli.json);
    match dispatch(&cli) {
        Ok(exit) => exit.into(),
        // `barn doctor | head` closes our output early; that is the reader's choice.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let failure = Failure::of(&error);
            failure.say();
            ExitCode::from(failure.code)
        }
    }
}

/// Says what is wrong with a command line, or gives the help that was asked for.
fn misunderstood(error: &clap::Error) -> ExitCode {
    // What does not parse cannot say that it wants JSON: look for the word itself.
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !json || help {
        let _ = error.print();
        return if help { ExitCode::SUCCESS } else { ExitCode::from(USAGE) };
    }
    failure::speak_json(true);
    let text = error.render().to_string();
    let line =
        |start: &str| text.lines().find_map(|line| Some(line.trim().strip_prefix(start)?.trim().to_owned()));
    let said = error_of(&text).unwrap_or_else(|| "a command is missing".into());
    let hint = line("tip:").unwrap_or_else(|| "`barn --help` shows what there is".into());
    Failure { error: said, hint: Some(hint), code: USAGE }.say();
    ExitCode::from(USAGE)
}

/// What a rendered error says, up to its first empty line: the arguments that are missing stand in lines
/// of their own.
fn error_of(text: &str) -> Option<String> {
    let said = text.lines().skip_while(|line| !line.trim().starts_with("error:"));
    let said: Vec<&str> = said.map(str::trim).take_while(|line| !line.is_empty()).collect();
    Some(said.join(" ").strip_prefix("error:")?.trim().to_owned())
}

/// A parser of one of these words: shells complete them, help lists them, and what is mistyped comes with
/// the nearest.
fn one_of<T>(words: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: Into<Box<dyn std::error::Error + Send + Sync>>> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse::<T>())
}

/// The failure of a command line that means nothing.
fn usage(why: String) -> io::Error {
    Failure::usage(why).into()
}

/// Says on standard error that the answer is no, and why.
fn no(why: &str) -> Exit {
    Failure::plain(why).say();
    Exit::No
}

/// Prints one JSON document.
fn print_json(document: &Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)
}

/// Prints a line.
fn say(line: &str) -> io::Result<()> {
    writeln!(anstream::stdout(), "{line}")
}

fn dispatch(cli: &Cli) -> io::Result<Exit> {
    match &cli.command {
        None => tour::run(cli.json),
        Some(Command::Serve(args)) => serve::run(args, cli.json),
        Some(Command::Config(args)) => config::run(args, cli.json),
        Some(Command::Ping(args)) => ping::run(args, cli.json),
        Some(Command::Status(args)) => status::run(args, cli.json),
        Some(Command::Top(args)) => top::run(args, cli.json),
        Some(Command::Get(args)) => get::run(args, cli.json),
        Some(Command::Put(args)) => put::run(args, cli.json),
        Some(Command::Del(args)) => del::run(args, cli.json),
        Some(Command::Incr(args)) => incr::run(args, cli.json),
        Some(Command::Cas(args)) => cas::run(args, cli.json),
        Some(Command::Scan(args)) => scan::run(args, cli.json),
        Some(Command::Table(args)) => table::run(args, cli.json),
        Some(Command::Space(args)) => space::run(args, cli.json),
        Some(Command::Import(args)) => import::run(args, cli.json),
        Some(Command::Export(args)) => export::run(args, cli.json),
        Some(Command::Doctor(args)) => doctor::run(args, cli.json),
        Some(Command::Bench(args)) => bench::run(args, cli.json),
        Some(Command::Completions(args)) => completions::run(args),
        Some(Command::Man(args)) => man::run(args, cli.json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_may_stand_before_or_after_the_command() {
        for line in [["barn", "--json", "doctor"], ["barn", "doctor", "--json"]] {
            assert!(Cli::try_parse_from(line).expect("parses").json);
        }
    }

    #[test]
    fn help_documents_every_exit_code() {
        let help = Cli::command().render_long_help().to_string();
        for code in ["0  done", "1  failed", "2  the command", "3  `barn doctor`", "4  the node"] {
            assert!(help.contains(code), "{code}");
        }
    }
}
