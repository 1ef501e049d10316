//! The last samples of one way, their average and their deviation.
//!
//! Samples are whole sixteenths of a nanosecond, and so are their sums: what was added is taken away
//! again exactly, however many samples have passed.

/// Parts of a nanosecond: a READ that is one of a batch may take a few nanoseconds.
const PARTS: f32 = 16.0;
/// 4 s, in parts. The square of a sample has 72 bits then, and the sum of 2^32 squares fits 128.
const SAMPLE_MAX: f32 = 4e9 * PARTS;
/// Samples, before one can be called an outlier by the deviation: of fewer that says little.
const JUDGED_MIN: usize = 8;
/// Of so few, one that is so many times as long as most was a wait of the client's own. Of samples that are spread as
/// service times of an M/M/1 queue are, one in 256 is.
const FAR_OFF: u64 = 8;
/// The least deviation, as a part of the average. Without one, where all samples so far were the
/// same every other would be an outlier.
const DEVIATION_MIN: f64 = 0.01;

/// The last samples.
#[derive(Debug)]
pub(super) struct Window {
    ring: Box<[u64]>,
    len: usize,
    next: usize,
    sum: u64,
    squares: u128,
    /// In nanoseconds.
    average: f32,
    outlier_deviations: f64,
    /// Of the last samples, outliers among them: whether each was discarded, and how many were.
    discards: Box<[bool]>,
    discards_next: usize,
    discarded: usize,
}

impl Window {
    pub(super) fn new(samples: usize, outlier_deviations: f32) -> Self {
        Self {
            ring: vec![0; samples.max(1)].into(),
            len: 0,
            next: 0,
            sum: 0,
            squares: 0,
            average: 0.0,
            outlier_deviations: f64::from(outlier_deviations),
            discards: vec![false; samples.max(1)].into(),
            discards_next: 0,
            discarded: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// In nanoseconds.
    #[inline]
    pub(super) fn average(&self) -> f32 {
        self.average
    }

    /// Adds a sample, unless it is an outlier. Says which.
    pub(super) fn add(&mut self, nanoseconds: f32) -> bool {
        let sample = (nanoseconds.max(0.0) * PARTS).min(SAMPLE_MAX) as u64;
        let is_outlier = self.is_outlier(sample);
        let oldest = std::mem::replace(&mut self.discards[self.discards_next], is_outlier);
        self.discards_next = after(self.discards_next, self.discards.len());
        self.discarded = self.discarded + usize::from(is_outlier) - usize::from(oldest);
        if is_outlier {
            return false;
        }
        if self.len == self.ring.len() {
            let oldest = self.ring[self.next];
            self.sum -= oldest;
            self.squares -= u128::from(oldest) * u128::from(oldest);
        }
        let is_more = self.len < self.ring.len();
        self.len += usize::from(is_more);
        self.ring[self.next] = sample;
        self.next = after(self.next, self.ring.len());
        self.sum += sample;
        self.squares += u128::from(sample) * u128::from(sample);
        if is_more && self.len == JUDGED_MIN {
            self.drop_far_off();
        }
        self.average = match self.len < JUDGED_MIN {
            true => self.median() as f32,
            false => (self.sum as f64 / self.len as f64) as f32,
        } / PARTS;
        true
    }

    /// Of few samples: half of them are no longer. One long wait among them says nothing about the others.
    fn median(&self) -> u64 {
        let mut few = [0; JUDGED_MIN];
        let few = &mut few[..self.len.min(JUDGED_MIN)];
        few.copy_from_slice(&self.ring[..few.len()]);
        few.sort_unstable();
        few.get(few.len().saturating_sub(1) / 2).copied().unwrap_or(0)
    }

    /// The first samples were added whatever they were: one that is far off is dropped as soon as there are enough
    /// to tell. If there are more, it is the way that has them.
    fn drop_far_off(&mut self) {
        let longest = self.median().saturating_mul(FAR_OFF);
        if self.ring[..self.len].iter().filter(|sample| **sample > longest).count() > 1 {
            return;
        }
        let mut kept = 0;
        for at in 0..self.len {
            let sample = self.ring[at];
            if sample <= longest {
                self.ring[kept] = sample;
                kept += 1;
            } else {
                self.sum -= sample;
                self.squares -= u128::from(sample) * u128::from(sample);
            }
        }
        (self.len, self.next) = (kept, kept % self.ring.len());
    }

    fn is_outlier(&self, sample: u64) -> bool {
        if self.len < JUDGED_MIN {
            return false;
        }
        let one_of = 1.0 / self.len as f64;
        let average = self.sum as f64 * one_of;
        // In two halves: a conversion of 128 bits at once is a call.
        let squares = (self.squares >> 64) as u64 as f64 * 2_f64.powi(64) + self.squares as u64 as f64;
        let least = (average * DEVIATION_MIN).max(f64::from(PARTS));
        let variance = (squares * one_of - average * average).max(least * least);
        let off = sample as f64 - average;
        off * off >= self.outlier_deviations * self.outlier_deviations * variance
    }

    /// Of as many samples as count, more were discarded than kept: it is those kept that no longer
    /// hold.
    pub(super) fn is_out_of_date(&self) -> bool {
        2 * self.discarded > self.discards.len()
    }

    pub(super) fn clear(&mut self) {
        (self.len, self.next, self.sum, self.squares, self.average) = (0, 0, 0, 0, 0.0);
        self.discards.fill(false);
        self.discarded = 0;
    }
}

/// The place after this one, in a ring.
#[inline]
fn after(at: usize, len: usize) -> usize {
    if at + 1 == len { 0 } else { at + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_few_that_is_far_off_does_not_count() {
        for late in 0..12 {
            let mut window = Window::new(100, 3.0);
            for at in 0..12 {
                window.add(if at == late { 5e6 } else { 8_000.0 + at as f32 });
                // The very first is all there is.
                let average = window.average();
                assert!(
                    (at == 0 && late == 0) || (8_000.0..8_012.0).contains(&average),
                    "{late} {at}: {average}"
                );
            }
            assert!(window.len() >= 11 && window.len() <= 12);
        }
        // Several of them: then that is how it is, and goes on to count.
        for many in 2..7 {
            let mut window = Window::new(100, 3.0);
            for at in 0..100 {
                window.add(if at % 8 < many { 5e6 } else { 8_000.0 });
            }
            let wanted = 5e6 * many as f32 / 8.0;
            assert_eq!(window.len(), 100, "{many}");
            assert!((window.average() / wanted - 1.0).abs() < 0.1, "{many}: {}", window.average());
        }
    }

    #[test]
    fn a_window_of_few_has_the_last_ones() {
        for samples in 1..12 {
            let mut window = Window::new(samples, 1e9);
            for at in 0..100 {
                window.add(1_000.0 + at as f32);
                let (last, first) = (1_000.0 + at as f32, 1_000.0 + (at + 1 - window.len() as i32) as f32);
                assert!(window.average() >= first && window.average() <= last, "{samples} {at}");
            }
            assert_eq!(window.len(), samples);
        }
    }
}
