//! The binary as a user or a script meets it: exit codes, plain output when piped, JSON.

use std::process::{Command, Output};

use serde_json::Value;

fn barn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barn")).args(args).output().expect("starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("is text")
}

#[test]
fn doctor_ends_with_3_exactly_when_something_limits() {
    let output = barn(&["doctor", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let checks = json["checks"].as_array().expect("has checks");
    let limited = checks.iter().any(|check| check["status"] == "limits");
    assert_eq!(output.status.code(), Some(if limited { 3 } else { 0 }));
    assert!(json["machine"]["memory_bytes"].as_u64().expect("has memory") > 0);
}

#[test]
fn piped_output_has_no_escapes() {
    for args in [&["doctor"][..], &["doctor", "--why"], &[]] {
        let output = barn(args);
        assert!(!text(&output.stdout).contains('\x1b'), "{args:?}");
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[test]
fn no_command_says_what_to_do_next() {
    let output = barn(&[]);
    assert_eq!(output.status.code(), Some(0));
    for next in ["barn doctor", "barn serve", "barn bench fabric", "barn --help"] {
        assert!(text(&output.stdout).contains(next), "{next}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for args in [&["plough"][..], &["doctor", "--bogus"]] {
        assert_eq!(barn(args).status.code(), Some(2), "{args:?}");
    }
}
