//! Links that change: the published measurements from their files, or drawn from models of them.
//!
//! Place: under [slices flow]. PivotRepair's measurements have no licence and are not here;
//! whoever has the files names their folder.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use suture_edge::checksum::crc32c;
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
    /// One in which every path leads through a congested link, and a tree gets around it.
    Congested,
}

/// What a start came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StartKind {
    /// Every path of helpers leads through a congested link.
    Congested,
    /// There is no such second: one with uneven links.
    Uneven,
    /// Any second, because any was asked for, or there is no other.
    Any,
}

/// Where what links have over time is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkSource {
    /// Drawn from the built-in models of the published measurements.
    Models,
    /// The files of measurements that were named.
    Measurements,
}

/// The measurements of both directions, for each of the three workloads.
pub struct Traces {
    /// Where they are from; none: from the models.
    folder: Option<PathBuf>,
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
            if up.seconds() != down.seconds() {
                let name = model.name();
                return Err(bad_input(format!(
                    "--traces: {name}_upload.csv has {} rows and {name}_download.csv {}: both are \
                     of the same seconds, a row each",
                    up.seconds(),
                    down.seconds(),
                )));
            }
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

    /// Where they are from.
    pub fn source(&self) -> LinkSource {
        self.folder.as_ref().map_or(LinkSource::Models, |_| LinkSource::Measurements)
    }

    /// In words, for the report.
    pub fn describe(&self) -> String {
        let seconds = || self.links.iter().map(|links| links.up.seconds()).min().unwrap_or(0);
        match &self.folder {
            Some(folder) => {
                format!("the measurements in {} ({} s)", folder.display(), seconds())
            }
            None => "the built-in models of the published measurements".to_string(),
        }
    }

    /// What distinguishes them from all others, wherever their files lie: whoever goes on with a
    /// reproduction has to have the same.
    pub fn fingerprint(&self) -> String {
        if self.source() == LinkSource::Models {
            return self.describe();
        }
        let rates = self.links.iter().flat_map(|LinkTrace { up, down }| {
            [up, down].into_iter().flat_map(|trace| {
                let seconds = 0..trace.seconds();
                seconds.flat_map(move |second| (0..NODES).map(move |node| trace.rate(node, second)))
            })
        });
        let bytes: Vec<u8> = rates.flat_map(|rate| rate.0.to_le_bytes()).collect();
        format!("measurements with the checksum {:08x}", crc32c(&bytes))
    }
}

/// What a node has of both directions in a second: the less of them counts.
pub fn available(up: &BandwidthTrace, down: &BandwidthTrace, node: usize, second: u64) -> f64 {
    up.rate(node, second).0.min(down.rate(node, second).0)
}

/// Whether every path of helpers of the first stripe leads through a congested link in a second,
/// and a tree need not: enough survivors can send, and the node that receives is free, but too few
/// can receive as well, as all helpers of a path but its first one have to. That is the situation
/// that PivotRepair is about (section III-B, Figure 3).
fn is_congested_start(
    up: &BandwidthTrace,
    down: &BandwidthTrace,
    second: u64,
    input: &Input,
) -> bool {
    let survivors: Vec<usize> = survivors_of_first(input).collect();
    let needed = input.code.data_chunks();
    let sends = |node: &&usize| up.rate(**node, second).0 >= CONGESTED;
    let relays = |node: &&usize| available(up, down, **node, second) >= CONGESTED;
    survivors.iter().filter(sends).count() >= needed
        && survivors.iter().filter(relays).count() + 1 < needed
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
    let trace = BandwidthTrace::parse(&text, NODES)
        .map_err(|fault| bad_input(format!("--traces: {}: {fault}", path.display())))?;
    let cells = (0..trace.seconds()).flat_map(|second| (0..NODES).map(move |node| (second, node)));
    for (second, node) in cells {
        let rate = trace.rate(node, second).0;
        if rate > GBIT * (1.0 + 1e-6) {
            return Err(bad_input(format!(
                "--traces: {}: row {}, column {}: {} Mbit/s are left of a link of 1000 Mbit/s",
                path.display(),
                second + 1,
                node + 1,
                rate * 8.0 / 1e6,
            )));
        }
    }
    Ok(trace)
}

