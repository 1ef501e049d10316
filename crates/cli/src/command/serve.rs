//! `barn serve`: runs a node until it is told to stop.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use barn_server::{Server, ServerOptions};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bytes::{Bytes, human};
use crate::command::Exit;
use crate::machine::Machine;

/// How the node should be.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The Unix socket for clients of this host [default: barn/node.sock in the user's runtime
    /// directory].
    #[arg(long, value_name = "PATH", env = "BARN_SHM")]
    pub shm: Option<PathBuf>,

    /// Do not listen for clients of this host.
    #[arg(long, conflicts_with = "shm")]
    pub no_shm: bool,

    /// The address for clients of any host; port 0 takes any free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7411", env = "BARN_TCP")]
    pub tcp: SocketAddr,

    /// Do not listen on tcp.
    #[arg(long)]
    pub no_tcp: bool,

    /// Bytes of memory for objects, such as 64MiB or 4GiB.
    #[arg(long, value_name = "BYTES", default_value = "64MiB", env = "BARN_MEMORY")]
    pub memory: Bytes,

    /// A node of the cluster to join, such as tcp://HOST:7411. Without it the node begins a cluster
    /// and coordinates it.
    #[arg(long, value_name = "ADDRESS", env = "BARN_JOIN")]
    pub join: Option<String>,

    /// Where the cluster's configuration is kept by the node that coordinates it [default: only in
    /// memory].
    #[arg(long, value_name = "DIRECTORY", env = "BARN_DATA", conflicts_with = "join")]
    pub data: Option<PathBuf>,

    /// The lease of nodes and clients of a new cluster, in milliseconds: whoever is silent for longer
    /// is taken for dead.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=600_000))]
    pub lease_ms: u64,

    /// Where metrics for Prometheus, health and readiness are shown over HTTP, such as
    /// 127.0.0.1:9411; port 0 takes any free one [default: nowhere].
    #[arg(long, value_name = "ADDRESS:PORT", env = "BARN_METRICS")]
    pub metrics: Option<SocketAddr>,

    /// What is logged on standard error: error, warn, info, debug, trace or off, also by part, as in
    /// warn,barn_cluster=debug.
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "BARN_LOG")]
    pub log: String,

    /// Log lines of JSON instead of text.
    #[arg(long, env = "BARN_LOG_JSON")]
    pub log_json: bool,

    /// Bytes of memory that every client may read as it is, for measurements.
    #[arg(long, value_name = "BYTES", default_value = "0", hide = true)]
    pub raw_memory: Bytes,

    /// A file with the token that every tcp client must prove to know.
    #[arg(long, value_name = "FILE", env = "BARN_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// Let tcp clients of other hosts in without a token. Whoever can reach the port can then
    /// read this node's memory; loopback needs no flag.
    #[arg(long)]
    pub allow_unauthenticated: bool,

    /// Stop when standard input ends: for programs that start a node of their own.
    #[arg(long, hide = true)]
    pub until_stdin_ends: bool,
}

/// Runs the node; returns when it was stopped.
pub fn run(args: &Args, json: bool) -> io::Result<Exit> {
    crate::logs::start(&args.log, args.log_json)?;
    let options = ServerOptions {
        shm: (!args.no_shm).then(|| args.shm.clone().unwrap_or_else(ServerOptions::default_socket)),
        tcp: (!args.no_tcp).then_some(args.tcp),
        token: args.token_file.as_deref().map(crate::token::read).transpose()?,
        allow_unauthenticated: args.allow_unauthenticated,
        memory_bytes: args.memory.0,
        raw_bytes: args.raw_memory.0,
        join: args.join.clone(),
        data: args.data.clone(),
        lease: std::time::Duration::from_millis(args.lease_ms),
        metrics: args.metrics,
        ..ServerOptions::default()
    };
    if options.shm.is_none() && options.tcp.is_none() {
        return Err(io::Error::other("a node that listens nowhere serves nobody: drop --no-shm or --no-tcp"));
    }
    check_memory(&options, &Machine::here())?;
    let server = Server::start(&options).map_err(io::Error::other)?;
    announce(&server, json)?;

    let stopper = server.stopper();
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn({
        let stopper = stopper.clone();
        move || {
            if signals.forever().next().is_some() {
                stopper.stop();
            }
        }
    });
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

/// Refuses to take more memory than there is: the system would end this process, or another.
fn check_memory(options: &ServerOptions, machine: &Machine) -> io::Result<()> {
    let asked = options.memory_bytes.saturating_add(options.raw_bytes).saturating_add(options.scratch_bytes);
    // A machine that does not say how much it has is taken at its user's word.
    if machine.memory_available_bytes == 0 || asked <= machine.memory_available_bytes {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "--memory asks for {}, and {} are available here: ask for less, or free some",
        human(asked),
        human(machine.memory_available_bytes)
    )))
}

/// Says where the node is, once it is ready: one line of JSON, or words.
fn announce(server: &Server, json: bool) -> io::Result<()> {
    let status = server.status();
    let mut out = anstream::stdout().lock();
    if json {
        serde_json::to_writer(&mut out, &status)?;
        writeln!(out)?;
        return out.flush();
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
        writeln!(
            out,
            "  region {:<10} {:>10}  {:<8} {:<18} {}",
            region.id,
            human(region.bytes),
            region.purpose,
            region.rights,
            region.pages
        )?;
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
    writeln!(out, "Ctrl-C stops it; `barn ping` in another terminal talks to it.")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_is_is_refused() {
        let mut machine = Machine::here();
        machine.memory_available_bytes = 1 << 30;
        let options = |memory_bytes| ServerOptions { memory_bytes, ..ServerOptions::default() };
        assert!(check_memory(&options(64 << 20), &machine).is_ok());
        for bytes in [1 << 30, 1 << 50, u64::MAX] {
            let error = check_memory(&options(bytes), &machine).unwrap_err().to_string();
            assert!(error.contains("1 GiB are available"), "{error}");
        }
        machine.memory_available_bytes = 0;
        assert!(check_memory(&options(1 << 50), &machine).is_ok());
    }
}
