//! The token file: a secret that a node and its tcp clients share.

use std::io;
use std::path::Path;

/// Shorter tokens can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Reads a token, without the white space around it.
pub fn read(path: &Path) -> io::Result<String> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("token file {}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(named)?;
    let token = text.trim();
    if token.len() < TOKEN_BYTES_MIN {
        let make = "head -c 32 /dev/urandom | base64 > FILE";
        return Err(io::Error::other(format!(
            "token file {}: a token has at least {TOKEN_BYTES_MIN} bytes; make one with `{make}`",
            path.display()
        )));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_trimmed_and_a_short_or_missing_one_is_refused() {
        let path = std::env::temp_dir().join(format!("barn-token-{}", std::process::id()));
        std::fs::write(&path, "  0123456789abcdef\n").expect("writes");
        assert_eq!(read(&path).expect("reads"), "0123456789abcdef");
        std::fs::write(&path, "short").expect("writes");
        assert!(read(&path).unwrap_err().to_string().contains("at least 16 bytes"));
        std::fs::remove_file(&path).expect("removes");
        assert!(read(&path).unwrap_err().to_string().contains("token file"));
    }
}
