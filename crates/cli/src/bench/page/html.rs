//! The page as HTML: one file without any other, by light and by dark, on a screen and on paper.
//!
//! What always holds: every tag is closed, all text is escaped, and nothing is fetched from anywhere.

use std::fmt::Write;

use super::rows::{Table, VALUES, said, table};
use super::{Page, Section, noise};
use crate::markup::escape;
use crate::plot;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1a1a1a;--faint:#5f5f5f;--line:#d4d4d4;--back:#fff;--soft:#f4f4f2;--warn:#8a2500;--warn-back:#fff1e8}\
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--faint:#a5a5a5;--line:#3c3c3c;--back:#161616;--soft:#202020;--warn:#ffb48a;--warn-back:#3a2011}}\
body{margin:0 auto;padding:2rem 1rem 4rem;max-width:76rem;color:var(--ink);background:var(--back);font:15px/1.5 system-ui,sans-serif}\
h1{margin:0 0 .3rem}h2{margin:3rem 0 .3rem;border-bottom:1px solid var(--line)}a{color:inherit}\
.faint{color:var(--faint)}.loaded{padding:.7rem 1rem;border-left:5px solid var(--warn);color:var(--warn);background:var(--warn-back);font-weight:600}\
.quiet{padding:.7rem 1rem;border-left:5px solid var(--line);background:var(--soft)}\
pre{overflow-x:auto;padding:.5rem .8rem;background:var(--soft);font:13px/1.4 ui-monospace,monospace}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:.25rem .7rem .25rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}\
td.n,th.n{text-align:right;white-space:nowrap}tr.missed td{color:var(--warn)}\
.plots{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;max-width:640px}figure svg{max-width:100%;height:auto}\
figcaption{font-size:13px;color:var(--faint)}\
@media print{body{max-width:none;padding:0;font-size:11px}h2{break-after:avoid}figure,tr{break-inside:avoid}.wide{overflow:visible}nav{display:none}}";

/// The whole document.
pub(super) fn page(page: &Page) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Barn, measured</title>\n";
    let _ = write!(out, "<style>{STYLE}{}</style>\n</head>\n<body>\n<h1>Barn, measured</h1>\n", plot::STYLE);
    let machine = escape(&page.machine.summary());
    let _ = writeln!(out, "<p class=\"faint\">{} on {machine}</p>", escape(&page.when));
    let class = if page.loaded.is_empty() { "quiet" } else { "loaded" };
    let _ = writeln!(out, "<p class=\"{class}\">{}</p>", escape(&page.noise.headline()));
    let _ = writeln!(out, "<p>Measured with</p>\n<pre>{}</pre>", escape(&page.command));
    let _ = write!(out, "<p>{VALUES} Coloured rows miss their aim.</p>\n<nav>\n<ul>\n");
    for (number, section) in page.sections.iter().enumerate() {
        let _ = writeln!(out, "<li><a href=\"#part-{number}\">{}</a></li>", escape(&section.title));
    }
    out += "<li><a href=\"#noise\">How noisy it was</a></li>\n<li><a href=\"#machine\">The machine</a></li>\n</ul>\n</nav>\n";
    for (number, section) in page.sections.iter().enumerate() {
        write_section(&mut out, number, section);
    }
    out += "<h2 id=\"noise\">How noisy it was</h2>\n";
    write_facts(&mut out, page.noise.facts());
    out += "<h2 id=\"machine\">The machine</h2>\n";
    write_facts(&mut out, noise::machine_facts(&page.machine));
    out + "</body>\n</html>\n"
}

fn write_section(out: &mut String, number: usize, section: &Section) {
    let (title, about) = (escape(&section.title), escape(&section.about));
    let _ = writeln!(out, "<h2 id=\"part-{number}\">{title}</h2>\n<p>{about}</p>");
    let _ = writeln!(out, "<pre>{}</pre>", escape(&section.command));
    if let Some(why) = &section.failed {
        let _ = writeln!(out, "<p class=\"loaded\">This part failed: {}</p>", escape(why));
    }
    if let Some(report) = &section.report {
        let _ = writeln!(out, "<p class=\"faint\">{}</p>", escape(&said(section)));
        write_table(out, &table(report, section.margin));
    }
    if section.plots.is_empty() {
        return;
    }
    out.push_str("<div class=\"plots\">\n");
    for plot in &section.plots {
        let caption = escape(&plot.caption);
        let _ = writeln!(out, "<figure>{}<figcaption>{caption}</figcaption></figure>", plot.element());
    }
    out.push_str("</div>\n");
}

/// Columns of figures stand right.
fn class(head: &str) -> &'static str {
    match head {
        "value" | "spread" | "beside value" | "ratio" | "paper" | "ours" => " class=\"n\"",
        _ => "",
    }
}

fn write_table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"wide\">\n<table>\n<thead><tr>");
    for head in &table.head {
        let _ = write!(out, "<th{}>{head}</th>", class(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for line in &table.lines {
        out.push_str(if line.missed { "<tr class=\"missed\">" } else { "<tr>" });
        for (head, cell) in table.head.iter().zip(&line.cells) {
            let _ = write!(out, "<td{}>{}</td>", class(head), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

fn write_facts(out: &mut String, facts: Vec<(&'static str, String)>) {
    out.push_str("<table>\n<tbody>\n");
    for (name, value) in facts {
        let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(&value));
    }
    out.push_str("</tbody>\n</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::page::Noise;
    use crate::bench::page::tests::page as sample;
    use crate::markup::tests::assert_well_formed;

    #[test]
    fn the_page_is_well_formed_whatever_the_names_are() {
        let html = page(&sample());
        assert_well_formed(&html);
        assert!(!html.contains("<script>") && html.contains("&lt;script&gt;alert(1)"), "a name became a tag");
        assert!(html.contains("shm/&lt;b&gt;|read") && html.contains("a &lt; b &amp; c"));
    }

    #[test]
    fn nothing_is_fetched_from_anywhere() {
        let html = page(&sample());
        for word in ["src=", "url(", "@import", "<link", "<script", "http-equiv"] {
            assert!(!html.contains(word), "{word}");
        }
        // Addresses within the page, and none else.
        assert!(html.matches("href=\"").count() == html.matches("href=\"#").count());
    }

    #[test]
    fn a_loaded_machine_says_so_before_anything_else() {
        let html = page(&sample());
        let said = html.find("This machine was loaded: other processes used 1.50 cores during it");
        assert!(said.expect("is said") < html.find("<h2").expect("has sections"));
        assert!(html.contains("<p class=\"loaded\">This machine"));
        let quiet = Noise::default();
        let html = page(&Page { loaded: quiet.loaded(), noise: quiet, ..sample() });
        assert!(html.contains("<p class=\"quiet\">This machine was quiet") && !html.contains("was loaded"));
    }

    #[test]
    fn every_part_has_its_command_and_its_place_in_the_contents() {
        let html = page(&sample());
        for number in 0..sample().sections.len() {
            assert!(html.contains(&format!("href=\"#part-{number}\"")), "{number}");
            assert!(html.contains(&format!("id=\"part-{number}\"")), "{number}");
        }
        assert_eq!(html.matches("<pre>barn bench x --quick</pre>").count(), 3);
        assert!(html.contains("This part failed: no &lt;disk&gt;"));
        assert!(html.contains("<svg class=\"bp\"") && html.contains("scaled &amp; &quot;small&quot;"));
    }
}
