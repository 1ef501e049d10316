//! A plot as SVG: frame, ticks, curves, legend.

use std::fmt::Write;

use super::axis::{Laid, short};
use super::{Plot, Point, Series};
use crate::markup::escape;

const WIDTH: f64 = 640.0;
/// The frame in which the curves are.
const LEFT: f64 = 78.0;
const RIGHT: f64 = 618.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 284.0;
/// From the frame to the first line of the legend, and from line to line.
const TO_LEGEND: f64 = 62.0;
const LINE: f64 = 18.0;
/// A letter of the legend is about so wide.
const LETTER: f64 = 6.4;
/// A line of the legend's mark, with the space around it.
const KEY: f64 = 44.0;
/// Half of a marker, and of an error bar's end.
const MARK: f64 = 3.6;
/// Colours, markers and dashes: then they begin again.
const KINDS: usize = 6;

/// Colours that people of every kind of sight can tell apart (Okabe and Ito's), darker on white and lighter
/// on black. A page needs it once; a document of one plot carries it.
pub const STYLE: &str = "\
.bp{font:12px system-ui,sans-serif;--bp-ink:#1a1a1a;--bp-faint:#b8b8b8;--bp-back:#ffffff;\
--bp-0:#0072b2;--bp-1:#d55e00;--bp-2:#00795a;--bp-3:#b0508a;--bp-4:#8a6100;--bp-5:#1f1f1f}\
@media(prefers-color-scheme:dark){.bp{--bp-ink:#e8e8e8;--bp-faint:#5c5c5c;--bp-back:#161616;\
--bp-0:#56b4e9;--bp-1:#ff8c42;--bp-2:#2fd3a6;--bp-3:#ea9fcb;--bp-4:#f0c94a;--bp-5:#f2f2f2}}\
.bp text{fill:var(--bp-ink);stroke:none}.bp .bp-back{fill:var(--bp-back)}\
.bp .bp-grid{stroke:var(--bp-faint);stroke-width:.6;fill:none}.bp .bp-frame{stroke:var(--bp-ink);fill:none}\
.bp .bp-change{stroke:var(--bp-1);stroke-dasharray:4 3;fill:none}\
.bp .bp-s0{color:var(--bp-0)}.bp .bp-s1{color:var(--bp-1)}.bp .bp-s2{color:var(--bp-2)}\
.bp .bp-s3{color:var(--bp-3)}.bp .bp-s4{color:var(--bp-4)}.bp .bp-s5{color:var(--bp-5)}\
.bp g{stroke:currentColor;fill:none;stroke-width:1.6}";

const DASHES: [&str; KINDS] = ["", "7 3", "2 3", "9 3 2 3", "4 2", "12 3"];

/// Plots one above the other, as one document.
pub fn stack(plots: &[Plot]) -> String {
    let height: f64 = plots.iter().map(height).sum();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n<style>{STYLE}</style>\n"
    );
    let mut top = 0.0;
    for plot in plots {
        svg += &element(plot, top);
        top += self::height(plot);
    }
    svg + "</svg>\n"
}

/// How high a plot is: as many lines as its legend needs.
fn height(plot: &Plot) -> f64 {
    let lines = legend(&plot.series).last().map_or(0.0, |(_, y)| y / LINE + 1.0);
    BOTTOM + TO_LEGEND + lines * LINE
}

