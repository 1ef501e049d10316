//! What can be asked of every benchmark of workloads, and how much that is.

use std::time::Duration;

use barn::Kind;

use super::drive::Arrivals;
use super::shape::{Shape, Shapes};
use crate::bench::timing::Effort;

/// Records, clients and effort.
#[derive(Clone, Debug, clap::Args)]
pub struct Load {
    /// Lengths of keys and values in bytes: herd or farm (16x32), cell (8-64x8-256), pilaf (23x16 to
    /// 23x4096), or KEYxVALUE; several with commas.
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', default_value = "herd")]
    pub shape: Vec<Shapes>,

    /// Records in the table [default: 1000000; 200000 with --quick; fewer where values are long].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    pub keys: Option<u32>,

    /// Client processes.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: u32,

    /// Threads of each client process.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,

    /// The table's design: hopscotch, cuckoo, cache or tree.
    #[arg(long, value_name = "KIND", default_value_t = Kind::Hopscotch)]
    pub kind: Kind,

    /// Repeats of each figure, after one that warms up [default: 7; 3 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: Option<u32>,

    /// How long one repeat lasts, in milliseconds [default: 500; 100 with --quick].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub slice_ms: Option<u64>,

    /// Only rows whose name contains this, such as `tcp` or `depth-16`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub rows: String,

    /// Fewer records, and fewer and shorter repeats.
    #[arg(long)]
    pub quick: bool,
}

/// When operations begin.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Beat {
    /// Open loop: so many operations a second begin, of all clients together, whether the last have ended or
    /// not. Times count from then.
    #[arg(long, value_name = "OPS", value_parser = rate)]
    pub rate: Option<f64>,

    /// How far apart they begin in an open loop.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub arrivals: Arrivals,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (1.0..=1e9).contains(&rate) => Ok(rate),
        _ => Err(format!("`{text}` is no number of operations a second from 1 to 1000000000")),
    }
}

impl Beat {
    /// Operations a second of an open loop.
    pub(crate) fn offered(&self) -> Option<(f64, Arrivals)> {
        self.rate.map(|rate| (rate, self.arrivals))
    }

    /// The end of a row's name, in an open loop.
    pub(crate) fn name(&self) -> String {
        self.rate.map_or_else(String::new, |rate| format!("/rate-{rate}"))
    }

    /// The options that make a command's loop the same as this one.
    pub(crate) fn command(&self) -> String {
        self.rate.map_or_else(String::new, |rate| {
            format!(" --rate {rate} --arrivals {}", format!("{:?}", self.arrivals).to_lowercase())
        })
    }
}

/// Operations at once, of each thread.
pub(crate) const DEPTH_MAX: i64 = 1024;
/// The most memory that records take in one store, unless somebody says how many there shall be.
const RECORDS_BYTES_MAX: u64 = 256 << 20;

impl Load {
    /// Every shape that was asked for.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = Shape> {
        self.shape.iter().flat_map(|shapes| shapes.0.iter().copied())
    }

    /// How many records of a shape there are.
    pub(crate) fn records(&self, shape: Shape) -> u64 {
        let usual = if self.quick { 200_000 } else { 1_000_000 };
        let room = RECORDS_BYTES_MAX / shape.mean_bytes() as u64;
        self.keys.map_or(usual.min(room), u64::from)
    }

    /// Operations drawn in advance: about as many as a window takes where nobody is asked.
    pub(crate) fn steps(&self) -> usize {
        if self.quick { 1 << 18 } else { 1 << 20 }
    }

    /// How long and how often.
    pub(crate) fn effort(&self) -> Effort {
        let (slice_ms, repeats) = if self.quick { (100, 3) } else { (500, 7) };
        Effort {
            slice: Duration::from_millis(self.slice_ms.unwrap_or(slice_ms)),
            repeats: self.repeats.unwrap_or(repeats) as usize,
        }
    }

    /// The end of a row's name that says how many clients there were, where there were several.
    pub(crate) fn clients_name(&self) -> String {
        match (self.clients, self.threads) {
            (1, 1) => String::new(),
            (clients, threads) => format!("/clients-{clients}x{threads}"),
        }
    }

    /// The options that make a command the same as this one.
    pub(crate) fn command(&self, shape: Shape) -> String {
        let effort = self.effort();
        let mut command = format!(
            "--shape {shape} --keys {} --repeats {} --slice-ms {}",
            self.records(shape),
            effort.repeats,
            effort.slice.as_millis()
        );
        for (option, number) in [("clients", self.clients), ("threads", self.threads)] {
            if number != 1 {
                command += &format!(" --{option} {number}");
            }
        }
        if self.kind != Kind::Hopscotch {
            command += &format!(" --kind {}", self.kind);
        }
        command
    }
}
