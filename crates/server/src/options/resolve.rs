//! Which value counts: flag, then environment, then file, then default; and where it came from.
//!
//! What always holds: the first source that has a setting decides it, whatever the later ones say;
//! every value that was given is checked, also one that another source overrides.

use super::error::SettingsError;
use super::file;
use super::nearest::nearest;
use super::settings::{NONE, SETTINGS, Setting};
use super::{MEMORY_BYTES_MIN, ServerOptions};
use barn_layout::planted;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// A node takes a quarter of the memory that there is. Its pages are taken when it starts and not
/// when they are filled, so the rest is all that the system's page cache, the other processes and
/// a second node (its successor in an upgrade) will ever have.
const MEMORY_SHARE: u64 = 4;

/// Of what is free now, a node takes no more than half on its own account.
const AVAILABLE_SHARE: u64 = 2;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// In which line.
        line: usize,
    },
    /// The environment.
    Environment {
        /// The variable.
        name: String,
    },
    /// The command line.
    Flag {
        /// The flag, with its dashes.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Self::Environment { name } => write!(f, "environment variable {name}"),
            Self::Flag { name } => write!(f, "flag {name}"),
        }
    }
}

/// What the surroundings say: injected, so that tests can have some of their own.
pub struct Surroundings<'a> {
    /// The value of an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The names of all environment variables.
    pub variables: Vec<String>,
    /// Memory that this process may use; 0 where unknown.
    pub memory_bytes: u64,
    /// Memory that is free now; 0 where unknown.
    pub memory_available_bytes: u64,
}

impl fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Surroundings({} bytes)", self.memory_bytes)
    }
}

impl Surroundings<'_> {
    fn path(&self, name: &str) -> Option<PathBuf> {
        (self.variable)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// A directory of the user's: where a variable says, or below the home.
    fn of_user(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        // The standard has it that relative paths are to be ignored.
        let given = self.path(variable).filter(|path| path.is_absolute());
        given.or_else(|| Some(self.path("HOME")?.join(below_home)))
    }

    /// The defaults that depend on user and machine.
    pub fn defaults(&self) -> Defaults {
        Defaults {
            socket: ServerOptions::socket_for(&|name| (self.variable)(name)),
            memory_bytes: memory_default_bytes(self.memory_bytes, self.memory_available_bytes),
            data: self.state(),
        }
    }

    /// The user's own directory for what is to survive.
    pub fn state(&self) -> Option<PathBuf> {
        self.of_user("XDG_STATE_HOME", ".local/state").map(|state| state.join("barn"))
    }

    /// The files that a configuration is looked for in, when none is named.
    pub fn files(&self) -> Vec<PathBuf> {
        let own = self.of_user("XDG_CONFIG_HOME", ".config").map(|config| config.join("barn/barn.toml"));
        own.into_iter().chain([PathBuf::from("/etc/barn/barn.toml")]).collect()
    }
}

/// The memory that a node takes if nobody says anything.
pub fn memory_default_bytes(usable: u64, available: u64) -> u64 {
    let available = if available == 0 { u64::MAX } else { available / AVAILABLE_SHARE };
    let bytes = (usable / MEMORY_SHARE).min(available);
    // In whole huge pages; a machine that says nothing is taken for a small one.
    (bytes >> 21 << 21).max(MEMORY_BYTES_MIN)
}

/// Defaults that depend on user and machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// The Unix socket.
    pub socket: PathBuf,
    /// The memory.
    pub memory_bytes: u64,
    /// The data directory; none for a user without a home.
    pub data: Option<PathBuf>,
}

/// What the command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The file that was named.
    pub config: Option<PathBuf>,
    /// Keys of settings, their values, and the flags that gave them.
    pub flags: Vec<(&'static str, String, String)>,
}

/// A setting that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Which.
    pub setting: &'static Setting,
    /// Its value, as text.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

/// The configuration that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Every setting, in the order of the table.
    pub settled: Vec<Settled>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// The files that were looked for.
    pub looked: Vec<PathBuf>,
    /// Environment variables that mean nothing, and what was probably meant.
    pub suspects: Vec<(String, String)>,
}

