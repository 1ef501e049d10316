//! What a table is made with: kept by the coordinator, the same for all of its shards.

use barn_layout::heap::Purpose;
use barn_layout::table::Durability;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Values up to this long lie in the buckets themselves, unless the table says otherwise: FaRM's
/// Figures 10 and 11 are good up to there.
pub const INLINE_BYTES_DEFAULT: u32 = 128;
/// The longest value that can lie in a bucket.
pub const INLINE_BYTES_MAX: u32 = 240;

/// The design of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// FaRM's: one READ in the common case, and transactions.
    #[default]
    Hopscotch,
    /// Pilaf's: self-verifying entries and extents.
    Cuckoo,
    /// HERD's: bounded memory; forgets the oldest.
    Cache,
    /// Cell's: keys in their order, and ranges of them.
    Tree,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hopscotch, Self::Cuckoo, Self::Cache, Self::Tree];

    /// The name that people use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hopscotch => "hopscotch",
            Self::Cuckoo => "cuckoo",
            Self::Cache => "cache",
            Self::Tree => "tree",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = OptionsError;

    fn from_str(name: &str) -> Result<Self, OptionsError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| OptionsError(format!("no kind `{name}`: hopscotch, cuckoo, cache or tree")))
    }
}

/// Options that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError(pub String);

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OptionsError {}

/// How a table is made. [`TableOptions::default`] suits most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableOptions {
    /// The design.
    pub kind: Kind,
    /// How many keys to make room for at once, over all shards. Tables grow past it (but for
    /// `cache`, whose memory is fixed).
    pub capacity: u64,
    /// The length of most keys, for which buckets are made; longer ones take a detour.
    pub key_bytes: u32,
    /// Values up to this long lie in the buckets (`hopscotch`), or in the nodes (`tree`).
    pub inline_bytes: u32,
    /// The neighbourhood H: a bucket has half as many slots (`hopscotch`).
    pub neighbourhood: u32,
    /// The memory of each shard, index and log (`cache`).
    pub memory_bytes: u64,
    /// When a change counts as made, unless whoever makes it says otherwise; nothing for what the node
    /// does. A table whose durability is `memory` is empty after a restart of its node, as every `cache`
    /// is.
    #[serde(with = "durability", skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// What the hash of its keys begins with: random for each table.
    pub seed: u64,
    /// The version of the memory layout that the table was made with.
    pub schema: u32,
}

/// The layout that this version makes.
pub(crate) const SCHEMA: u32 = 1;

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            kind: Kind::Hopscotch,
            capacity: 1024,
            key_bytes: 16,
            inline_bytes: INLINE_BYTES_DEFAULT,
            neighbourhood: 8,
            memory_bytes: 64 << 20,
            durability: None,
            seed: 0,
            schema: SCHEMA,
        }
    }
}

impl TableOptions {
    /// Whether a table can be made with them.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let wrong = |why: String| Err(OptionsError(why));
        if self.schema != SCHEMA {
            return wrong(format!("the table was made by another version of barn (schema {})", self.schema));
        }
        if self.inline_bytes > INLINE_BYTES_MAX {
            return wrong(format!(
                "values of {} bytes do not lie in buckets: at most {INLINE_BYTES_MAX}",
                self.inline_bytes
            ));
        }
        if self.key_bytes > 126 {
            return wrong(format!("keys of {} bytes do not lie in buckets: at most 126", self.key_bytes));
        }
        if !matches!(self.neighbourhood, 2 | 4 | 6 | 8 | 12 | 16) {
            return wrong(format!("a neighbourhood of {}: 2, 4, 6, 8, 12 or 16", self.neighbourhood));
        }
        if self.capacity > 1 << 40 {
            return wrong(format!("room for {} keys: at most 2^40", self.capacity));
        }
        if self.kind == Kind::Cache
            && let Some(durability @ (Durability::Logged | Durability::Synced)) = self.durability
        {
            return wrong(format!(
                "a cache that is {durability}: a cache forgets its oldest keys by itself and is kept in memory \
                 only; leave the durability out, or choose hopscotch, cuckoo or tree"
            ));
        }
        if !(1 << 20..=1 << 40).contains(&self.memory_bytes) {
            return wrong(format!("{} bytes for a shard: from 1 MiB to 1 TiB", self.memory_bytes));
        }
        Ok(())
    }

    /// What its memory is for: that of a table which does not outlive its node is in no log.
    pub fn purpose(&self) -> Purpose {
        match self.kind == Kind::Cache || self.durability == Some(Durability::Memory) {
            true => Purpose::Volatile,
            false => Purpose::Tables,
        }
    }

    /// As the coordinator keeps them.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As the coordinator kept them.
    pub fn from_text(text: &str) -> Result<Self, OptionsError> {
        let options: Self = serde_json::from_str(text)
            .map_err(|error| OptionsError(format!("the table's options: {error}")))?;
        options.validate()?;
        Ok(options)
    }
}

/// A durability as its name, and nothing as nothing.
mod durability {
    use barn_layout::table::Durability;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &Option<Durability>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Durability::name).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Durability>, D::Error> {
        let name: Option<String> = Option::deserialize(from)?;
        name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_is_kept_by_its_name_and_nothing_is_said_of_none() {
        let usual = TableOptions::default();
        assert!(!usual.to_text().contains("durability"), "what was made before reads the same");
        for durability in Durability::ALL {
            let options = TableOptions { durability: Some(durability), ..usual.clone() };
            assert!(options.to_text().contains(&format!("\"durability\":\"{durability}\"")));
            assert_eq!(TableOptions::from_text(&options.to_text()), Ok(options));
        }
        assert!(TableOptions::from_text("{\"durability\": \"disk\"}").is_err());
    }

    #[test]
    fn what_is_kept_in_memory_only_has_memory_of_its_own() {
        let with = |kind, durability| TableOptions { kind, durability, ..TableOptions::default() };
        assert_eq!(with(Kind::Cuckoo, None).purpose(), Purpose::Tables);
        assert_eq!(with(Kind::Hopscotch, Some(Durability::Synced)).purpose(), Purpose::Tables);
        assert_eq!(with(Kind::Hopscotch, Some(Durability::Memory)).purpose(), Purpose::Volatile);
        assert_eq!(with(Kind::Cache, None).purpose(), Purpose::Volatile);
        assert_eq!(with(Kind::Cache, Some(Durability::Memory)).validate(), Ok(()));
        let refused = with(Kind::Cache, Some(Durability::Logged)).validate();
        assert!(refused.is_err_and(|error| error.0.contains("kept in memory only")));
    }

    #[test]
    fn options_come_back_from_text() {
        let options =
            TableOptions { kind: Kind::Cuckoo, capacity: 7, seed: u64::MAX, ..TableOptions::default() };
        assert_eq!(TableOptions::from_text(&options.to_text()), Ok(options));
    }

    #[test]
    fn options_that_cannot_be_are_refused() {
        let odd = TableOptions { neighbourhood: 5, ..TableOptions::default() };
        assert!(odd.validate().is_err_and(|error| error.0.contains("neighbourhood of 5")));
        assert!(TableOptions::from_text("{\"schema\": 9}").is_err());
        assert!("hash".parse::<Kind>().is_err());
    }
}
