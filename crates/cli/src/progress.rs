//! A progress bar on standard error, silent where that is not a terminal.
//!
//! Sixty lines of our own rather than a dependency: a benchmark needs one line that shows
//! how far it is and what it is measuring. It never draws more than ten times a second, so
//! that drawing does not disturb what is measured.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Ten redraws a second are enough for eyes, and too few to disturb a measured core.
const REDRAW_MS_MIN: Duration = Duration::from_millis(100);
const BAR_CELLS: usize = 24;
/// Stands for a total that nobody knows.
const UNKNOWN: u64 = u64::MAX;

/// How far a piece of work has come.
#[derive(Debug)]
pub struct Progress {
    total: u64,
    done: u64,
    started: Instant,
    drawn: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// A bar for `total` steps.
    pub fn new(total: u64) -> Self {
        let visible = io::stderr().is_terminal();
        Self { total, done: 0, started: Instant::now(), drawn: None, visible }
    }

    /// A line for work of which nobody knows how much it is.
    pub fn endless() -> Self {
        Self::new(UNKNOWN)
    }

    /// Says what is being worked on now.
    pub fn show(&mut self, what: &str) {
        self.draw(what);
    }

    /// One step is done; `what` comes next.
    pub fn step(&mut self, what: &str) {
        self.done = self.total.min(self.done + 1);
        self.draw(what);
    }

    /// So many steps are done, all in all; `what` comes next.
    pub fn reach(&mut self, done: u64, what: &str) {
        self.done = if self.total == UNKNOWN { done } else { done.min(self.total) };
        self.draw(what);
    }

    fn draw(&mut self, what: &str) {
        let recent = self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW_MS_MIN);
        if !self.visible || (recent && self.done < self.total) {
            return;
        }
        self.drawn = Some(Instant::now());
        // A terminal that has gone away is no reason to stop measuring.
        let _ = write!(io::stderr(), "\r\x1b[2K{}", self.line(what));
    }

    fn line(&self, what: &str) -> String {
        let seconds = self.started.elapsed().as_secs();
        if self.total == UNKNOWN {
            return format!("{seconds}s {what}");
        }
        // Nothing to do is done.
        let filled = (u128::from(self.done) * BAR_CELLS as u128).checked_div(self.total.into());
        let filled = filled.map_or(BAR_CELLS, |cells| cells as usize);
        let (full, empty) = ("█".repeat(filled), "░".repeat(BAR_CELLS - filled));
        format!("{full}{empty} {}/{} {seconds}s {what}", self.done, self.total)
    }
}

/// The line is wiped, so that the table starts on a clean one.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.visible && self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_never_overflows() {
        let mut bar = Progress { total: 2, done: 0, started: Instant::now(), drawn: None, visible: false };
        assert!(bar.line("a").starts_with('░'));
        for _ in 0..5 {
            bar.step("a");
        }
        assert!(bar.line("read-64").ends_with(" 2/2 0s read-64"), "{}", bar.line("read-64"));
        assert!(!bar.line("a").contains('░'));
        bar.reach(1, "a");
        assert!(bar.line("a").contains(" 1/2 "));
        bar.reach(u64::MAX, "a");
        assert!(bar.line("a").contains(" 2/2 "));
        bar.total = UNKNOWN;
        let mut endless = bar;
        endless.reach(7, "7 entries");
        assert_eq!(endless.line("7 entries"), "0s 7 entries");
    }
}
