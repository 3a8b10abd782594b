//! The report as Markdown, and the list of claims that is kept in the documentation.
//!
//! Place: the last step of a reproduction.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::values::ShownPanel;
use super::{Reproduction, Tally, measured};
use crate::reproduce::claim::Verdict;
use crate::reproduce::emulated::{FailedPoint, Spread};
use crate::reproduce::experiment::Paper;
use crate::reproduce::folder::{Emulated, Finished};
use crate::reproduce::papers;
use crate::reproduce::traces::LinkSource;

/// The whole report, as Markdown.
pub fn report(reproduction: &Reproduction<'_>) -> String {
    let mut out = String::from("# Reproduction of published repair figures\n\n");
    summary(&mut out, reproduction);
    for paper in Paper::ALL {
        let of_paper: Vec<&Finished> =
            reproduction.finished.iter().filter(|f| f.experiment.paper == paper).collect();
        if of_paper.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {paper}\n\n{}.\n", paper.source());
        for finished in of_paper {
            experiment(&mut out, finished, reproduction.traces.source());
        }
    }
    out
}

/// The claims alone: those that hold, and those that do not and why.
pub fn claims(reproduction: &Reproduction<'_>) -> String {
    let configuration = reproduction.configuration;
    let all = papers::all().count();
    let is_all = reproduction.planned == all;
    let mut command = format!("suture reproduce {}", if is_all { "all" } else { "PAPER[/ID]" });
    for (is_given, option) in [
        (configuration.quick, " --quick"),
        (configuration.testbed, " --on testbed"),
        (reproduction.traces.source() == LinkSource::Measurements, " --traces TRACES"),
    ] {
        command.push_str(if is_given { option } else { "" });
    }
    let which = if is_all {
        "every figure and table of the evaluations of five papers".to_string()
    } else {
        format!("{} of the {all} figures and tables of five papers", reproduction.planned)
    };
    let mut out = format!(
        "<!-- Made by `{command} -o DIR`: this is DIR/claims.md. Change the command, not this \
         file. -->\n# What the papers say, and what holds here\n\n`{command}` measures {which} \
         again, and holds what their texts say of them against what came out. Its report has all \
         values, charts and settings; this is its list of claims. `suture reproduce` lists the \
         experiments.\n\n"
    );
    summary(&mut out, reproduction);
    let judged = reproduction.judged();
    let links = reproduction.traces.source();
    let mut footnotes = Footnotes::of(judged.iter().map(|(_, judged)| judged.why(links)));
    for (verdict, heading) in [
        (Verdict::Holds, "Claims that hold"),
        (Verdict::Direction, "Claims that hold in direction"),
        (Verdict::Fails, "Claims that do not hold"),
        (Verdict::Unknown, "Claims that could not be measured"),
    ] {
        let those: Vec<_> = judged.iter().filter(|(_, j)| j.verdict == verdict).collect();
        if those.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n## {heading}\n");
        for (finished, judged) in those {
            let _ = writeln!(
                out,
                "- `{}` {} ({}): {} in the paper, {} here.{}",
                finished.experiment.name(),
                judged.claim.text,
                judged.claim.place,
                judged.claim.said.describe(),
                measured(judged),
                footnotes.after(judged.why(links)),
            );
        }
    }
    footnotes.write(&mut out);
    let emulated = reproduction.finished.iter();
    let emulated = emulated.filter_map(|f| Some((f, &f.emulation.as_ref()?.emulated)));
    for (index, (finished, of)) in emulated.enumerate() {
        if index == 0 {
            out.push_str("\n## Simulated and emulated, side by side\n\n");
        }
        let _ = writeln!(out, "### {}\n", finished.experiment.name());
        emulation(&mut out, of);
    }
    out
}

/// Why claims came out otherwise: what several claims share stands once, as a footnote.
struct Footnotes {
    shared: BTreeSet<&'static str>,
    /// Those referred to so far; the number of each is its place, from one on.
    notes: Vec<&'static str>,
}

