//! Every rule, shown to fire on a bad snippet and to leave its good twin alone.

use super::{Finding, check};

const HEAD: &str = "//! Says what this file is for.\n";
const WORDS: &str = "crates/fabric/src/region/words.rs";

/// What is found in a snippet at `path`, with a head that is fine.
fn found(path: &str, body: &str) -> Vec<String> {
    messages(check(path, &format!("{HEAD}{body}"), &|_| false))
}

fn messages(findings: Vec<Finding>) -> Vec<String> {
    findings.into_iter().map(|finding| finding.message).collect()
}

fn assert_one(findings: Vec<String>, part: &str) {
    assert!(findings.len() == 1 && findings[0].contains(part), "expected one `{part}`: {findings:?}");
}

fn assert_none(findings: Vec<String>) {
    assert!(findings.is_empty(), "{findings:?}");
}

#[test]
fn a_file_without_a_purpose_is_found() {
    for text in ["fn f() {}\n", "//! placeholder\nfn f() {}\n", "\n#![allow(x)]\n//! Says what it is for.\n"]
    {
        assert_one(messages(check("crates/heap/src/x.rs", text, &|_| false)), "what it is for");
    }
    assert_one(messages(check(".ci/run", "#!/bin/sh\nset -e\n", &|_| false)), "what it is for");
    assert_none(messages(check(".ci/run", "#!/bin/sh\n# Runs all the tests.\nset -e\n", &|_| false)));
}

#[test]
fn unsafe_outside_its_modules_is_found() {
    for path in ["crates/heap/src/x.rs", "crates/fabric/src/verbs/port.rs", "crates/fabric/tests/attack.rs"] {
        assert_one(found(path, "// SAFETY: x is valid.\nunsafe { f() }\n"), "outside the modules");
    }
    assert_none(found("crates/heap/src/x.rs", "// unsafe is a word\nlet unsafe_code = \"unsafe\";\n"));
}

#[test]
fn unsafe_without_its_reason_is_found() {
    for body in ["unsafe { f() }\n", "unsafe impl Send for X {}\n", "pub unsafe fn f() {}\n"] {
        assert_one(found(WORDS, body), "SAFETY:");
    }
    assert_none(found(WORDS, "// SAFETY: the mapping outlives self.\nlet x = unsafe { f() };\n"));
    assert_none(found(
        "crates/fabric/src/verbs/sys/device.rs",
        "// SAFETY: the list is not null.\nunsafe { f() }\n",
    ));
    assert_none(found(WORDS, "/// # Safety\n///\n/// `p` is valid.\npub unsafe fn f() {}\n"));
}

#[test]
fn a_long_reason_counts_and_a_distant_one_does_not() {
    let long = format!("// SAFETY: {}unsafe {{ f() }}\n", "a\n// ".repeat(9).trim_end_matches("// "));
    assert_none(found(WORDS, &long));
    let distant = format!("// SAFETY: a\nf();\n{}unsafe {{ f() }}\n", "f();\n".repeat(7));
    assert_one(found(WORDS, &distant), "SAFETY:");
}

#[test]
fn an_ordering_without_its_partner_is_found() {
    for body in [
        "x.load(Ordering::Acquire);\n",
        "x.store(1, atomic::Ordering::Release);\n",
        "x.swap(1, Ordering::AcqRel);\n",
        "x.load(Ordering::SeqCst);\n",
        "fence(Ordering::Acquire);\n",
        "std::sync::atomic::fence(order);\n",
    ] {
        assert_one(found("crates/fabric/src/ring.rs", body), "SYNC:");
    }
    assert_none(found(
        "crates/fabric/src/ring.rs",
        "// SYNC: pairs with Ring::push.\nx.load(Ordering::Acquire);\n",
    ));
    assert_none(found(
        "crates/fabric/src/ring.rs",
        "x.load(Ordering::SeqCst); // ORDER: total, for the proof\n",
    ));
    assert_none(found(
        "crates/fabric/src/ring.rs",
        "x.load(Ordering::Relaxed);\nlet offence = f(Command::Release);\n",
    ));
}

#[test]
fn orderings_in_tests_need_no_partner_but_cannot_hide_behind_imports() {
    let body = "#[cfg(test)]\nmod tests {\n fn f() { x.load(Ordering::Acquire); }\n}\n";
    assert_none(found("crates/fabric/src/ring.rs", body));
    assert_none(found("crates/fabric/tests/race.rs", "x.load(Ordering::Acquire);\n"));
    for body in [
        "use std::sync::atomic::Ordering::{Acquire, Release};\n",
        "use std::sync::atomic::Ordering::Acquire;\n",
    ] {
        assert_one(found("crates/fabric/src/ring.rs", body), "in full");
    }
}

#[test]
fn a_long_file_is_found() {
    let lines = |count: usize| {
        check("crates/heap/src/x.rs", &format!("{HEAD}{}", "\n".repeat(count - 1)), &|_| false)
    };
    assert!(lines(400).is_empty());
    assert!(lines(401).iter().all(|finding| finding.warning));
    assert_eq!(lines(401).len(), 1);
    assert!(lines(701).iter().any(|finding| !finding.warning));
}

#[test]
fn unfinished_work_is_found() {
    for body in ["// TODO: later\n", "/* FIXME */\n", "todo!()\n", "unimplemented!(\"x\")\n", "dbg!(x);\n"] {
        assert_eq!(found("crates/heap/src/x.rs", body).len(), 1, "{body}");
    }
    assert_none(found("crates/heap/src/x.rs", "let s = \"TODO\";\nmy_todo!();\n"));
}

#[test]
fn a_crate_that_does_not_forbid_unsafe_is_found() {
    for path in ["crates/heap/src/lib.rs", "crates/cli/src/main.rs", "xtask/src/main.rs"] {
        assert_one(found(path, "fn f() {}\n"), "forbid(unsafe_code)");
        assert_none(found(path, "#![forbid(unsafe_code)]\n"));
    }
    assert_none(found("crates/fabric/src/lib.rs", "fn f() {}\n"));
    assert_none(found("crates/heap/src/slab.rs", "fn f() {}\n"));
}

#[test]
fn a_crate_that_knows_one_below_it_is_found() {
    let manifest =
        |name: &str, text: &str| messages(check(&format!("crates/{name}/Cargo.toml"), text, &|_| false));
    assert_one(manifest("layout", "[dependencies]\nbarn-fabric.workspace = true\n"), "must not know");
    assert_one(
        manifest("fabric", "[dev-dependencies]\nbarn-server = { path = \"../server\" }\n"),
        "must not know",
    );
    assert_one(manifest("heap", "[dependencies.barn]\nworkspace = true\n"), "must not know");
    assert_one(manifest("heap", "[dependencies]\nbarn-silo = \"1\"\n"), "not in the list");
    assert_one(manifest("silo", "[dependencies]\n"), "not in the list");
    assert_none(manifest(
        "cli",
        "[dependencies]\nbarn-fabric.workspace = true\nclap = \"4\"\n[features]\nbarn-x = []\n",
    ));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let links = |text: &str| {
        messages(check("docs/guide.md", text, &|path| path == "README.md" || path == "docs/layout.md"))
    };
    assert_one(links("See [this](missing.md).\n"), "missing.md");
    assert_one(links("See [this](../../outside.md).\n"), "outside.md");
    assert_none(links(
        "[a](layout.md#x) [b](../README.md) [c](https://example.org/x.md) [d](#here) [e](/README.md)\n",
    ));
    assert_none(links("`[x](missing.md)`\n```\n[y](missing.md)\n```\n"));
}
