//! Looking a key up without a future: where READs are loads, there is mostly nothing to wait for.
//!
//! What always holds: what is found here was judged as in [`super::read`], by the same code of each design.
//! Whatever is not plain (a writer, memory that has moved, a lease that is over, a shard that is not known
//! yet) is left to the long way, which begins from the start; nothing of it is decided here.
//!
//! A future of a lookup has room for every way that it could go, over a kilobyte, and is copied when it
//! is made: that alone costs more than the load.

use super::memory::{Memory, Unreadable};
use super::read::now_ms;
use super::roots::Roots;
use super::table::{Table, Way};
use crate::key::{Found, Key, Looked};
use crate::options::KEY_BYTES_MAX;
use barn_fabric::{Confirmation, Words};
use barn_layout::limits::OPERATION_BYTES_MAX;
use barn_layout::{Address, RegionId, planted};
use barn_transaction::Glance;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

impl Table {
    /// Looks a key up if that can be done at once, by loads from memory that is mapped here: whether it is
    /// there. `None` if it cannot; then [`Table::find_into`] is for it.
    #[inline]
    pub fn find_at_once(&self, key: &[u8], found: &mut Found) -> Option<bool> {
        let asks = matches!(self.way, Way::Request | Way::Mix(_));
        if asks || key.len() > KEY_BYTES_MAX || self.is_followed() {
            return None;
        }
        let key = Key::new(self.inner.options.seed, key);
        let shard = self.shard(key);
        if self.way == Way::Auto && !shard.single.keeps_one_sided() {
            return None;
        }
        let mut reads = 0;
        let looked = {
            let glance = self.client.glance();
            shard.with_known(glance.session(), |roots| roots.look_at_once(&glance, key, found, &mut reads))?
        };
        let there = match looked {
            Looked::Found => found.expires == 0 || !found.is_expired(now_ms()),
            Looked::Absent => false,
            Looked::Unsettled if planted("unsettled_at_once_is_absent") => false,
            Looked::Unsettled | Looked::Stale => return None,
        };
        self.inner.counts.looked_up(1, u64::from(reads));
        Some(there)
    }
}

impl Roots {
    /// Looks a key up in mapped memory; `None` if that takes more than loads.
    #[inline]
    fn look_at_once(
        &self,
        glance: &Glance<'_>,
        key: Key<'_>,
        found: &mut Found,
        reads: &mut u32,
    ) -> Option<Looked> {
        if let Self::Hopscotch(roots) = self {
            return roots.look_mapped(glance, key, found, reads).ok();
        }
        // Of loads nothing is pending: one poll is all of it.
        match pin!(self.lookup(glance, key, found, reads)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(looked) => looked.ok(),
            Poll::Pending => None,
        }
    }
}

/// Only loads: a region that is not mapped counts as closed, and everything that goes wrong is for the
/// long way to find out.
impl Memory for Glance<'_> {
    async fn read(&self, at: Address, into: &mut [u8]) -> Result<(), Unreadable> {
        let region = self.region(at.region()).filter(|region| region.mapped().is_some());
        let region = region.ok_or(Unreadable::Closed(at.region()))?;
        region.read(u64::from(at.offset()), into).wait().map_err(|_| Unreadable::Nowhere)
    }

    async fn read_confirmed(&self, at: Address, into: &mut [u8]) -> Result<Confirmation, Unreadable> {
        let region = self.region(at.region()).filter(|region| region.mapped().is_some());
        let region = region.ok_or(Unreadable::Closed(at.region()))?;
        if into.len() > OPERATION_BYTES_MAX {
            return Err(Unreadable::Nowhere);
        }
        region.read_confirmed(u64::from(at.offset()), into).wait().map_err(|_| Unreadable::Nowhere)
    }

    #[inline]
    fn mapped(&self, region: RegionId) -> Option<&Words> {
        self.region(region)?.mapped()
    }

    #[inline]
    fn believe(&self, region: RegionId) -> Result<(), Unreadable> {
        if self.is_believed(region) { Ok(()) } else { Err(Unreadable::Nowhere) }
    }
}
