//! What one repair on the testbed came to, and what several of a policy come to together.
//!
//! Place: behind the testbed's repair, before the report. A figure never stands alone: beside the
//! time are the bound, the processor and the memory, and what was the limit.

use serde::Serialize;
use suture_repair::stripe::Stripe;

use super::applications::{Felt, Waits};
use super::exported::RepairCounts;
use super::full_links::FULL;
use super::requests::LoopLogs;
use super::usage::ProcessorTime;

/// What held a repair back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Some link was full, and the processor was not.
    Links,
    /// The processor was full, and no link was: the figure says nothing about links.
    Processor,
    /// Some link and the processor were.
    Both,
    /// Neither was, on average: ports idled, at the beginning, at the end or in between.
    Neither,
}

impl Limit {
    fn of(link: f64, processor: f64) -> Limit {
        match (link >= FULL, processor >= FULL) {
            (true, false) => Limit::Links,
            (false, true) => Limit::Processor,
            (true, true) => Limit::Both,
            (false, false) => Limit::Neither,
        }
    }

    /// In a word, for tables.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Links => "links",
            Limit::Processor => "processor",
            Limit::Both => "both",
            Limit::Neither => "neither",
        }
    }
}

/// How much of what it had a direction of a link carried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortUse {
    /// Which one, such as `n3 up`.
    pub port: String,
    /// Of what it carries at most, framing taken off.
    pub part: f64,
}

/// What links carried, second by second.
#[derive(Clone, Debug, Default)]
pub struct LinkTimeline {
    /// Seconds from one entry to the next.
    pub step: f64,
    /// Port by port the part that was used in each step.
    pub ports: Vec<(String, Vec<f64>)>,
}

impl LinkTimeline {
    /// The part of the steps in which some link was full; `None` where there is no step.
    pub fn full_part(&self) -> Option<f64> {
        let steps =
            self.ports.iter().map(|(_, used)| used.len()).min().filter(|steps| *steps > 0)?;
        let is_full = |step: &usize| self.ports.iter().any(|(_, used)| used[*step] >= FULL);
        Some((0..steps).filter(is_full).count() as f64 / steps as f64)
    }
}

/// What goes on while nothing has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IdleRates {
    /// Processor seconds of the coordinator in a second.
    pub coordinator_processor: f64,
    /// Bytes that all nodes send in a second.
    pub sent_bytes: f64,
    /// Heartbeats of all agents in a second.
    pub heartbeats: f64,
    /// Processor seconds of the coordinator for each time that it is asked for its status.
    pub status_processor: f64,
}

/// What was measured of a repair beside its figures, to explain them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunDetails {
    /// From the declaration of the failure to the dispatch of the first repair.
    pub start_seconds: Option<f64>,
    /// From the last bytes on links to the last commit; unknown beside applications.
    pub end_seconds: Option<f64>,
    /// All that nodes sent from just before the failure on.
    pub sent_bytes: u64,
    /// Processor seconds of the coordinator, likewise.
    pub coordinator_processor_seconds: f64,
    /// Those of them of the thread that keeps the metadata: commits.
    pub metadata_seconds: f64,
    /// How often it was asked for its status meanwhile.
    pub status_asks: u64,
    /// The same without a failure, where links were at rest for a while before it.
    pub idle: Option<IdleRates>,
    /// What daemons have counted of the repair, where all of them could be asked.
    pub counts: Option<RepairCounts>,
    /// Each request of clients in a closed loop, if there were any.
    pub requests: Option<LoopLogs>,
}

