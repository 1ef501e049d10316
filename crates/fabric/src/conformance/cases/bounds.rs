//! Every bound crossed, by a little and by as much as can be.

use crate::OperationError;
use crate::conformance::Harness;
use crate::conformance::support::{Site, one_region};
use barn_layout::limits::OPERATION_BYTES_MAX;

const BYTES: u64 = 4096;

fn past_the_end(offset: u64, bytes: u64) -> OperationError {
    OperationError::OutOfBounds { offset, bytes, region_bytes: BYTES }
}

pub(crate) async fn ranges_past_the_end_are_refused(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, BYTES).await;
    let ranges: [(u64, usize); 10] = [
        (BYTES, 1),
        (BYTES - 1, 2),
        (BYTES - 7, 8),
        (BYTES + 1, 0),
        (0, BYTES as usize + 1),
        (1, BYTES as usize),
        (1 << 32, 8),
        (u64::MAX, 1),
        (u64::MAX - 7, 8),
        (u64::MAX - 4095, 4096),
    ];
    for (offset, bytes) in ranges {
        let refused = Err(past_the_end(offset, bytes as u64));
        assert_eq!(remote.read(offset, &mut vec![0; bytes]).await, refused, "read {offset}+{bytes}");
        assert_eq!(remote.write(offset, &vec![0; bytes]).await, refused, "write {offset}+{bytes}");
    }
    for offset in [BYTES, BYTES + 8, 1 << 32, u64::MAX - 7, u64::MAX] {
        let refused = Err(past_the_end(offset, 8));
        assert_eq!(remote.compare_swap(offset, 0, 1).await, refused, "compare-swap at {offset}");
        assert_eq!(remote.fetch_add(offset, 1).await, refused, "fetch-add at {offset}");
    }
    assert_eq!(remote.fetch_add(BYTES - 8, 1).await, Ok(0), "the grant is still good");
}

pub(crate) async fn operations_that_are_too_long_are_refused(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, OPERATION_BYTES_MAX as u64 + 4096).await;
    let mut long = vec![0; OPERATION_BYTES_MAX + 1];
    let refused = Err(OperationError::TooLong { bytes: OPERATION_BYTES_MAX + 1 });
    assert_eq!(remote.read(0, &mut long).await, refused);
    assert_eq!(remote.write(0, &long).await, refused);
    assert_eq!(remote.read(0, &mut long[..OPERATION_BYTES_MAX]).await, Ok(()));
}

pub(crate) async fn misaligned_atomics_are_refused(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, BYTES).await;
    for offset in [1, 2, 3, 4, 5, 6, 7, 9, 63, BYTES - 9] {
        let refused = Err(OperationError::Misaligned { offset });
        assert_eq!(remote.compare_swap(offset, 0, 1).await, refused);
        assert_eq!(remote.fetch_add(offset, 1).await, refused);
    }
    // A range is looked at before its alignment.
    assert_eq!(remote.fetch_add(BYTES - 7, 1).await, Err(past_the_end(BYTES - 7, 8)));
}

pub(crate) async fn versioned_reads_know_the_same_bounds(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (_client, remote, _) = one_region(&site, BYTES).await;
    let mut body = [0; 64];
    assert_eq!(remote.read_versioned(BYTES - 72, &mut body).await, Ok(Some(0)), "the last that fits");
    for offset in [BYTES - 64, BYTES - 8, BYTES, u64::MAX - 71, u64::MAX - 7] {
        let refused = Err(past_the_end(offset, 72));
        assert_eq!(remote.read_versioned(offset, &mut body).await, refused, "at {offset}");
    }
    for offset in [1, 4, 12, 63] {
        let refused = Err(OperationError::Misaligned { offset });
        assert_eq!(remote.read_versioned(offset, &mut body).await, refused, "at {offset}");
    }
    let mut long = vec![0; OPERATION_BYTES_MAX];
    assert_eq!(
        remote.read_versioned(0, &mut long).await,
        Err(OperationError::TooLong { bytes: OPERATION_BYTES_MAX + 8 })
    );
}
