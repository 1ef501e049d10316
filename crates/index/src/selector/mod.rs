//! Cell's locality selector: is the next lookup quicker if the client reads the memory for itself, or
//! if it asks the node? Follows section 2.4 of "Balancing CPU and Network in the Cell Distributed
//! B-Tree Store"; the same for all structures.
//!
//! A node is two queues, one of requests and one of READs. The node is asked if
//! (l_s - RTT) < m * (l_r - RTT): what a request waits is less than what the m READs of a lookup wait.
//! RTT is the lowest latency of a READ so far; l_s and l_r are averages of the last n samples, without
//! those that are K standard deviations off. Now and then the way that seems worse is taken.
//!
//! What always holds:
//! - nothing here reads a clock, allocates after `new`, or takes longer for a longer history;
//! - sums are of whole numbers, so they do not drift;
//! - the way that seems worse is always timed when it is taken.
//!
//! Where this is not the paper's:
//! - a READ of shared memory takes about 100 ns and reading the clock twice takes 50, so where
//!   operations are quick only some are timed; see [`SelectorOptions::timed_ns`];
//! - samples grow old: see [`SelectorOptions::fresh_max`];
//! - whoever explores takes the way that seems worse several times in a row (`RUN`), and the first of them is not
//!   counted: it waits for whoever serves that way and was asleep. On a node with little CPU that took milliseconds, so
//!   that either way seemed a hundred times as slow as the other to whoever did not take it, and stayed so;
//! - of few samples nobody can tell by their deviation which one is off: of fewer than eight the median counts;
//! - exploring has its share of the time, not only of the operations: see
//!   [`SelectorOptions::explore_share`];
//! - where READs do not queue at all, l_r - RTT is 0, and the paper's rule never asks the node, however
//!   many READs a lookup takes. That spares the node, as Cell wants it. [`Rule::Latencies`] counts
//!   the wire as well.

mod shared;
#[cfg(test)]
mod tests;
mod window;

pub use shared::SharedSelector;

use barn_layout::planted;
use std::time::Duration;
use window::Window;

/// How to look something up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The client reads the node's memory.
    OneSided,
    /// The node is asked.
    Request,
}

impl Choice {
    /// The other way.
    pub fn other(self) -> Self {
        match self {
            Self::OneSided => Self::Request,
            Self::Request => Self::OneSided,
        }
    }
}

/// What to do with the next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// How to look it up.
    pub choice: Choice,
    /// Measure it, and tell [`Selector::measured`].
    pub timed: bool,
    /// This is the way that seems worse, taken to see whether it still is.
    pub explores: bool,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Cell's: what operations wait in queues. Balances the load of both.
    #[default]
    Queues,
    /// What operations take, and what they make others wait: about as long as they wait themselves.
    /// That is l + (l - RTT) for each. Without the second part each client would be as well off as it
    /// can be alone, and all together worse off: the node would be asked too often.
    Latencies,
}

/// How to select. The defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectorOptions {
    /// What is compared.
    pub rule: Rule,
    /// n: the samples of each way that count.
    pub samples: usize,
    /// K: samples that are so many standard deviations off do not count.
    pub outlier_deviations: f32,
    /// p: how often the way that seems worse is taken.
    pub explore_probability: f32,
    /// The most of its time that a client spends on the way that seems worse. Where that takes a
    /// thousand times as long, 1 % of the operations would be most of the time.
    pub explore_share: f32,
    /// After so long without an operation nothing is known any more.
    pub idle_max: Duration,
    /// Twice this time, at the most, a way is not taken at all, and its samples are forgotten where there was none
    /// for a quarter of it: the paper wants them to cover from milliseconds to a second, and of a way
    /// that is seldom taken a hundred would cover minutes.
    pub fresh_max: Duration,
    /// Samples of each way, at the start, before they are compared. Until then the ways are taken by turns.
    pub samples_min: usize,
    /// Operations that take at least so long are all timed. Of others one in so many that the
    /// timed ones are this far apart: at 2,500 ns, reading the clock twice (50 ns) costs 2 %.
    pub timed_ns: u32,
}

