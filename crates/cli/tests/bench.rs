//! `barn bench papers` and `barn bench report` as a user meets them. What is measured is the machine's affair;
//! that everything is there, well said and where it was asked for, is ours.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

fn barn(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_barn")).args(args).output().expect("starts")
}

/// A directory of the test's own, gone with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("barn-cli-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("can be made");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn help_says_what_papers_and_reports_are_and_a_wrong_part_ends_with_2() {
    for (command, words) in [
        ("papers", &["--paper", "--svg", "--quick", "pilaf", "rstore"][..]),
        ("report", &["--full", "--out", "--markdown", "barn-report.html", "--only"]),
    ] {
        let output = barn(&["bench", command, "--help"]);
        let help = String::from_utf8(output.stdout).expect("is text");
        assert_eq!(output.status.code(), Some(0));
        assert!(words.iter().all(|word| help.contains(word)), "{help}");
    }
    for wrong in [
        &["bench", "report", "--only", "plough"][..],
        &["bench", "report", "--quick", "--full"],
        &["bench", "papers", "--paper", "bible"],
    ] {
        assert_eq!(barn(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let output = barn(&["bench", "report", "--out", "/nonexistent/barn/report.html"]);
    let said = String::from_utf8(output.stderr).expect("is text");
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("--out"), "{said}");
}

#[test]
fn a_report_has_its_page_its_tables_and_its_command() {
    let directory = Directory::new("report");
    let (page, tables) = (directory.file("report.html"), directory.file("performance.md"));
    let output = barn(&["bench", "report", "--only", "tx", "--out", &page, "--markdown", &tables, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(json["sections"][0]["command"], "barn bench tx --quick");
    assert_eq!(json["command"], "barn bench report --quick --only tx");
    assert!(json["noise"]["disturbance"]["looks"].as_u64() > Some(0), "{}", json["noise"]);
    assert!(json["sections"][0]["margin"].as_f64() >= Some(0.05), "{}", json["sections"][0]["margin"]);
    let rows = json["sections"][0]["report"]["rows"].as_array().expect("has rows");
    let html = std::fs::read_to_string(&page).expect("is written");
    let markdown = std::fs::read_to_string(&tables).expect("is written");
    for row in rows.iter().filter(|row| row.get("absent").is_none()) {
        let name = row["name"].as_str().expect("has a name");
        assert!(html.contains(name) && markdown.contains(name), "{name}");
    }
    for text in [&html, &markdown] {
        assert!(text.contains("barn bench tx --quick") && text.contains("This machine was "), "{text}");
    }
}

#[test]
fn a_papers_claims_have_verdicts_and_its_figures_are_drawn() {
    let directory = Directory::new("papers");
    let figures = directory.file("figures");
    let output = barn(&["bench", "papers", "--paper", "herd", "--quick", "--svg", &figures, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let rows = json["rows"].as_array().expect("has rows");
    let verdict = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).expect("is a claim");
        row["verdict"].as_str().expect("has a verdict").to_owned()
    };
    assert!(rows.iter().all(|row| row["measured"] == true && row["paper"] == "HERD"), "{rows:?}");
    // What no hardware changes holds on any machine, however loaded.
    for reads in ["inline", "outside", "cuckoo", "request"] {
        assert_eq!(verdict(&format!("herd/section-5.1/reads-{reads}")), "holds");
    }
    let drawn: Vec<String> = std::fs::read_dir(&figures)
        .expect("is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    for number in ["9", "10", "11", "12"] {
        for transport in ["shm", "tcp"] {
            let is = |name: &&String| {
                name.starts_with(&format!("herd-figure-{number}-"))
                    && name.ends_with(&format!("{transport}.svg"))
            };
            assert_eq!(drawn.iter().filter(is).count(), 1, "{number} {transport} {drawn:?}");
        }
    }
}
