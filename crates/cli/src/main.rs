//! The `barn` binary: hands over to the library, so that every command can be tested.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    barn_cli::main()
}
