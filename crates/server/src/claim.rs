//! A data directory belongs to one node at a time.
//!
//! What always holds: of all processes of this host, one at most has a claim on a directory; it ends
//! with the process, however that ends (the lock is the kernel's).

use crate::ServerError;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const LOCK: &str = "lock";

/// How another data directory is named.
pub(crate) const SETTING: &str = "--data DIRECTORY";

/// A claim on a data directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: File,
}

impl Claim {
    /// Claims a directory that is there.
    pub(crate) fn on(directory: &Path) -> Result<Self, ServerError> {
        let path = || directory.display().to_string();
        let wrong = |cause| ServerError::Directory { path: path(), setting: SETTING, cause };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(directory.join(LOCK))
            .map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) if barn_layout::planted("data_shared_by_nodes") => {
                Ok(Self { _file: file })
            }
            Err(TryLockError::WouldBlock) => Err(ServerError::Claimed { path: path() }),
            Err(TryLockError::Error(cause)) => Err(wrong(cause)),
        }
    }
}

/// Whether a file is this process's user's.
pub(crate) fn is_own(metadata: &Metadata) -> bool {
    // The process's own entry belongs to its user; a system without one is taken at its word.
    std::fs::metadata("/proc/self").map_or(true, |own| own.uid() == metadata.uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_claimed_once_until_the_claim_ends() {
        let directory = std::env::temp_dir().join(format!("barn-claim-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("makes");
        let claim = Claim::on(&directory).expect("claims");
        let why = Claim::on(&directory).expect_err("is claimed").to_string();
        assert!(why.contains("in use by another node") && why.contains("--data none"), "{why}");
        drop(claim);
        Claim::on(&directory).expect("claims again");
        std::fs::remove_dir_all(&directory).expect("removes");
        assert!(matches!(Claim::on(&directory), Err(ServerError::Directory { .. })));
    }

    #[test]
    fn own_files_are_told_from_others() {
        let own = std::env::temp_dir().join(format!("barn-own-{}", std::process::id()));
        std::fs::write(&own, "").expect("writes");
        assert!(is_own(&std::fs::metadata(&own).expect("is there")));
        std::fs::remove_file(&own).expect("removes");
    }
}
