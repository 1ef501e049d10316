//! What perftest measured: the field's own tools, between the same two devices in the same boot.
//!
//! The processor is emulated, so the figures mean nothing by themselves. Ours stand beside them as a
//! ratio.

/// The microseconds that a READ typically takes, of `ib_read_lat`.
///
/// `#bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%`
pub(super) fn typical_us(output: &str) -> Result<f64, String> {
    row(output, 9).map(|columns| columns[4])
}

/// The operations per second, of `ib_read_bw`.
///
/// `#bytes #iterations BW_peak BW_average MsgRate`, the last in millions
pub(super) fn per_second(output: &str) -> Result<f64, String> {
    row(output, 5).map(|columns| columns[4] * 1e6)
}

/// The last line that is `columns` numbers and nothing else.
fn row(output: &str, columns: usize) -> Result<Vec<f64>, String> {
    let numbers = |line: &str| -> Option<Vec<f64>> {
        line.split_whitespace()
            .map(|word| word.parse().ok().filter(|number: &f64| number.is_finite()))
            .collect()
    };
    let row = output.lines().filter_map(numbers).rfind(|row| row.len() == columns);
    let row = row.ok_or("perftest printed no figures")?;
    // Zero is what it prints where it measured nothing.
    if row[columns - 1] > 0.0 { Ok(row) } else { Err("perftest measured nothing".into()) }
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
        assert_eq!(typical_us(LATENCY), Ok(56.89));
        let rate = per_second(BANDWIDTH).expect("there");
        assert!((rate - 17_876.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn an_output_without_figures_is_an_error() {
        assert!(typical_us("Failed to modify QP\n").is_err());
        assert!(typical_us(BANDWIDTH).is_err());
        assert!(per_second(" 64 5000 0.00 0.00 0.000000\n").is_err());
    }
}
