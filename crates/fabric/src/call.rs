//! Messages to and from a node's service: calls, one-way messages, receiving.

use crate::drive;
use crate::error::CallError;
use crate::link::{Link, Wait};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// A call under way; see [`crate::Connection::call`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Call<'a> {
    pub(crate) link: &'a Arc<dyn Link>,
    pub(crate) method: u16,
    pub(crate) request: &'a [u8],
    pub(crate) reply: &'a mut Vec<u8>,
    pub(crate) wait: Wait,
}

impl Future for Call<'_> {
    type Output = Result<(), CallError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.link.poll_call(cx, &mut this.wait, this.method, this.request, this.reply);
        if polled.is_ready() {
            // Collected or given up by the link: nothing is left to abandon.
            this.wait.ticket = None;
        }
        polled
    }
}

impl Call<'_> {
    /// The same call, which may take so long. To be said before it is first polled.
    #[must_use = "a future does nothing unless it is driven"]
    pub fn within(mut self, limit: Duration) -> Self {
        self.wait = Wait::new(limit);
        self
    }

    /// Calls, blocking this thread.
    pub fn wait(self) -> Result<(), CallError> {
        drive::block_on_alone(self)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.wait.ticket {
            self.link.abandon(ticket);
        }
    }
}

/// A message on its way; see [`crate::Connection::send`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Sending<'a> {
    pub(crate) link: &'a Arc<dyn Link>,
    pub(crate) message: &'a [u8],
    pub(crate) wait: Wait,
}

impl Future for Sending<'_> {
    type Output = Result<(), CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.link.poll_send(cx, &mut this.wait, this.message);
        if polled.is_ready() {
            this.wait.ticket = None;
        }
        polled
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.wait.ticket {
            self.link.abandon(ticket);
        }
    }
}

impl Sending<'_> {
    /// The same message, which may take so long to be taken. To be said before it is first polled.
    #[must_use = "a future does nothing unless it is driven"]
    pub fn within(mut self, limit: Duration) -> Self {
        self.wait = Wait::new(limit);
        self
    }

    /// Sends, blocking this thread until the transport has taken all of it.
    pub fn wait(self) -> Result<(), CallError> {
        drive::block_on(self)
    }
}

/// Waiting for a message; see [`crate::Connection::receive`].
#[must_use = "a future does nothing unless it is driven"]
pub struct Receive<'a> {
    pub(crate) link: &'a Arc<dyn Link>,
    pub(crate) into: &'a mut Vec<u8>,
    pub(crate) wait: Wait,
}

impl Future for Receive<'_> {
    type Output = Result<(), CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.link.poll_receive(cx, &mut this.wait, this.into)
    }
}

impl Receive<'_> {
    /// Receives, blocking this thread.
    pub fn wait(self) -> Result<(), CallError> {
        drive::block_on(self)
    }
}
