//! What figures without a repair show of links: what is used of them, and how that changes.
//!
//! Place: beside [slices flow], and in place of everything else of a repair. Numbers of PivotRepair
//! (section III-A) are of links that follow a trace, those of ChameleonEC (section II-D) of
//! applications alone on links that do not change.

use anyhow::{Result, bail};
use suture_sim::timeline::Timeline;

use super::metric::{Metric, loss};
use super::setting::{FigureSetting, Prepared};
use super::table::mean;
use super::traces::{self, LinkTrace, Traces};

/// Seconds of an interval in which changes of the foreground are looked for (ChameleonEC, section
/// II-D), and of all of them.
const CHANGE_INTERVAL: f64 = 15.0;
const CHANGE_SECONDS: f64 = 60.0;

/// Buckets of that time: each has 0.2 seconds.
const CHANGE_BUCKETS: usize = 320;

/// Seeds whose starts are counted, as many as a report has repetitions.
const START_SEEDS: u64 = 5;

/// What is seen of links, or computed, without a repair.
///
/// # Errors
/// When the setting has no links of the kind that the metric is of.
pub fn seen(metric: Metric, setting: &FigureSetting, seed: u64, traces: &Traces) -> Result<f64> {
    let changes = |sample| changes(setting, seed, traces, sample);
    match metric {
        Metric::LossAtRate => return Ok(loss(setting.link)),
        Metric::Fluctuation(sample) => return Ok(mean(&changes(sample)?).unwrap_or(0.0)),
        Metric::MostFluctuation(sample) => {
            return Ok(changes(sample)?.into_iter().fold(0.0, f64::max));
        }
        _ => {}
    }
    let Some((name, start)) = setting.trace else { bail!("{metric:?} is of a trace") };
    let LinkTrace { up, down } = traces.of(name);
    Ok(match metric {
        Metric::Uneven(usage) => traces::uneven(up, down, usage).unwrap_or(0.0),
        Metric::AnyCongested => traces::congested(up, down),
        Metric::EverCongested => traces::ever_congested(up, down),
        Metric::CongestionChanges => traces::congestion_changes(up, down),
        Metric::UsedQuantile(part) => traces::used_quantile(up, down, part),
        Metric::Starts(kind) => {
            let mut found = 0u32;
            for seed in 1..=START_SEEDS {
                let input = setting.prepare(traces, seed)?.input;
                found += u32::from(traces.kind(name, start, &input) == kind);
            }
            100.0 * f64::from(found) / START_SEEDS as f64
        }
        _ => traces::used(up, down),
    })
}

/// How much the rate of applications on a link changes within an interval, in Mbit/s: of every link
/// of a node that lives and of every interval the largest less the smallest mean of so many
/// seconds.
fn changes(setting: &FigureSetting, seed: u64, traces: &Traces, sample: f64) -> Result<Vec<f64>> {
    let prepared = setting.prepare(traces, seed)?;
    let timeline = prepared.applications(setting, CHANGE_SECONDS, CHANGE_BUCKETS)?;
    let buckets = ((sample / timeline.width()).round() as usize).max(1);
    let samples = ((CHANGE_INTERVAL / (buckets as f64 * timeline.width())) as usize).max(1);
    let mut changes = Vec::new();
    for link in links(&prepared) {
        for interval in rates(&timeline, link, buckets).chunks_exact(samples) {
            let low = interval.iter().copied().fold(f64::INFINITY, f64::min);
            let high = interval.iter().copied().fold(0.0, f64::max);
            changes.push((high - low) * 8.0 / 1e6);
        }
    }
    Ok(changes)
}

/// Uplinks and downlinks of nodes that live.
fn links(prepared: &Prepared) -> impl Iterator<Item = usize> {
    let input = &prepared.input;
    let nodes = input.cluster.ids().filter(|node| !input.failed.contains(node));
    nodes.flat_map(|node| [2 * node.index(), 2 * node.index() + 1])
}

/// Mean rates of a link over so many buckets each.
fn rates(timeline: &Timeline, link: usize, buckets: usize) -> Vec<f64> {
    let firsts = (0..timeline.len() / buckets).map(|sample| sample * buckets);
    let seconds = buckets as f64 * timeline.width();
    let carried = |first: usize| -> f64 {
        (first..first + buckets).map(|bucket| timeline.get(bucket, link).carried).sum()
    };
    firsts.map(|first| carried(first) / seconds).collect()
}
