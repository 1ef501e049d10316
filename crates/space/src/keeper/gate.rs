//! Who is let into a node's chunks: the part of its keeper that the poll loop asks.
//!
//! What always holds: nobody is let into a chunk without a pass that the master made out for it, this
//! member, this life of it and that region; what was let in stays so until the chunk is retired. A pass
//! names a session and not a connection, so that a client may show it over each connection that it has.

use crate::message::{FIRST_CHUNK_REGION, Pass};
use crate::pass::Secret;
use crate::wire;
use barn_cluster::{Life, MemberId};
use barn_fabric::{PeerId, RegionId, Registry, Rights};
use barn_layout::planted;
use std::fmt;
use std::sync::Mutex;

/// Why somebody was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnterError {
    /// The message is no pass.
    Malformed {
        /// What is wrong with it.
        why: String,
    },
    /// The pass is another member's, or an earlier life's.
    Elsewhere,
    /// The master did not make it out.
    Forged,
    /// The keeper has not heard from the master yet.
    NotReady,
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { why } => write!(f, "this is no pass: {why}"),
            Self::Elsewhere => {
                write!(
                    f,
                    "the pass is for another node, or for an earlier life of this one: hold the range again"
                )
            }
            Self::Forged => {
                write!(f, "the pass was not made out by the master of spaces: hold the range again")
            }
            Self::NotReady => write!(f, "the node has not heard from the master of spaces yet: try again"),
        }
    }
}

impl std::error::Error for EnterError {}

/// Checks passes. Shared by a node's poll loop and its keeper.
pub struct Gate {
    registry: Registry,
    /// Who the node is, once it knows, and what the master's passes are made with.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    itself: Option<(MemberId, Life)>,
    secret: Option<Secret>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays one.
        f.write_str("Gate")
    }
}

impl Gate {
    /// A gate to the chunks in `registry`.
    pub fn new(registry: Registry) -> Self {
        Self { registry, known: Mutex::default() }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn is(&self, member: MemberId, life: Life) {
        self.known().itself = Some((member, life));
    }

    /// Takes the master's secret; says whether it is another than before, and there was one.
    pub(super) fn trust(&self, secret: Secret) -> bool {
        let mut known = self.known();
        let changed = known.secret.as_ref().is_some_and(|before| *before != secret);
        known.secret = Some(secret);
        changed
    }

    /// Lets a peer in that shows a pass.
    pub fn enter(&self, peer: PeerId, message: &[u8]) -> Result<(), EnterError> {
        let pass =
            wire::decode_pass(message).map_err(|error| EnterError::Malformed { why: error.to_string() })?;
        self.check(&pass)?;
        let rights =
            if pass.write || planted("pass_for_readers_writes") { Rights::ALL } else { Rights::READ };
        for region in &pass.regions {
            // Chunks only, whatever the master says; and one that is retired meanwhile is nobody's.
            if *region >= FIRST_CHUNK_REGION {
                self.registry.widen(RegionId(*region), peer, rights);
            }
        }
        Ok(())
    }

    fn check(&self, shown: &Pass) -> Result<(), EnterError> {
        let known = self.known();
        let (Some(itself), Some(secret)) = (known.itself, &known.secret) else {
            return Err(EnterError::NotReady);
        };
        if itself != (shown.member, shown.life) && !planted("pass_of_any_life") {
            return Err(EnterError::Elsewhere);
        }
        match secret.is_true(shown) {
            true => Ok(()),
            false => Err(EnterError::Forged),
        }
    }
}
