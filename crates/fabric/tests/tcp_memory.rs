//! A peer that asks for far more than it takes costs the node little memory. Alone in its
//! binary, for it looks at what the whole process uses.

mod tcp_support;

use barn_fabric::Rights;
use barn_layout::frame::FrameKind;
use tcp_support::*;
use zerocopy::IntoBytes;

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn gigabytes_asked_for_and_never_taken_are_not_held() {
    let serving = Serving::start();
    let mut greedy: Vec<Raw> = (0..8).map(|_| serving.raw()).collect();
    let before = resident_bytes();
    for raw in &mut greedy {
        let key = raw.open(Rights::READ);
        let read = frame(FrameKind::Read as u8, 1, read_body(key, 0, 16 << 20).as_bytes());
        raw.say(&read.repeat(1000));
        // A request whose body is claimed, and comes in part.
        raw.say(&claim(FrameKind::Request as u8, 2, 64 << 20));
    }
    for _ in 0..20 {
        serving.serves();
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes more for eight peers that take nothing");
    assert_eq!(serving.count(|stats| &stats.expelled), 0);
}