/// What was seen of one repair.
#[derive(Clone, Debug, Serialize)]
pub struct RepairFigures {
    /// Chunks that were lost with the failed nodes.
    pub lost_chunks: u64,
    /// The bytes of the lost chunks.
    pub lost_bytes: u64,
    /// From the kill to the declaration of the last failure.
    pub detection_seconds: f64,
    /// From that declaration to the last committed location.
    pub seconds: f64,
    /// What the busiest link of the first batch of plans needs, as the coordinator knows links.
    pub planned_seconds: f64,
    /// The k-chunk bound at goodput, for the same stripes and the true links.
    pub bound_seconds: f64,
    /// Bound over seconds, in percent.
    pub percent_of_bound: f64,
    /// Processor seconds of all agents.
    pub agent_processor_seconds: f64,
    /// The same for each gigabyte that was rebuilt.
    pub agent_processor_seconds_per_gb: f64,
    /// The part of all cores that agents took.
    pub agent_processor_part: f64,
    /// The part of all cores that was busy, with whatever else ran.
    pub processor_part: f64,
    /// The most memory that an agent had had at a time, from its start.
    pub agent_peak_memory_bytes: Option<u64>,
    /// The link that was used most.
    pub busiest_link: PortUse,
    /// What held it back.
    pub limit: Limit,
    /// What applications waited, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub felt: Option<Felt>,
    /// Whether every byte was read back and equals its source.
    pub verified: bool,
    /// Distinguishes placements: equal where the same chunks lay on the same nodes.
    pub placement: String,
    /// What links carried meanwhile.
    #[serde(skip)]
    pub timeline: LinkTimeline,
    /// Where everything lay, with nodes by their places in the cluster.
    #[serde(skip)]
    pub stripes: Vec<Stripe>,
    /// What explains the figures.
    #[serde(skip)]
    pub details: RunDetails,
}

/// What is counted of a repair before it becomes figures.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Chunks that were lost with the failed nodes.
    pub lost_chunks: u64,
    /// The bytes of the lost chunks.
    pub lost_bytes: u64,
    /// The bytes that were rebuilt: more, where a fault has had more lost.
    pub rebuilt_bytes: u64,
    /// From the kill to the declaration of the last failure.
    pub detection_seconds: f64,
    /// From that declaration to the last committed location.
    pub seconds: f64,
    /// What the busiest link of the plans needs.
    pub planned_seconds: f64,
    /// The k-chunk bound at goodput.
    pub bound_seconds: f64,
    /// What the repair took of the processor.
    pub processor: ProcessorTime,
    /// The most memory of an agent.
    pub peak_memory: Option<u64>,
    /// What each link carried.
    pub ports: Vec<PortUse>,
    /// Distinguishes placements from each other.
    pub placement: u64,
    /// What links carried meanwhile.
    pub timeline: LinkTimeline,
    /// Where every chunk lay before the failure.
    pub stripes: Vec<Stripe>,
    /// What applications waited, where there were any.
    pub felt: Option<Felt>,
    /// What explains the figures.
    pub details: RunDetails,
}

impl RepairFigures {
    /// The figures of what was counted; nothing is verified yet.
    pub fn of(counted: Counted) -> RepairFigures {
        let busiest = counted.ports.into_iter().max_by(|a, b| a.part.total_cmp(&b.part));
        let busiest = busiest.unwrap_or(PortUse { port: "none".into(), part: 0.0 });
        let agents = counted.processor.processes;
        RepairFigures {
            lost_chunks: counted.lost_chunks,
            lost_bytes: counted.lost_bytes,
            detection_seconds: counted.detection_seconds,
            seconds: counted.seconds,
            planned_seconds: counted.planned_seconds,
            bound_seconds: counted.bound_seconds,
            percent_of_bound: 100.0 * counted.bound_seconds / counted.seconds,
            agent_processor_seconds: agents,
            agent_processor_seconds_per_gb: agents / (counted.rebuilt_bytes as f64 / 1e9),
            agent_processor_part: counted.processor.own_part(),
            processor_part: counted.processor.busy_part(),
            agent_peak_memory_bytes: counted.peak_memory,
            limit: Limit::of(busiest.part, counted.processor.busy_part()),
            busiest_link: busiest,
            felt: counted.felt,
            verified: false,
            placement: format!("{:016x}", counted.placement),
            timeline: counted.timeline,
            stripes: counted.stripes,
            details: counted.details,
        }
    }
}

