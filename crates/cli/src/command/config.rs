//! `barn config`: the configuration that a node would run on, and where each value comes from.

use std::io::{self, Write};

use crate::command::{Exit, print_json};
use crate::settings::SettingsArgs;

/// The settings as `barn serve` takes them; its help is on [`super::Command::Config`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn config\n  barn config > ~/.config/barn/barn.toml\n  \
    BARN_MEMORY=4GiB barn config --json | jq .settings.memory")]
pub struct Args {
    /// The settings.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// Prints it.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let effective = args.settings.resolve()?;
    match json {
        true => print_json(&effective.json())?,
        false => io::stdout().lock().write_all(effective.toml().as_bytes())?,
    }
    Ok(Exit::Ok)
}
