//! `barn.toml`: a flat table of settings, each with the line that it stands in.
//!
//! What always holds: whatever a file holds, reading it ends in settings or in an error that names
//! the file and the line; no key is taken that the table of settings does not have.

use super::error::SettingsError;
use super::nearest::nearest;
use super::settings::{SETTINGS, Setting};
use barn_layout::planted;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// A setting as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) setting: &'static Setting,
    pub(super) value: String,
    pub(super) line: usize,
}

/// The settings of a file's text.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Line>, SettingsError> {
    let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| SettingsError::NotToml {
        path: path.into(),
        line: error.span().map_or(1, |span| line_of(span.start)),
        why: error.message().to_string(),
    })?;
    let mut lines = Vec::new();
    for (key, value) in table.into_inner() {
        let line = line_of(key.span().start);
        let name = key.into_inner();
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == name) else {
            if planted("config_ignores_unknown_keys") {
                continue;
            }
            return Err(SettingsError::UnknownKey {
                path: path.into(),
                line,
                nearest: nearest(&name, SETTINGS.iter().map(|setting| setting.key)),
                key: name.into_owned(),
            });
        };
        let value = plain(value.into_inner()).ok_or_else(|| SettingsError::BadValue {
            origin: super::Origin::File { path: path.into(), line },
            key: setting.key,
            why: format!("a value is a text, a number, true or false: write {}", setting.example()),
        })?;
        lines.push(Line { setting, value, line });
    }
    Ok(lines)
}

/// A single value as text; nothing for lists, tables and times.
fn plain(value: DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.into_owned()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(word) => Some(word.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(&'static str, String, usize)>, String> {
        let lines = parse(Path::new("barn.toml"), text).map_err(|error| error.to_string())?;
        Ok(lines.into_iter().map(|line| (line.setting.key, line.value, line.line)).collect())
    }

    #[test]
    fn settings_come_with_their_lines() {
        let read = read("# a comment\nmemory = \"4GiB\"\n\nlease_ms = 2_000\naccept_loss = true\n");
        let mut read = read.expect("parses");
        read.sort_by_key(|(_, _, line)| *line);
        assert_eq!(
            read,
            [("memory", "4GiB".into(), 2), ("lease_ms", "2000".into(), 4), ("accept_loss", "true".into(), 5)]
        );
        assert_eq!(super::tests::read(""), Ok(vec![]));
        assert_eq!(
            super::tests::read("checkpoint_bytes = 0x10_0000"),
            Ok(vec![("checkpoint_bytes", "1048576".into(), 1)])
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest() {
        let why = read("tcp = \"none\"\nmemroy = \"4GiB\"").unwrap_err();
        assert_eq!(why, "barn.toml:2: no setting `memroy`; did you mean `memory`?");
        assert!(read("[server]\nmemory = 1").unwrap_err().contains("barn.toml:1: no setting `server`"));
        assert!(read("plough = 1").unwrap_err().contains("there are socket, tcp, "));
    }

    #[test]
    fn what_is_no_toml_or_no_value_is_refused_with_its_line() {
        assert!(read("\n\nmemory = ").unwrap_err().starts_with("barn.toml:3: not TOML: "));
        assert!(read("memory = \"1\"\nmemory = \"2\"").unwrap_err().starts_with("barn.toml:2: not TOML: "));
        let why = read("\nmemory = [\"4GiB\"]").unwrap_err();
        assert!(why.starts_with("barn.toml:2: memory: a value is a text, a number"), "{why}");
        assert!(read("lease_ms = 99999999999999999999999").is_err());
    }
}
