//! The configuration that counts, as a commented `barn.toml` and as JSON.
//!
//! What always holds: the text is TOML; read as the only configuration, it leads to the same options.

use super::resolve::{Effective, Origin};
use super::settings::SETTINGS;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// Comments are broken before this column.
const COLUMNS: usize = 96;

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Text as lines of comment.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS && line != "#" {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{line}");
}

impl Effective {
    /// As a commented `barn.toml`.
    pub fn toml(&self) -> String {
        let mut out = String::new();
        comment(
            &mut out,
            "The configuration that `barn serve` would run on, and where each value comes from.",
        );
        comment(
            &mut out,
            "A flag counts before the environment, that before the file, that before the default.",
        );
        match &self.file {
            Some(path) => comment(&mut out, &format!("File: {}", path.display())),
            None if self.looked.is_empty() => comment(&mut out, "File: none, as was asked for."),
            None => {
                let looked: Vec<String> = self.looked.iter().map(|path| path.display().to_string()).collect();
                comment(&mut out, &format!("File: none found; looked for {}.", looked.join(" and ")));
            }
        }
        for (name, meant) in &self.suspects {
            comment(&mut out, &format!("Environment variable {name} means nothing; {meant} would."));
        }
        for settled in &self.settled {
            let setting = settled.setting;
            out.push('\n');
            comment(&mut out, setting.about);
            comment(&mut out, &format!("Default: {}.", setting.default_words()));
            comment(&mut out, &format!("From: {}.", settled.origin));
            let _ = writeln!(out, "{} = {}", setting.key, setting.written(&settled.value));
        }
        out
    }

    /// As JSON: { "file", "settings": { KEY: { "value", "from", … } } }.
    pub fn json(&self) -> Value {
        let mut settings = Map::new();
        for settled in &self.settled {
            let mut one = Map::new();
            one.insert("value".into(), value(settled.setting.literal, &settled.value));
            let from = match &settled.origin {
                Origin::Default => "default",
                Origin::File { path, line } => {
                    one.insert("file".into(), path.display().to_string().into());
                    one.insert("line".into(), (*line).into());
                    "file"
                }
                Origin::Environment { name } => {
                    one.insert("variable".into(), name.clone().into());
                    "environment"
                }
                Origin::Flag { name } => {
                    one.insert("flag".into(), name.clone().into());
                    "flag"
                }
            };
            one.insert("from".into(), from.into());
            settings.insert(settled.setting.key.into(), one.into());
        }
        json!({ "file": self.file.as_ref().map(|path| path.display().to_string()), "settings": settings })
    }
}

fn value(literal: super::Literal, text: &str) -> Value {
    match literal {
        super::Literal::Text => text.into(),
        super::Literal::Number => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
        super::Literal::Switch => (text == "true").into(),
    }
}

/// The settings as a table in Markdown: for the documentation, which a test keeps current.
pub fn markdown() -> String {
    let mut out =
        String::from("| setting | flag | environment | default | what it is |\n|---|---|---|---|---|\n");
    for setting in SETTINGS {
        let _ = writeln!(
            out,
            "| `{}` | `--{}` | `{}` | {} | {} |",
            setting.key,
            setting.flag(),
            setting.variable(),
            setting.default_words(),
            setting.about.replace('|', "\\|"),
        );
    }
    out
}