impl Default for SelectorOptions {
    fn default() -> Self {
        Self {
            rule: Rule::Queues,
            samples: 100,
            outlier_deviations: 3.0,
            explore_probability: 0.01,
            explore_share: 0.02,
            idle_max: Duration::from_secs(3),
            fresh_max: Duration::from_millis(400),
            samples_min: 6,
            timed_ns: 2_500,
        }
    }
}

/// Chooses for one connection; see the module.
#[derive(Debug)]
pub struct Selector {
    options: SelectorOptions,
    one_sided: Window,
    request: Window,
    /// The lowest latency of a READ, in nanoseconds. It belongs to the connection and outlives the
    /// samples.
    rtt_ns: f32,
    /// READs of a lookup, on average.
    reads: f32,
    /// For each nanosecond that an operation takes, so many of 2^32 are timed.
    timed_each: f32,
    random: u64,
    used_at_ns: u64,
    /// When the last sample of each way was added.
    request_at_ns: u64,
    one_sided_at_ns: u64,
    fresh_max_ns: u64,
    idle_max_ns: u64,
    /// What was chosen last while nothing was known.
    turn: Choice,
    /// What explores now.
    run: Option<Run>,
    /// What the first request, and the first lookup by READs, of a run take on average.
    first_request_ns: f32,
    first_lookup_ns: f32,
    /// How long the last run was under way: of batches that is more than their samples say, which are for each key.
    run_ns: u64,
    /// Choices since it began.
    since_run: u32,
    /// What follows from the samples, worked out when one is added; nothing while there are too few.
    estimate: Option<Estimate>,
}

/// So many operations in a row explore: one that does not count, and three of which one may have waited for something else.
const RUN: u32 = 4;

/// Choices between a run and the next that is overdue: of a client that has little to do they would be most.
const OVERDUE_MIN: u32 = 16 * RUN;

/// Operations in a row that take the way that seemed worse.
#[derive(Clone, Copy, Debug)]
struct Run {
    choice: Choice,
    /// So many are yet to be chosen.
    left: u32,
    /// So many were measured.
    measured: u32,
    began_ns: u64,
}

impl Run {
    fn of(choice: Choice, began_ns: u64) -> Self {
        Self { choice, left: RUN, measured: 0, began_ns }
    }
}

/// What choosing needs to know.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// What a request costs by the rule, and what a READ.
    request: f32,
    read: f32,
    /// A request, and a READ, is timed if a random number of 32 bits is below this.
    request_timed: f32,
    read_timed: f32,
    /// A random number of 32 bits below this explores requests, where READs seem better; and READs.
    explore_request: u32,
    explore_read: u32,
    /// However bad it seems, a way is taken when it was not for so long.
    overdue_ns: u64,
}

impl Selector {
    /// A selector that knows nothing yet.
    pub fn new(options: SelectorOptions, seed: u64) -> Self {
        Self {
            one_sided: Window::new(options.samples, options.outlier_deviations),
            request: Window::new(options.samples, options.outlier_deviations),
            rtt_ns: f32::INFINITY,
            reads: 1.0,
            timed_each: 2_f32.powi(32) / options.timed_ns.max(1) as f32,
            // xorshift stays at 0 forever if it starts there.
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            used_at_ns: 0,
            request_at_ns: 0,
            one_sided_at_ns: 0,
            fresh_max_ns: nanoseconds(options.fresh_max),
            idle_max_ns: nanoseconds(options.idle_max),
            turn: Choice::Request,
            run: None,
            first_request_ns: 0.0,
            first_lookup_ns: 0.0,
            run_ns: 0,
            since_run: 0,
            estimate: None,
            options,
        }
    }

