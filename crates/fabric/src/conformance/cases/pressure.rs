//! Too much at once, too slow, given up, too late.

use crate::conformance::service::{ECHO, HOLD, SIZE};
use crate::conformance::support::{
    Calling, SHORT, Site, call, calling, join_all, numbered, one_region, pattern, poll_and_drop, poll_each,
};
use crate::conformance::{Boxed, Harness};
use crate::{CallError, OperationError};
use barn_layout::limits::OUTSTANDING_MAX;
use std::time::Duration;

pub(crate) async fn more_calls_than_may_be_outstanding_are_all_answered(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let bodies: Vec<Vec<u8>> =
        (0..2 * OUTSTANDING_MAX as u64 + 100).map(|n| numbered(n, (n % 300) as usize)).collect();
    let calls = bodies.iter().map(|body| calling(&client, ECHO, body));
    for (answer, body) in join_all(calls.collect()).await.into_iter().zip(&bodies) {
        assert_eq!(answer.as_ref(), Ok(body));
    }
}

pub(crate) async fn a_full_table_waits_for_a_place(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let mut held: Vec<Calling<'_>> = (0..OUTSTANDING_MAX).map(|_| calling(&client, HOLD, b"held")).collect();
    poll_each(&mut held).await;
    let mut later: Vec<Calling<'_>> = (0..10).map(|_| calling(&client, HOLD, b"more")).collect();
    poll_each(&mut later).await;
    held.append(&mut later);
    // All are answered as they come; the last ones come only when there is room for them.
    let answering = async {
        let mut answered = 0;
        while answered < OUTSTANDING_MAX + 10 {
            let some: Vec<_> = site.seen().held.drain(..).collect();
            answered += some.len();
            some.into_iter().for_each(|(body, deferred)| deferred.done(body));
            harness.sleep(Duration::from_millis(1)).await;
        }
    };
    let both: Vec<Boxed<'_, ()>> = vec![
        Box::pin(answering),
        Box::pin(async { assert!(join_all(held).await.iter().all(Result::is_ok)) }),
    ];
    join_all(both).await;
    assert_eq!(call(&client, ECHO, b"after").await.unwrap(), b"after");
}

pub(crate) async fn a_client_that_takes_nothing_for_a_while_gets_all(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (slow, brisk) = (site.client().await, site.client().await);
    let bytes = 64 << 10;
    let request = (bytes as u32).to_le_bytes();
    // 12 MiB of answers, of which the slow client looks at none.
    let mut calls: Vec<Calling<'_>> = (0..200).map(|_| calling(&slow, SIZE, &request)).collect();
    poll_each(&mut calls).await;
    for round in 0..500u64 {
        let sent = round.to_le_bytes();
        assert_eq!(call(&brisk, ECHO, &sent).await.unwrap(), sent, "the other client was disturbed");
        if round % 100 == 0 {
            harness.sleep(Duration::from_millis(5)).await;
        }
    }
    let expected = pattern(bytes);
    for answer in join_all(calls).await {
        assert!(answer.unwrap() == expected);
    }
}

pub(crate) async fn a_client_that_never_takes_its_messages_is_sent_away(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (never, brisk) = (site.client().await, site.client().await);
    let sender = harness.sender(0);
    let peer = never.peer();
    // In steps, so that the node and not this test holds what waits.
    for _ in 0..400 {
        if harness.peers(0) < 2 {
            break;
        }
        sender.send(peer, vec![7; 1 << 20]);
        assert_eq!(call(&brisk, ECHO, b"still here").await.unwrap(), b"still here");
    }
    site.until_peers(1).await;
    assert_eq!(site.seen().gone, [peer]);
    assert_eq!(call(&brisk, ECHO, b"still here").await.unwrap(), b"still here");
    assert!(brisk.is_open());
}

pub(crate) async fn cancelled_calls_leave_the_connection_good(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for round in 0..2 * OUTSTANDING_MAX as u64 + 500 {
        let body = numbered(round, (round % 200) as usize);
        if let Some(answer) = poll_and_drop(call(&client, ECHO, &body), 1 + (round % 3) as u32).await {
            assert_eq!(answer.unwrap(), body);
        }
        if round % 100 == 0 {
            assert_eq!(call(&client, ECHO, &body).await.unwrap(), body, "after {round} were cancelled");
        }
    }
    assert_eq!(call(&client, ECHO, b"after all").await.unwrap(), b"after all");
}

pub(crate) async fn calls_cancelled_halfway_leave_the_connection_good(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let long = pattern(3 << 20);
    for round in 0..200u32 {
        drop(poll_and_drop(call(&client, ECHO, &long), 1 + round % 4).await);
        let body = round.to_le_bytes();
        assert_eq!(call(&client, ECHO, &body).await.unwrap(), body, "after {round} were cancelled");
    }
    assert!(call(&client, ECHO, &long).await.unwrap() == long, "a long call that is not cancelled");
}

pub(crate) async fn messages_cancelled_halfway_leave_the_connection_good(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let long = pattern(1 << 20);
    for round in 0..OUTSTANDING_MAX as u32 + 100 {
        let sent = poll_and_drop(client.send(&long), 1).await;
        if round % 50 == 0 || sent.is_some() {
            assert_eq!(call(&client, ECHO, b"after").await.unwrap(), b"after", "after {round}");
            site.seen().messages.clear();
        }
    }
    client.send(b"the last").await.unwrap();
    site.until("the last message", || {
        site.seen().messages.last().is_some_and(|(_, body)| body == b"the last")
    })
    .await;
    // What did arrive, arrived whole.
    let whole = site.seen().messages.iter().all(|(_, body)| *body == long || body == b"the last");
    assert!(whole, "half a message was delivered");
}

pub(crate) async fn a_late_answer_is_dropped(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let hasty = client.with_deadline(SHORT);
    for _ in 0..5 {
        assert_eq!(call(&hasty, HOLD, b"never").await, Err(CallError::Deadline));
    }
    site.until("the requests", || site.seen().held.len() == 5).await;
    let held: Vec<_> = site.seen().held.drain(..).collect();
    held.into_iter().for_each(|(_, deferred)| deferred.done(b"too late".to_vec()));
    for round in 0..200u64 {
        let sent = round.to_le_bytes();
        assert_eq!(call(&client, ECHO, &sent).await.unwrap(), sent, "a late answer was taken");
    }
}

pub(crate) async fn deadlines_are_a_handles_own(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, remote, _) = one_region(&site, 4096).await;
    let hasty = client.with_deadline(SHORT);
    let mut patient: Vec<Calling<'_>> = vec![calling(&client, HOLD, b"patient")];
    poll_each(&mut patient).await;
    assert_eq!(call(&hasty, HOLD, b"hasty").await, Err(CallError::Deadline));
    site.until("both requests", || site.seen().held.len() == 2).await;
    let held: Vec<_> = site.seen().held.drain(..).collect();
    held.into_iter().for_each(|(body, deferred)| deferred.done(body));
    assert_eq!(join_all(patient).await, [Ok(b"patient".to_vec())]);
    let hasty = client.with_deadline(Duration::ZERO);
    let late = call(&hasty, HOLD, b"at once").await;
    assert_eq!(late, Err(CallError::Deadline), "no time at all is over at once");
    assert_ne!(remote.read(0, &mut [0; 8]).await, Err(OperationError::Deadline));
}
