//! What a node says about itself.

use crate::activity::Activity;
use barn::node::{ChunkUsage, Recovery};
use barn_cluster::{Configuration, Directory};
use barn_heap::{Purpose, Usage};
use barn_layout::heap::BLOCK_BYTES;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A node, in words and numbers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
    pub version: String,
    /// The process.
    pub process: u32,
    /// Where clients of this host connect.
    pub shm: Option<String>,
    /// Where clients of any host connect.
    pub tcp: Option<String>,
    /// The node's number in its cluster.
    pub member: u32,
    /// The version of the cluster's configuration that it knows.
    pub configuration: u64,
    /// The members of the cluster.
    pub members: Vec<MemberStatus>,
    /// Peers connected now.
    pub peers: u64,
    /// Transactions carried out.
    pub transactions: u64,
    /// The regions.
    pub regions: Vec<RegionStatus>,
    /// What the objects' memory is used for.
    pub memory: Vec<PurposeStatus>,
    /// What it is busy with.
    #[serde(default)]
    pub activity: Activity,
    /// What it found in its log when it started, if there was anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryStatus>,
    /// Who is in the cluster, as far as the node knows.
    #[serde(skip)]
    pub(crate) directory: Option<Arc<Directory>>,
}

/// What a node found in its log when it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecoveryStatus {
    /// Keys of tables that came back.
    pub keys: u64,
    /// Bytes of the checkpoint that it began with.
    pub image_bytes: u64,
    /// Bytes of log that were replayed.
    pub log_bytes: u64,
    /// How long it took.
    pub took_ms: u64,
    /// The same in words, with whatever was wrong.
    pub said: String,
}

impl RecoveryStatus {
    pub(crate) fn of(recovery: &Recovery) -> Self {
        Self {
            keys: recovery.keys,
            image_bytes: recovery.log.image_bytes,
            log_bytes: recovery.log.log_bytes,
            took_ms: recovery.took.as_millis() as u64,
            said: recovery.to_string(),
        }
    }
}

/// A member of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub id: u32,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// The memory that it offers.
    pub memory_bytes: u64,
}

/// A region, in words and numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionStatus {
    /// Its number.
    pub id: u32,
    /// How long it is.
    pub bytes: u64,
    /// What peers may do with it.
    pub rights: String,
    /// The pages that back it.
    pub pages: String,
    /// What it is for: `objects`, `scratch`, `raw`.
    pub purpose: String,
}

/// What one purpose uses of the objects' memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurposeStatus {
    /// The purpose.
    pub purpose: String,
    /// How many objects there are.
    pub objects: u64,
    /// Their own bytes.
    pub object_bytes: u64,
    /// The memory that is set aside for them.
    pub held_bytes: u64,
}

impl PurposeStatus {
    /// The purposes that use something, and what is used for none of them: together, all that is held.
    pub(crate) fn all(usage: &Usage) -> Vec<Self> {
        let one = |purpose: Purpose| {
            let used = usage.of(purpose);
            Self {
                purpose: purpose.name().to_string(),
                objects: used.objects,
                object_bytes: used.object_bytes,
                held_bytes: used.block_bytes,
            }
        };
        let blocks = |purpose: &str, blocks: usize| {
            let held_bytes = (blocks * BLOCK_BYTES) as u64;
            Self { purpose: purpose.into(), held_bytes, ..Self::default() }
        };
        let for_none = [
            // Freed, and its readers have not left yet.
            blocks("waiting", usage.waiting_blocks),
            blocks("worn", usage.worn_blocks),
            blocks("bookkeeping", usage.table_blocks),
        ];
        Purpose::ALL.into_iter().map(one).chain(for_none).filter(|status| status.held_bytes > 0).collect()
    }
}

impl PurposeStatus {
    /// The chunks of spaces, if there are any: memory beside that for objects.
    pub(crate) fn spaces(usage: &ChunkUsage) -> Option<Self> {
        let ChunkUsage { chunks, bytes, .. } = *usage;
        let one = Self { purpose: "spaces".into(), objects: chunks, object_bytes: bytes, held_bytes: bytes };
        (chunks > 0).then_some(one)
    }
}

impl Status {
    pub(crate) fn new() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_string(),
            process: std::process::id(),
            ..Self::default()
        }
    }

    /// Says in the log that the node serves, and what.
    pub(crate) fn announce(&self) {
        let memory_bytes: u64 = self.regions.iter().map(|region| region.bytes).sum();
        let pages = self.regions.last().map_or("", |region| region.pages.as_str());
        tracing::info!(
            version = self.version,
            member = self.member,
            shm = self.shm.as_deref(),
            tcp = self.tcp.as_deref(),
            memory_bytes,
            pages,
            regions = self.regions.len(),
            "the node serves"
        );
    }

    /// The same, with what the node knows of its cluster now.
    pub(crate) fn now(&self) -> Self {
        let mut status = self.clone();
        if let Some(directory) = &self.directory {
            status.learn(&directory.configuration());
        }
        status
    }

    /// Takes over what a configuration says of the cluster.
    pub(crate) fn learn(&mut self, configuration: &Configuration) {
        self.configuration = configuration.version;
        let member = |member: &barn_cluster::Member| MemberStatus {
            id: member.id.0,
            addresses: member.addresses.clone(),
            memory_bytes: member.memory_bytes,
        };
        self.members = configuration.members.iter().map(member).collect();
    }
}
