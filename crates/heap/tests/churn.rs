//! A short churn: the same program as the example of ten million steps.

#[path = "../examples/churn.rs"]
#[allow(dead_code)]
mod churn;

#[test]
fn churn_loses_nothing() {
    let report = churn::churn(200_000, 128 << 20, 7);
    println!("{report:?}");
    assert_eq!(report.leak, None);
    assert!(report.held_bytes_max <= 128 << 20, "{report:?}");
    assert!(report.filled_percent.0 > 79.0, "{report:?}");
    assert!(report.created == 200_000 && report.epochs > 0 && report.evicted == 0, "{report:?}");
}
