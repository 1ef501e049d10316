//! The same tables as Markdown, for `docs/performance.md`.
//!
//! What always holds: a cell is one cell, whatever is in it.

use std::fmt::Write;

use super::rows::{VALUES, said, table};
use super::{Page, noise};

/// The whole document.
pub(super) fn page(page: &Page) -> String {
    let mut out = String::from("# How fast it is\n\n");
    let _ = writeln!(out, "Written by `{} --markdown`; not by hand.\n", page.command);
    let _ = writeln!(out, "Measured {} on {}.", page.when, text(&page.machine.summary()));
    let _ = writeln!(out, "**{}**\n", text(&page.noise.headline()));
    let _ = writeln!(out, "{VALUES}");
    for section in &page.sections {
        let _ = writeln!(out, "\n## {}\n\n{}\n", text(&section.title), text(&section.about));
        let _ = writeln!(out, "```console\n$ {}\n```\n", section.command);
        if let Some(why) = &section.failed {
            let _ = writeln!(out, "This part failed: {}", text(why));
        }
        let Some(report) = &section.report else { continue };
        let table = table(report, section.margin);
        let _ = writeln!(out, "{}\n", text(&said(section)));
        let _ = writeln!(out, "| {} |", table.head.join(" | "));
        let _ = writeln!(out, "|{}", "---|".repeat(table.head.len()));
        for line in table.lines {
            let cells: Vec<String> = line.cells.iter().map(|cell| text(cell)).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
    for (title, facts) in
        [("How noisy it was", page.noise.facts()), ("The machine", noise::machine_facts(&page.machine))]
    {
        let _ = writeln!(out, "\n## {title}\n\n| what | |\n|---|---|");
        for (name, value) in facts {
            let _ = writeln!(out, "| {} | {} |", text(name), text(&value));
        }
    }
    out
}

/// Text in which nothing means anything to Markdown's tables or to HTML.
fn text(text: &str) -> String {
    let one_line = text.replace(['\n', '\r'], " ");
    one_line.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::tests::page as sample;

    #[test]
    fn every_line_of_a_table_has_as_many_cells_as_its_head() {
        let markdown = page(&sample());
        let mut columns = 0;
        for line in markdown.lines() {
            let cells = line.replace("\\|", "").matches('|').count();
            match line.starts_with('|') {
                true if columns == 0 => columns = cells,
                true => assert_eq!(cells, columns, "{line}"),
                false => columns = 0,
            }
        }
        assert!(markdown.contains("shm/&lt;b>\\|read"), "{markdown}");
    }

    #[test]
    fn it_says_when_and_where_it_was_measured_and_how_noisy_that_was() {
        let markdown = page(&sample());
        for text in [
            "Measured 2026-03-09 17:05 UTC on &lt;script>",
            "**This machine was loaded: other processes used 1.50 cores",
            "## How noisy it was",
            "$ barn bench x --quick",
            "This part failed: no &lt;disk>",
            "not by hand",
        ] {
            assert!(markdown.contains(text), "{text}: {markdown}");
        }
    }
}
