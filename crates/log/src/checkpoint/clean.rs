//! Cleaning: removes what a checkpoint has made needless.
//!
//! What always holds: it runs only once the manifest's name is durable; of the log only segments go
//! whose successor begins at or before the checkpoint's start; a file that is to be used again has
//! durably lost its old name before anybody writes to it. What cannot be removed is tried again by the
//! next checkpoint or the next start.

use super::Ended;
use crate::error::LogError;
use crate::failpoint::failpoint;
use crate::names::{self, Name};
use crate::segment::SegmentInfo;
use crate::shared::Shared;
use crate::{Position, log};
use barn_fabric::seam::Disk;

/// Removes older manifests and images, and segments that end at or before `start`.
pub(super) fn clean(disk: &dyn Disk, shared: &Shared, number: u64, start: Position) -> Result<(), Ended> {
    failpoint("clean-before");
    let listed = disk.list();
    let all = listed.map_err(|error| Ended::Failed(LogError::failed("listing", log::DIRECTORY)(error)))?;
    for name in &all {
        if matches!(names::parse(name), Name::Manifest(old) | Name::Image(old) if old < number) {
            let _ = disk.remove(name);
        }
    }
    let (needless, room) = {
        let state = shared.lock();
        let ends = state.segments.iter().skip(1).map(|next| next.start);
        let old = state.segments.iter().zip(ends).take_while(|(_, end)| *end <= start);
        let needless: Vec<SegmentInfo> = old.map(|(segment, _)| *segment).collect();
        (needless, shared.options.spares_max.saturating_sub(state.spares.len()))
    };
    let mut spares = Vec::new();
    for segment in needless {
        let name = names::segment(segment.number);
        let gone = if spares.len() < room && segment.bytes == shared.options.segment_bytes {
            let spare = names::spare(segment.number);
            let renamed = disk.rename(&name, &spare).is_ok();
            if renamed {
                spares.push(spare);
            }
            renamed
        } else {
            disk.remove(&name).is_ok()
        };
        if !gone {
            break;
        }
        failpoint("clean-after-one");
        let mut state = shared.lock();
        state.segments.retain(|kept| kept.number != segment.number);
    }
    let synced = disk.sync_names();
    synced.map_err(|error| Ended::Fatal(LogError::failed("syncing", log::DIRECTORY)(error)))?;
    shared.lock().spares.append(&mut spares);
    Ok(())
}