/// One plot, `top` below the upper edge of whatever it is in.
pub(super) fn element(plot: &Plot, top: f64) -> String {
    let height = height(plot);
    let (title, caption) = (escape(&plot.title), escape(&plot.caption));
    let mut svg = format!(
        "<svg class=\"bp\" role=\"img\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\
         <title>{title}</title><desc>{caption}</desc>\n\
         <rect class=\"bp-back\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-weight=\"bold\">{title}</text>\n"
    );
    let seen = || plot.series.iter().flat_map(|series| &series.points).filter(|point| shown(plot, point));
    let x = plot.x.lay(seen().map(|point| point.x).chain(plot.changes.iter().copied()));
    let y = plot.y.lay(seen().flat_map(|point| [point.low, point.y, point.high]));
    axes(&mut svg, plot, &x, &y);
    for change in plot.changes.iter().filter(|change| plot.x.holds(**change)) {
        let at = across(&x, *change);
        let _ = writeln!(svg, "<path class=\"bp-change\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>");
    }
    for (number, series) in plot.series.iter().enumerate() {
        curve(&mut svg, plot, (&x, &y), number, series);
    }
    for (number, (series, (left, down))) in plot.series.iter().zip(legend(&plot.series)).enumerate() {
        let (left, down) = (LEFT + left, BOTTOM + TO_LEGEND + down);
        let (middle, end) = (down - 4.0, left + 30.0);
        let _ = write!(svg, "<g class=\"bp-s{}\"><path d=\"M{left:.1} {middle}H{end:.1}\"", number % KINDS);
        let _ = write!(svg, "{}/>", dashes(number));
        if series.marked {
            mark(&mut svg, number, left + 15.0, middle);
        }
        let name = escape(&series.name);
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{down}\">{name}</text></g>", end + 5.0);
    }
    svg + "</svg>\n"
}

fn shown(plot: &Plot, point: &Point) -> bool {
    plot.x.holds(point.x) && plot.y.holds(point.y)
}

fn across(x: &Laid, value: f64) -> f64 {
    LEFT + x.place(value) * (RIGHT - LEFT)
}

fn up(y: &Laid, value: f64) -> f64 {
    BOTTOM - y.place(value) * (BOTTOM - TOP)
}

fn axes(svg: &mut String, plot: &Plot, x: &Laid, y: &Laid) {
    for tick in &x.ticks {
        let (at, below, text) = (across(x, *tick), BOTTOM + 16.0, short(*tick));
        let _ = write!(svg, "<path class=\"bp-grid\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>");
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{text}</text>");
    }
    for tick in &y.ticks {
        let (at, left, text) = (up(y, *tick), LEFT - 6.0, short(*tick));
        let _ = write!(svg, "<path class=\"bp-grid\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>");
        let _ = writeln!(svg, "<text x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>", at + 4.0);
    }
    let (middle, half) = ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0);
    let (across, along) = (escape(&plot.x.label), escape(&plot.y.label));
    let _ = write!(
        svg,
        "<path class=\"bp-frame\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>\n\
         <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{across}</text>\n\
         <text x=\"16\" y=\"{half}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {half})\">{along}</text>\n",
        BOTTOM + 36.0,
    );
}

/// The line, then the bars and the marks over it.
fn curve(svg: &mut String, plot: &Plot, (x, y): (&Laid, &Laid), number: usize, series: &Series) {
    let points: Vec<&Point> = series.points.iter().filter(|point| shown(plot, point)).collect();
    let mut path = String::new();
    for point in &points {
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", across(x, point.x), up(y, point.y));
    }
    let _ = write!(svg, "<g class=\"bp-s{}\">", number % KINDS);
    if !path.is_empty() {
        let _ = write!(svg, "<path d=\"{path}\"{}/>", dashes(number));
    }
    for point in points.iter().filter(|_| series.marked) {
        let at = across(x, point.x);
        // Where the lowest cannot be shown, the bar ends at the edge.
        let (low, high) = (up(y, point.low), up(y, point.high));
        if low - high > 1.0 {
            let (left, right) = (at - MARK, at + MARK);
            let _ = write!(
                svg,
                "<path stroke-width=\"1\" d=\"M{at:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\"/>"
            );
        }
        mark(svg, number, at, up(y, point.y));
    }
    svg.push_str("</g>\n");
}

fn dashes(number: usize) -> String {
    match DASHES[number % KINDS] {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    }
}

/// Circle, square, triangle, diamond, cross, plus.
fn mark(svg: &mut String, number: usize, x: f64, y: f64) {
    let (left, right, top, bottom) = (x - MARK, x + MARK, y - MARK, y + MARK);
    let path = match number % KINDS {
        0 => {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{MARK}\" fill=\"currentColor\"/>");
            return;
        }
        1 => format!("M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}Z"),
        2 => format!("M{x:.1} {top:.1}L{right:.1} {bottom:.1}H{left:.1}Z"),
        3 => format!("M{x:.1} {top:.1}L{right:.1} {y:.1}L{x:.1} {bottom:.1}L{left:.1} {y:.1}Z"),
        4 => format!("M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}"),
        _ => format!("M{left:.1} {y:.1}H{right:.1}M{x:.1} {top:.1}V{bottom:.1}"),
    };
    let _ = write!(svg, "<path d=\"{path}\" fill=\"currentColor\"/>");
}

