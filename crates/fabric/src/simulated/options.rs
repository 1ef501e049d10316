//! What a world is like: how fast, how late, how often things break.

use std::time::Duration;

/// From, to: both included, in nanoseconds.
pub type Span = (u64, u64);

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;

/// How a simulated world behaves. Every draw comes from the world's seed.
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// How long a message is under way.
    pub latency: Span,
    /// How many of a million messages are late, and by how much more.
    pub late_per_million: u32,
    /// How much later a late message is.
    pub late: Span,
    /// How long a task that was woken waits for a CPU.
    pub scheduling: Span,
    /// How long a one-sided operation takes at the node.
    pub operation: Span,
    /// How long an operation may take by default.
    pub deadline: Duration,
    /// How long it takes to notice that a peer has died or does not answer.
    pub detection: Span,
    /// What breaks by chance.
    pub faults: FaultPlan,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self {
            // A rack's network: 1 to 20 µs, and one in 200 messages up to 2 ms late.
            latency: (MICRO, 20 * MICRO),
            late_per_million: 5_000,
            late: (100 * MICRO, 2 * MILLI),
            scheduling: (50, 2 * MICRO),
            operation: (100, 4 * MICRO),
            deadline: Duration::from_millis(20),
            detection: (50 * MICRO, 10 * MILLI),
            faults: FaultPlan::none(),
        }
    }
}

/// How often which fault strikes by chance. Weights of one draw every `every`, on average.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// The mean time between two faults; zero for none.
    pub every: Duration,
    /// A restartable node dies, and its memory with it.
    pub crash: u32,
    /// Two nodes, or one direction between them, are cut off.
    pub partition: u32,
    /// A node's process stops for a while.
    pub pause: u32,
    /// A connection breaks.
    pub reset: u32,
    /// Messages between two nodes take far longer.
    pub storm: u32,
    /// How long a partition, a pause or a storm lasts, and a dead node stays down.
    pub lasting: Span,
}

impl FaultPlan {
    /// Nothing breaks unless it is told to.
    pub fn none() -> Self {
        Self { every: Duration::ZERO, crash: 0, partition: 0, pause: 0, reset: 0, storm: 0, lasting: (0, 0) }
    }

    /// Everything breaks, about once in so long.
    pub fn all(every: Duration) -> Self {
        Self {
            every,
            crash: 2,
            partition: 3,
            pause: 3,
            reset: 1,
            storm: 2,
            lasting: (100 * MICRO, 30 * MILLI),
        }
    }

    /// Everything but crashes.
    pub fn without_crashes(every: Duration) -> Self {
        Self { crash: 0, ..Self::all(every) }
    }

    pub(super) fn weights(&self) -> [u32; 5] {
        [self.crash, self.partition, self.pause, self.reset, self.storm]
    }
}
