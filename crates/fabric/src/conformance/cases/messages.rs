//! Messages that expect no answer, both ways.

use crate::CallError;
use crate::conformance::Harness;
use crate::conformance::service::ECHO;
use crate::conformance::support::{SHORT, Site, call, numbered, pattern, poll_and_drop};
use crate::{Connection, PeerId};
use barn_layout::limits::MESSAGE_BYTES_MAX;

fn length(number: u64) -> usize {
    [0, 1, 8, 32, 33, 100, 1_000, 1_001, 20_000, 70_000, 300_000][number as usize % 11]
}

async fn receive(client: &Connection) -> Result<Vec<u8>, CallError> {
    let mut into = b"what was there".to_vec();
    client.receive(&mut into).await.map(|()| into)
}

pub(crate) async fn messages_to_the_node_arrive_whole_and_in_order(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for number in 0..500 {
        client.send(&numbered(number, length(number))).await.unwrap();
    }
    site.until("500 messages", || site.seen().messages.len() == 500).await;
    for (number, (peer, body)) in site.seen().messages.iter().enumerate() {
        assert_eq!(*peer, client.peer());
        assert!(*body == numbered(number as u64, length(number as u64)), "message {number}");
    }
}

pub(crate) async fn messages_from_the_node_arrive_whole_and_in_order(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, other) = (site.client().await, site.client().await);
    let sender = harness.sender(0);
    for number in 0..500 {
        sender.send(client.peer(), numbered(number, length(number)));
    }
    sender.send(other.peer(), b"for the other".to_vec());
    for number in 0..500 {
        let message = receive(&client).await.unwrap();
        assert!(message == numbered(number, length(number)), "message {number}: {}", message.len());
    }
    assert_eq!(receive(&other).await.unwrap(), b"for the other");
}

pub(crate) async fn the_longest_messages_arrive_whole(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let longest = pattern(MESSAGE_BYTES_MAX);
    client.send(&longest).await.unwrap();
    site.until("the longest message", || site.seen().messages.len() == 1).await;
    let (_, arrived) = site.seen().messages.pop().unwrap();
    assert!(arrived == longest, "{} bytes arrived", arrived.len());
    harness.sender(0).send(client.peer(), arrived);
    assert!(receive(&client).await.unwrap() == longest);
}

pub(crate) async fn a_message_too_long_by_one_is_refused(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let long = vec![0; MESSAGE_BYTES_MAX + 1];
    assert_eq!(client.send(&long).await, Err(CallError::TooLong { bytes: MESSAGE_BYTES_MAX + 1 }));
    // The node's own is not sent: it would end the connection.
    harness.sender(0).send(client.peer(), long);
    harness.sender(0).send(client.peer(), b"short".to_vec());
    assert_eq!(receive(&client).await.unwrap(), b"short");
}

pub(crate) async fn messages_and_calls_mix(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let sender = harness.sender(0);
    for number in 0..200u64 {
        let body = numbered(number, length(number));
        client.send(&body).await.unwrap();
        sender.send(client.peer(), body.clone());
        assert!(call(&client, ECHO, &body).await.unwrap() == body, "call {number}");
        assert!(receive(&client).await.unwrap() == body, "message {number}");
    }
    site.until("200 messages", || site.seen().messages.len() == 200).await;
}

pub(crate) async fn a_receive_ends_by_its_deadline(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let hasty = client.with_deadline(SHORT);
    for _ in 0..3 {
        assert_eq!(receive(&hasty).await, Err(CallError::Deadline));
    }
    harness.sender(0).send(client.peer(), b"late".to_vec());
    assert_eq!(receive(&client).await.unwrap(), b"late");
}

pub(crate) async fn a_cancelled_receive_loses_nothing(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let sender = harness.sender(0);
    for number in 0..200u64 {
        let mut into = Vec::new();
        let early = poll_and_drop(client.receive(&mut into), number as u32 % 4).await;
        assert_eq!(early, None, "a message came that nobody sent");
        sender.send(client.peer(), number.to_le_bytes().to_vec());
        let got = poll_and_drop(client.receive(&mut into), number as u32 % 5).await;
        if got.is_none() {
            into = receive(&client).await.unwrap();
        }
        assert_eq!(into, number.to_le_bytes());
    }
}

pub(crate) async fn a_message_to_nobody_is_dropped(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, leaver) = (site.client().await, site.client().await);
    let gone = leaver.peer();
    drop(leaver);
    site.until_peers(1).await;
    let sender = harness.sender(0);
    for peer in [gone, PeerId(0), PeerId(u64::MAX)] {
        sender.send(peer, vec![1; 100]);
    }
    sender.send(client.peer(), b"somebody".to_vec());
    assert_eq!(receive(&client).await.unwrap(), b"somebody");
}
