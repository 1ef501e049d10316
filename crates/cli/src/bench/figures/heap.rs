//! FaRM's section 3.2: what size classes waste.

use std::io;

use barn_heap::HEADER_BYTES;
use barn_heap::size_class::{SLOT_BYTES_MAX, SLOT_BYTES_MIN, Size};
use barn_layout::limits::WORD_BYTES;

use super::{Scale, figure};
use crate::report::{Bound, Row};

pub(super) const ROWS: &[&str] = &["heap/fragmentation/mean", "heap/fragmentation/worst"];

const PAPER: &str = "FaRM 3.2";

/// The part of a slot that is wasted, over all sizes in words.
pub(super) fn measure(_: Scale) -> io::Result<Vec<Row>> {
    let (mut sum, mut worst, mut count) = (0.0, 0.0f64, 0u32);
    for bytes in (SLOT_BYTES_MIN..=SLOT_BYTES_MAX).step_by(WORD_BYTES) {
        let size = Size::for_object(bytes - HEADER_BYTES)
            .ok_or_else(|| io::Error::other(format!("no slot is as long as {bytes} bytes")))?;
        let wasted = (size.slot_bytes - bytes) as f64 / size.slot_bytes as f64;
        (sum, worst, count) = (sum + wasted, worst.max(wasted), count + 1);
    }
    let mean = sum / f64::from(count);
    Ok(vec![
        figure(ROWS[0], "of a slot", mean, (PAPER, 0.018), Bound::AtMost(0.018)).with("sizes", count),
        figure(ROWS[1], "of a slot", worst, (PAPER, 0.036), Bound::AtMost(0.036)).with("sizes", count),
    ])
}