/// Where each name of the legend stands: as many in a line as fit.
fn legend(series: &[Series]) -> Vec<(f64, f64)> {
    let (mut places, mut left, mut down) = (Vec::new(), 0.0, 0.0);
    for one in series {
        let wide = KEY + one.name.chars().count() as f64 * LETTER;
        if left > 0.0 && LEFT + left + wide > WIDTH {
            (left, down) = (0.0, down + LINE);
        }
        places.push((left, down));
        left += wide;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::markup::tests::assert_well_formed;
    use crate::plot::Axis;
    use crate::report::Spread;

    fn plot(points: Vec<Point>) -> Plot {
        Plot::new("t", Axis::linear("x"), Axis::linear("y")).with(Series::new("s", points))
    }

    #[test]
    fn the_corners_of_the_axes_are_the_corners_of_the_frame() {
        let svg = plot(vec![Point::exact(0.0, 0.0), Point::exact(10.0, 10.0)]).svg();
        assert!(svg.contains("d=\"M78.0 284.0L618.0 34.0\""), "{svg}");
        assert!(svg.contains("<circle cx=\"78.0\" cy=\"284.0\""), "{svg}");
        assert_well_formed(&svg);
    }

    #[test]
    fn an_error_bar_reaches_from_the_lowest_to_the_highest() {
        let spread = Spread { median: 5.0, low: 0.0, high: 10.0 };
        let svg = plot(vec![Point::new(10.0, spread)]).svg();
        assert!(svg.contains("M618.0 284.0V34.0"), "{svg}");
        assert!(!plot(vec![Point::exact(1.0, 1.0)]).svg().contains("stroke-width=\"1\""));
    }

    #[test]
    fn what_is_past_a_named_end_is_drawn_at_the_edge() {
        let mut plot = plot(vec![Point::exact(1.0, 1000.0)]);
        plot.y = Axis::linear("y").up_to(10.0);
        assert!(plot.svg().contains("cy=\"34.0\""));
    }

    #[test]
    fn zero_is_left_out_on_a_log_axis() {
        let mut plot = plot(vec![Point::exact(1.0, 0.0), Point::exact(2.0, 10.0)]);
        plot.y = Axis::log("y");
        assert_eq!(plot.svg().matches("<circle").count(), 2, "one point, and the legend's");
    }

    #[test]
    fn no_two_of_the_first_six_curves_look_alike() {
        let mut looks: Vec<String> = (0..KINDS)
            .map(|number| {
                let mut svg = String::new();
                mark(&mut svg, number, 0.0, 0.0);
                svg
            })
            .chain((0..KINDS).map(dashes))
            .collect();
        looks.sort();
        looks.dedup();
        assert_eq!(looks.len(), 2 * KINDS);
    }

    #[test]
    fn a_long_legend_takes_more_lines_and_stays_within() {
        let names = ["a name of some length", "another one that is long, too", "a third of the same", "d"];
        let mut plot = Plot::new("t", Axis::linear("x"), Axis::linear("y"));
        for name in names {
            plot = plot.with(Series::new(name, vec![Point::exact(1.0, 1.0)]));
        }
        let places = legend(&plot.series);
        assert!(places.last().is_some_and(|(_, down)| *down >= LINE), "{places:?}");
        for ((left, down), series) in places.iter().zip(&plot.series) {
            assert!(LEFT + left + KEY + series.name.len() as f64 * LETTER <= WIDTH);
            assert!(BOTTOM + TO_LEGEND + down < height(&plot));
        }
    }

    #[test]
    fn plots_of_a_stack_stand_below_each_other() {
        let one = plot(vec![Point::exact(1.0, 1.0)]);
        let svg = stack(&[one.clone(), one.clone()]);
        assert!(svg.contains(&format!("y=\"{}\" width", height(&one))), "{svg}");
        assert_well_formed(&svg);
    }
}
