//! Base64 (RFC 4648, section 4): bytes that are not text, in JSON and on command lines.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PAD: u8 = b'=';

/// The text for bytes.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(group.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let sextet = (bits >> (18 - 6 * at)) as usize & 63;
            // A group of n bytes has n + 1 letters.
            let letter = if at <= group.len() { ALPHABET[sextet] } else { PAD };
            text.push(char::from(letter));
        }
    }
    text
}

/// The bytes of a text, in the one form that [`encode`] gives.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{text}` is not base64: write the form that `base64` prints");
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.as_bytes().chunks(4) {
        let letters = group.iter().take_while(|letter| **letter != PAD).count();
        if group.len() != 4 || letters < 2 || group[letters..].iter().any(|letter| *letter != PAD) {
            return Err(wrong());
        }
        let mut bits = 0u32;
        for at in 0..4 {
            let sextet = match group.get(at).filter(|_| at < letters) {
                Some(letter) => ALPHABET.iter().position(|known| known == letter).ok_or_else(wrong)?,
                None => 0,
            };
            bits = bits << 6 | sextet as u32;
        }
        bytes.extend(&bits.to_be_bytes()[1..letters]);
    }
    // Padding anywhere but at the end, and bits behind the last byte, would be lost silently.
    if encode(&bytes) == text { Ok(bytes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        let examples = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, text) in examples.into_iter().enumerate() {
            assert_eq!(encode(&b"foobar"[..length]), text);
            assert_eq!(decode(text).expect(text), &b"foobar"[..length]);
        }
    }

    #[test]
    fn every_byte_comes_back_and_nothing_else_is_taken() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Ok(all));
        for text in ["Zg", "Zg=", "Z===", "====", "Zh==", "Zg==Zg==", "Zm 9", "Zm9v\n", "Zm9-", "é==="] {
            assert!(decode(text).is_err(), "{text}");
        }
    }
}
