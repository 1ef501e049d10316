//! The rules for Rust files (and, of them, the one that holds for scripts, too).

use barn_layout::planted;

use super::Finding;
use super::lexer::{self, Line, is_word};

/// The only places where `unsafe` may stand; ARCHITECTURE.md says why each needs it. A name
/// that ends in `/` is a directory.
pub(super) const UNSAFE_ALLOWED: [&str; 9] = [
    "crates/fabric/src/crc64.rs",
    "crates/fabric/src/region/vector.rs",
    "crates/fabric/src/region/words.rs",
    "crates/fabric/src/region/bare.rs",
    "crates/fabric/src/region/checked.rs",
    "crates/fabric/src/region/mapping.rs",
    "crates/fabric/src/region/socket.rs",
    "crates/fabric/src/seam/ticks.rs",
    "crates/fabric/src/verbs/sys/",
];
/// The one crate that cannot forbid `unsafe` as a whole.
const UNSAFE_CRATE: &str = "crates/fabric/";
/// A file fits in a head; past this it is two files.
const LINES_MAX: usize = 700;
const LINES_WARN: usize = 400;
/// How far above its line a justification may stand: a statement that rustfmt broke up.
const REACH_LINES: usize = 6;
/// Fewer words than this say nothing about what a file is for.
const PURPOSE_WORDS_MIN: usize = 3;

const ORDERINGS: [&str; 4] = ["Acquire", "Release", "AcqRel", "SeqCst"];
const UNFINISHED_MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
const UNFINISHED_WORDS: [&str; 2] = ["TODO", "FIXME"];

/// Collects findings about one file.
struct Findings<'a> {
    path: &'a str,
    list: Vec<Finding>,
}

impl Findings<'_> {
    fn error(&mut self, line: usize, message: impl Into<String>) {
        self.list.push(Finding { path: self.path.into(), line, message: message.into(), warning: false });
    }

    fn warning(&mut self, line: usize, message: impl Into<String>) {
        self.list.push(Finding { path: self.path.into(), line, message: message.into(), warning: true });
    }
}

/// Every rule, for a Rust file.
pub(super) fn rust(path: &str, text: &str) -> Vec<Finding> {
    let lines = lexer::lines(text);
    let mut findings = Findings { path, list: Vec::new() };
    purpose(text, &["//!", "//", "/*!"], &mut findings);
    size(text, &mut findings);
    unsafe_code(&lines, &mut findings);
    forbids_unsafe(&lines, &mut findings);
    unfinished(&lines, &mut findings);
    if !is_test_file(path) {
        orderings(&lines, &mut findings);
    }
    findings.list
}

/// The rules for a script: it says what it is for.
pub(super) fn script(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Findings { path, list: Vec::new() };
    purpose(text, &["#"], &mut findings);
    findings.list
}

/// Files that only tests compile, by their name.
fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let dirs = ["tests", "benches"];
    name == "tests.rs" || name.ends_with("_tests.rs") || path.split('/').any(|part| dirs.contains(&part))
}

fn purpose(text: &str, marks: &[&str], findings: &mut Findings<'_>) {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("#!/"));
    let said = first.and_then(|line| marks.iter().find_map(|mark| line.strip_prefix(mark)));
    if said.is_none_or(|said| said.split_whitespace().count() < PURPOSE_WORDS_MIN) {
        findings.error(1, "the file must open with a comment that says what it is for");
    }
}

fn size(text: &str, findings: &mut Findings<'_>) {
    let count = text.lines().count();
    if count > LINES_MAX {
        findings.error(0, format!("{count} lines; at most {LINES_MAX}: it is more than one file"));
    } else if count > LINES_WARN {
        findings.warning(0, format!("{count} lines; most files should stay under {LINES_WARN}"));
    }
}

fn unsafe_code(lines: &[Line], findings: &mut Findings<'_>) {
    let path = findings.path;
    let allowed = UNSAFE_ALLOWED
        .iter()
        .any(|allow| path == *allow || (allow.ends_with('/') && path.starts_with(allow)));
    for (index, line) in lines.iter().enumerate() {
        if planted("tidy_overlooks_unsafe") || !has_word(&line.code, "unsafe") {
            continue;
        }
        if !allowed {
            findings.error(
                index + 1,
                "`unsafe` outside the modules that are allowed it (UNSAFE_ALLOWED in xtask)",
            );
        } else if !justified(lines, index, &["SAFETY:", "# Safety"]) {
            findings
                .error(index + 1, "`unsafe` without a `// SAFETY:` that names the fact that makes it sound");
        }
    }
}

/// A crate's root forbids `unsafe`, unless it is the one crate that has some.
fn forbids_unsafe(lines: &[Line], findings: &mut Findings<'_>) {
    let path = findings.path;
    let is_root = (path.starts_with("crates/") || path.starts_with("xtask/"))
        && ["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(root))
        && path.matches('/').count() <= 3;
    if !is_root || path.starts_with(UNSAFE_CRATE) {
        return;
    }
    if !lines.iter().any(|line| line.code.contains("#![forbid(unsafe_code)]")) {
        findings.error(1, "the crate must say `#![forbid(unsafe_code)]`");
    }
}

fn unfinished(lines: &[Line], findings: &mut Findings<'_>) {
    for (index, line) in lines.iter().enumerate() {
        for word in UNFINISHED_WORDS {
            if has_word(&line.comment, word) {
                findings.error(index + 1, format!("{word}: finish it, or open an issue"));
            }
        }
        for name in UNFINISHED_MACROS {
            let word = name.trim_end_matches('!');
            if line.code.contains(name) && has_word(&line.code, word) {
                findings.error(index + 1, format!("`{name}` must not be committed"));
            }
        }
    }
}

/// Every ordering that synchronises says with what.
fn orderings(lines: &[Line], findings: &mut Findings<'_>) {
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.test) {
        let code = &line.code;
        if code.contains("Ordering::{") || code.contains("Ordering::*") || imports_ordering(code) {
            findings
                .error(index + 1, "write `Ordering::Acquire` in full, so that it can be seen and checked");
            continue;
        }
        let ordering =
            ORDERINGS.iter().any(|name| has_word(code, name) && code.contains(&format!("Ordering::{name}")));
        let fence = has_word(code, "fence") && code.contains("fence(") && !code.contains("fn fence");
        if (ordering || fence) && !justified(lines, index, &["SYNC:", "ORDER:"]) {
            let message =
                "a memory ordering without `// SYNC:` (its partner) or `// ORDER:` (why it is enough)";
            findings.error(index + 1, message);
        }
    }
}

fn imports_ordering(code: &str) -> bool {
    let code = code.trim_start();
    let import = code.strip_prefix("pub ").unwrap_or(code).starts_with("use ");
    import && ORDERINGS.iter().any(|name| code.contains(&format!("Ordering::{name}")))
}

/// Whether one of the marks stands on the line or within reach above it. A long comment may
/// begin out of reach, if it ends within.
fn justified(lines: &[Line], index: usize, marks: &[&str]) -> bool {
    let marked = |line: &Line| marks.iter().any(|mark| line.comment.contains(mark));
    let nearest = index.saturating_sub(REACH_LINES);
    let above = lines[..nearest].iter().rev().take_while(|line| is_comment(line));
    lines[nearest..=index].iter().any(marked)
        || (is_comment(&lines[nearest]) && above.into_iter().any(marked))
}

fn is_comment(line: &Line) -> bool {
    let code = line.code.trim();
    (!line.comment.is_empty() && code.is_empty()) || code.starts_with("#[")
}

/// Whether `word` stands in `text` as a whole identifier.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}
