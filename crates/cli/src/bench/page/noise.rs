//! How noisy the machine was: whether the figures of a run deserve trust.
//!
//! Four signs are judged, each against a named bound: what other processes did just before the run and during
//! it, what the hypervisor took (steal), and how often a core was slower than at best, of which nothing else
//! speaks (see [`quiet`](crate::bench::quiet)). The load average is told and not judged: it still has the last run
//! in it.
//!
//! What always holds: a sign that cannot be read is left out, and never makes a machine quiet or loaded.

use std::time::{Duration, Instant};

use barn_layout::planted;
use serde::Serialize;

use crate::bench::quiet::{self, Disturbance};
use crate::machine::kernel::load_average;
use crate::machine::{HugePages, Machine, Source};

/// Cores that others may use: a tenth of one is what an idle system's services take at times.
const OTHERS_CORES_MAX: f64 = 0.1;
/// The part of all cores' time that the hypervisor may take.
const STEAL_MAX: f64 = 0.01;
/// The part of the looks at which a core may be slower than at best: interrupts make about 1 %.
const SLOWED_MAX: f64 = 0.05;
/// How long others are watched before the run begins.
const WATCH: Duration = Duration::from_secs(1);

/// What was seen of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Noise {
    /// Load over 1, 5 and 15 minutes before the run.
    pub load_before: [f64; 3],
    /// And after it.
    pub load_after: [f64; 3],
    /// Cores that other processes used in the second before it.
    pub others_before_cores: Option<f64>,
    /// And during it, on average.
    pub others_during_cores: Option<f64>,
    /// The part of all cores' time that the hypervisor took.
    pub steal: Option<f64>,
    /// What others on the same cores did, and what came of it.
    pub disturbance: Option<Disturbance>,
}

/// A run that is being watched.
pub(super) struct Watch {
    noise: Noise,
    begun: Option<Times>,
    started: Instant,
}

/// Clocks, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    /// All processes', over all cores.
    busy: f64,
    /// What the hypervisor took.
    steal: f64,
    /// All of all cores.
    all: f64,
    /// This process's and that of its children that have ended.
    own: f64,
}

impl Watch {
    /// Looks at what others do, then begins.
    pub(super) fn begin() -> Self {
        let source = Source::live();
        let load_before = load_average(&source);
        let (before, started) = (Times::read(&source), Instant::now());
        std::thread::sleep(WATCH);
        let begun = Times::read(&source);
        let others_before_cores = others(before, begun, started.elapsed());
        let noise = Noise { load_before, others_before_cores, ..Noise::default() };
        Self { noise, begun, started: Instant::now() }
    }

    /// The run is over; all of its children have ended.
    pub(super) fn end(self) -> Noise {
        let source = Source::live();
        let now = Times::read(&source);
        let steal = self
            .begun
            .zip(now)
            .map(|(begun, now)| (now.steal - begun.steal) / (now.all - begun.all).max(0.01));
        Noise {
            load_after: load_average(&source),
            others_during_cores: others(self.begun, now, self.started.elapsed()),
            steal,
            disturbance: quiet::all(),
            ..self.noise
        }
    }
}

/// Cores that others used between two looks.
fn others(before: Option<Times>, after: Option<Times>, took: Duration) -> Option<f64> {
    let (before, after) = before.zip(after)?;
    let used = (after.busy - before.busy) - (after.own - before.own);
    Some((used / took.as_secs_f64()).max(0.0))
}

impl Times {
    fn read(source: &Source) -> Option<Self> {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let stat = source.text("/proc/stat")?;
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<f64> = line.split_whitespace().filter_map(|time| time.parse::<f64>().ok()).collect();
        // user nice system idle iowait irq softirq steal; guests are in user and nice already.
        let (Some(busy), Some(all)) = (times.get(..3), times.get(..8)) else { return None };
        let own = source.text("/proc/self/stat")?;
        let (_, after) = own.rsplit_once(')')?;
        // utime stime cutime cstime: the 12th to 15th after the name.
        let own: Vec<f64> =
            after.split_whitespace().skip(11).take(4).filter_map(|time| time.parse().ok()).collect();
        if own.len() != 4 {
            return None;
        }
        let sum = |times: &[f64]| times.iter().sum::<f64>() / ticks;
        Some(Self { busy: sum(busy), steal: times[7] / ticks, all: sum(all), own: sum(&own) })
    }
}

impl Noise {
    /// Why the machine counts as loaded; nothing if it was quiet.
    pub fn loaded(&self) -> Vec<String> {
        if planted("page_loaded_is_quiet") {
            return Vec::new();
        }
        let mut why = Vec::new();
        let mut past = |value: Option<f64>, most: f64, text: &dyn Fn(f64) -> String| {
            why.extend(value.filter(|value| *value > most).map(text));
        };
        past(self.others_before_cores, OTHERS_CORES_MAX, &|cores| {
            format!("other processes used {cores:.2} cores just before it (more than {OTHERS_CORES_MAX})")
        });
        past(self.others_during_cores, OTHERS_CORES_MAX, &|cores| {
            format!("other processes used {cores:.2} cores during it (more than {OTHERS_CORES_MAX})")
        });
        past(self.steal, STEAL_MAX, &|part| {
            format!(
                "the hypervisor took {:.1} % of the time (more than {} %)",
                part * 100.0,
                STEAL_MAX * 100.0
            )
        });
        past(self.disturbance.map(|seen| seen.slowed_part), SLOWED_MAX, &|part| {
            let most = SLOWED_MAX * 100.0;
            format!(
                "somebody else on the same cores slowed them {:.0} % of the time (more than {most:.0} %)",
                part * 100.0
            )
        });
        why
    }

