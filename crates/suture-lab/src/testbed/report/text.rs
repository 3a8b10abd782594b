//! The report for people: a table of medians, and below it every run.
//!
//! Place: the last step of a testbed's run.

use std::fmt::Write as _;

use comfy_table::Table;
use suture_edge::units::{format_percent, format_seconds, format_size};
use suture_terminal::output::{counted, table};

use super::CampaignReport;
use crate::testbed::campaign::Campaign;
use crate::testbed::expect::Expected;
use crate::testbed::faults::Fault;
use crate::testbed::figures::{Limit, Medians};
use crate::testbed::measure::SILENCE;

/// What stands above the columns of medians.
pub const HEADER: [&str; 9] = [
    "policy",
    "repaired in",
    "from .. to",
    "of the bound",
    "CPU s/GB",
    "agents' share",
    "cores busy",
    "peak memory",
    "limit",
];

/// The whole report, as text.
pub fn report(campaign: &Campaign, document: &CampaignReport) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n{}\n", document.title, subject(document));
    let mut rows = table(HEADER, &[1, 2, 3, 4, 5, 6, 7]);
    for policy in &campaign.experiment.policies {
        match campaign.medians(*policy) {
            Some(medians) => drop(rows.add_row(cells(&policy.to_string(), &medians))),
            None => {
                let is_tried = campaign.runs.iter().any(|run| run.policy == *policy);
                let why = if is_tried { "failed" } else { "not measured" };
                rows.add_row([policy.to_string(), why.to_string()]);
            }
        }
    }
    push(&mut out, &rows);
    out.push('\n');
    for note in notes(campaign, document) {
        let _ = writeln!(out, "{note}");
    }
    out.push('\n');
    push(&mut out, &runs(campaign));
    for run in &campaign.runs {
        if let Err(why) = &run.result {
            let _ = writeln!(out, "{} ({}): {why}", run.policy, run.repetition);
        }
    }
    out
}

