//! What every store must do, run against each.