    /// The one line that stands at the top.
    pub fn headline(&self) -> String {
        match self.loaded() {
            why if why.is_empty() => "This machine was quiet while it was measured.".to_owned(),
            why => format!("This machine was loaded: {}.", why.join("; ")),
        }
    }

    /// All signs, by name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let load = |load: [f64; 3]| format!("{:.2}, {:.2}, {:.2}", load[0], load[1], load[2]);
        let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let cores =
            |cores: Option<f64>| known(cores.map(|cores| format!("{cores:.2} (at most {OTHERS_CORES_MAX})")));
        vec![
            ("load average before (1, 5, 15 min)", load(self.load_before)),
            ("load average after; the run's own work is in it", load(self.load_after)),
            ("cores that others used in the second before", cores(self.others_before_cores)),
            ("cores that others used during the run", cores(self.others_during_cores)),
            (
                "time that the hypervisor took",
                known(
                    self.steal.map(|part| format!("{:.2} % (at most {} %)", part * 100.0, STEAL_MAX * 100.0)),
                ),
            ),
            (
                "others on the same cores",
                known(self.disturbance.map(|seen| {
                    format!("{} (at most {:.0} % of the looks)", seen.summary(), SLOWED_MAX * 100.0)
                })),
            ),
        ]
    }
}

fn huge_pages(pages: &HugePages) -> String {
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "{} of 2 MiB and {} of 1 GiB reserved; transparent: {}; of shared memory: {}",
        pages.reserved_2mib,
        pages.reserved_1gib,
        mode(&pages.transparent),
        mode(&pages.transparent_shared)
    )
}

/// The machine's facts, by name.
pub(super) fn machine_facts(machine: &Machine) -> Vec<(&'static str, String)> {
    let bytes = crate::bytes::human;
    let virtual_machine = match (&machine.hypervisor, machine.virtualised) {
        (Some(name), _) => format!("yes, {name}"),
        (None, true) => "yes".to_owned(),
        (None, false) => "no".to_owned(),
    };
    vec![
        ("processor", machine.cpu.clone()),
        ("cores for this process", format!("{} of {}", machine.cores, machine.cores_online)),
        (
            "memory",
            format!("{}, {} of it free", bytes(machine.memory_bytes), bytes(machine.memory_available_bytes)),
        ),
        ("kernel", format!("Linux {}", machine.kernel)),
        ("huge pages", huge_pages(&machine.huge_pages)),
        ("virtual machine", virtual_machine),
        (
            "build",
            format!(
                "barn {}{}",
                env!("CARGO_PKG_VERSION"),
                if cfg!(debug_assertions) { ", with debug assertions: slower than a release" } else { "" }
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Noise {
        Noise {
            others_before_cores: Some(0.02),
            others_during_cores: Some(0.03),
            steal: Some(0.001),
            disturbance: Some(Disturbance { slowed_part: 0.01, ..Disturbance::default() }),
            ..Noise::default()
        }
    }

    #[test]
    fn a_quiet_machine_is_quiet_whatever_its_load_average_remembers() {
        let noise = Noise { load_before: [3.0, 2.0, 1.0], load_after: [4.0, 3.0, 2.0], ..quiet() };
        assert_eq!(noise.loaded(), Vec::<String>::new());
        assert_eq!(noise.headline(), "This machine was quiet while it was measured.");
    }

    #[test]
    fn every_sign_alone_makes_a_loaded_machine_say_that_it_is() {
        let slowed = |slowed_part| Some(Disturbance { slowed_part, ..Disturbance::default() });
        let signs = [
            (Noise { others_before_cores: Some(0.9), ..quiet() }, "0.90 cores just before"),
            (Noise { others_during_cores: Some(1.5), ..quiet() }, "1.50 cores during"),
            (Noise { steal: Some(0.2), ..quiet() }, "took 20.0 % of the time"),
            (Noise { disturbance: slowed(0.5), ..quiet() }, "slowed them 50 % of the time"),
        ];
        for (noise, sign) in signs {
            let said = noise.headline();
            assert!(said.starts_with("This machine was loaded: ") && said.contains(sign), "{said}");
            assert_eq!(noise.loaded().len(), 1, "{said}");
        }
    }

    #[test]
    fn what_cannot_be_read_makes_nothing_quiet_or_loaded() {
        assert!(Noise::default().loaded().is_empty());
        assert!(Noise { steal: Some(f64::NAN), ..quiet() }.loaded().is_empty());
        assert!(Times::read(&Source::fixture("/nonexistent/barn")).is_none());
        let facts = Noise::default().facts();
        assert!(facts.iter().any(|(_, text)| text == "unknown"), "{facts:?}");
    }

    #[test]
    fn what_we_did_ourselves_is_not_done_by_others() {
        let times = |busy, own| Some(Times { busy, steal: 0.0, all: 100.0, own });
        let second = Duration::from_secs(1);
        assert_eq!(others(times(10.0, 4.0), times(12.0, 5.5), second), Some(0.5));
        assert_eq!(others(times(10.0, 4.0), times(10.5, 5.0), second), Some(0.0));
        assert_eq!(others(None, times(1.0, 1.0), second), None);
    }

    #[test]
    fn a_real_run_is_watched_from_beginning_to_end() {
        quiet::watch();
        let watch = Watch::begin();
        std::thread::sleep(Duration::from_millis(100));
        let noise = watch.end();
        assert!(noise.disturbance.is_some_and(|seen| seen.looks > 0), "{noise:?}");
        assert!(noise.others_during_cores.is_some() && noise.steal.is_some(), "{noise:?}");
    }
}