/// The medians of what a policy came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Medians {
    /// How many repetitions count.
    pub repetitions: usize,
    /// From the declaration to the last commit.
    pub seconds: f64,
    /// The fastest and the slowest.
    pub seconds_range: (f64, f64),
    /// The bound at goodput.
    pub bound_seconds: f64,
    /// Bound over seconds, in percent.
    pub percent_of_bound: f64,
    /// Processor seconds of all agents for each gigabyte.
    pub agent_processor_seconds_per_gb: f64,
    /// The part of all cores that agents took.
    pub agent_processor_part: f64,
    /// The part of all cores that was busy.
    pub processor_part: f64,
    /// The most memory that any agent had in any of them.
    pub agent_peak_memory_bytes: Option<u64>,
    /// How much the busiest link carried.
    pub busiest_link_part: f64,
    /// What held the repetitions back, by these medians.
    pub limit: Limit,
    /// What applications waited, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub felt: Option<Felt>,
}

impl Medians {
    /// Of these repetitions, if there are any.
    pub fn of(runs: &[&RepairFigures]) -> Option<Medians> {
        let of = |figure: fn(&RepairFigures) -> f64| median(runs.iter().map(|run| figure(run)));
        let seconds = || runs.iter().map(|run| run.seconds);
        let (link, busy) = (of(|run| run.busiest_link.part)?, of(|run| run.processor_part)?);
        Some(Medians {
            repetitions: runs.len(),
            seconds: of(|run| run.seconds)?,
            seconds_range: (seconds().fold(f64::INFINITY, f64::min), seconds().fold(0.0, f64::max)),
            bound_seconds: of(|run| run.bound_seconds)?,
            percent_of_bound: of(|run| run.percent_of_bound)?,
            agent_processor_seconds_per_gb: of(|run| run.agent_processor_seconds_per_gb)?,
            agent_processor_part: of(|run| run.agent_processor_part)?,
            processor_part: busy,
            agent_peak_memory_bytes: runs.iter().filter_map(|r| r.agent_peak_memory_bytes).max(),
            busiest_link_part: link,
            limit: Limit::of(link, busy),
            felt: felt(runs),
        })
    }
}

/// Each figure's median, where all runs had applications.
fn felt(runs: &[&RepairFigures]) -> Option<Felt> {
    let all: Vec<Felt> = runs.iter().filter_map(|run| run.felt).collect();
    let of = |figure: &dyn Fn(&Felt) -> f64| median(all.iter().map(figure));
    let waits = |which: fn(&Felt) -> Waits| -> Option<Waits> {
        Some(Waits {
            requests: all.iter().map(|felt| which(felt).requests).sum(),
            errors: all.iter().map(|felt| which(felt).errors).sum(),
            mean_ms: of(&|felt| which(felt).mean_ms)?,
            p99_ms: of(&|felt| which(felt).p99_ms)?,
        })
    };
    Some(Felt {
        alone: waits(|felt| felt.alone)?,
        beside: waits(|felt| felt.beside)?,
        left_percent: median(all.iter().filter_map(|felt| felt.left_percent)),
    })
}

/// The value in the middle; between two of them, their mean.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(f64::midpoint(values[last / 2], values[values.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        let of = |values: &[f64]| median(values.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(of(&[4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn links_are_full_in_the_steps_in_which_one_of_them_is() {
        let ports = [("n0 up", vec![0.9, 0.1, 0.2]), ("n1 down", vec![0.2, 0.95, 0.3])];
        let ports = ports.map(|(name, used)| (name.to_string(), used)).to_vec();
        let timeline = LinkTimeline { step: 0.5, ports };
        assert_eq!(timeline.full_part(), Some(2.0 / 3.0));
        assert_eq!(LinkTimeline::default().full_part(), None);
    }

    #[test]
    fn the_processor_is_the_limit_where_it_is_full_and_no_link_is() {
        assert_eq!(Limit::of(0.97, 0.4), Limit::Links);
        assert_eq!(Limit::of(0.5, 0.95), Limit::Processor);
        assert_eq!(Limit::of(0.9, 0.9), Limit::Both);
        assert_eq!(Limit::of(0.6, 0.6), Limit::Neither);
    }
}
