//! Watched clients, on the simulated world and on real nodes: what the checkers are fed with.

mod node;
mod real;
mod recorder;
mod simulated;
mod workload;

pub use node::{CONFIGURATION_METHOD, TestNode};
pub use real::{Judged, Plan, one_history};
pub use recorder::Recorder;
pub use simulated::{Report, run};
pub use workload::Worker;
