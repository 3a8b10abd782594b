//! The report as a page that needs nothing else: the table, bars of time and processor, and maps
//! of what each link carried.
//!
//! Place: the last step of a testbed's run.

use std::fmt::Write as _;

use suture_edge::units::{format_percent, format_seconds};

use super::CampaignReport;
use super::chart::{Bar, BarChart};
use super::text::{HEADER, cells, notes, subject};
use crate::picture::{Panel, Picture, PictureRow};
use crate::svg::escape;
use crate::testbed::campaign::Campaign;
use crate::testbed::figures::{Limit, Medians, RepairFigures};

const STYLE: &str = "body{font:14px/1.5 Inter,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;\
color:#1f2933;max-width:1000px;margin:32px auto;padding:0 20px}h1{font-size:22px;margin:0}\
h2{font-size:16px;margin:32px 0 8px}p{margin:6px 0;color:#52606d}\
table{border-collapse:collapse;margin:20px 0}th,td{padding:5px 14px 5px 0;text-align:right;\
border-bottom:1px solid #e4e7eb}th{font-weight:600;color:#52606d}th:first-child,td:first-child,\
th:last-child,td:last-child{text-align:left}.flag{color:#c8553d;font-weight:600}\
svg{max-width:100%;height:auto}";

/// The whole page, as HTML.
pub fn html(campaign: &Campaign, document: &CampaignReport) -> String {
    let title = escape(&document.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{}</p>\n",
        escape(&subject(document))
    );
    medians_table(&mut out, campaign);
    for note in notes(campaign, document) {
        let class = if note.starts_with("THE PROCESSOR") || note.starts_with("ENDED") {
            " class=\"flag\""
        } else {
            ""
        };
        let _ = writeln!(out, "<p{class}>{}</p>", escape(&note));
    }
    for chart in [time_chart(campaign), processor_chart(campaign)] {
        let _ = writeln!(out, "<h2></h2>\n{}", chart.svg());
    }
    out += "<h2>What links carried, in the run nearest to each median</h2>\n";
    for policy in &campaign.experiment.policies {
        if let Some(figures) = campaign.typical(*policy) {
            out += &map(&policy.to_string(), figures).svg();
        }
    }
    failures(&mut out, campaign);
    out + "</body></html>\n"
}

fn medians_table(out: &mut String, campaign: &Campaign) {
    out.push_str("<table><tr>");
    HEADER.iter().for_each(|head| out.push_str(&format!("<th>{}</th>", escape(head))));
    out.push_str("</tr>\n");
    for (policy, medians) in served(campaign) {
        out.push_str("<tr>");
        let is_flagged = medians.limit == Limit::Processor;
        for cell in cells(&policy, &medians) {
            let class = if is_flagged { " class=\"flag\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escape(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

fn failures(out: &mut String, campaign: &Campaign) {
    for run in &campaign.runs {
        if let Err(why) = &run.result {
            let words = format!("{}, repetition {}: {why}", run.policy, run.repetition);
            let _ = writeln!(out, "<p class=\"flag\">{}</p>", escape(&words));
        }
    }
}

fn served(campaign: &Campaign) -> Vec<(String, Medians)> {
    let policies = campaign.experiment.policies.iter();
    policies.filter_map(|policy| Some((policy.to_string(), campaign.medians(*policy)?))).collect()
}

fn seconds(campaign: &Campaign, policy: &str) -> Vec<f64> {
    let runs = campaign.runs.iter().filter(|run| run.policy.to_string() == policy);
    runs.filter_map(|run| Some(run.result.as_ref().ok()?.seconds)).collect()
}

fn time_chart(campaign: &Campaign) -> BarChart {
    let medians = served(campaign);
    let bar = |(policy, medians): &(String, Medians)| Bar {
        name: policy.clone(),
        value: medians.seconds,
        inner: None,
        points: seconds(campaign, policy),
        note: format!(
            "{}, {} of the bound; {}",
            format_seconds(medians.seconds),
            format_percent(medians.percent_of_bound),
            medians.limit.name()
        ),
        is_flagged: medians.limit == Limit::Processor,
    };
    let bound = medians.first().map(|(_, medians)| (medians.bound_seconds, "bound".to_string()));
    BarChart {
        title: "Seconds from the declared failure to the last commit; points are runs".into(),
        unit: "s",
        mark: bound,
        bars: medians.iter().map(bar).collect(),
    }
}

fn processor_chart(campaign: &Campaign) -> BarChart {
    let bar = |(policy, medians): &(String, Medians)| Bar {
        name: policy.clone(),
        value: 100.0 * medians.processor_part,
        inner: Some(100.0 * medians.agent_processor_part),
        points: Vec::new(),
        note: format!(
            "{} of agents per GB",
            format_seconds(medians.agent_processor_seconds_per_gb)
        ),
        is_flagged: medians.limit == Limit::Processor,
    };
    BarChart {
        title: "Part of all cores that was busy; dark: agents alone".into(),
        unit: "%",
        mark: Some((85.0, "full".to_string())),
        bars: served(campaign).iter().map(bar).collect(),
    }
}

/// What each link carried over time.
fn map(policy: &str, figures: &RepairFigures) -> Picture {
    let panel = |name: &str, ending: &str| {
        let ports = figures.timeline.ports.iter();
        let rows: Vec<PictureRow> = ports
            .filter_map(|(port, used)| {
                let name = port.strip_suffix(ending)?.to_string();
                Some(PictureRow { name, used: used.iter().map(|used| Some(*used)).collect() })
            })
            .collect();
        let buckets = rows.first().map_or(0, |row| row.used.len());
        let mean = |bucket: usize| {
            let sum: f64 = rows.iter().filter_map(|row| row.used[bucket]).sum();
            Some((sum / rows.len() as f64).min(1.0))
        };
        Panel { name: name.to_string(), average: (0..buckets).map(mean).collect(), rows }
    };
    Picture {
        title: policy.to_string(),
        subtitle: format!(
            "{}, bound {} at goodput; a row is a link, dark is busy",
            format_seconds(figures.seconds),
            format_seconds(figures.bound_seconds)
        ),
        seconds: figures.seconds,
        bucket_seconds: figures.timeline.step,
        bound_seconds: figures.bound_seconds,
        panels: vec![panel("sends", " up"), panel("receives", " down")],
    }
}
