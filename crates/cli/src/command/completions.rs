//! `barn completions`: what a shell needs to complete Barn's commands and flags.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::command::{Cli, Exit};

/// For which shell; its help is on [`super::Command::Completions`].
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  barn completions bash > ~/.local/share/bash-completion/completions/barn\n  \
    barn completions zsh > ~/.zfunc/_barn\n  barn completions fish > ~/.config/fish/completions/barn.fish"
)]
pub struct Args {
    /// The shell.
    pub shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args) -> io::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "barn", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(Exit::Ok)
}
