//! Placement, measured: balance, movement, nearness.
