//! Rust, line by line, as code and comment: enough of a lexer for rules to trust.
//!
//! What always holds: text in strings appears in neither; a `//` in a string starts no
//! comment, and a quote in a comment no string; line N of the result is line N of the file.

/// One line of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// What the compiler sees, with every string literal emptied.
    pub(super) code: String,
    /// What it does not.
    pub(super) comment: String,
    /// Inside an item that only tests compile.
    pub(super) test: bool,
}

enum State {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(u32),
    Text,
    /// A raw string, ended by a quote and this many `#`.
    Raw(usize),
}

/// Splits a file into lines of code and comment, and marks what only tests compile.
pub(super) fn lines(text: &str) -> Vec<Line> {
    let chars: Vec<char> = text.chars().collect();
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        let line = lines.last_mut().expect("starts with one");
        if c == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        match state {
            State::Code => match (c, next) {
                ('/', Some('/')) => {
                    state = State::LineComment;
                    continue;
                }
                ('/', Some('*')) => {
                    state = State::BlockComment(1);
                    at += 1;
                }
                ('"', _) => {
                    line.code.push_str("\"\"");
                    state = State::Text;
                }
                ('r', Some('"' | '#')) if !ends_in_word(&line.code, "bc") => {
                    match raw_hashes(&chars, at + 1) {
                        Some(hashes) => {
                            line.code.push_str("\"\"");
                            state = State::Raw(hashes);
                            at += 1 + hashes;
                        }
                        None => line.code.push(c),
                    }
                }
                ('\'', Some('\\')) => {
                    // An escaped character: its end is the next quote after the escape.
                    let end = chars.iter().skip(at + 3).position(|c| *c == '\'');
                    line.code.push_str("' '");
                    at += end.map_or(2, |end| end + 3);
                }
                ('\'', Some(_)) if chars.get(at + 2) == Some(&'\'') => {
                    line.code.push_str("' '");
                    at += 2;
                }
                _ => line.code.push(c),
            },
            State::LineComment => line.comment.push(c),
            State::BlockComment(depth) => match (c, next) {
                ('*', Some('/')) => {
                    state = if depth == 1 { State::Code } else { State::BlockComment(depth - 1) };
                    at += 1;
                }
                ('/', Some('*')) => {
                    state = State::BlockComment(depth + 1);
                    at += 1;
                }
                _ => line.comment.push(c),
            },
            // A backslash at the end of a line continues the string; the line still ends.
            State::Text => match c {
                '\\' if next != Some('\n') => at += 1,
                '"' => state = State::Code,
                _ => {}
            },
            State::Raw(hashes) => {
                if c == '"' && chars[at + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes {
                    state = State::Code;
                    at += hashes;
                }
            }
        }
        at += 1;
    }
    mark_tests(&mut lines);
    lines
}

/// Whether an identifier runs up to here; `r` then is its last letter and starts no string.
/// `b` and `c` alone are prefixes of raw strings themselves.
fn ends_in_word(code: &str, prefixes: &str) -> bool {
    let word: String = code.chars().rev().take_while(|c| is_word(*c)).collect();
    !(word.is_empty() || (word.chars().count() == 1 && prefixes.contains(&word)))
}

/// The number of `#` before the quote that opens a raw string at `at`; `None` if none does.
fn raw_hashes(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    (chars.get(at + hashes) == Some(&'"')).then_some(hashes)
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Marks the block that follows each `#[cfg(test)]`, `#[cfg(all(test, …))]` or `#[test]`.
fn mark_tests(lines: &mut [Line]) {
    let mut depth = 0usize;
    let mut pending = false;
    let mut outer: Option<usize> = None;
    for line in lines {
        let starts = ["#[cfg(test)]", "#[cfg(all(test", "#[test]"];
        pending |= outer.is_none() && starts.iter().any(|start| line.code.contains(start));
        line.test = pending || outer.is_some();
        for c in line.code.chars() {
            match c {
                '{' => {
                    if pending {
                        (pending, outer) = (false, Some(depth));
                    }
                    depth += 1;
                }
                '}' => {
                    depth = depth.saturating_sub(1);
                    if outer == Some(depth) {
                        outer = None;
                    }
                }
                // `mod tests;`: the block is another file.
                ';' => pending = false,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        lines(text).into_iter().map(|line| line.code).collect()
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code(r#"let a = "unsafe // x"; // unsafe"#), [r#"let a = ""; "#]);
        assert_eq!(
            code(r##"f(r#"a "quoted" unsafe"#, br"x", b'"', '\'', '"')"##),
            [r#"f("", b"", b' ', ' ', ' ')"#]
        );
        assert_eq!(code("a /* unsafe /* nested */ still */ b"), ["a  b"]);
        assert_eq!(lines("x // SAFETY: y")[0].comment, "// SAFETY: y");
    }

    #[test]
    fn strings_and_comments_run_over_lines() {
        assert_eq!(code("let a = \"one\n unsafe \\\n two\"; b"), ["let a = \"\"", "", "; b"]);
        assert_eq!(code("/* a\nunsafe */ b"), ["", " b"]);
    }

    #[test]
    fn lifetimes_are_not_characters() {
        assert_eq!(code("fn f<'a>(x: &'a str) -> &'a str { x }"), ["fn f<'a>(x: &'a str) -> &'a str { x }"]);
        assert_eq!(code("for x in r { bar(\"x\") }"), ["for x in r { bar(\"\") }"]);
    }

    #[test]
    fn what_only_tests_compile_is_marked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n  fn b() { }\n}\nfn c() {}\n#[cfg(test)]\nmod more;\nfn d() {}";
        let marks: Vec<bool> = lines(text).into_iter().map(|line| line.test).collect();
        assert_eq!(marks, [false, true, true, true, true, false, true, true, false]);
    }
}
