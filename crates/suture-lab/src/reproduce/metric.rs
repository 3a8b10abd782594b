//! What a chart shows of each run, in which unit, and what its bound is.
//!
//! Place: behind the measuring of an experiment.

use serde::Serialize;
use suture_code::ChunkIndex;
use suture_repair::id::NodeId;
use suture_repair::planner::Job;
use suture_sim::durability::equation::{
    PAPER_LIFETIME_SECONDS, PAPER_NODE_BYTES, loss_probability,
};

use super::measure::{ForegroundRun, Measured, RunFigures};
use super::setting::{Prepared, StartKind};

/// Seconds of an interval of throughput over time, and of a phase of ChameleonEC.
pub const INTERVAL_SECONDS: f64 = 5.0;
const PHASE_SECONDS: f64 = 20.0;

/// What is read from a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Metric {
    /// Rebuilt bytes a second.
    Throughput,
    /// The same in the first 20 seconds.
    PhaseThroughput,
    /// The same in each interval of five seconds; a point is an interval.
    IntervalThroughput,
    /// From the first dispatch to the last chunk.
    Seconds,
    /// The same for each lost chunk.
    ChunkSeconds,
    /// The same with the time of planning.
    WholeSeconds,
    /// CPU time from jobs to plans.
    PlanSeconds,
    /// CPU time of the coordinator, scheduling too.
    CoordinatorSeconds,
    /// The busiest port's bytes over the mean of all surviving nodes.
    Balance,
    /// Bytes between racks for each lost chunk.
    CrossRack,
    /// What the intact rack sends that sends most, over their mean.
    RackBalance,
    /// What applications wait, at the 99th percentile.
    P99,
    /// How much longer that is than for the same operations without the repair.
    Delay,
    /// Bytes that move for applications, for each byte that moves for the repair.
    Intensity,
    /// How much longer applications take.
    Interference,
    /// What the uplink or downlink carries that carries most, or least.
    Link(LinkPlace),
    /// What of that it carries for applications.
    LinkForeground(LinkPlace),
    /// Bytes that move for each lost byte.
    Traffic,
    /// Bytes that disks read for each lost byte.
    DiskReads,
    /// Bytes that disks write for each lost byte.
    DiskWrites,
    /// The chance that a repair of that throughput is overtaken by failures.
    Loss,
    /// The same with the link's rate as the throughput.
    LossAtRate,
    /// CPU time of codes for each rebuilt gigabyte.
    Compute,
    /// The same as a part of the time that links need.
    ComputePart,
    /// What nodes' links carry on average, of what they could; no repair.
    UsedBandwidth,
    /// What a node uses at most in such a part of all seconds of all nodes; no repair.
    UsedQuantile(f64),
    /// The part of the time in which some node is congested; no repair.
    AnyCongested,
    /// How many nodes are congested at some time; no repair.
    EverCongested,
    /// Of the congested seconds, those in which other nodes are than in the second before; no
    /// repair.
    CongestionChanges,
    /// Of the moments at which repairs of some seeds begin, those of this kind; no repair.
    Starts(StartKind),
    /// Of the seconds in which a node uses so much of its link, those with uneven links; no repair.
    Uneven(f64),
    /// How much what applications put on a link changes within 15 seconds, by means of so many
    /// seconds; no repair.
    Fluctuation(f64),
    /// The same where it changes most.
    MostFluctuation(f64),
}

/// Which of the links.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum LinkPlace {
    /// The uplink that carries most.
    MostUp,
    /// The uplink that carries least.
    LeastUp,
    /// The downlink that carries most.
    MostDown,
    /// The downlink that carries least.
    LeastDown,
}

/// How a metric is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// By planning alone, without a simulation.
    Plans,
    /// By planning and simulating.
    Simulation,
    /// By running the codes of the plans on buffers.
    Codes,
    /// By looking at links; there is no repair, and no policy.
    Links,
    /// By a formula of the setting.
    Formula,
}