    /// Chooses a way for an operation that would take `reads_expected` READs. `now` may be behind, by
    /// less than [`SelectorOptions::idle_max`]: the time of the last timed operation will do.
    #[inline]
    pub fn choose(&mut self, now: Duration, reads_expected: f32) -> Chosen {
        self.touch(now);
        let random = self.next_random();
        // By reference: a copy of what was just written by parts makes the CPU wait for all of them.
        let Some(estimate) = &self.estimate else {
            let turn = self.turn.other();
            let run = self.run.get_or_insert(Run::of(turn, self.used_at_ns));
            if run.left == 0 {
                *run = Run::of(turn, self.used_at_ns);
            }
            self.turn = run.choice;
            run.left -= 1;
            return Chosen { choice: self.turn, timed: true, explores: false };
        };
        let better = estimate.better(reads_expected);
        if let Some(run) = self.run.as_mut().filter(|run| run.left > 0) {
            run.left -= 1;
            return Chosen { choice: run.choice, timed: true, explores: run.choice != better };
        }
        let (explore_below, last) = match better {
            Choice::OneSided => (estimate.explore_request, self.request_at_ns),
            Choice::Request => (estimate.explore_read, self.one_sided_at_ns),
        };
        // However bad it seems: what seems so may be one long wait of the client's own.
        self.since_run = self.since_run.saturating_add(1);
        let overdue =
            self.since_run > OVERDUE_MIN && self.used_at_ns.saturating_sub(last) > estimate.overdue_ns;
        let explores = (random as u32) < explore_below || overdue;
        let choice = if explores { better.other() } else { better };
        if explores {
            self.since_run = 0;
            let left = if planted("explores_once") { 0 } else { RUN - 1 };
            self.run = Some(Run { left, ..Run::of(choice, self.used_at_ns) });
        }
        let timed_below = match choice {
            Choice::Request => estimate.request_timed,
            Choice::OneSided => estimate.read_timed * reads_expected,
        };
        let timed = explores || ((random >> 32) as u32 as f32) < timed_below;
        Chosen { choice, timed, explores }
    }

    /// The way that seems better; nothing while too little is known.
    pub fn preferred(&self, reads_expected: f32) -> Option<Choice> {
        self.estimate.map(|estimate| estimate.better(reads_expected))
    }

    /// An operation that was to be timed took so long, and, if it was one-sided, so many READs one
    /// after another. Of a batch, each key took its part of the time.
    #[inline]
    pub fn measured(&mut self, now: Duration, choice: Choice, latency: Duration, reads: u32) {
        self.touch(now);
        let nanoseconds = nanoseconds(latency) as f32;
        // All of it was in the client's own cache: that says nothing about READs.
        if choice == Choice::OneSided && reads == 0 {
            return self.drop_stale(choice);
        }
        let each = if choice == Choice::OneSided { nanoseconds / reads as f32 } else { nanoseconds };
        if !self.counts(choice, nanoseconds) {
            return;
        }
        self.drop_stale(choice);
        let kept = match choice {
            Choice::Request => self.request.add(each),
            Choice::OneSided => {
                // A moving average, of about as many lookups as there are samples.
                self.reads += (reads as f32 - self.reads) / self.options.samples.max(1) as f32;
                let kept = self.one_sided.add(each);
                if kept {
                    self.rtt_ns = self.rtt_ns.min(each);
                }
                kept
            }
        };
        if kept {
            self.estimate = self.estimated();
        } else if self.request.is_out_of_date() || self.one_sided.is_out_of_date() {
            self.forget();
        }
    }

    /// READs of a lookup, on average: what to expect if nothing better is known.
    pub fn reads_expected(&self) -> f32 {
        self.reads
    }

    /// The averages of a request and of a READ, and the lowest of a READ; nothing without samples.
    pub fn latencies(&self) -> Option<(Duration, Duration, Duration)> {
        let is_known = self.one_sided.len() > 0 && self.request.len() > 0;
        let time = |nanoseconds: f32| Duration::from_nanos(nanoseconds as u64);
        is_known.then(|| (time(self.request.average()), time(self.one_sided.average()), time(self.rtt_ns)))
    }

    /// Forgets all samples: the ways are taken by turns again until a few are there.
    pub fn forget(&mut self) {
        self.run = None;
        self.one_sided.clear();
        self.request.clear();
        self.estimate = None;
    }

    #[inline]
    fn touch(&mut self, now: Duration) {
        let now_ns = nanoseconds(now);
        if now_ns > self.used_at_ns {
            if now_ns - self.used_at_ns >= self.idle_max_ns {
                self.forget();
            }
            self.used_at_ns = now_ns;
        }
    }

