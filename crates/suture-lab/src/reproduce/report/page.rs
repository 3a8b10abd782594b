//! The report as a page that needs nothing else: claims on top, then charts beside each other where
//! the screen is wide and below each other where it is not.
//!
//! Place: the last step of a reproduction.

use std::fmt::Write as _;

use super::values::ShownPanel;
use super::{Reproduction, Tally, chart, measured};
use crate::reproduce::claim::{Judged, Verdict};
use crate::reproduce::emulated::{FailedPoint, Spread};
use crate::reproduce::experiment::Paper;
use crate::reproduce::folder::{Emulated, Finished};
use crate::reproduce::traces::LinkSource;
use crate::svg::escape;

const STYLE: &str = "*{box-sizing:border-box}body{font:15px/1.5 Inter,'Helvetica Neue',Arial,\
'DejaVu Sans',sans-serif;color:#1f2933;max-width:1320px;margin:24px auto;padding:0 16px;\
overflow-wrap:break-word}h1{font-size:24px;line-height:1.25;margin:0 0 8px}h2{font-size:20px;\
margin:44px 0 4px;border-top:1px solid #cbd2d9;padding-top:20px}h3{font-size:16px;margin:32px 0 4px}\
h3 code{color:#52606d;font-weight:400}p{margin:6px 0;max-width:80ch}.muted{color:#52606d}\
ul{padding-left:20px;max-width:80ch}nav{margin:12px 0;display:flex;flex-wrap:wrap;gap:4px 14px}\
a{color:#1d5f94}.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),\
1fr));gap:20px 32px;margin:16px 0;align-items:start}.charts>div{min-width:0}\
svg{width:100%;max-width:440px;height:auto}\
table{border-collapse:collapse;font-size:13px;margin:10px 0}th,td{padding:4px 12px 4px 0;text-align:\
left;vertical-align:top;border-bottom:1px solid #e4e7eb}th{color:#52606d;font-weight:600}\
.n{text-align:right;white-space:nowrap}.wide{overflow-x:auto}.claims{list-style:none;padding:0;\
max-width:none;display:grid;gap:8px;grid-template-columns:repeat(auto-fill,minmax(min(100%,420px),\
1fr))}.claims li{border-left:4px solid;padding:4px 0 4px 10px;font-size:14px}.claims .holds{border-color:\
#3f8f5b}.claims .direction{border-color:#d0a52b}.claims .fails{border-color:#c8553d}\
.claims .unknown{border-color:#9aa5b1}\
.verdict{font-weight:600}.why{color:#52606d}details summary{cursor:pointer;color:#1d5f94}";

/// The whole page, as HTML.
pub fn html(reproduction: &Reproduction<'_>) -> String {
    let title = "Reproduction of published repair figures";
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{STYLE}\
         </style></head><body>\n<h1>{title}</h1>\n"
    );
    summary(&mut out, reproduction);
    for paper in Paper::ALL {
        let of_paper = reproduction.finished.iter().filter(|f| f.experiment.paper == paper);
        let of_paper: Vec<&Finished> = of_paper.collect();
        if of_paper.is_empty() {
            continue;
        }
        let _ = writeln!(
            out,
            "<h2 id=\"{paper}\">{paper}</h2>\n<p class=\"muted\">{}</p>",
            escape(paper.source())
        );
        let links = reproduction.traces.source();
        of_paper.into_iter().for_each(|finished| experiment(&mut out, finished, links));
    }
    out + "</body></html>\n"
}

fn summary(out: &mut String, reproduction: &Reproduction<'_>) {
    let judged = reproduction.judged();
    let tally = Tally::of(judged.iter().map(|(_, judged)| judged));
    let _ = writeln!(out, "<p><strong>{}</strong></p>", escape(&tally.describe()));
    out.push_str("<ul class=\"muted\">\n");
    for line in reproduction.method() {
        let _ = writeln!(out, "<li>{}</li>", escape(&line));
    }
    out.push_str(
        "</ul>\n<div class=\"wide\"><table><tr><th>paper</th><th>claims</th><th>hold</th>",
    );
    out.push_str("<th>in direction</th><th>do not hold</th><th>not measured</th></tr>\n");
    for paper in Paper::ALL {
        let of_paper = judged.iter().filter(|(f, _)| f.experiment.paper == paper);
        let tally = Tally::of(of_paper.map(|(_, judged)| judged));
        if tally.all() > 0 {
            let Tally { holds, direction, fails, unknown } = tally;
            let cell = |count: usize| format!("<td class=\"n\">{count}</td>");
            let counts = [tally.all(), holds, direction, fails, unknown].map(cell);
            let _ = writeln!(
                out,
                "<tr><td><a href=\"#{paper}\">{paper}</a></td>{}</tr>",
                counts.concat()
            );
        }
    }
    out.push_str("</table></div>\n");
    for (verdict, heading) in [
        (Verdict::Fails, "Claims that do not hold"),
        (Verdict::Direction, "Claims that hold in direction"),
        (Verdict::Holds, "Claims that hold"),
        (Verdict::Unknown, "Claims that could not be measured"),
    ] {
        let those = judged.iter().filter(|(_, judged)| judged.verdict == verdict);
        let those: Vec<&(&Finished, Judged)> = those.collect();
        if those.is_empty() {
            continue;
        }
        let open = if verdict == Verdict::Fails { " open" } else { "" };
        let _ = writeln!(
            out,
            "<details{open}><summary>{heading} ({})</summary><ul class=\"claims\">",
            those.len()
        );
        for (finished, judged) in those {
            let name = finished.experiment.name();
            let links = reproduction.traces.source();
            claim(out, judged, links, &format!("<a href=\"#{name}\">{name}</a>: "));
        }
        out.push_str("</ul></details>\n");
    }
}