fn push(out: &mut String, table: &Table) {
    for line in table.lines() {
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// What applications waited beside each policy.
fn applications(campaign: &Campaign) -> impl Iterator<Item = String> + '_ {
    campaign.experiment.policies.iter().filter_map(|policy| {
        let felt = campaign.medians(*policy)?.felt?;
        let failed = match felt.beside.errors {
            0 => String::new(),
            errors => format!("; {} FAILED", counted(errors, "request")),
        };
        let (beside, alone) = (felt.beside, felt.alone);
        let [p99, p99_alone, mean, mean_alone] =
            [beside.p99_ms, alone.p99_ms, beside.mean_ms, alone.mean_ms]
                .map(|ms| format_seconds(ms / 1e3));
        let requests = counted(beside.requests, "request");
        let left = felt.left_percent.map_or(String::new(), |percent| {
            let percent = format_percent(percent);
            format!("; the repair came to {percent} of the bound on what they leave of links")
        });
        Some(format!(
            "applications beside {policy}: P99 {p99}, {p99_alone} without a repair; mean {mean}, \
             {mean_alone} without ({requests} beside repairs{failed}){left}"
        ))
    })
}

/// What was measured, in a line.
pub fn subject(document: &CampaignReport) -> String {
    let racks = match document.racks {
        0 => String::new(),
        racks => format!(" in {racks} racks"),
    };
    format!(
        "{}, {} nodes{racks}, {} stripes of chunks of {}, in {}; {} {}",
        document.code,
        document.nodes,
        document.stripes,
        format_size(document.chunk_bytes),
        document.chunks,
        document.failed.join(", "),
        if document.drained { "is drained" } else { "fails" },
    )
}

/// The cells of a policy's medians.
pub fn cells(policy: &str, medians: &Medians) -> [String; 9] {
    let percent = |part: f64| format_percent(100.0 * part);
    let (least, most) = medians.seconds_range;
    [
        policy.to_string(),
        format_seconds(medians.seconds),
        format!("{} .. {}", format_seconds(least), format_seconds(most)),
        format_percent(medians.percent_of_bound),
        format!("{:.1}", medians.agent_processor_seconds_per_gb),
        percent(medians.agent_processor_part),
        percent(medians.processor_part),
        medians.agent_peak_memory_bytes.map_or("unknown".into(), format_size),
        medians.limit.name().to_string(),
    ]
}

fn runs(campaign: &Campaign) -> Table {
    let header = [
        "run",
        "policy",
        "repaired in",
        "bound",
        "planned",
        "detected",
        "busiest link",
        "carried",
        "CPU s/GB",
        "cores busy",
        "peak memory",
        "limit",
        "verified",
    ];
    let mut rows = table(header, &[0, 2, 3, 4, 5, 7, 8, 9, 10]);
    for run in &campaign.runs {
        let Ok(figures) = &run.result else { continue };
        rows.add_row([
            run.repetition.to_string(),
            run.policy.to_string(),
            format_seconds(figures.seconds),
            format_seconds(figures.bound_seconds),
            format_seconds(figures.planned_seconds),
            format_seconds(figures.detection_seconds),
            figures.busiest_link.port.clone(),
            format_percent(100.0 * figures.busiest_link.part),
            format!("{:.1}", figures.agent_processor_seconds_per_gb),
            format_percent(100.0 * figures.processor_part),
            figures.agent_peak_memory_bytes.map_or("unknown".into(), format_size),
            figures.limit.name().to_string(),
            if figures.verified { "every byte" } else { "no" }.to_string(),
        ]);
    }
    rows
}

/// What figures mean, and what to be careful with.
pub fn notes(campaign: &Campaign, document: &CampaignReport) -> Vec<String> {
    let declared = match (document.declared, document.declared_times) {
        (false, _) => "agents are not told what their links carry".to_string(),
        (true, 1.0) => "agents are told what their links carry".to_string(),
        (true, times) => format!("agents are told {times} times what their links carry"),
    };
    let mut notes = vec![
        format!("machine: {}", document.machine),
        format!(
            "medians of {}; time from the declaration of the failure to the last commit; {declared}",
            counted(campaign.experiment.repetitions as u64, "repetition"),
        ),
        format!(
            "bound: k chunks through the true links at goodput, {:.4} of their rates (a segment's \
             1448 bytes of payload in 1514); traces may go below it",
            document.goodput
        ),
        "peak memory: the most of any agent from its start; cores busy: with whatever else ran on \
         the machine"
            .to_string(),
    ];
    let held = |limit: Limit| {
        let is_held = |policy: &&_| campaign.medians(**policy).is_some_and(|m| m.limit == limit);
        let policies = campaign.experiment.policies.iter().filter(is_held);
        policies.map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let processor = held(Limit::Processor);
    if !processor.is_empty() {
        notes.push(format!(
            "THE PROCESSOR WAS THE LIMIT, NOT THE LINKS, for {processor}: its time says nothing \
             about plans; lower the rates or use more cores"
        ));
    }
    let both = held(Limit::Both);
    if !both.is_empty() {
        notes.push(format!("both the processor and a link were full for {both}"));
    }
    if document.marked {
        let marks = "repair marks its packets, and links send these after all others".to_string();
        notes.push(marks);
    }
    notes.extend(document.faults.iter().cloned());
    let loses_more = |fault: &Fault| fault.loses_more(SILENCE.dead);
    if campaign.experiment.faults.iter().any(loses_more) {
        notes.push("faults lose more than the failure, which the bound does not count".to_string());
    }
    notes.extend(applications(campaign));
    notes.extend(document.expectations.iter().map(Expected::describe));
    notes.extend(other_placements(campaign));
    let (made, planned) = (campaign.runs.len(), campaign.planned());
    if made < planned {
        notes.push(format!("ENDED EARLY: {made} of {planned} repairs were made"));
    }
    notes
}

/// Runs are compared, so what they repaired must be the same.
fn other_placements(campaign: &Campaign) -> Option<String> {
    let mut placements: Vec<&str> =
        campaign.runs.iter().flat_map(|run| &run.result).map(|f| f.placement.as_str()).collect();
    placements.sort_unstable();
    placements.dedup();
    let different = placements.len();
    (different > 1).then(|| format!("careful: stripes lay in {different} different placements"))
}
