//! `--timeline DIR`: how busy every link was over time, as numbers and as a picture.
//!
//! Place: beside `[slices flow]`: what links carried, written to files.
//! The CSV has a row for each span of time and a column for each link, with the part of the link
//! that was used. The picture shows the same as a map of heat: a row for each link, dark where it
//! was busy, pale where it was idle; above it the average of all links, and where the bound lies.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use suture_edge::error::bad_input;
use suture_edge::units::{format_percent, format_seconds};
use suture_files::directory::write_output;
use suture_files::output::file_place;
use suture_lab::picture::{Panel, Picture, PictureRow};
use suture_repair::plan::load::Port;
use suture_sim::scenario::Scenario;
use suture_sim::simulate::timeline_links;
use suture_sim::timeline::Timeline;

use super::Run;

/// Spans of time, at most: a picture has about as many columns as eyes can distinguish.
pub const BUCKETS: usize = 480;

/// Rows of a panel, at most; beyond that, neighbours are averaged.
const ROWS_MAX: usize = 64;

/// A link and its column in the timeline.
struct LinkColumn {
    name: String,
    kind: &'static str,
    column: usize,
}

/// Makes the folder, before anything is simulated for it.
///
/// # Errors
/// Bad input where it is none, or has something that no file of one of these names can take the
/// place of; a failure when it cannot be made.
pub fn prepare(folder: &Path, names: &[String]) -> Result<()> {
    let shown = folder.display();
    if folder.exists() && !folder.is_dir() {
        return Err(bad_input(format!("--timeline {shown}: it is not a folder")));
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {shown}"))?;
    for name in names {
        for file in [format!("{name}.csv"), format!("{name}.svg")] {
            file_place(&folder.join(file))?;
        }
    }
    Ok(())
}

/// Writes `NAME.csv` and `NAME.svg` to the folder, if a timeline was kept.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path, name: &str, scenario: &Scenario, evaluation: &Run) -> Result<()> {
    let Some(timeline) = &evaluation.simulated.timeline else { return Ok(()) };
    let links = links(scenario);
    let files = [
        (format!("{name}.csv"), csv(timeline, &links)),
        (format!("{name}.svg"), picture(timeline, &links, evaluation).svg()),
    ];
    for (file, text) in files {
        write_output(&folder.join(file), text.as_bytes())?;
    }
    Ok(())
}

/// The links of what survives.
fn links(scenario: &Scenario) -> Vec<LinkColumn> {
    let cluster = scenario.capacities.cluster();
    let all = timeline_links(scenario).into_iter().enumerate();
    let link = |(column, port): (usize, Port)| {
        let (name, kind) = match port {
            Port::Uplink(id) if !scenario.failed.contains(&id) => {
                (&cluster.node(id).name, "uplink")
            }
            Port::Downlink(id) if !scenario.failed.contains(&id) => {
                (&cluster.node(id).name, "downlink")
            }
            Port::RackUplink(id) => (&cluster.racks[id.0 as usize], "rack uplink"),
            Port::RackDownlink(id) => (&cluster.racks[id.0 as usize], "rack downlink"),
            _ => return None,
        };
        Some(LinkColumn { name: name.clone(), kind, column })
    };
    all.filter_map(link).collect()
}

fn csv(timeline: &Timeline, links: &[LinkColumn]) -> String {
    let mut out = String::from("seconds");
    for link in links {
        // Names are free text; a quoted field may hold anything.
        let name = format!("{} {}", link.name, link.kind).replace('"', "\"\"");
        let is_plain = !name.contains([',', '"', '\n']);
        let _ = if is_plain { write!(out, ",{name}") } else { write!(out, ",\"{name}\"") };
    }
    out.push('\n');
    for bucket in 0..timeline.len() {
        let _ = write!(out, "{}", bucket as f64 * timeline.width());
        for link in links {
            let _ = match used(timeline, bucket, &[link.column]) {
                Some(part) => write!(out, ",{part:.4}"),
                None => write!(out, ","),
            };
        }
        out.push('\n');
    }
    out
}

/// The part of these links that was used; `None` when they could carry nothing.
fn used(timeline: &Timeline, bucket: usize, columns: &[usize]) -> Option<f64> {
    let buckets = columns.iter().map(|&column| timeline.get(bucket, column));
    let (carried, possible) = buckets.fold((0.0, 0.0), |(carried, possible), bucket| {
        (carried + bucket.carried, possible + bucket.possible)
    });
    (possible > 0.0).then(|| (carried / possible).clamp(0.0, 1.0))
}

fn picture(timeline: &Timeline, links: &[LinkColumn], evaluation: &Run) -> Picture {
    let simulated = &evaluation.simulated;
    let percent = format_percent(evaluation.percent_of_bound().unwrap_or_default());
    let kinds = ["uplink", "downlink", "rack uplink", "rack downlink"];
    let panels = kinds.iter().map(|kind| panel(timeline, links, kind));
    Picture {
        title: format!("{}: repaired in {}", evaluation.policy, format_seconds(simulated.seconds)),
        subtitle: format!(
            "{} chunks \u{b7} {percent} of the bound, which is {} \u{b7} a row for each link",
            simulated.rebuilt.len(),
            format_seconds(evaluation.bound_seconds),
        ),
        seconds: simulated.seconds,
        bucket_seconds: timeline.width(),
        bound_seconds: evaluation.bound_seconds,
        panels: panels.filter(|panel| !panel.rows.is_empty()).collect(),
    }
}

fn panel(timeline: &Timeline, links: &[LinkColumn], kind: &str) -> Panel {
    let links: Vec<&LinkColumn> = links.iter().filter(|link| link.kind == kind).collect();
    let columns: Vec<usize> = links.iter().map(|link| link.column).collect();
    let over_time = |columns: &[usize]| -> Vec<Option<f64>> {
        (0..timeline.len()).map(|bucket| used(timeline, bucket, columns)).collect()
    };
    let together = links.len().div_ceil(ROWS_MAX).max(1);
    let row = |links: &[&LinkColumn]| {
        let columns: Vec<usize> = links.iter().map(|link| link.column).collect();
        let name = match links {
            [only] => only.name.clone(),
            [first, .., last] => format!("{} - {}", first.name, last.name),
            [] => String::new(),
        };
        PictureRow { name, used: over_time(&columns) }
    };
    Panel {
        name: format!("{kind}s"),
        average: over_time(&columns),
        rows: links.chunks(together).map(row).collect(),
    }
}