impl Metric {
    /// How it is measured.
    pub fn means(self) -> Means {
        match self {
            Metric::PlanSeconds
            | Metric::Balance
            | Metric::CrossRack
            | Metric::RackBalance
            | Metric::Traffic
            | Metric::DiskReads
            | Metric::DiskWrites => Means::Plans,
            Metric::Compute | Metric::ComputePart => Means::Codes,
            Metric::UsedBandwidth
            | Metric::UsedQuantile(_)
            | Metric::AnyCongested
            | Metric::EverCongested
            | Metric::CongestionChanges
            | Metric::Starts(_)
            | Metric::Uneven(_)
            | Metric::Fluctuation(_)
            | Metric::MostFluctuation(_) => Means::Links,
            Metric::LossAtRate => Means::Formula,
            _ => Means::Simulation,
        }
    }

    /// What the axis says.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::PhaseThroughput | Metric::IntervalThroughput => {
                "repair throughput"
            }
            Metric::Seconds => "repair time",
            Metric::ChunkSeconds => "repair time per lost chunk",
            Metric::WholeSeconds => "repair time with planning",
            Metric::PlanSeconds => "planning time (CPU)",
            Metric::CoordinatorSeconds => "coordinator time (CPU)",
            Metric::Balance => "load balancing degree",
            Metric::CrossRack => "cross-rack traffic per lost chunk",
            Metric::RackBalance => "load balancing rate of racks",
            Metric::P99 => "P99 latency of applications",
            Metric::Delay => "P99 latency beyond that without a repair",
            Metric::Intensity => "bytes of applications for each byte of the repair",
            Metric::Interference => "interference degree",
            Metric::Link(_) => "mean rate of the link",
            Metric::LinkForeground(_) => "mean rate of applications on the link",
            Metric::Traffic => "network traffic per lost byte",
            Metric::DiskReads => "disk reads per lost byte",
            Metric::DiskWrites => "disk writes per lost byte",
            Metric::Loss | Metric::LossAtRate => "chance of data loss during a repair",
            Metric::Compute => "CPU time of the code per rebuilt GB",
            Metric::ComputePart => "CPU time of the code over repair time",
            Metric::UsedBandwidth | Metric::UsedQuantile(_) => "used of the node's bandwidth",
            Metric::AnyCongested => "time with a congested node",
            Metric::EverCongested => "nodes that are congested at some time",
            Metric::CongestionChanges => "of congested time with other nodes than a second before",
            Metric::Starts(StartKind::Congested) => "starts at which every path is congested",
            Metric::Starts(StartKind::Uneven) => "starts with uneven links",
            Metric::Starts(StartKind::Any) => "starts at any second",
            Metric::Uneven(_) => "of congested time with uneven links",
            Metric::Fluctuation(_) => "change within 15 s, mean over links and windows",
            Metric::MostFluctuation(_) => "change within 15 s, most of links and windows",
        }
    }

    /// The unit that stands behind each number.
    pub fn unit(self) -> &'static str {
        match self {
            Metric::Throughput | Metric::PhaseThroughput | Metric::IntervalThroughput => "MB/s",
            Metric::Seconds
            | Metric::ChunkSeconds
            | Metric::WholeSeconds
            | Metric::PlanSeconds
            | Metric::CoordinatorSeconds
            | Metric::Compute => "s",
            Metric::CrossRack => "MB",
            Metric::P99 => "ms",
            Metric::Interference
            | Metric::Delay
            | Metric::ComputePart
            | Metric::UsedBandwidth
            | Metric::UsedQuantile(_)
            | Metric::AnyCongested
            | Metric::CongestionChanges
            | Metric::Starts(_)
            | Metric::Uneven(_) => "%",
            Metric::Link(_)
            | Metric::LinkForeground(_)
            | Metric::Fluctuation(_)
            | Metric::MostFluctuation(_) => "Mbit/s",
            _ => "",
        }
    }

    /// Whether values of one chart are apart by orders of magnitude.
    pub fn is_logarithmic(self) -> bool {
        matches!(self, Metric::PlanSeconds | Metric::CoordinatorSeconds)
            || matches!(self, Metric::Loss | Metric::LossAtRate)
    }

    /// What the mark across a group of bars is; none: there is none.
    pub fn bound_name(self) -> Option<&'static str> {
        match self {
            _ if self.unbounded().is_some() => None,
            Metric::P99 => Some("no repair"),
            Metric::Link(_) => Some("even repair"),
            _ => Some("bound"),
        }
    }

    /// Why there is no bound; none: there is one, or what stands for it.
    pub fn unbounded(self) -> Option<&'static str> {
        match self {
            Metric::PlanSeconds
            | Metric::CoordinatorSeconds
            | Metric::Compute
            | Metric::ComputePart => Some("no least time of a processor is known"),
            Metric::LossAtRate => Some("it follows from the rate alone"),
            Metric::Delay | Metric::Intensity | Metric::LinkForeground(_) => {
                Some("what applications take has no bound")
            }
            _ if self.means() == Means::Links => Some("there is no repair"),
            _ => None,
        }
    }

    /// The value of a run; `None` where it has none. `index` is the point's.
    pub fn value(self, prepared: &Prepared, measured: &Measured, index: usize) -> Option<f64> {
        let bytes = measured.lost_bytes as f64;
        let load = &measured.load;
        let summed = |of: fn(&suture_repair::plan::load::NodeLoad) -> u64| {
            load.nodes().iter().map(of).sum::<u64>() as f64
        };
        match self {
            Metric::PlanSeconds => Some(measured.planning_seconds),
            Metric::Balance => {
                let nodes = load.nodes().iter();
                let most = nodes.map(|node| node.up_bytes.max(node.down_bytes)).max()?;
                Some(most as f64 / balanced_bytes(prepared, load.moved_bytes() as f64))
            }
            Metric::CrossRack => {
                Some(load.cross_rack_bytes() as f64 / measured.lost_chunks as f64 / 1e6)
            }
            Metric::RackBalance => rack_balance(prepared, measured),
            Metric::Traffic => Some(load.moved_bytes() as f64 / bytes),
            Metric::DiskReads => Some(summed(|node| node.disk_read_bytes) / bytes),
            Metric::DiskWrites => Some(summed(|node| node.disk_write_bytes) / bytes),
            _ => self.of_run(measured, measured.run.as_ref()?, index),
        }
    }

    fn of_run(self, measured: &Measured, run: &RunFigures, index: usize) -> Option<f64> {
        let bytes = measured.lost_bytes as f64;
        let between = |from: f64, to: f64| run.rebuilt_bytes(to) - run.rebuilt_bytes(from);
        let foreground = run.foreground.as_ref();
        let mbit = |rate: f64| rate * 8.0 / 1e6;
        match self {
            Metric::Throughput => Some(bytes / run.seconds / 1e6),
            Metric::PhaseThroughput => {
                let seconds = run.seconds.min(PHASE_SECONDS);
                Some(between(0.0, seconds) / seconds / 1e6)
            }
            Metric::IntervalThroughput => {
                let from = index as f64 * INTERVAL_SECONDS;
                let is_over = run.seconds < from + INTERVAL_SECONDS;
                (!is_over).then(|| between(from, from + INTERVAL_SECONDS) / INTERVAL_SECONDS / 1e6)
            }
            Metric::Seconds => Some(run.seconds),
            Metric::ChunkSeconds => Some(run.seconds / measured.lost_chunks as f64),
            Metric::WholeSeconds => Some(run.seconds + measured.planning_seconds),
            Metric::CoordinatorSeconds => Some(run.coordinator_seconds),
            Metric::P99 => foreground.map(ForegroundRun::p99_ms),
            Metric::Delay => foreground?.delay().map(|part| 100.0 * part),
            Metric::Intensity => {
                Some(foreground?.moved_bytes() / measured.load.moved_bytes() as f64)
            }
            Metric::Interference => foreground?.interference().map(|part| 100.0 * part),
            Metric::Link(place) => place.link(&run.links).map(|link| mbit(run.links[link])),
            Metric::LinkForeground(place) => {
                let bytes = foreground?.moved_on(place.link(&run.links)?);
                Some(mbit(bytes / run.seconds))
            }
            Metric::Loss => Some(loss(bytes / run.seconds)),
            _ => None,
        }
    }

    /// The bound of the value, where repairs take `seconds` at least.
    pub fn bound(self, prepared: &Prepared, seconds: f64) -> Option<f64> {
        let damage = prepared.input.damage();
        let bytes = (damage.lost_chunks as u64 * prepared.input.chunk_bytes) as f64;
        let traffic = || damage.jobs.iter().map(least_traffic).sum::<f64>();
        match self {
            Metric::Throughput | Metric::PhaseThroughput | Metric::IntervalThroughput => {
                Some(bytes / seconds / 1e6)
            }
            Metric::Seconds | Metric::WholeSeconds => Some(seconds),
            Metric::ChunkSeconds => Some(seconds / damage.lost_chunks as f64),
            Metric::CrossRack => {
                let chunks: usize = damage.jobs.iter().map(|job| fewest_racks(prepared, job)).sum();
                let bytes = (chunks as u64 * prepared.input.chunk_bytes) as f64;
                Some(bytes / damage.lost_chunks as f64 / 1e6)
            }
            // Whoever moves more may move it more evenly: no more is known than that.
            Metric::Balance | Metric::RackBalance => Some(1.0),
            Metric::Traffic | Metric::DiskReads => Some(traffic() / bytes),
            // Every rebuilt chunk is written, and once is enough.
            Metric::DiskWrites => Some(1.0),
            Metric::Interference => Some(0.0),
            // No bound of one link: what each carries when all share the least traffic evenly.
            Metric::Link(_) => Some(balanced_bytes(prepared, traffic()) / seconds * 8.0 / 1e6),
            Metric::Loss => Some(loss(bytes / seconds)),
            _ => None,
        }
    }
}

