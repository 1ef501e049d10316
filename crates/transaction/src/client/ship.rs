//! Calling a function next to an object.

use super::backoff::Backoff;
use super::{Client, ClientStats};
use crate::error::{Broken, ClientError};
use crate::id::Pointer;
use crate::participant::ship_busy;
use crate::wire::Method;
use barn_layout::transaction::Ship;
use zerocopy::IntoBytes;

impl Client {
    /// Runs a function of the node that holds `near`, with that object and `argument`; gives what
    /// it returns. A function that found an object locked did nothing and is called again.
    ///
    /// If the link is lost before the answer, whether it ran is not known: `Err(SessionLost)`.
    pub async fn call(&self, function: &str, near: Pointer, argument: &[u8]) -> Result<Vec<u8>, ClientError> {
        let inner = &*self.inner;
        let ship = Ship {
            address: near.address.to_bits().into(),
            incarnation: near.incarnation.into(),
            bytes: near.bytes.into(),
            name_bytes: (function.len() as u32).into(),
            argument_bytes: (argument.len() as u32).into(),
        };
        let mut message = ship.as_bytes().to_vec();
        message.extend_from_slice(function.as_bytes());
        message.extend_from_slice(argument);
        let mut backoff = Backoff::new(inner.options.deadline);
        let mut reply = Vec::new();
        loop {
            let session = inner.table().session;
            let link = inner.region(session, near.address.region()).await?;
            ClientStats::add(&inner.stats.messages, 1);
            match link.node.connection.call(Method::Ship as u16, &message, &mut reply).await {
                Ok(()) => return Ok(reply),
                Err(error) => match inner.broken(session, Broken::from(error)) {
                    ClientError::Refused { why } if ship_busy(&why) => {}
                    other => return Err(other),
                },
            }
            if !backoff.wait(inner).await {
                return Err(ClientError::Contended { address: near.address, attempts: backoff.attempts });
            }
        }
    }
}