/// Of the seconds in which some node uses at least such a part of its link, in percent, those in
/// which what the nodes have left has a coefficient of variation above a half (PivotRepair, Table
/// I). Seconds in which no node has anything left have none, and do not count.
pub fn uneven(up: &BandwidthTrace, down: &BandwidthTrace, usage: f64) -> Option<f64> {
    let (mut busy, mut differing) = (0u32, 0u32);
    for second in 0..up.seconds() {
        let left: Vec<f64> = (0..NODES).map(|node| available(up, down, node, second)).collect();
        let is_busy = left.iter().any(|left| 1.0 - left / GBIT >= usage - 1e-9);
        if !is_busy || left.iter().all(|left| *left == 0.0) {
            continue;
        }
        busy += 1;
        differing += u32::from(variation(&left) > 0.5);
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

    /// What all nodes have in each second, in gigabits.
    fn left(rows: &[[f64; NODES]]) -> BandwidthTrace {
        let row = |row: &[f64; NODES]| row.iter().map(|left| Rate(left * GBIT)).collect();
        BandwidthTrace::from_rows(rows.iter().map(row).collect())
    }

    #[test]
    fn congested_time_is_uneven_by_what_is_left_and_not_by_what_is_used() {
        let idle = left(&[[1.0; NODES]; 4]);
        // One node of 16 has nothing left; ten of them do; all of them do; none does.
        let mut rows = [[1.0; NODES]; 4];
        rows[0][3] = 0.0;
        rows[1][..10].fill(0.0);
        rows[2].fill(0.0);
        // What the first second uses varies by 3.9 times its mean, and what it has left by 0.26.
        assert_eq!(uneven(&left(&rows), &idle, 0.9), Some(50.0));
        assert_eq!(uneven(&idle, &idle, 0.9), None);
        rows[0][3] = 0.08;
        assert_eq!(uneven(&idle, &left(&rows), 1.0), Some(100.0), "the first is not congested");
    }

    /// A folder of traces of two seconds, of which one file is another.
    fn folder(name: &str, text: &str) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let row = |rate: &str| vec![rate; NODES].join(",") + "\n";
        for model in LinkModel::ALL {
            for ending in ["upload", "download"] {
                let path = place.path().join(format!("{}_{ending}.csv", model.name()));
                std::fs::write(path, row("900") + &row("1000")).unwrap();
            }
        }
        std::fs::write(place.path().join(name), text).unwrap();
        place
    }

    #[test]
    fn measurements_that_cannot_be_those_of_one_link_are_refused() {
        let row = vec!["700"; NODES].join(",") + "\n";
        let refused = |text: &str| {
            let place = folder("swim_upload.csv", text);
            format!("{:#}", Traces::read(Some(place.path())).err().expect("it is refused"))
        };
        let said = refused(&row);
        assert!(said.contains("swim_upload.csv has 1 rows and swim_download.csv 2"), "{said}");
        let said = refused(&row.repeat(2).replacen("700", "1001", 1));
        assert!(said.ends_with("row 1, column 1: 1001 Mbit/s are left of a link of 1000 Mbit/s"));
    }

    #[test]
    fn measurements_are_known_by_what_they_are_and_not_by_where_they_lie() {
        let row = vec!["700"; NODES].join(",") + "\n";
        let of = |text: &str| {
            let place = folder("swim_upload.csv", text);
            let traces = Traces::read(Some(place.path())).unwrap();
            assert!(traces.describe().ends_with(" (2 s)"), "{}", traces.describe());
            traces.fingerprint()
        };
        assert_eq!(of(&row.repeat(2)), of(&row.repeat(2)));
        assert_ne!(of(&row.repeat(2)), of(&row.repeat(2).replacen("700", "701", 1)));
        let models = Traces::read(None).unwrap();
        assert_eq!(models.fingerprint(), models.describe());
    }
}