impl LinkPlace {
    /// The number of that link, of the rates of all uplinks and downlinks in turn. Links that carry
    /// nothing, as those of failed nodes, do not count.
    fn link(self, rates: &[f64]) -> Option<usize> {
        let direction = usize::from(matches!(self, LinkPlace::MostDown | LinkPlace::LeastDown));
        let links = (direction..rates.len()).step_by(2).filter(|link| rates[*link] > 0.0);
        match self {
            LinkPlace::MostUp | LinkPlace::MostDown => {
                links.max_by(|a, b| rates[*a].total_cmp(&rates[*b]))
            }
            LinkPlace::LeastUp | LinkPlace::LeastDown => {
                links.min_by(|a, b| rates[*a].total_cmp(&rates[*b]))
            }
        }
    }
}

/// The chance of Equation 2 of ChameleonEC at a throughput in bytes per second.
pub fn loss(throughput: f64) -> f64 {
    loss_probability(13, 4, PAPER_NODE_BYTES / throughput, PAPER_LIFETIME_SECONDS)
}

/// What each surviving node would send if all sent the same.
fn balanced_bytes(prepared: &Prepared, bytes: f64) -> f64 {
    let survivors = prepared.input.cluster.nodes.len() - prepared.input.failed.len();
    bytes / survivors as f64
}

