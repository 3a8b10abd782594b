//! What came of the experiments: claims on top, then every figure with what is beside it.
//!
//! Place: the last step of a reproduction. `markdown.rs` writes it for readers of text, and the
//! list of claims alone, `page.rs` as one page that needs nothing else; `chart.rs` draws,
//! `values.rs` has what both show of a chart.

mod chart;
pub mod markdown;
pub mod page;
pub mod values;

use std::collections::BTreeSet;

use suture_edge::units::format_seconds;

use super::claim::{Judged, Verdict};
use super::folder::{Configuration, Finished};
use super::traces::Traces;

/// Everything that a report is made of.
pub struct Reproduction<'a> {
    /// What was asked for.
    pub configuration: &'a Configuration,
    /// How many experiments were asked for.
    pub planned: usize,
    /// Those that are finished, in the order of the papers.
    pub finished: &'a [Finished],
    /// What links have over time, where they change.
    pub traces: &'a Traces,
}

/// How many claims came out as what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// As the paper says.
    pub holds: usize,
    /// Claims that hold in their direction only.
    pub direction: usize,
    /// Claims that do not hold at all.
    pub fails: usize,
    /// Claims of which nothing was measured.
    pub unknown: usize,
}

impl Finished {
    /// All claims of its paper on it, judged.
    pub fn judged(&self) -> Vec<Judged> {
        self.experiment.claims.iter().map(|claim| claim.judge(&self.outcome.table)).collect()
    }
}

impl Tally {
    /// The tally of these claims.
    pub fn of<'a>(judged: impl Iterator<Item = &'a Judged>) -> Tally {
        let mut tally = Tally::default();
        for judged in judged {
            *match judged.verdict {
                Verdict::Holds => &mut tally.holds,
                Verdict::Direction => &mut tally.direction,
                Verdict::Fails => &mut tally.fails,
                Verdict::Unknown => &mut tally.unknown,
            } += 1;
        }
        tally
    }

    /// How many claims there are.
    pub fn all(self) -> usize {
        self.holds + self.direction + self.fails + self.unknown
    }

    /// The tally in a sentence.
    pub fn describe(self) -> String {
        let unknown = match self.unknown {
            0 => String::new(),
            count => format!(", {count} could not be measured"),
        };
        format!(
            "Of {} claims {} hold, {} hold in direction, {} do not hold{unknown}.",
            self.all(),
            self.holds,
            self.direction,
            self.fails,
        )
    }
}

impl Reproduction<'_> {
    /// All claims of all finished experiments, with the experiment's name.
    pub fn judged(&self) -> Vec<(&Finished, Judged)> {
        let of = |finished| {
            let finished: &Finished = finished;
            finished.judged().into_iter().map(move |judged| (finished, judged))
        };
        self.finished.iter().flat_map(of).collect()
    }

    /// How it was measured, in sentences.
    pub fn method(&self) -> Vec<String> {
        let configuration = self.configuration;
        let seeds = match configuration.seeds {
            1 => "one seed (--quick)".to_string(),
            seeds => format!("seeds 1 to {seeds}"),
        };
        let mut lines = vec![
            format!(
                "{} of {} experiments, {seeds}; suture {}.{}",
                self.finished.len(),
                self.planned,
                configuration.version,
                self.times(),
            ),
            "Each chart says how its values came about. Simulated: the coordinator of the daemons \
             plans and schedules, and a fluid network stands for agents and links. Planned, not \
             run: by what plans would move. Timed on this machine: by the time of its processor. \
             From link traces, or computed by a formula: there is no repair."
                .to_string(),
            format!(
                "Links that change follow {}, both from random starts and from congested ones: \
                 seconds in which every path of helpers leads through a link of which over 90 % \
                 are used, while enough helpers can send and the node that receives is free; where \
                 there is no such second, links with a coefficient of variation above 0.5.",
                self.traces.describe()
            ),
            "A claim holds where the paper's number is met within a fifth of it (percentages from \
             ten on within three points at least; of a degree of balance, what is above one \
             counts), holds in direction where a comparison came out in the same direction, by \
             more or less, and otherwise does not hold. A value that compares nothing, such as \
             seconds, holds or does not; the least of a range may be more, the most of one may \
             not; what is said to be more without a number is so from one percent on. Ratios are \
             compared where links or processors are not the paper's. The values that a paper's \
             text prints stand beside ours: in parentheses in tables, as hollow marks in charts."
                .to_string(),
            "The bound is the least time of any plans that move whole chunks (or what a code's \
             helpers send at least); traces, which suture uses, can go below it."
                .to_string(),
        ];
        if configuration.quick {
            lines.push(
                "With --quick, figures that have many requests of applications under way \
                 (chameleonec) are measured with a quarter of them and of the lost chunks, in all \
                 of their settings: their values are not those of a whole run, of which the texts \
                 beside them are."
                    .to_string(),
            );
        }
        if configuration.testbed {
            lines.push(
                "Where a figure has a table of emulated repairs, these ran as processes on an \
                 emulated network with links of known rates, scaled down as it says."
                    .to_string(),
            );
        }
        lines
    }

    /// How long they took, and on what, as a further sentence.
    fn times(&self) -> String {
        let machines = self.finished.iter().map(|finished| finished.outcome.machine.as_str());
        let machines: BTreeSet<&str> = machines.collect();
        if machines.is_empty() {
            return String::new();
        }
        let machines: Vec<&str> = machines.into_iter().collect();
        let seconds: f64 = self.finished.iter().map(|finished| finished.outcome.seconds).sum();
        let emulations = self.finished.iter().filter_map(|finished| finished.emulation.as_ref());
        let emulated: f64 = emulations.map(|emulation| emulation.seconds).sum();
        let more = if emulated > 0.0 {
            format!(", and emulating took {} more", format_seconds(emulated))
        } else {
            String::new()
        };
        format!(" They took {} on {}{more}.", format_seconds(seconds), machines.join(" and on "))
    }
}

/// The number of a claim, as reports show it.
pub fn measured(judged: &Judged) -> String {
    super::folder::cell_text(judged.measured)
}
