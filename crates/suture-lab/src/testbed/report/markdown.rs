//! Several campaigns as one page of the handbook: a table of medians for each scenario, and what
//! became of what it expects.
//!
//! Place: the last step of `suture testbed results`.

use std::fmt::Write as _;

use super::CampaignReport;
use super::text::{HEADER, cells, notes, subject};
use crate::testbed::campaign::Campaign;

/// One scenario that was measured.
pub struct PageSection {
    /// The name of its file without the ending.
    pub name: String,
    /// What was measured of it.
    pub campaign: Campaign,
    /// What is reported of it.
    pub document: CampaignReport,
}

/// The page, of so many scenarios as are planned.
pub fn page(all: &[PageSection], planned: usize) -> String {
    let mut out = String::from(
        "# Results on the testbed\n\nWritten by `suture testbed results docs/testbed -o \
         docs/results.md`; what the columns mean says [testbed.md](testbed.md). Times are medians, \
         and stand beside the bound, the processor and the memory of the same runs: where the limit \
         is `processor`, a time says nothing about links or plans.\n",
    );
    if all.len() < planned {
        let _ = writeln!(out, "\n**{} of {planned} scenarios are measured.**", all.len());
    }
    let verdicts = all.iter().flat_map(|section| {
        section.campaign.verdicts().into_iter().map(|verdict| (&section.name, verdict))
    });
    let (held, others): (Vec<_>, Vec<_>) = verdicts.partition(|(_, verdict)| verdict.holds);
    let expected = held.len() + others.len();
    let _ = writeln!(out, "\n{} of {expected} expectations hold.", held.len());
    for (name, verdict) in others {
        let _ = writeln!(out, "- {name}: {}", verdict.describe());
    }
    for section in all.iter().filter(|section| !section.campaign.is_whole()) {
        let _ = writeln!(out, "- {}: NOT EVERY REPAIR CAME TO ITS END", section.name);
    }
    for measured in all {
        write_section(&mut out, measured);
    }
    out
}

fn write_section(out: &mut String, PageSection { name, campaign, document }: &PageSection) {
    let _ = writeln!(out, "\n## {}", document.title);
    let _ = writeln!(out, "{} ([{name}.toml](testbed/{name}.toml))\n", subject(document));
    let _ = writeln!(out, "| {} |", HEADER.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(HEADER.len()));
    for policy in &campaign.experiment.policies {
        let policy_name = policy.to_string();
        match campaign.medians(*policy) {
            Some(medians) => {
                let _ = writeln!(out, "| {} |", cells(&policy_name, &medians).join(" | "));
            }
            None => {
                let empty = " |".repeat(HEADER.len() - 2);
                let _ = writeln!(out, "| {policy_name} | failed |{empty}");
            }
        }
    }
    out.push('\n');
    for note in notes(campaign, document) {
        let _ = writeln!(out, "- {note}");
    }
    for run in &campaign.runs {
        if let Err(why) = &run.result {
            let why = why.lines().next().unwrap_or_default();
            let _ = writeln!(out, "- {} ({}): {why}", run.policy, run.repetition);
        }
    }
}
