//! Links that change: the published measurements from their files, or drawn from models of them.
//!
//! Place: under [slices flow]. PivotRepair's measurements have no licence and are not here;
//! whoever has the files names their folder.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use suture_edge::error::bad_input;
use suture_repair::cluster::Rate;
use suture_repair::random::Random;
use suture_sim::bandwidth_trace::{BandwidthTrace, Direction, LinkModel};
use suture_sim::client::percentile;

use crate::input::{Input, trace_text};

/// Bytes per second of a gigabit.
pub const GBIT: f64 = 125e6;

/// Nodes, seconds and links of the published measurements.
pub const NODES: usize = 16;
const SECONDS: u64 = 6000;

/// The seed that models of traces begin with.
const SEED: u64 = 1;

/// What is left of a congested link, at most: PivotRepair counts from 90 % used.
pub const CONGESTED: f64 = 0.1 * GBIT;

/// A published set of link measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TraceName {
    /// Analytical queries, as TPC-DS has them.
    TpcDs,
    /// Ad-hoc queries, as TPC-H has them.
    TpcH,
    /// MapReduce jobs, as SWIM has them.
    Swim,
}

/// The second of a trace with which a repair begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Start {
    /// At any moment, drawn by the seed.
    Random,
    /// One in which more helpers are congested than can be left out, and a tree gets around it.
    Congested,
}

/// What a start came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StartKind {
    /// More helpers are congested than can be left out.
    Congested,
    /// There is no such second: one with uneven links.
    Uneven,
    /// Any second, because any was asked for, or there is no other.
    Any,
}

/// The measurements of both directions, for each of the three workloads.
pub struct Traces {
    /// Where they are from; none: from the models.
    pub folder: Option<PathBuf>,
    /// By model, in the order of all.
    links: Vec<LinkTrace>,
}

/// What the links of all nodes carry, second by second.
pub struct LinkTrace {
    /// What uplinks have over time.
    pub up: BandwidthTrace,
    /// What downlinks have over time.
    pub down: BandwidthTrace,
}

impl TraceName {
    /// The model whose traces resemble it.
    pub fn model(self) -> LinkModel {
        match self {
            TraceName::TpcDs => LinkModel::TpcDs,
            TraceName::TpcH => LinkModel::TpcH,
            TraceName::Swim => LinkModel::Swim,
        }
    }
}

impl Traces {
    /// Reads the folder, or draws from the models where none is named.
    ///
    /// # Errors
    /// Bad input: a file is missing, or its rows or columns are wrong.
    pub fn read(folder: Option<&Path>) -> Result<Traces> {
        let trace = |model: LinkModel, direction: Direction| match folder {
            Some(folder) => read(folder, model, direction),
            None => Ok(draw(model, direction)),
        };
        let both = |model: LinkModel| -> Result<LinkTrace> {
            let (up, down) = (trace(model, Direction::Up)?, trace(model, Direction::Down)?);
            Ok(LinkTrace { up, down })
        };
        let links = LinkModel::ALL.into_iter().map(both).collect::<Result<_>>()?;
        Ok(Traces { folder: folder.map(Path::to_path_buf), links })
    }

    /// What links could send and receive under a workload.
    pub fn of(&self, name: TraceName) -> &LinkTrace {
        let index = LinkModel::ALL.iter().position(|model| *model == name.model());
        &self.links[index.expect("all models are known")]
    }

    /// Both directions from a second on that is drawn as `start` says.
    pub fn starting(
        &self,
        name: TraceName,
        start: Start,
        input: &Input,
        random: &mut Random,
    ) -> LinkTrace {
        let LinkTrace { up, down } = self.of(name);
        let (_, starts) = self.starts(name, start, input);
        let second = starts[random.below(starts.len() as u64) as usize];
        let from = |trace: &BandwidthTrace| with_spare(trace.starting_at(second), input);
        LinkTrace { up: from(up), down: from(down) }
    }

    /// What a start of this failure is: congested ones are not to be had of every stripe.
    pub fn kind(&self, name: TraceName, start: Start, input: &Input) -> StartKind {
        self.starts(name, start, input).0
    }

