//! Calling a function next to an object.

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
    /// If the link is lost before the answer, whether it ran is not known: `Err(SessionLost)`, or
    /// `Err(Deadline)`. It is never called again then.
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
        let mut waits = self.attempts();
        let mut attempts = 0;
        let mut reply = Vec::new();
        loop {
            let session = inner.table().session;
            let link = match inner.region(session, near.address.region(), waits.left()).await {
                Ok(link) => link,
                // Nothing has been sent yet.
                Err(error) => match waits.again(&error).await {
                    true => continue,
                    false => return Err(error),
                },
            };
            ClientStats::add(&inner.stats.messages, 1);
            let call = link.node.connection.call(Method::Ship as u16, &message, &mut reply);
            match call.within(waits.left()).await {
                Ok(()) => return Ok(reply),
                Err(error) => match inner.broken(session, Broken::from(error)) {
                    ClientError::Refused { why } if ship_busy(&why) => {}
                    other => return Err(other),
                },
            }
            attempts += 1;
            if !waits.next().await {
                return Err(ClientError::Contended { address: near.address, attempts });
            }
        }
    }
}
