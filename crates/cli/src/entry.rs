//! Keys and values on the way in and out: bytes of any kind, as lines for people and as JSON.
//!
//! What always holds: one entry is one line, whatever its bytes; what JSON says leads back to the
//! very bytes (`key` or `key_base64`, `value` or `value_base64`).

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use barn::Found;
use serde_json::{Map, Value};

use crate::base64;

/// A key from the command line, as it is or from base64.
pub fn key(text: &OsStr, is_base64: bool) -> Result<Vec<u8>, String> {
    match is_base64 {
        false => Ok(text.as_bytes().to_vec()),
        true => base64::decode(&text.to_string_lossy()),
    }
}

/// Bytes on one line: text stays as it is; control characters, backslashes and bytes that are not
/// text are escaped as `\n`, `\t`, `\\`, `\x00`.
pub fn line(bytes: &[u8]) -> String {
    let mut line = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => line.push_str("\\\\"),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                control if control.is_control() => {
                    for byte in control.encode_utf8(&mut [0; 4]).bytes() {
                        let _ = write!(line, "\\x{byte:02x}");
                    }
                }
                letter => line.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
    line
}

/// As [`line`], for messages: a long key does not drown what is said of it.
pub fn shortened(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 128;
    match bytes.len() {
        ..=SHOWN_MAX => line(bytes),
        length => format!("{}… ({length} bytes)", line(&bytes[..SHOWN_MAX])),
    }
}

/// The bytes of a line, as [`line`] wrote it.
pub fn from_line(line: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let [first, after @ ..] = rest {
        if *first != b'\\' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let (byte, used) = match after {
            [b'\\', ..] => (b'\\', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b't', ..] => (b'\t', 1),
            [b'x', high, low, ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, 3),
                _ => return Err(bad_escape(line)),
            },
            _ => return Err(bad_escape(line)),
        };
        bytes.push(byte);
        rest = &after[used..];
    }
    Ok(bytes)
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).map(|digit| digit as u8)
}

fn bad_escape(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    format!("`{line}`: a backslash begins \\\\, \\n, \\r, \\t or \\xNN in lines of keys")
}

/// Puts bytes into a JSON object: as text under `name`, or in base64 under `name_base64`.
pub fn set(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.into(), text.into()),
        Err(_) => object.insert(format!("{name}_base64"), base64::encode(bytes).into()),
    };
}

/// A JSON object that names a key.
pub fn named(key: &[u8]) -> Map<String, Value> {
    let mut object = Map::new();
    set(&mut object, "key", key);
    object
}

/// Puts a version into a JSON object: as a string, since most programs that read JSON keep but 53
/// bits of a number, and a version has 64.
pub fn set_version(object: &mut Map<String, Value>, version: u64) {
    object.insert("version".into(), version.to_string().into());
}

/// What a key has: version, when it expires, value.
pub fn describe(object: &mut Map<String, Value>, found: &Found) {
    set_version(object, found.version);
    if found.expires != 0 {
        object.insert("expires_ms".into(), found.expires.into());
    }
    set(object, "value", &found.value);
}

/// The time, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// How long something that expires is there for, in milliseconds.
pub fn left_ms(found: &Found) -> Option<u64> {
    (found.expires != 0).then(|| found.expires.saturating_sub(now_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whatever_the_bytes_a_line_is_one_line() {
        assert_eq!(line("Größe 7".as_bytes()), "Größe 7");
        assert_eq!(line(b"a\tb\nc\\d\r"), "a\\tb\\nc\\\\d\\r");
        assert_eq!(line(b"\x00\x1b[1m\xff\xc2\x85"), "\\x00\\x1b[1m\\xff\\xc2\\x85");
    }

    #[test]
    fn lines_lead_back_to_their_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        for bytes in [&all[..], b"", "Größe 7 \u{85}".as_bytes(), b"\\x41"] {
            assert_eq!(from_line(line(bytes).as_bytes()).as_deref(), Ok(bytes));
        }
        for wrong in [&b"\\"[..], b"\\q", b"\\x", b"\\x4", b"\\xzz"] {
            assert!(from_line(wrong).is_err());
        }
    }

    #[test]
    fn json_has_text_where_there_is_text() {
        let mut object = named(b"\xff\x00");
        describe(&mut object, &Found { value: b"one".to_vec(), version: 3, expires: 0 });
        assert_eq!(Value::from(object), json!({ "key_base64": "/wA=", "version": "3", "value": "one" }));
    }

    #[test]
    fn keys_come_as_they_are_or_in_base64() {
        assert_eq!(key(OsStr::new("/wA="), false), Ok(b"/wA=".to_vec()));
        assert_eq!(key(OsStr::new("/wA="), true), Ok(vec![0xff, 0]));
        assert!(key(OsStr::new("?"), true).is_err());
    }
}
