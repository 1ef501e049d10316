//! Passes into chunks: the master makes them out, keepers check them (RStore section III-E: the master keeps
//! the access permissions; here a client carries them, so that keepers need not ask).
//!
//! What always holds: nobody makes a pass without the secret, which master and keepers share; a pass is for
//! one life of one member, one session, these regions and these rights; codes and keys are compared in
//! constant time.

use crate::message::{Pass, SessionId};
use barn_cluster::{Life, MemberId};
use barn_layout::planted;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// How long a secret is.
pub const SECRET_BYTES: usize = 32;

/// Says what the code is over, so that it never passes for one of something else.
const LABEL: &[u8] = b"barn space pass 1";

/// What passes are made with. The master draws it; keepers get it with their work.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret(..)")
    }
}

impl Secret {
    /// A secret of these bytes, which nobody can guess.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// The secret that [`Self::to_hex`] gave, if it is one.
    pub fn from_hex(text: &str) -> Option<Self> {
        from_hex(text)?.try_into().ok().map(Self)
    }

    /// In hex, as keepers get it.
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// Makes a pass out.
    pub fn pass(
        &self,
        member: MemberId,
        life: Life,
        session: SessionId,
        regions: Vec<u32>,
        write: bool,
    ) -> Pass {
        let mut pass = Pass { member, life, session, regions, write, code: String::new() };
        pass.code = to_hex(&self.code_of(&pass).finalize().into_bytes());
        pass
    }

    /// Whether this pass was made out by somebody with the secret, exactly as it is. That it is for this
    /// member, this life and this client is for the keeper to see.
    pub fn is_true(&self, pass: &Pass) -> bool {
        from_hex(&pass.code).is_some_and(|code| self.code_of(pass).verify_slice(&code).is_ok())
    }

    /// Whether a key that somebody shows is the one that is kept. Codes of both are compared, so that
    /// neither the time nor the length tells how much of it is right.
    pub(crate) fn same_key(&self, shown: &str, kept: &str) -> bool {
        let kept = self.mac(kept.as_bytes()).finalize().into_bytes();
        self.mac(shown.as_bytes()).verify_slice(&kept).is_ok()
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length is fine");
        mac.update(bytes);
        mac
    }

    /// Every field has a fixed length and the regions are counted, so that two passes never look alike.
    fn code_of(&self, pass: &Pass) -> Hmac<Sha256> {
        let Pass { member, life, session, regions, write, code: _ } = pass;
        let mut mac = self.mac(LABEL);
        mac.update(&member.0.to_le_bytes());
        mac.update(&life.0.to_le_bytes());
        mac.update(&session.0.to_le_bytes());
        if !planted("space_pass_without_rights") {
            mac.update(&[u8::from(*write)]);
        }
        mac.update(&(regions.len() as u64).to_le_bytes());
        for region in regions {
            mac.update(&region.to_le_bytes());
        }
        mac
    }
}

/// Bytes in hex.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> Secret {
        Secret::new([7; SECRET_BYTES])
    }

    fn pass() -> Pass {
        secret().pass(MemberId(1), Life(2), SessionId(3), vec![4, 5], false)
    }

    #[test]
    fn a_pass_as_it_was_made_out_is_true() {
        assert!(secret().is_true(&pass()));
        assert!(Secret::from_hex(&secret().to_hex()).is_some_and(|secret| secret.is_true(&pass())));
    }

    #[test]
    fn a_pass_with_any_field_changed_is_not() {
        let changes: [fn(&mut Pass); 12] = [
            |pass| pass.member = MemberId(2),
            |pass| pass.life = Life(1),
            |pass| pass.session = SessionId(4),
            |pass| pass.write = true,
            |pass| pass.regions.push(6),
            |pass| pass.regions.truncate(1),
            |pass| pass.regions.swap(0, 1),
            |pass| pass.regions.clear(),
            |pass| pass.code.clear(),
            |pass| pass.code.truncate(62),
            |pass| pass.code.push('0'),
            |pass| pass.code.replace_range(0..1, "é"),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut pass = pass();
            change(&mut pass);
            assert!(!secret().is_true(&pass), "change {number}");
        }
        assert!(!Secret::new([8; SECRET_BYTES]).is_true(&pass()), "another secret");
    }

    #[test]
    fn keys_are_the_same_only_if_they_are() {
        assert!(secret().same_key("abc", "abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!secret().same_key(other, "abc"), "{other}");
        }
    }

    #[test]
    fn hex_that_is_none_is_refused() {
        for text in ["", "0", "zz", "00", &"0".repeat(63), &"0".repeat(66), &"+1".repeat(32)] {
            assert_eq!(Secret::from_hex(text), None, "{text}");
        }
    }
}
