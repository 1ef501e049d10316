//! Text made safe for HTML and SVG: the one place that knows which characters mean something there.
//!
//! What always holds: whatever goes in, what comes out is text of a well-formed document, in an element
//! and in a quoted attribute alike. Names of machines, peers and files come from outside.

use barn_layout::planted;

/// The text with every character that markup gives a meaning written as what it stands for.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' if !planted("markup_less_than") => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no way to write these at all.
            '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}')
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Fails unless the document is well formed.
    pub(crate) fn assert_well_formed(document: &str) {
        if let Err(why) = well_formed(document) {
            panic!("{why}");
        }
    }

    /// Whether every tag is closed by its own, in order, and nothing else looks like one. Elements that HTML
    /// never closes are known.
    fn well_formed(document: &str) -> Result<(), String> {
        const VOID: [&str; 4] = ["meta", "!doctype", "br", "hr"];
        let (mut open, mut rest) = (Vec::new(), document);
        while let Some(at) = rest.find('<') {
            let (text, markup) = rest.split_at(at);
            let Some(end) = markup.find('>') else { return Err(format!("a tag without an end: {markup}")) };
            let tag = &markup[1..end];
            let name =
                tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or("").to_lowercase();
            let wrong = [
                (text.contains('>'), "a stray > before"),
                (tag.contains('<'), "a tag within"),
                (!tag.matches('"').count().is_multiple_of(2), "a quote that is not closed in"),
                (name.is_empty(), "no name in"),
            ];
            if let Some((_, why)) = wrong.iter().find(|(wrong, _)| *wrong) {
                return Err(format!("{why} <{tag}>"));
            }
            rest = &markup[end + 1..];
            if tag.starts_with('/') {
                if open.pop().as_ref() != Some(&name) {
                    return Err(format!("<{tag}> closes what is not open, or not innermost"));
                }
            } else if name == "style" {
                // Its text is no markup.
                let end = rest.find("</style>").ok_or("a style sheet without an end")?;
                rest = &rest[end + "</style>".len()..];
            } else if !tag.ends_with('/') && !VOID.contains(&name.as_str()) {
                open.push(name);
            }
        }
        match (rest.contains('>'), open.is_empty()) {
            (false, true) => Ok(()),
            (true, _) => Err("a stray > at the end".into()),
            (false, false) => Err(format!("never closed: {open:?}")),
        }
    }

    #[test]
    fn a_hostile_name_is_only_text() {
        let name = "\"><script>alert('x')</script>&\0";
        let safe = escape(name);
        assert_eq!(safe, "&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;\u{fffd}");
        assert_well_formed(&format!("<p title=\"{safe}\">{safe}</p>"));
        assert_eq!(escape("µs × 2 – ok\n"), "µs × 2 – ok\n");
    }

    #[test]
    fn the_check_for_well_formed_documents_finds_what_is_wrong() {
        assert_well_formed("<!doctype html><meta charset=\"utf-8\"><p>a<br>b <i/></p>");
        for wrong in ["<p>", "</p>", "<p><b></p></b>", "<p title=\"x>y</p>", "a > b", "< p"] {
            assert!(well_formed(wrong).is_err(), "{wrong}");
        }
    }
}
