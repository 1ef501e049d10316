//! Taking an HTTP/1.1 request apart: as little as a scraper needs, and strictly.
//!
//! What always holds: whatever bytes come, the outcome is a request, "more is needed", or a refusal;
//! never a panic, and never more than [`HEAD_BYTES_MAX`] bytes kept. Bodies are not read: a request
//! that announces one is refused.

/// The most that a request may have, all its headers included: ten times what a scraper sends.
pub(super) const HEAD_BYTES_MAX: usize = 8 << 10;
/// The most header lines.
const HEADERS_MAX: usize = 64;

/// A request, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The path, without what follows a `?`.
    pub(super) path: String,
    /// Whether only the head of the answer is wanted.
    pub(super) head_only: bool,
}

/// What bytes that came so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// The start of a request.
    More,
    /// A request.
    Request(Asked),
    /// None that is answered: a status, and why.
    Refused(u16, &'static str),
}

/// Whether a byte may stand in a method or a header's name (RFC 9110's tokens).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Takes what came so far for a request.
pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return match bytes.len() >= HEAD_BYTES_MAX {
            true => Parsed::Refused(431, "the request's head is longer than 8 KiB"),
            false => Parsed::More,
        };
    };
    if end + 4 > HEAD_BYTES_MAX {
        return Parsed::Refused(431, "the request's head is longer than 8 KiB");
    }
    let mut lines = bytes[..end].split(|byte| *byte == b'\n');
    let line = |line: &'_ [u8], last: bool| -> Option<Vec<u8>> {
        // Every line but the last, whose end was cut off above, ends in a carriage return.
        let line = if last { Some(line) } else { line.strip_suffix(b"\r") }?;
        (!line.contains(&b'\r') && !line.contains(&0)).then(|| line.to_vec())
    };
    let count = lines.clone().count();
    let Some(first) = lines.next().and_then(|first| line(first, count == 1)) else {
        return Parsed::Refused(400, "lines end in a carriage return and a line feed");
    };
    let asked = match request_line(&first) {
        Ok(asked) => asked,
        Err((status, why)) => return Parsed::Refused(status, why),
    };
    if count - 1 > HEADERS_MAX {
        return Parsed::Refused(431, "more than 64 headers");
    }
    for (at, header) in lines.enumerate() {
        let Some(header) = line(header, at + 2 == count) else {
            return Parsed::Refused(400, "lines end in a carriage return and a line feed");
        };
        let mut parts = header.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next());
        let Some(value) = value.filter(|_| !name.is_empty() && name.iter().all(|byte| is_token(*byte)))
        else {
            return Parsed::Refused(400, "a header is a name, a colon and a value");
        };
        let announces = match name.to_ascii_lowercase().as_slice() {
            b"content-length" => value.trim_ascii() != b"0",
            b"transfer-encoding" => true,
            _ => false,
        };
        if announces {
            return Parsed::Refused(413, "a body is of no use here");
        }
    }
    Parsed::Request(asked)
}

fn request_line(line: &[u8]) -> Result<Asked, (u16, &'static str)> {
    let mut words = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err((400, "a request is a method, a path and a version"));
    };
    if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
        return Err((400, "a request is a method, a path and a version"));
    }
    if !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return Err((505, "HTTP/1.1 is spoken here"));
    }
    let head_only = match method {
        b"GET" => false,
        b"HEAD" => true,
        _ => return Err((405, "only GET and HEAD")),
    };
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = std::str::from_utf8(path).ok().filter(|path| path.starts_with('/'));
    let path = path.filter(|path| path.bytes().all(|byte| byte.is_ascii_graphic()));
    match path {
        Some(path) => Ok(Asked { path: path.to_string(), head_only }),
        None => Err((400, "a path begins with a slash and is of visible ASCII")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use barn_fabric::seam::{Random, Seeded};

    const WHOLE: &[u8] = b"GET /metrics?x=1 HTTP/1.1\r\nHost: node:9100\r\nAccept: */*\r\n\r\n";

    #[test]
    fn a_scrapers_request_is_understood_however_it_comes() {
        let asked = Asked { path: "/metrics".into(), head_only: false };
        assert_eq!(parse(WHOLE), Parsed::Request(asked.clone()));
        for cut in 0..WHOLE.len() {
            assert_eq!(parse(&WHOLE[..cut]), Parsed::More, "cut at {cut}");
        }
        let mut longer = WHOLE.to_vec();
        longer.extend_from_slice(b"GET /another HTTP/1.1\r\n\r\n");
        assert_eq!(parse(&longer), Parsed::Request(asked), "what follows a request is nobody's");
        let head = parse(b"HEAD /healthz HTTP/1.0\r\n\r\n");
        assert_eq!(head, Parsed::Request(Asked { path: "/healthz".into(), head_only: true }));
    }

    #[test]
    fn what_is_no_such_request_is_refused() {
        let refused: [(&[u8], u16); 14] = [
            (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
            (b"GET /metrics HTTP/2\r\n\r\n", 505),
            (b"GET metrics HTTP/1.1\r\n\r\n", 400),
            (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
            (b"GET /metrics\r\n\r\n", 400),
            (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
            (b"GET /a\x00 HTTP/1.1\r\n\r\n", 400),
            (b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\n: empty\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nA B: c\r\n\r\n", 400),
            (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
            (b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 413),
            (b"\r\n\r\n", 400),
        ];
        for (bytes, status) in refused {
            let parsed = parse(bytes);
            assert!(
                matches!(parsed, Parsed::Refused(found, _) if found == status),
                "{parsed:?}, not {status}"
            );
        }
        assert!(matches!(parse(&[b'a'; HEAD_BYTES_MAX]), Parsed::Refused(431, _)));
        let many = [b"GET / HTTP/1.1\r\n".to_vec(), b"a:b\r\n".repeat(65), b"\r\n".to_vec()].concat();
        assert!(matches!(parse(&many), Parsed::Refused(431, _)));
    }

    #[test]
    fn no_bytes_make_it_panic_and_none_but_a_get_are_taken_for_one() {
        let mut random = Seeded::new(17);
        for round in 0..200_000u32 {
            let mut bytes = WHOLE.to_vec();
            for _ in 0..random.below(6) {
                let at = random.below(bytes.len() as u64 + 1) as usize;
                match random.below(3) {
                    0 => bytes.insert(at, random.below(256) as u8),
                    1 if at < bytes.len() => drop(bytes.remove(at)),
                    _ if at < bytes.len() => bytes[at] = random.below(256) as u8,
                    _ => {}
                }
            }
            if let Parsed::Request(asked) = parse(&bytes) {
                assert!(asked.path.starts_with('/') && asked.path.is_ascii(), "round {round}: {asked:?}");
                assert!(bytes.starts_with(b"GET "), "round {round}");
            }
        }
    }
}
