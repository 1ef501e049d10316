//! What perftest measured: the field's own tools, between the same two devices in the same boot.
//!
//! The processor is emulated, so the figures mean nothing by themselves. Ours stand beside them as a
//! ratio.
//!
//! perftest counts the processor's ticks. Where the guest's kernel could not tell how long one takes
//! (seen once in six boots on a busy machine), it prints `inf`: the READs were made, but not measured.

/// What `ib_read_lat` found: the microseconds that a READ typically takes.
///
/// `#bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%`
pub(super) fn latency(output: &str) -> Result<String, String> {
    Ok(match microseconds(output)? {
        Some(us) => format!("ib_read_lat {us:.0} µs"),
        None => format!("ib_read_lat {UNMEASURED}"),
    })
}

/// The same as a number; none if it was not measured.
fn microseconds(output: &str) -> Result<Option<f64>, String> {
    Ok(Some(row(output, 9)?[4]).filter(|us| us.is_finite() && *us > 0.0))
}

/// What `ib_read_bw` found: READs per second.
///
/// `#bytes #iterations BW_peak BW_average MsgRate`, the last in millions
pub(super) fn rate(output: &str) -> Result<String, String> {
    Ok(match per_second(output)? {
        Some(rate) => format!("ib_read_bw {rate:.0} READs/s"),
        None => format!("ib_read_bw {UNMEASURED}"),
    })
}

/// The same as a number; none if it was not measured.
fn per_second(output: &str) -> Result<Option<f64>, String> {
    Ok(Some(row(output, 5)?[4] * 1e6).filter(|rate| rate.is_finite() && *rate > 0.0))
}

const UNMEASURED: &str = "ran, unmeasured: the guest does not know its processor's rate";

/// The last line that is `columns` numbers and nothing else.
fn row(output: &str, columns: usize) -> Result<Vec<f64>, String> {
    let numbers =
        |line: &str| -> Option<Vec<f64>> { line.split_whitespace().map(|word| word.parse().ok()).collect() };
    let row = output.lines().filter_map(numbers).rfind(|row| row.len() == columns);
    row.ok_or_else(|| "perftest printed no figures".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: &str = " local address: LID 0000 QPN 0x0011\n\
        ---------------------------------\n \
        #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   \
        99% percentile[usec]   99.9% percentile[usec] \n \
        64      1000          49.32          4832.94      56.89    \t       82.82       \t295.26 \t\t257.31  \
        \t\t4832.94\n---------------------------------\n";
    const BANDWIDTH: &str = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
        64         5000             1.13               1.09  \t\t   0.017876\n";

    #[test]
    fn figures_are_taken_from_the_table() {
        assert_eq!(latency(LATENCY).as_deref(), Ok("ib_read_lat 57 µs"));
        assert_eq!(rate(BANDWIDTH).as_deref(), Ok("ib_read_bw 17876 READs/s"));
    }

    #[test]
    fn an_output_without_figures_is_an_error() {
        assert!(latency("Failed to modify QP\n").is_err());
        assert!(latency(BANDWIDTH).is_err() && rate(LATENCY).is_err());
    }

    #[test]
    fn a_guest_that_does_not_know_its_clock_is_no_failure() {
        let said = latency(" 64 2000 inf inf inf \t inf \t-nan \t\tinf \t\tinf\n").expect("it ran");
        assert!(said.contains("unmeasured"), "{said}");
        assert!(rate(" 64 5000 0.00 0.00 0.000000\n").expect("it ran").contains("unmeasured"));
    }
}