    /// The seconds with which a repair may begin, and what they are.
    fn starts(&self, name: TraceName, start: Start, input: &Input) -> (StartKind, Vec<u64>) {
        let LinkTrace { up, down } = self.of(name);
        let seconds_that =
            |is_start: fn(&BandwidthTrace, &BandwidthTrace, u64, &Input) -> bool| -> Vec<u64> {
                (0..up.seconds()).filter(|second| is_start(up, down, *second, input)).collect()
            };
        if start == Start::Congested {
            let congested = seconds_that(is_congested_start);
            if !congested.is_empty() {
                return (StartKind::Congested, congested);
            }
            let uneven = seconds_that(is_uneven_start);
            if !uneven.is_empty() {
                return (StartKind::Uneven, uneven);
            }
        }
        (StartKind::Any, (0..up.seconds()).collect())
    }

    /// In words, for the report.
    pub fn describe(&self) -> String {
        match &self.folder {
            Some(folder) => format!("the measurements in {}", folder.display()),
            None => "the built-in models of the published measurements".to_string(),
        }
    }
}

/// What a node has of both directions in a second: the less of them counts.
pub fn available(up: &BandwidthTrace, down: &BandwidthTrace, node: usize, second: u64) -> f64 {
    up.rate(node, second).0.min(down.rate(node, second).0)
}

/// Whether more survivors of the first stripe are congested in a second, in one direction at least,
/// than a repair can do without, while enough of them can send and the node that receives is free:
/// the situation that PivotRepair is about (section III-B, Figure 3). A path must lead through a
/// congested link then, and a tree need not.
fn is_congested_start(
    up: &BandwidthTrace,
    down: &BandwidthTrace,
    second: u64,
    input: &Input,
) -> bool {
    let survivors: Vec<usize> = survivors_of_first(input).collect();
    let needed = input.code.data_chunks();
    let is_congested = |node: &&usize| available(up, down, **node, second) < CONGESTED;
    let sends = |node: &&usize| up.rate(**node, second).0 >= CONGESTED;
    let congested = survivors.iter().filter(is_congested).count();
    congested + needed > survivors.len()
        && survivors.iter().filter(sends).count() >= needed
        && is_received(up, down, second, input)
}

/// Whether the survivors of the first stripe have uneven links in a second, with a coefficient of
/// variation above a half, as PivotRepair counts, and the node that receives is not congested:
/// otherwise every scheme waits for the same link.
fn is_uneven_start(up: &BandwidthTrace, down: &BandwidthTrace, second: u64, input: &Input) -> bool {
    let free: Vec<f64> =
        survivors_of_first(input).map(|node| available(up, down, node, second)).collect();
    variation(&free) > 0.5 && is_received(up, down, second, input)
}

fn survivors_of_first(input: &Input) -> impl Iterator<Item = usize> + '_ {
    let stripe = input.placement[..input.code.chunk_count()].iter();
    stripe.filter(|node| !input.failed.contains(node)).map(|node| node.index())
}

/// Whether the node that receives is not congested.
fn is_received(up: &BandwidthTrace, down: &BandwidthTrace, second: u64, input: &Input) -> bool {
    let destination = input.failed.first().map_or(0, |node| node.index());
    available(up, down, destination, second) >= CONGESTED
}

/// The standard deviation over the mean; none of no spread.
fn variation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let deviation = (squares.sum::<f64>() / values.len() as f64).sqrt();
    if mean > 0.0 { deviation / mean } else { 0.0 }
}

/// A replacement has the link of the node that it replaces.
fn with_spare(trace: BandwidthTrace, input: &Input) -> BandwidthTrace {
    if input.cluster.nodes.len() == NODES {
        return trace;
    }
    let failed = input.failed.first().map_or(0, |node| node.index());
    let row = |second| {
        let node = |node| trace.rate(if node < NODES { node } else { failed }, second);
        (0..input.cluster.nodes.len()).map(node).collect()
    };
    BandwidthTrace::from_rows((0..trace.seconds()).map(row).collect())
}

fn draw(model: LinkModel, direction: Direction) -> BandwidthTrace {
    // The two directions of a link are congested independently.
    model.draw(
        direction,
        &[Rate(GBIT); NODES],
        SECONDS,
        SEED ^ (0x7472_6163_6500 + direction as u64),
    )
}

fn read(folder: &Path, model: LinkModel, direction: Direction) -> Result<BandwidthTrace> {
    let ending = match direction {
        Direction::Up => "upload",
        Direction::Down => "download",
    };
    let path = folder.join(format!("{}_{ending}.csv", model.name()));
    let text = trace_text(&path).map_err(|error| {
        bad_input(format!(
            "--traces: cannot read '{}': {error}; the folder has tpcds_upload.csv, \
             tpcds_download.csv, and the same of tpch and swim, each with a row a second and {NODES} \
             columns of Mbit/s",
            path.display()
        ))
    })?;
    BandwidthTrace::parse(&text, NODES)
        .map_err(|fault| bad_input(format!("--traces: {}: {fault}", path.display())))
}

