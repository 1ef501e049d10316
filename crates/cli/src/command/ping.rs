//! `barn ping`: is a node there, what is it, and how far away?

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use barn_fabric::{ConnectOptions, Connection};
use barn_server::{Method, Status};
use serde_json::json;

use crate::bytes::human;
use crate::command::Exit;
use crate::node::address;
use crate::report::Spread;

/// Whom to ask.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The node: shm:PATH or tcp://HOST:PORT [default: the shm socket of this user's node].
    #[arg(env = "BARN_NODE")]
    pub address: Option<String>,

    /// How many round trips to time.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub count: u32,

    /// A file with the token that the node demands.
    #[arg(long, value_name = "FILE", env = "BARN_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// How long to wait for each answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    pub deadline_ms: u64,
}

/// Connects, asks, and times.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    let address = address(args.address.as_deref())?;
    let options = ConnectOptions {
        deadline: Duration::from_millis(args.deadline_ms),
        token: args.token_file.as_deref().map(crate::token::read).transpose()?,
        ..ConnectOptions::default()
    };
    let connection = Connection::connect(&address, options).wait().map_err(io::Error::other)?;
    let mut reply = Vec::new();
    connection.call(Method::Status as u16, &[], &mut reply).wait().map_err(io::Error::other)?;
    let status: Status = serde_json::from_slice(&reply)?;
    let mut samples = Vec::with_capacity(args.count as usize);
    for _ in 0..args.count {
        let start = Instant::now();
        connection.call(Method::Ping as u16, &[], &mut reply).wait().map_err(io::Error::other)?;
        samples.push(start.elapsed().as_secs_f64() * 1e9);
    }
    let spread = Spread::of(&samples);
    let mut out = anstream::stdout().lock();
    if json {
        let document = json!({
            "address": address, "node": status, "round_trips": args.count,
            "nanoseconds": { "median": spread.median, "low": spread.low, "high": spread.high },
        });
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
        return Ok(Exit::Ok);
    }
    let total: u64 = status.regions.iter().map(|region| region.bytes).sum();
    writeln!(
        out,
        "{address}: barn {}, process {}, {} in {} regions, {} connected",
        status.version,
        status.process,
        human(total),
        status.regions.len(),
        status.peers,
    )?;
    writeln!(
        out,
        "{} round trips: median {:.2} µs, fastest {:.2} µs, slowest {:.2} µs",
        args.count,
        spread.median / 1e3,
        spread.low / 1e3,
        spread.high / 1e3,
    )?;
    Ok(Exit::Ok)
}