fn experiment(out: &mut String, finished: &Finished, links: LinkSource) {
    let experiment = finished.experiment;
    let name = experiment.name();
    let _ = writeln!(
        out,
        "<h3 id=\"{name}\">{} <code>{name}</code></h3>\n<p><span class=\"muted\">Paper:</span> \
         {}</p>\n<p><span class=\"muted\">Here:</span> {}</p>",
        escape(experiment.title),
        escape(experiment.did),
        escape(experiment.here),
    );
    out.push_str("<div class=\"charts\">\n");
    for panel in finished.shown_panels() {
        let _ = writeln!(out, "<div>{}", chart::svg(&panel));
        values(out, &panel);
        out.push_str("</div>\n");
    }
    out.push_str("</div>\n");
    if let Some(of) = &finished.emulation {
        emulation(out, &of.emulated);
    }
    out.push_str("<ul class=\"claims\">\n");
    finished.judged().iter().for_each(|judged| claim(out, judged, links, ""));
    out.push_str("</ul>\n");
}

/// What stands below a chart: what is to be said of it, and its values as a table.
fn values(out: &mut String, panel: &ShownPanel<'_>) {
    for note in panel.notes() {
        let _ = writeln!(out, "<p class=\"muted\">{}</p>", escape(&note));
    }
    let values = panel.rows();
    let title = escape(&panel.table.title);
    let _ = writeln!(
        out,
        "<details><summary>Values of {title}</summary><div class=\"wide\"><table><tr><th></th>{}\
         </tr>",
        cells("th", &values.heads)
    );
    for row in &values.rows {
        let label = escape(&row.label);
        let _ = writeln!(out, "<tr><td>{label}</td>{}</tr>", cells("td", &row.values));
    }
    out.push_str("</table></div></details>\n");
}

/// Cells of a table with numbers, or above them.
fn cells(kind: &str, texts: &[String]) -> String {
    let cell = |text: &String| format!("<{kind} class=\"n\">{}</{kind}>", escape(text));
    texts.iter().map(cell).collect()
}

/// One claim, on links from there, behind a text that is HTML already.
fn claim(out: &mut String, judged: &Judged, links: LinkSource, before: &str) {
    let class = match judged.verdict {
        Verdict::Holds => "holds",
        Verdict::Direction => "direction",
        Verdict::Fails => "fails",
        Verdict::Unknown => "unknown",
    };
    let claim = &judged.claim;
    let _ = writeln!(
        out,
        "<li class=\"{class}\">{before}{} <span class=\"muted\">({})</span><br><span \
         class=\"verdict\">{}</span>: {} in the paper, {} here <span class=\"why\">{}</span></li>",
        escape(claim.text),
        escape(claim.place),
        judged.verdict.name(),
        escape(&claim.said.describe()),
        escape(&measured(judged)),
        escape(judged.why(links)),
    );
}

fn emulation(out: &mut String, emulated: &Emulated) {
    let _ = writeln!(
        out,
        "<p><span class=\"muted\">Emulated network:</span> {}</p>\n<div class=\"wide\"><table><tr>\
         <th></th><th></th><th></th><th>simulated</th><th>emulated</th><th>bound</th><th>runs</th>\
         <th>limit</th><th></th></tr>",
        escape(&emulated.scale)
    );
    for row in &emulated.rows {
        let value = |spread: Option<Spread>| row.text(spread.map(|spread| spread.value));
        let names = [row.label.as_str(), row.series.as_str(), row.what.name()];
        let numbers =
            [value(row.simulated), value(row.emulated), row.text(row.bound), row.runs.to_string()];
        let number = |text: String| format!("<td class=\"n\">{}</td>", escape(&text));
        let text = |text: &str| format!("<td>{}</td>", escape(text));
        let _ = writeln!(
            out,
            "<tr>{}{}{}</tr>",
            names.map(text).concat(),
            numbers.map(number).concat(),
            [row.limit.as_str(), row.words()].map(text).concat(),
        );
    }
    out.push_str("</table></div>\n");
    for FailedPoint { panel, label, why } in &emulated.failed {
        let text = format!("Not measured: {label} of '{panel}': {why}");
        let _ = writeln!(out, "<p class=\"muted\">{}</p>", escape(&text));
    }
}
