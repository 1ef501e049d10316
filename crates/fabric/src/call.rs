//! Messages to and from a node's service: calls, one-way messages, receiving.

use crate::drive;
use crate::error::CallError;
use crate::link::{Link, Wait};
use barn_layout::message::Status;
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
    #[inline]
    pub fn within(mut self, limit: Duration) -> Self {
        self.wait.limit = limit;
        self
    }

    /// Sends the request now, if nothing else is under way on the connection: what is done between this and
    /// [`Self::wait`] is done while the node answers.
    #[inline]
    pub fn start(&mut self) {
        if !self.wait.posted && self.wait.ticket.is_none() {
            self.link.start_call(&mut self.wait, self.method, self.request);
        }
    }

    /// Calls, blocking this thread.
    #[inline]
    pub fn wait(mut self) -> Result<(), CallError> {
        match self.wait_briefly() {
            Some(called) => called,
            None => drive::block_on_alone(self),
        }
    }

    /// Calls, blocking this thread for some microseconds; `None` if that takes longer: then [`Self::wait`] goes on,
    /// or [`Self::detach`] keeps it going.
    #[inline]
    pub fn wait_briefly(&mut self) -> Option<Result<(), CallError>> {
        self.start();
        if !self.wait.posted {
            return None;
        }
        let status = self.link.answer_soon(&mut self.wait, self.reply)?;
        self.wait.ticket = None;
        Some(CallError::check(Status::from_bits(status), self.method, self.reply))
    }

    /// What was answered, once that is there.
    #[inline]
    pub fn reply(&self) -> &[u8] {
        self.reply
    }

    /// The call as it stands, without what it borrows.
    pub fn detach(mut self) -> DetachedCall {
        let wait = std::mem::replace(&mut self.wait, Wait::new(Duration::ZERO));
        DetachedCall { link: self.link.clone(), method: self.method, wait }
    }
}

/// A call under way that borrows nothing; see [`Call::detach`].
#[must_use = "a call that is dropped is given up"]
pub struct DetachedCall {
    link: Arc<dyn Link>,
    method: u16,
    wait: Wait,
}

impl DetachedCall {
    /// The same call, which may take so long from now on.
    pub fn within(mut self, limit: Duration) -> Self {
        self.wait.restart(limit);
        self
    }

    /// Goes on with it, blocking this thread. The request is the one with which the call was made.
    pub fn wait(mut self, request: &[u8], reply: &mut Vec<u8>) -> Result<(), CallError> {
        let wait = std::mem::replace(&mut self.wait, Wait::new(Duration::ZERO));
        drive::block_on_alone(Call { link: &self.link, method: self.method, request, reply, wait })
    }
}

impl Drop for DetachedCall {
    fn drop(&mut self) {
        if let Some(ticket) = self.wait.ticket {
            self.link.abandon(ticket);
        }
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