impl Footnotes {
    fn of(reasons: impl Iterator<Item = &'static str>) -> Footnotes {
        let (mut once, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for why in reasons.filter(|why| !why.is_empty()) {
            if !once.insert(why) {
                shared.insert(why);
            }
        }
        Footnotes { shared, notes: Vec::new() }
    }

    /// What stands behind a claim: its reason, or the mark of a footnote.
    fn after(&mut self, why: &'static str) -> String {
        if why.is_empty() {
            return String::new();
        }
        if !self.shared.contains(why) {
            return format!(" {why}");
        }
        let place = self.notes.iter().position(|note| *note == why).unwrap_or_else(|| {
            self.notes.push(why);
            self.notes.len() - 1
        });
        format!("[^{}]", place + 1)
    }

    fn write(self, out: &mut String) {
        for (place, why) in self.notes.iter().enumerate() {
            let _ = write!(out, "\n[^{}]: {why}\n", place + 1);
        }
    }
}

fn summary(out: &mut String, reproduction: &Reproduction<'_>) {
    let judged = reproduction.judged();
    let tally = Tally::of(judged.iter().map(|(_, judged)| judged));
    let _ = writeln!(out, "{}\n", tally.describe());
    for line in reproduction.method() {
        let _ = writeln!(out, "- {line}");
    }
    let _ =
        writeln!(out, "\n| paper | claims | hold | in direction | do not hold | not measured |");
    let _ = writeln!(out, "|---|--:|--:|--:|--:|--:|");
    for paper in Paper::ALL {
        let of_paper = judged.iter().filter(|(f, _)| f.experiment.paper == paper);
        let tally = Tally::of(of_paper.map(|(_, judged)| judged));
        if tally.all() > 0 {
            let Tally { holds, direction, fails, unknown } = tally;
            let counts = [tally.all(), holds, direction, fails, unknown].map(|n| n.to_string());
            let _ = writeln!(out, "| {paper} | {} |", counts.join(" | "));
        }
    }
}

fn experiment(out: &mut String, finished: &Finished, links: LinkSource) {
    let experiment = finished.experiment;
    let _ = writeln!(out, "### {}: {}\n", experiment.name(), experiment.title);
    let _ = writeln!(out, "Paper: {}\n\nHere: {}\n", experiment.did, experiment.here);
    for panel in finished.shown_panels() {
        table(out, &panel);
    }
    if let Some(of) = &finished.emulation {
        emulation(out, &of.emulated);
    }
    let judged = finished.judged();
    if judged.is_empty() {
        return;
    }
    out.push_str("| the paper says | where | paper | here | |\n|---|---|--:|--:|---|\n");
    for judged in &judged {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | **{}**{} |",
            judged.claim.text,
            judged.claim.place,
            judged.claim.said.describe(),
            measured(judged),
            judged.verdict.name(),
            match judged.why(links) {
                "" => String::new(),
                why => format!(". {why}"),
            },
        );
    }
    out.push('\n');
}

fn table(out: &mut String, panel: &ShownPanel<'_>) {
    let _ = writeln!(out, "*{}*: {}; {}\n", panel.table.title, panel.what(), panel.means());
    let values = panel.rows();
    if values.rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "| | {} |", values.heads.join(" | "));
    let _ = writeln!(out, "|---|{}", "--:|".repeat(values.heads.len()));
    for row in &values.rows {
        let _ = writeln!(out, "| {} | {} |", row.label, row.values.join(" | "));
    }
    out.push('\n');
    for note in panel.notes() {
        let _ = writeln!(out, "{note}\n");
    }
}

fn emulation(out: &mut String, emulated: &Emulated) {
    let _ = writeln!(out, "*Emulated network*: {}\n", emulated.scale);
    out.push_str("| | | | simulated | emulated | bound | runs | limit | |\n");
    out.push_str("|---|---|---|--:|--:|--:|--:|---|---|\n");
    // A bar would begin another cell.
    let plain = |text: &str| text.replace('|', "/").replace('\n', " ");
    for row in &emulated.rows {
        let value = |spread: Option<Spread>| row.text(spread.map(|spread| spread.value));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.label,
            row.series,
            row.what.name(),
            value(row.simulated),
            value(row.emulated),
            row.text(row.bound),
            row.runs,
            row.limit,
            plain(row.words()),
        );
    }
    out.push('\n');
    for failed in &emulated.failed {
        let FailedPoint { panel, label, why } = failed;
        let _ = writeln!(out, "Not measured: {label} of '{panel}': {}.\n", plain(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_claims_share_stands_once() {
        let reasons = ["disks", "links", "", "disks", "requests", "requests"];
        let mut footnotes = Footnotes::of(reasons.into_iter());
        let marks = reasons.map(|why| footnotes.after(why));
        assert_eq!(marks, ["[^1]", " links", "", "[^1]", "[^2]", "[^2]"]);
        let mut out = String::new();
        footnotes.write(&mut out);
        assert_eq!(out, "\n[^1]: disks\n\n[^2]: requests\n");
    }
}
