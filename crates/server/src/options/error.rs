//! What can be wrong with a node's configuration, where, and what to write instead.

use super::resolve::Origin;
use super::settings::SETTINGS;
use std::fmt;
use std::path::PathBuf;

/// Why a configuration cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// A file that was named cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// A file is not TOML.
    NotToml {
        /// Which.
        path: PathBuf,
        /// In which line.
        line: usize,
        /// What the parser said.
        why: String,
    },
    /// A file has a key that means nothing.
    UnknownKey {
        /// Which file.
        path: PathBuf,
        /// In which line.
        line: usize,
        /// The key.
        key: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// A value cannot be.
    BadValue {
        /// Where it came from.
        origin: Origin,
        /// The setting's key.
        key: &'static str,
        /// Why not, and what to write.
        why: String,
    },
    /// Settings that exclude one another.
    Together {
        /// Which, and what to change.
        why: String,
    },
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => {
                write!(
                    f,
                    "{}: {why}; name a file that can be read, or none with `--config none`",
                    path.display()
                )
            }
            Self::NotToml { path, line, why } => write!(f, "{}:{line}: not TOML: {why}", path.display()),
            Self::UnknownKey { path, line, key, nearest } => {
                write!(f, "{}:{line}: no setting `{key}`", path.display())?;
                match nearest {
                    Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
                    None => {
                        let keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
                        write!(f, "; there are {}", keys.join(", "))
                    }
                }
            }
            Self::BadValue { origin, key, why } => match origin {
                Origin::File { path, line } => write!(f, "{}:{line}: {key}: {why}", path.display()),
                Origin::Environment { name } => write!(f, "environment variable {name}: {why}"),
                Origin::Flag { name } => write!(f, "{name}: {why}"),
                Origin::Default => write!(f, "{key}: {why}"),
            },
            Self::Together { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for SettingsError {}
