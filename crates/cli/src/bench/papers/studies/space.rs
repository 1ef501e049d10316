//! RStore's section IV: the rows of `barn bench space`.

use std::io;

use crate::bench::papers::lab::Lab;
use crate::bench::space;
use crate::report::{Row, Spread};

/// The rows; of what was reserved and mapped, the largest.
pub(in crate::bench::papers) fn rows(lab: &mut Lab<'_>) -> io::Result<()> {
    let args = space::Args { rows: String::new(), quick: lab.quick };
    let report = lab.take("space", || space::run(&args))?;
    for what in ["reserve-cold", "reserve-cached", "map-cold", "map-cached"] {
        let of = report.rows.iter().filter(|row| row.name.starts_with(&format!("control/{what}/")));
        let bytes = |row: &Row| row.extra.get("bytes").and_then(serde_json::Value::as_u64);
        if let Some(row) = of.max_by_key(|row| bytes(row)) {
            let spread = Spread { median: row.value, low: row.low, high: row.high };
            lab.values.set_spread(format!("rstore/{what}"), spread);
        }
    }
    Ok(())
}
