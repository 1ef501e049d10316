//! Calls of every length, and every way that a service may answer.

use crate::CallError;
use crate::conformance::Harness;
use crate::conformance::service::{BUSY, ECHO, REFUSE, SILENT, SIZE, SUM, UNKNOWN, sum};
use crate::conformance::support::{Site, call, numbered, pattern, rounds};
use crate::messaging::request_region::SLOT_BODY_BYTES_MAX;
use crate::messaging::ring::piece_bytes_max;
use barn_layout::channel::RING_BYTES_DEFAULT;
use barn_layout::limits::MESSAGE_BYTES_MAX;

pub(crate) async fn calls_of_every_small_length_are_echoed(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for bytes in 0..300 {
        let sent = numbered(bytes as u64, bytes);
        assert_eq!(call(&client, ECHO, &sent).await.unwrap(), sent, "{bytes} bytes");
    }
}

pub(crate) async fn calls_at_the_edges_of_pieces_are_echoed(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let piece = piece_bytes_max(RING_BYTES_DEFAULT);
    let edges = [
        SLOT_BODY_BYTES_MAX,
        1024,
        4096,
        16 << 10,
        piece,
        2 * piece,
        4 * piece,
        64 << 10,
        RING_BYTES_DEFAULT,
        1 << 20,
    ];
    for edge in edges {
        for bytes in [edge - 1, edge, edge + 1] {
            let sent = numbered(bytes as u64, bytes);
            assert!(call(&client, ECHO, &sent).await.unwrap() == sent, "{bytes} bytes");
        }
    }
}

pub(crate) async fn the_longest_request_arrives_whole(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let longest = pattern(MESSAGE_BYTES_MAX);
    assert_eq!(call(&client, SUM, &longest).await.unwrap(), sum(&longest));
    assert_eq!(call(&client, ECHO, b"after it").await.unwrap(), b"after it");
}

pub(crate) async fn the_longest_reply_arrives_whole(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let longest = call(&client, SIZE, &(MESSAGE_BYTES_MAX as u32).to_le_bytes()).await.unwrap();
    assert!(longest == pattern(MESSAGE_BYTES_MAX), "{} bytes came", longest.len());
    assert_eq!(call(&client, ECHO, b"after it").await.unwrap(), b"after it");
}

pub(crate) async fn a_request_too_long_by_one_is_refused(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let long = vec![0; MESSAGE_BYTES_MAX + 1];
    let refused = Err(CallError::TooLong { bytes: MESSAGE_BYTES_MAX + 1 });
    assert_eq!(call(&client, ECHO, &long).await, refused);
    assert_eq!(call(&client, ECHO, b"after it").await.unwrap(), b"after it");
}

pub(crate) async fn a_reply_too_long_by_one_is_refused(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let refused = call(&client, SIZE, &(MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes()).await;
    assert!(matches!(&refused, Err(CallError::Refused(why)) if why.contains("longer")), "{refused:?}");
    assert_eq!(call(&client, ECHO, b"after it").await.unwrap(), b"after it");
}

pub(crate) async fn an_unknown_method_is_named(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for method in [UNKNOWN, 0, u16::MAX] {
        assert_eq!(call(&client, method, b"who?").await, Err(CallError::UnknownMethod { method }));
    }
}

pub(crate) async fn a_refusal_says_why(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for why in ["", "no", "keine Zeit, schöne Grüße ☂", &"because ".repeat(20_000)] {
        assert_eq!(call(&client, REFUSE, why.as_bytes()).await, Err(CallError::Refused(why.to_string())));
    }
}

pub(crate) async fn a_busy_service_says_so(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    assert_eq!(call(&client, BUSY, b"now?").await, Err(CallError::Busy));
    assert!(!CallError::Busy.outcome_is_unknown(), "nothing was done");
}

pub(crate) async fn a_dropped_reply_is_a_refusal(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let refused = Err(CallError::Refused("the service gave no answer".to_string()));
    assert_eq!(call(&client, SILENT, b"hello?").await, refused);
}

pub(crate) async fn an_answer_replaces_what_was_there(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let mut reply = vec![0xee; 5_000];
    for bytes in [100, 0, 3_000, 1, 70_000, 2] {
        let sent = numbered(9, bytes);
        client.call(ECHO, &sent, &mut reply).await.unwrap();
        assert_eq!(reply, sent, "{bytes} bytes");
    }
}

pub(crate) async fn calls_follow_each_other_for_long(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let mut reply = Vec::new();
    // Many times round every ring and window.
    for round in 0..rounds(10_000) {
        let sent = round.to_le_bytes();
        client.call(ECHO, &sent[..(round % 9) as usize], &mut reply).await.unwrap();
        assert_eq!(reply, sent[..(round % 9) as usize]);
    }
}
