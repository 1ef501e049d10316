//! A node's log: lines for people, or JSON for programs, on standard error.
//!
//! What always holds: libraries only say what happened (`tracing`), at places that are not on a data
//! path; what is kept of it, and in which form, is decided here alone.

use std::io;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Begins to log at a level, such as `info` or `warn,barn_cluster=debug`.
pub fn start(level: &str, json: bool) -> io::Result<()> {
    let targets: Targets = level.parse().map_err(|error| {
        io::Error::other(format!(
            "--log {level}: {error}; say error, warn, info, debug, trace or off, also by part, as in warn,barn_cluster=debug"
        ))
    })?;
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match json {
        true => lines.json().flatten_event(true).boxed(),
        false => lines.with_ansi(false).boxed(),
    };
    // Where a log was begun before, that one goes on: in tests of several commands in one process.
    let _ = tracing_subscriber::registry().with(lines.with_filter(targets)).try_init();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_is_none_is_refused_with_those_that_are() {
        let error = start("loud=very", false).unwrap_err().to_string();
        assert!(error.contains("loud=very") && error.contains("error, warn, info"), "{error}");
        assert!(start("off,barn_cluster=debug", true).is_ok());
    }
}
