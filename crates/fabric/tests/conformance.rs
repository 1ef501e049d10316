//! The conformance suite: one test of each case on each transport.

use barn_fabric::Messaging;
use barn_fabric::conformance::{Real, RealKind, Simulated, Style};
use barn_fabric::conformance_tests;

conformance_tests!(shm_ring, || Real::new(RealKind::Shm(Messaging::Ring), Style::InPlace));
conformance_tests!(shm_request_region, || Real::new(
    RealKind::Shm(Messaging::RequestRegion { window: 16 }),
    Style::InPlace
));
conformance_tests!(shm_runtime, || Real::new(RealKind::Shm(Messaging::Ring), Style::Runtime));
conformance_tests!(tcp, || Real::new(RealKind::Tcp, Style::InPlace));
conformance_tests!(tcp_runtime, || Real::new(RealKind::Tcp, Style::Runtime));
conformance_tests!(simulated, || Simulated::new(seed()));

/// The world that the simulated cases run in; another one by `BARN_SEED=N cargo test …`.
fn seed() -> u64 {
    std::env::var("BARN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}