impl Effective {
    /// Decides every setting.
    pub fn resolve(given: &Given, around: &Surroundings<'_>) -> Result<Self, SettingsError> {
        let (file, looked) = find_file(given, around)?;
        let lines = match &file {
            Some((path, text)) => file::parse(path, text)?,
            None => Vec::new(),
        };
        let defaults = around.defaults();
        let mut settled = Vec::with_capacity(SETTINGS.len());
        for setting in SETTINGS {
            // From the weakest to the strongest: the last one counts.
            let mut found = vec![(setting.default_value(&defaults), Origin::Default)];
            if let (Some(line), Some((path, _))) = (lines.iter().find(|line| line.setting == setting), &file)
            {
                found.push((line.value.clone(), Origin::File { path: path.clone(), line: line.line }));
            }
            found.extend(variable(setting, around)?);
            let flag = given.flags.iter().find(|(key, ..)| *key == setting.key);
            found.extend(flag.map(|(_, value, name)| (value.clone(), Origin::Flag { name: name.clone() })));
            for (value, origin) in &found {
                setting.check(value).map_err(|why| SettingsError::BadValue {
                    origin: origin.clone(),
                    key: setting.key,
                    why,
                })?;
            }
            if planted("config_environment_over_flags") && found.len() > 2 {
                found.pop();
            }
            let (value, origin) = found.swap_remove(found.len() - 1);
            settled.push(Settled { setting, value, origin });
        }
        let effective =
            Self { settled, file: file.map(|(path, _)| path), looked, suspects: suspects(around) };
        let options = effective.options();
        if options.shm.is_none() && options.tcp.is_none() {
            let why = "a node that listens nowhere serves nobody: give it a socket or a tcp address";
            return Err(SettingsError::Together { why: why.into() });
        }
        Ok(effective)
    }

    /// A setting, by its key.
    pub fn get(&self, key: &str) -> Option<&Settled> {
        self.settled.iter().find(|settled| settled.setting.key == key)
    }

    /// What the node is to be given. The token is still in its file.
    pub fn options(&self) -> ServerOptions {
        let mut options = ServerOptions::default();
        for settled in &self.settled {
            // Every value was checked when it was decided.
            let _ = (settled.setting.apply)(&mut options, &settled.value);
        }
        options
    }
}

/// What the environment says of a setting; an empty variable says nothing.
fn variable(
    setting: &'static Setting,
    around: &Surroundings<'_>,
) -> Result<Option<(String, Origin)>, SettingsError> {
    for name in [Some(setting.variable()), setting.variable_once()].into_iter().flatten() {
        let Some(value) = (around.variable)(&name).filter(|value| !value.is_empty()) else { continue };
        let origin = Origin::Environment { name };
        return match value.into_string() {
            Ok(value) => Ok(Some((value, origin))),
            Err(_) => {
                let why = "the value is not text".to_string();
                Err(SettingsError::BadValue { origin, key: setting.key, why })
            }
        };
    }
    Ok(None)
}

/// Variables that look like a setting's, and are none.
fn suspects(around: &Surroundings<'_>) -> Vec<(String, String)> {
    let known: Vec<String> = SETTINGS
        .iter()
        .flat_map(|setting| [Some(setting.variable()), setting.variable_once()])
        .flatten()
        .chain(["BARN_NODE", "BARN_TABLE", "BARN_CONFIG"].map(String::from))
        .collect();
    let ours = around.variables.iter().filter(|name| name.starts_with("BARN_"));
    let strangers = ours.filter(|name| !known.contains(name));
    let meant = |name: &String| {
        let near = nearest(name, known.iter().map(String::as_str))?;
        Some((name.clone(), near.to_owned()))
    };
    strangers.filter_map(meant).collect()
}

type File = Option<(PathBuf, String)>;

/// The file that counts: the one that is named, or the first of those that are looked for.
fn find_file(given: &Given, around: &Surroundings<'_>) -> Result<(File, Vec<PathBuf>), SettingsError> {
    let read = |path: &Path| std::fs::read_to_string(path);
    let unreadable = |path: &Path, why: std::io::Error| SettingsError::Unreadable {
        path: path.into(),
        why: why.to_string(),
    };
    if let Some(named) = given.config.clone().or_else(|| around.path("BARN_CONFIG")) {
        if named == Path::new(NONE) {
            return Ok((None, Vec::new()));
        }
        let text = read(&named).map_err(|why| unreadable(&named, why))?;
        return Ok((Some((named.clone(), text)), vec![named]));
    }
    let files = around.files();
    for path in &files {
        match read(path) {
            Ok(text) => return Ok((Some((path.clone(), text)), files)),
            Err(why)
                if matches!(why.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            }
            // A file that is there and cannot be read is not passed over in silence.
            Err(why) => return Err(unreadable(path, why)),
        }
    }
    Ok((None, files))
}
