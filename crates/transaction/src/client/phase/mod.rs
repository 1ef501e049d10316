//! The phases of a commit, one file each.

pub(super) mod decide;
pub(super) mod prepare;
pub(super) mod validate;

use std::pin::Pin;
use std::task::Poll;

/// A future, and what came of it.
type Running<F> = (Pin<Box<F>>, Option<<F as Future>::Output>);

/// Runs futures side by side; their results in order.
pub(super) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<Running<F>> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(done) => *output = Some(done),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}