/// Of the seconds in which some node uses at least such a part of its link, in percent, those in
/// which the nodes' used bandwidths differ by more than half of their mean (PivotRepair, Table I).
pub fn uneven(up: &BandwidthTrace, down: &BandwidthTrace, usage: f64) -> Option<f64> {
    let (mut busy, mut differing) = (0u32, 0u32);
    for second in 0..up.seconds() {
        let used: Vec<f64> =
            (0..NODES).map(|node| 1.0 - available(up, down, node, second) / GBIT).collect();
        // A trace may say a little less than nothing is left.
        if !used.iter().any(|used| *used >= usage - 1e-9) {
            continue;
        }
        busy += 1;
        differing += u32::from(variation(&used) > 0.5);
    }
    (busy > 0).then(|| 100.0 * f64::from(differing) / f64::from(busy))
}

/// What nodes use of their links on average, in percent.
pub fn used(up: &BandwidthTrace, down: &BandwidthTrace) -> f64 {
    let cells = (0..up.seconds()).flat_map(|second| (0..NODES).map(move |node| (second, node)));
    let sum: f64 = cells.map(|(second, node)| 1.0 - available(up, down, node, second) / GBIT).sum();
    100.0 * sum / (up.seconds() as f64 * NODES as f64)
}

/// In how many percent of the seconds some node is congested.
pub fn congested(up: &BandwidthTrace, down: &BandwidthTrace) -> f64 {
    let is_congested =
        |second: &u64| (0..NODES).any(|node| available(up, down, node, *second) < CONGESTED);
    100.0 * (0..up.seconds()).filter(is_congested).count() as f64 / up.seconds() as f64
}

/// What a node uses of its link at most in such a part of all seconds of all nodes, in percent.
pub fn used_quantile(up: &BandwidthTrace, down: &BandwidthTrace, part: f64) -> f64 {
    let cells = (0..up.seconds()).flat_map(|second| (0..NODES).map(move |node| (second, node)));
    let used = |(second, node)| 100.0 * (1.0 - available(up, down, node, second) / GBIT);
    let mut used: Vec<f64> = cells.map(used).collect();
    used.sort_unstable_by(f64::total_cmp);
    percentile(&used, part)
}

/// How many nodes are congested in some second.
pub fn ever_congested(up: &BandwidthTrace, down: &BandwidthTrace) -> f64 {
    let is_ever = |node: &usize| {
        (0..up.seconds()).any(|second| available(up, down, *node, second) < CONGESTED)
    };
    (0..NODES).filter(is_ever).count() as f64
}

/// Of the seconds in which some node is congested, or was in the second before, those in which
/// other nodes are than in the second before, in percent.
pub fn congestion_changes(up: &BandwidthTrace, down: &BandwidthTrace) -> f64 {
    let congested = |second: u64| -> Vec<usize> {
        (0..NODES).filter(|node| available(up, down, *node, second) < CONGESTED).collect()
    };
    let (mut seconds, mut changes) = (0u32, 0u32);
    let mut before = congested(0);
    for second in 1..up.seconds() {
        let now = congested(second);
        seconds += u32::from(!(now.is_empty() && before.is_empty()));
        changes += u32::from(now != before);
        before = now;
    }
    100.0 * f64::from(changes) / f64::from(seconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many seconds, in each of which these nodes have a twentieth of a gigabit left.
    fn links(congested: &[&[usize]]) -> BandwidthTrace {
        let row = |nodes: &&[usize]| {
            let rate = |node| Rate(GBIT * if nodes.contains(&node) { 0.05 } else { 0.8 });
            (0..NODES).map(rate).collect()
        };
        BandwidthTrace::from_rows(congested.iter().map(row).collect())
    }

    #[test]
    fn congestion_is_counted_by_nodes_and_by_how_often_it_is_elsewhere() {
        let (up, down) = (links(&[&[], &[], &[1], &[1], &[2]]), links(&[&[], &[], &[], &[], &[2]]));
        assert_eq!(ever_congested(&up, &down), 2.0);
        // Of the last three seconds two are not like the one before.
        assert!((congestion_changes(&up, &down) - 200.0 / 3.0).abs() < 1e-9);
        assert!((used_quantile(&up, &down, 0.5) - 20.0).abs() < 1e-9);
        assert!((used_quantile(&up, &down, 1.0) - 95.0).abs() < 1e-9);
    }
}
