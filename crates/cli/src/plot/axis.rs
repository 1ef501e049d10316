//! Axes: where a value lies between the ends, and where the ticks are.
//!
//! What always holds: the ends are finite and apart; every tick lies between them; a linear axis begins at
//! zero, so that lengths can be compared.

use barn_layout::planted;

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equally far apart.
    Linear,
    /// Equal factors are.
    Log,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How values are laid out.
    pub scale: Scale,
    /// Where it ends; after the greatest value, if nobody says.
    pub most: Option<f64>,
}

/// An axis between two ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Laid {
    scale: Scale,
    least: f64,
    most: f64,
    pub(super) ticks: Vec<f64>,
}

/// About so many ticks.
const TICKS: f64 = 5.0;

impl Axis {
    /// A linear one, from zero.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, most: None }
    }

    /// A logarithmic one.
    pub fn log(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label) }
    }

    /// Ends there: what is past it is drawn at the edge.
    pub fn up_to(mut self, most: f64) -> Self {
        self.most = Some(most);
        self
    }

    /// Whether a value can be shown.
    pub(super) fn holds(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Lays it out for the values that are to be seen.
    pub(super) fn lay(&self, values: impl Iterator<Item = f64>) -> Laid {
        let values: Vec<f64> = values.filter(|value| self.holds(*value)).collect();
        let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.most.filter(|most| self.holds(*most) && *most > 0.0);
        match self.scale {
            Scale::Linear => linear(most, greatest),
            Scale::Log => log(least, most.unwrap_or(greatest)),
        }
    }
}

fn linear(asked: Option<f64>, greatest: f64) -> Laid {
    let reach = asked.unwrap_or(if greatest > 0.0 { greatest } else { 1.0 });
    let step = nice(reach / TICKS);
    // Whoever named the end gets it; else it ends with a tick.
    let most = asked.unwrap_or((reach / step).ceil() * step);
    let count = (most / step + 1e-9).floor() as usize;
    Laid { scale: Scale::Linear, least: 0.0, most, ticks: (0..=count).map(|at| at as f64 * step).collect() }
}

fn log(least: f64, greatest: f64) -> Laid {
    let (least, greatest) =
        if least.is_finite() && greatest.is_finite() { (least.min(greatest), greatest) } else { (1.0, 10.0) };
    let (first, last) = (least.log10().floor() as i32, greatest.log10().ceil() as i32);
    let last = if last == first { first + 1 } else { last };
    // Over few decades, 2 and 5 of each are named, too.
    let within: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = (first..=last).flat_map(|power| within.iter().map(move |digit| digit * 10f64.powi(power)));
    let ends = (10f64.powi(first), 10f64.powi(last));
    // Decades that nobody needs are cut off at the nearest named value.
    let all: Vec<f64> = all.filter(|tick| (ends.0..=ends.1).contains(tick)).collect();
    let least = all.iter().copied().rfind(|tick| *tick <= least * (1.0 + 1e-9)).unwrap_or(ends.0);
    let most = all.iter().copied().find(|tick| *tick >= greatest * (1.0 - 1e-9)).unwrap_or(ends.1);
    let most = if most > least { most } else { least * 10.0 };
    let ticks = all.into_iter().filter(|tick| (least..=most).contains(tick)).collect();
    Laid { scale: Scale::Log, least, most, ticks }
}

/// The next 1, 2 or 5 of a power of ten.
fn nice(step: f64) -> f64 {
    let power = 10f64.powi(step.log10().floor() as i32);
    let digit =
        [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * (1.0 - 1e-9)).unwrap_or(10.0);
    digit * power
}

impl Laid {
    /// Where a value lies, from 0 at one end to 1 at the other; past an end it lies at it.
    pub(super) fn place(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.least) / (self.most - self.least),
            Scale::Log if planted("plot_log_is_linear") => (value - self.least) / (self.most - self.least),
            Scale::Log => (value / self.least).ln() / (self.most / self.least).ln(),
        };
        if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) }
    }
}

/// A tick's value in as few letters as it can be said in.
pub(super) fn short(value: f64) -> String {
    let (size, unit) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e4 => (1e3, "k"),
        v if v > 0.0 && v < 1e-3 => return format!("{value:.0e}"),
        _ => (1.0, ""),
    };
    let text = format!("{:.3}", value / size);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_with_a_tick() {
        let axis = Axis::linear("x").lay([3.0, 23.0].into_iter());
        assert_eq!(axis.ticks, [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!((axis.place(0.0), axis.place(12.5), axis.place(25.0)), (0.0, 0.5, 1.0));
        assert_eq!((axis.place(-5.0), axis.place(99.0), axis.place(f64::NAN)), (0.0, 1.0, 0.0));
    }

    #[test]
    fn equal_factors_are_equally_far_apart_on_a_log_axis() {
        let axis = Axis::log("x").lay([1.0, 10_000.0].into_iter());
        assert_eq!(axis.ticks, [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((axis.place(10.0) - 0.25).abs() < 1e-9 && (axis.place(1000.0) - 0.75).abs() < 1e-9);
        let narrow = Axis::log("x").lay([16.0, 300.0].into_iter());
        assert_eq!(narrow.ticks, [10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn an_end_that_was_named_is_the_end() {
        let axis = Axis::linear("x").up_to(42.0).lay([500.0].into_iter());
        assert_eq!((axis.place(42.0), axis.place(500.0)), (1.0, 1.0));
        assert!(axis.ticks.iter().all(|tick| *tick <= 42.0), "{axis:?}");
    }

    #[test]
    fn any_values_give_ends_that_are_apart_and_ticks_between_them() {
        let values = [f64::NAN, -1.0, 0.0, f64::INFINITY, 1e-12, 7.0, 1e15];
        for one in values {
            for other in values {
                for axis in [Axis::linear("x"), Axis::log("x")] {
                    let laid = axis.lay([one, other].into_iter());
                    assert!(laid.most > laid.least && laid.most.is_finite(), "{one} {other} {laid:?}");
                    let within = |tick: &f64| (laid.least..=laid.most * 1.000_001).contains(tick);
                    assert!(laid.ticks.iter().all(within) && laid.ticks.len() < 50, "{one} {other} {laid:?}");
                }
            }
        }
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.5, "0.5"), (1500.0, "1500"), (20_000.0, "20k"), (2.5e6, "2.5M"), (1e-5, "1e-5")]
        {
            assert_eq!(short(value), text);
        }
    }
}