    /// Whether a sample counts: not the first of a run.
    fn counts(&mut self, choice: Choice, nanoseconds: f32) -> bool {
        let Some(run) = self.run.as_mut().filter(|run| run.choice == choice) else { return true };
        run.measured += 1;
        let (measured, run_ns) = (run.measured, self.used_at_ns.saturating_sub(run.began_ns));
        // Others like that would take too long: it is all that there is to go by.
        let is_long = run_ns > self.fresh_max_ns / 20;
        if measured == RUN || is_long {
            (self.run, self.run_ns) = (None, run_ns);
        }
        if measured == 1 {
            let first = match choice {
                Choice::Request => &mut self.first_request_ns,
                Choice::OneSided => &mut self.first_lookup_ns,
            };
            *first += (nanoseconds - *first) / RUN as f32;
        }
        measured > 1 || is_long || planted("explores_once")
    }

    /// Forgets the samples of a way of which there was none for long, before the next is added.
    #[inline]
    fn drop_stale(&mut self, choice: Choice) {
        let at = match choice {
            Choice::Request => &mut self.request_at_ns,
            Choice::OneSided => &mut self.one_sided_at_ns,
        };
        let last = std::mem::replace(at, self.used_at_ns);
        if self.used_at_ns.saturating_sub(last) > self.fresh_max_ns / 4 {
            match choice {
                Choice::Request => self.request.clear(),
                Choice::OneSided => self.one_sided.clear(),
            }
        }
    }

    /// How often to begin a run of a way that takes `worse` as a whole where an operation of the other takes `better`.
    fn explore_below(&self, better: f32, worse: f32) -> u32 {
        let share = self.options.explore_share * better / worse.max(1.0);
        let probability = (self.options.explore_probability / RUN as f32).min(share).clamp(0.0, 1.0);
        (f64::from(probability) * f64::from(u32::MAX)) as u32
    }

    fn estimated(&self) -> Option<Estimate> {
        // What is known once is known by less later.
        let few = match self.estimate {
            Some(_) => 1,
            None => self.options.samples_min.clamp(1, self.options.samples.max(1)),
        };
        if self.one_sided.len() < few || self.request.len() < few {
            return None;
        }
        let rtt = match self.options.rule {
            Rule::Queues => self.rtt_ns,
            // Half of l + (l - RTT).
            Rule::Latencies => self.rtt_ns / 2.0,
        };
        let (request, read) = (self.request.average(), self.one_sided.average());
        let mut estimate = Estimate::new(request, read, rtt, self.timed_each);
        let lookup = read * self.reads;
        let rest = (RUN - 1) as f32;
        let run_of_requests = request * rest + self.first_request_ns.max(request);
        let run_of_lookups = lookup * rest + self.first_lookup_ns.max(lookup);
        estimate.explore_request = self.explore_below(lookup, run_of_requests);
        estimate.explore_read = self.explore_below(request, run_of_lookups);
        let worse = match estimate.better(self.reads) {
            Choice::OneSided => run_of_requests,
            Choice::Request => run_of_lookups,
        };
        let overdue = worse.max(self.run_ns as f32) / self.options.explore_share.max(0.001);
        estimate.overdue_ns = (overdue as u64).clamp(self.fresh_max_ns / 2, self.fresh_max_ns * 2);
        Some(estimate)
    }

    #[inline]
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

impl Estimate {
    /// Not inlined: the compiler would load an average together with the whole numbers next to it, and
    /// multiplying those as if they were tiny floats took 60 ns.
    #[inline(never)]
    fn new(request: f32, read: f32, rtt: f32, timed_each: f32) -> Self {
        let (request_timed, read_timed) = (request * timed_each, read * timed_each);
        let (request, read) = (request - rtt, read - rtt);
        Self { request, read, request_timed, read_timed, explore_request: 0, explore_read: 0, overdue_ns: 0 }
    }

    #[inline]
    fn better(&self, reads_expected: f32) -> Choice {
        if self.request < reads_expected * self.read { Choice::Request } else { Choice::OneSided }
    }
}

/// 584 years fit.
#[inline]
fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(time.subsec_nanos()))
}