/// What helpers must send at least for a job.
fn least_traffic(job: &Job) -> f64 {
    let code = job.code.code();
    let sub_chunks = |lost: &ChunkIndex| f64::from(code.least_helper_sub_chunks(*lost));
    let least = job.lost.iter().map(sub_chunks).fold(f64::INFINITY, f64::min);
    least / f64::from(code.sub_chunk_count()) * job.chunk_bytes as f64
}

/// The fewest racks that have to send a chunk to the one in which a lost chunk is rebuilt, over all
/// racks that have a node that may keep it: each of them sends at least a sum.
fn fewest_racks(prepared: &Prepared, job: &Job) -> usize {
    let cluster = &prepared.input.cluster;
    let mut counts = vec![0usize; cluster.racks.len()];
    for (_, node) in &job.survivors {
        if let Some(rack) = cluster.node(*node).rack {
            counts[rack.0 as usize] += 1;
        }
    }
    let free_bytes = prepared.input.free_bytes();
    let may_keep = |node: &NodeId| free_bytes[node.index()] > 0 && !job.excluded.contains(node);
    let from = |to: usize| {
        let mut others: Vec<usize> =
            (0..counts.len()).filter(|&rack| rack != to).map(|rack| counts[rack]).collect();
        others.sort_unstable_by(|a, b| b.cmp(a));
        let (mut known, mut racks) = (counts[to], 0);
        for count in others {
            if known >= job.code.code().data_chunks() {
                break;
            }
            (known, racks) = (known + count, racks + 1);
        }
        racks
    };
    let racks = cluster.ids().filter(may_keep).filter_map(|node| cluster.node(node).rack);
    racks.map(|rack| from(rack.0 as usize)).min().unwrap_or(0)
}

