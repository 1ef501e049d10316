//! Who holds which region: members, leases, placement.
#![forbid(unsafe_code)]
