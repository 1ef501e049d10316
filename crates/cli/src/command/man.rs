//! `barn man`: the manual's pages, one for each command.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use serde_json::json;

use crate::command::{Cli, Exit, print_json, say};
use crate::failure::Failure;

/// Where to; its help is on [`super::Command::Man`].
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  barn man | man -l -\n  barn man ~/.local/share/man/man1")]
pub struct Args {
    /// Write a page for each command into this directory, which is made if it is not there; without
    /// it, the page of `barn` itself goes to standard output.
    pub directory: Option<PathBuf>,
}

/// Prints or writes the pages.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let mut barn = Cli::command();
    barn.build();
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        Man::new(barn).render(&mut page)?;
        io::stdout().lock().write_all(&page)?;
        return Ok(Exit::Ok);
    };
    let named = |error: io::Error| Failure::plain(format!("{}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(named)?;
    let mut written = Vec::new();
    write(&barn, "barn", directory, &mut written).map_err(named)?;
    match json {
        true => print_json(&json!({ "directory": directory, "pages": written }))?,
        false => say(&format!("wrote {} pages to {}", written.len(), directory.display()))?,
    }
    Ok(Exit::Ok)
}

/// Writes a command's page, and those of its own commands.
fn write(command: &Command, name: &str, directory: &Path, written: &mut Vec<String>) -> io::Result<()> {
    // The page's name is the command's, with dashes: `man barn-table-list`.
    let page = Man::new(command.clone().name(name.to_owned()).display_name(name.to_owned()));
    let file = format!("{name}.1");
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(directory.join(&file), text)?;
    written.push(file);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        write(below, &format!("{name}-{}", below.get_name()), directory, written)?;
    }
    Ok(())
}