/// The most that an intact rack sends to others, over the mean of all of them.
fn rack_balance(prepared: &Prepared, measured: &Measured) -> Option<f64> {
    let failed = prepared.input.failed.first()?;
    let failed = prepared.input.cluster.node(*failed).rack?;
    let racks = measured.load.racks().iter().enumerate();
    let sent: Vec<f64> = racks
        .filter(|(rack, _)| *rack != failed.0 as usize)
        .map(|(_, load)| load.up_bytes as f64)
        .collect();
    let mean = sent.iter().sum::<f64>() / sent.len() as f64;
    (mean > 0.0).then(|| sent.iter().copied().fold(0.0, f64::max) / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::papers;
    use crate::reproduce::setting::{Between, FigureSetting, Lost, Placing, To};
    use crate::reproduce::traces::Traces;

    #[test]
    fn charts_of_repairs_have_a_bound_but_for_times_of_a_processor_and_what_applications_take() {
        let is_unbounded = |metric: Metric| match metric {
            Metric::PlanSeconds | Metric::CoordinatorSeconds => true,
            Metric::Delay | Metric::Intensity | Metric::LinkForeground(_) => true,
            _ => metric.means() == Means::Codes,
        };
        for experiment in papers::all() {
            for metric in experiment.panels.iter().map(|panel| panel.metric) {
                let is_repair = !matches!(metric.means(), Means::Links | Means::Formula);
                let has_bound = is_repair && !is_unbounded(metric);
                let name = experiment.name();
                assert_eq!(metric.bound_name().is_some(), has_bound, "{name}: {metric:?}");
                assert_eq!(metric.unbounded().is_none(), has_bound, "{name}: {metric:?}");
            }
        }
    }

    #[test]
    fn every_metric_that_names_a_bound_has_one() {
        let setting = FigureSetting {
            code: "rs(4,3)",
            nodes: 9,
            racks: &[3, 3, 3],
            between: Between::Rate(1e6),
            link: 1e6,
            disk: None,
            chunk_bytes: 6400,
            packet_bytes: None,
            lost: Lost::Chunks(10),
            failed: 1,
            to: To::Anywhere,
            placing: Placing::Random,
            foreground: None,
            trace: None,
            straggler: None,
        };
        let prepared = setting.prepare(&Traces::read(None).unwrap(), 1).unwrap();
        // What applications wait without a repair is measured.
        let is_measured = |metric: &Metric| *metric == Metric::P99;
        let panels = papers::all().flat_map(|experiment| experiment.panels);
        for metric in panels.map(|panel| panel.metric).filter(|metric| !is_measured(metric)) {
            let bound = metric.bound(&prepared, 2.0);
            assert_eq!(bound.is_some(), metric.bound_name().is_some(), "{metric:?}");
        }
        let bound = |metric: Metric| metric.bound(&prepared, 2.0).unwrap();
        assert_eq!(bound(Metric::DiskWrites), 1.0);
        assert_eq!(bound(Metric::Interference), 0.0);
        // Four chunks for each of ten, of 6400 bytes, from eight nodes in two seconds.
        assert!((bound(Metric::Link(LinkPlace::MostUp)) - 0.128).abs() < 1e-9);
    }
}
