//! Answers that come later: in any order, from any thread, or never.

use crate::CallError;
use crate::conformance::Harness;
use crate::conformance::service::{ECHO, HOLD};
use crate::conformance::support::{Calling, Site, call, calling, join_all, poll_each, rounds};

/// Starts calls that are held, and waits until the service has them all.
async fn hold<'a>(site: &Site<'_>, client: &'a crate::Connection, bodies: &'a [Vec<u8>]) -> Vec<Calling<'a>> {
    let mut calls: Vec<Calling<'a>> = bodies.iter().map(|body| calling(client, HOLD, body)).collect();
    poll_each(&mut calls).await;
    // Whoever drives the connection gets the requests out; calls that are held stay pending.
    let held = || site.seen().held.len();
    for _ in 0..10_000 {
        if held() == bodies.len() {
            break;
        }
        poll_each(&mut calls).await;
        call(client, ECHO, b"drive").await.unwrap();
    }
    assert_eq!(held(), bodies.len(), "not all requests came");
    calls
}

fn bodies(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![number as u8; number * 97 % 2_500]).collect()
}

pub(crate) async fn deferred_replies_come_in_any_order(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let bodies = bodies(50);
    let calls = hold(&site, &client, &bodies).await;
    let mut held: Vec<_> = site.seen().held.drain(..).collect();
    held.reverse();
    for (index, (body, deferred)) in held.into_iter().enumerate() {
        if index % 3 == 1 {
            deferred.refuse("every third");
        } else {
            deferred.done(body);
        }
    }
    let answers = join_all(calls).await;
    let mut refused = 0;
    for (answer, body) in answers.into_iter().zip(&bodies) {
        match answer {
            Ok(reply) => assert_eq!(&reply, body),
            Err(error) => {
                assert_eq!(error, CallError::Refused("every third".to_string()));
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 17);
}

pub(crate) async fn a_deferred_reply_may_come_from_another_thread(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    for round in 0..20 {
        let bodies = bodies(5);
        let calls = hold(&site, &client, &bodies).await;
        let held: Vec<_> = site.seen().held.drain(..).collect();
        let thread = std::thread::spawn(move || {
            for (body, deferred) in held {
                deferred.done(body);
            }
        });
        if round % 2 == 0 || !harness.has_threads() {
            thread.join().unwrap();
        }
        for (answer, body) in join_all(calls).await.into_iter().zip(&bodies) {
            assert_eq!(answer.as_ref(), Ok(body));
        }
    }
}

pub(crate) async fn a_dropped_deferred_reply_is_a_refusal(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let bodies = bodies(4);
    let calls = hold(&site, &client, &bodies).await;
    site.seen().held.clear();
    for answer in join_all(calls).await {
        assert_eq!(answer, Err(CallError::Refused("the service gave no answer".to_string())));
    }
}

pub(crate) async fn requests_held_for_long_do_not_hold_up_others(harness: &dyn Harness) {
    let site = Site::start(harness);
    let client = site.client().await;
    let bodies = bodies(7);
    let calls = hold(&site, &client, &bodies).await;
    // Far more than any window: the held ones' places come round many times.
    for round in 0..rounds(1_000) {
        let sent = round.to_le_bytes();
        assert_eq!(call(&client, ECHO, &sent).await.unwrap(), sent, "call {round} past the held ones");
    }
    let held: Vec<_> = site.seen().held.drain(..).collect();
    held.into_iter().for_each(|(body, deferred)| deferred.done(body));
    for (answer, body) in join_all(calls).await.into_iter().zip(&bodies) {
        assert_eq!(answer.as_ref(), Ok(body));
    }
}

pub(crate) async fn a_deferred_reply_to_a_peer_that_is_gone_is_dropped(harness: &dyn Harness) {
    let site = Site::start(harness);
    let (client, other) = (site.client().await, site.client().await);
    let bodies = bodies(3);
    let calls = hold(&site, &client, &bodies).await;
    drop(calls);
    drop(client);
    site.until_peers(1).await;
    let held: Vec<_> = site.seen().held.drain(..).collect();
    held.into_iter().for_each(|(body, deferred)| deferred.done(body));
    assert_eq!(call(&other, ECHO, b"still there").await.unwrap(), b"still there");
}
