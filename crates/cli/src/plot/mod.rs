//! Curves as SVG: lines with markers and error bars on linear or logarithmic axes.
//!
//! A plotter of our own rather than a dependency: the figures of five papers need lines, ticks and a
//! legend, and a page that carries its plots inside needs them small, and readable by light and by dark.
//!
//! What always holds:
//! - every point lies within the frame: what is past the end of an axis is drawn at its edge;
//! - what a logarithmic axis cannot hold (zero, less, no number) is left out;
//! - a series is told by its marker and its dashes, and not by its colour alone;
//! - text is escaped, whatever it is.

mod axis;
mod draw;

pub use axis::{Axis, Scale};
pub use draw::{STYLE, stack};

use crate::report::Spread;

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What stands above it.
    pub title: String,
    /// What stands below it: what is scaled, and how it was measured.
    pub caption: String,
    /// The axis at the bottom.
    pub x: Axis,
    /// The axis on the left.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// Places on the x axis at which something happened.
    pub changes: Vec<f64>,
}

/// A curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// From left to right.
    pub points: Vec<Point>,
    /// Whether every point has a mark.
    pub marked: bool,
}

/// A point, and from where to where it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where it is from left to right.
    pub x: f64,
    /// The median.
    pub y: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

impl Point {
    /// A point whose spread is known.
    pub fn new(x: f64, spread: Spread) -> Self {
        Self { x, y: spread.median, low: spread.low, high: spread.high }
    }

    /// A point that is just there.
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

impl Series {
    /// A curve with a mark at each point.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { name: name.into(), points, marked: true }
    }

    /// A curve with so many points that marks would hide it.
    pub fn line(name: impl Into<String>, points: Vec<Point>) -> Self {
        Self { marked: false, ..Self::new(name, points) }
    }
}

impl Plot {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), caption: String::new(), x, y, series: Vec::new(), changes: Vec::new() }
    }

    /// Says what is scaled.
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// Adds a curve; one without points is left out.
    pub fn with(mut self, series: Series) -> Self {
        if !series.points.is_empty() {
            self.series.push(series);
        }
        self
    }

    /// The file's name: the title in small letters, digits and dashes.
    pub fn file_name(&self) -> String {
        let mut name = String::new();
        for character in self.title.chars() {
            match character {
                letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
                _ if name.ends_with('-') || name.is_empty() => {}
                _ => name.push('-'),
            }
        }
        format!("{}.svg", name.trim_end_matches('-'))
    }

    /// A document of its own.
    pub fn svg(&self) -> String {
        stack(std::slice::from_ref(self))
    }

    /// An element for a page that has [`STYLE`].
    pub fn element(&self) -> String {
        draw::element(self, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::tests::assert_well_formed;

    fn plot() -> Plot {
        let axis = |label| Axis::linear(label);
        Plot::new("HERD, Figure 9: throughput", axis("PUTs, %"), axis("operations/s"))
            .with(Series::new("a", vec![Point::exact(0.0, 0.0), Point::exact(100.0, 5.0)]))
    }

    #[test]
    fn a_file_is_named_by_the_title() {
        assert_eq!(plot().file_name(), "herd-figure-9-throughput.svg");
    }

    #[test]
    fn hostile_text_stays_text_in_a_well_formed_document() {
        let mut plot = plot().caption("<&\"'>");
        plot.title = "</text><script>".into();
        plot.series[0].name = "<b> & \"c\"".into();
        plot.x.label = "</svg>".into();
        let svg = plot.svg();
        assert_well_formed(&svg);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
    }

    #[test]
    fn a_curve_without_points_has_no_place_in_the_legend() {
        assert_eq!(plot().with(Series::new("nobody", Vec::new())).series.len(), 1);
    }

    #[test]
    fn a_plot_of_nothing_is_still_a_document() {
        let empty = Plot::new("nothing", Axis::log("x"), Axis::linear("y"));
        assert_well_formed(&empty.svg());
        let nothing = Series::new("s", vec![Point::exact(f64::NAN, 1.0), Point::exact(0.0, f64::INFINITY)]);
        assert_well_formed(&empty.with(nothing).svg());
    }
}
