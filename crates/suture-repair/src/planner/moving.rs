//! Chunks that are whole and only to move: copied from where they are, rebuilt from others, or
//! both.
//!
//! Place: `[plan]`, after a planner has planned their repair as if they were lost. A node that is
//! emptied has one uplink for all of its chunks, so copying alone ends with that link; rebuilding
//! alone moves several times as much. Each chunk is therefore cut in two at the same fraction of
//! its length: the first is copied, the rest is rebuilt by the planner's lanes. Every port's load
//! is linear in that fraction, so the best one is where the busiest port has the least to do; of
//! equals the one that copies more, which moves less.
//!
//! Where too few other chunks can be read to rebuild it, a chunk is copied whole.
//! Invariant: a plan that a chunk's job did not have a source for is left as it is.

use crate::id::NodeId;
use crate::plan::load::Load;
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use crate::planner::keep::DestinationRule;
use crate::planner::{Batch, Job, View};

/// In how many steps the fraction that is copied is searched.
const STEPS: u32 = 64;

/// A lane of fewer bytes is not worth its handling.
const LANE_BYTES_MIN: u64 = 1 << 10;

/// The batch with copies where they help.
pub(in crate::planner) fn with_copies(batch: Batch, jobs: &[Job], view: &View<'_>) -> Batch {
    let mut plans: Vec<Option<Plan>> = vec![None; jobs.len()];
    for (index, plan) in batch.planned_at(jobs) {
        plans[index] = Some(plan.clone());
    }
    let mut sources: Vec<NodeId> = jobs.iter().filter_map(|job| job.source).collect();
    sources.sort_unstable();
    sources.dedup();
    for source in sources {
        cut_all(source, &mut plans, jobs, view);
    }
    copy_refused(&mut plans, jobs, view);
    let is_refused = |(index, _): &(usize, _)| plans[*index].is_none();
    let refused = batch.refused.into_iter().filter(is_refused).collect();
    Batch { plans: plans.into_iter().flatten().collect(), refused, ..batch }
}

/// Cuts what leaves one node where that loads the busiest port least.
fn cut_all(source: NodeId, plans: &mut [Option<Plan>], jobs: &[Job], view: &View<'_>) {
    let leaves = |job: &Job| job.source == Some(source);
    let (mut others, mut rebuilt) = (view.load.clone(), Load::new(view.cluster));
    let mut copied = Load::new(view.cluster);
    for (job, plan) in jobs.iter().zip(plans.iter()) {
        let Some(plan) = plan else { continue };
        if leaves(job) {
            rebuilt.add(view.cluster, plan, &job.facts());
            copied.add(view.cluster, &cut(plan, job, STEPS), &job.facts());
        } else {
            others.add(view.cluster, plan, &job.facts())
        }
    }
    let seconds = |load: &Load| -> Vec<f64> {
        load.ports(view.cluster).map(|port| port.seconds.min(1e18)).collect()
    };
    let (others, rebuilt, copied) = (seconds(&others), seconds(&rebuilt), seconds(&copied));
    let peak = |steps: u32| {
        let fraction = f64::from(steps) / f64::from(STEPS);
        let ports = others.iter().zip(&rebuilt).zip(&copied);
        ports.fold(0.0, |peak: f64, ((other, whole), copy)| {
            peak.max(other + whole * (1.0 - fraction) + copy * fraction)
        })
    };
    let best = (0..=STEPS).map(peak).fold(f64::INFINITY, f64::min);
    let steps = (0..=STEPS).rev().find(|steps| peak(*steps) <= best * (1.0 + 1e-9)).unwrap_or(0);
    for (job, plan) in jobs.iter().zip(plans).filter(|(job, _)| leaves(job)) {
        plan.iter_mut().for_each(|plan| *plan = cut(plan, job, steps));
    }
}

/// Copies whole what cannot be rebuilt, to the node that has the least to receive of those that may
/// keep it.
fn copy_refused(plans: &mut [Option<Plan>], jobs: &[Job], view: &View<'_>) {
    let mut load = view.load.clone();
    let mut free_bytes = view.free_bytes.to_vec();
    for (job, plan) in jobs.iter().zip(plans.iter()) {
        let Some(plan) = plan else { continue };
        load.add(view.cluster, plan, &job.facts());
        for node in plan.destinations.values() {
            let free = &mut free_bytes[node.index()];
            *free = free.saturating_sub(job.chunk_bytes);
        }
    }
    for (job, plan) in jobs.iter().zip(plans).filter(|(_, plan)| plan.is_none()) {
        let (Some(source), [lost]) = (job.source, &job.lost[..]) else { continue };
        let view = View { free_bytes: &free_bytes, ..*view };
        let rule = DestinationRule::new(job, 1, &view);
        let may_keep = |node: &NodeId| rule.allows(*node, job, &view) && *node != source;
        let received = |node: &NodeId| load.node(*node).down_bytes as f64 / view.down(*node);
        let nodes = view.cluster.ids().filter(may_keep);
        let least = nodes.min_by(|a, b| received(a).total_cmp(&received(b)).then(a.cmp(b)));
        let Some(destination) = least else { continue };
        let range = Range { from: 0, to: job.chunk_bytes };
        let copy = Plan {
            stripe: job.stripe,
            lost: vec![*lost],
            destinations: [(*lost, destination)].into(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![copy_lane(job, source, destination, range)],
        };
        load.add(view.cluster, &copy, &job.facts());
        let free = &mut free_bytes[destination.index()];
        *free = free.saturating_sub(job.chunk_bytes);
        *plan = Some(copy);
    }
}

/// The plan with so many steps of its range copied, and the rest as it was.
fn cut(plan: &Plan, job: &Job, steps: u32) -> Plan {
    let (Some(source), [lost]) = (job.source, &plan.lost[..]) else { return plan.clone() };
    let Range { from, to } = plan.range;
    let alignment = job.code.alignment() as u64;
    let scaled = |bytes: u64, by: u64, of: u64| {
        let exact = u128::from(bytes) * u128::from(by) / u128::from(of.max(1));
        exact as u64 / alignment * alignment
    };
    let at = from + scaled(to - from, u64::from(steps), u64::from(STEPS));
    let is_worth_it = |bytes: u64| bytes >= LANE_BYTES_MIN;
    let at = match (is_worth_it(at - from), is_worth_it(to - at)) {
        (true, false) => to,
        (true, true) => at,
        // A tiny chunk goes the way of the larger part of the others.
        (false, false) if 2 * steps >= STEPS => to,
        (false, _) => return plan.clone(),
    };
    let copied = Range { from, to: at };
    let mut lanes = vec![copy_lane(job, source, plan.destinations[lost], copied)];
    let place =
        |byte: u64| if byte == to { to } else { at + scaled(byte - from, to - at, to - from) };
    for lane in &plan.lanes {
        let range = Range { from: place(lane.range.from), to: place(lane.range.to) };
        if range.bytes() > 0 {
            let resize = |edge: &Edge| Edge { bytes: resized(edge, lane, range), ..edge.clone() };
            let edges = lane.edges.iter().map(resize).collect();
            lanes.push(Lane { range, edges, ..lane.clone() });
        }
    }
    Plan { lanes, ..plan.clone() }
}

/// What an edge of a lane moves for another range.
fn resized(edge: &Edge, lane: &Lane, range: Range) -> u64 {
    let (before, after) = (lane.range.bytes(), range.bytes());
    let planes = |bytes: u64| 8 * bytes.div_ceil(64);
    match edge.carries {
        Carries::Partial | Carries::Finished => after,
        Carries::Combined => {
            (u128::from(edge.bytes) * u128::from(after) / u128::from(before)) as u64
        }
        Carries::Traces => edge.bytes / planes(before) * planes(after),
    }
}

fn copy_lane(job: &Job, source: NodeId, destination: NodeId, range: Range) -> Lane {
    let (child, parent) = (source, destination);
    Lane {
        range,
        lost: job.lost.clone(),
        mode: Mode::Streamed,
        decoder: None,
        scheme: None,
        edges: vec![Edge { child, parent, bytes: range.bytes(), carries: Carries::Partial }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Rate};
    use crate::id::{ChunkIndex, StripeId};
    use crate::planner::Abilities;

    const SOURCE: NodeId = NodeId(0);
    const HELPERS: [NodeId; 2] = [NodeId(1), NodeId(2)];
    const DESTINATION: NodeId = NodeId(4);

    /// Where the lanes of a cut plan begin and end, the one that copies first; before the cut two
    /// rebuild a half each.
    fn lanes(from: u64, to: u64, steps: u32) -> Vec<(NodeId, u64, u64)> {
        let code: suture_code::Code = "rs(2,2)".parse().unwrap();
        let job = Job {
            stripe: StripeId(0),
            code: code.into(),
            chunk_bytes: to,
            lost: vec![ChunkIndex(0)],
            survivors: vec![(ChunkIndex(1), HELPERS[0]), (ChunkIndex(2), HELPERS[1])],
            idle: Vec::new(),
            excluded: Vec::new(),
            keeper_places: Vec::new(),
            avoid: Vec::new(),
            source: Some(SOURCE),
        };
        let halves = [(from, (from + to) / 2), ((from + to) / 2, to)];
        let rebuilding = halves.into_iter().zip(HELPERS).map(|((from, to), child)| {
            let range = Range { from, to };
            copy_lane(&job, child, DESTINATION, range)
        });
        let plan = Plan {
            stripe: job.stripe,
            lost: job.lost.clone(),
            destinations: [(ChunkIndex(0), DESTINATION)].into(),
            start: Start::Now,
            range: Range { from, to },
            period: None,
            lanes: rebuilding.collect(),
        };
        let cut = cut(&plan, &job, steps);
        let lane = |lane: &Lane| {
            assert_eq!(lane.edges[0].bytes, lane.range.bytes());
            (lane.edges[0].child, lane.range.from, lane.range.to)
        };
        cut.lanes.iter().map(lane).collect()
    }

    #[test]
    fn a_plan_of_a_chunk_that_has_no_source_is_left_as_it_is() {
        let cluster = Cluster::uniform(5, Rate(1e6));
        let code: suture_code::Code = "rs(2,2)".parse().unwrap();
        let job = |source: Option<NodeId>| Job {
            stripe: StripeId(0),
            code: code.into(),
            chunk_bytes: 8192,
            lost: vec![ChunkIndex(0)],
            survivors: vec![(ChunkIndex(1), HELPERS[0]), (ChunkIndex(2), HELPERS[1])],
            idle: Vec::new(),
            excluded: Vec::new(),
            keeper_places: Vec::new(),
            avoid: Vec::new(),
            source,
        };
        let range = Range { from: 0, to: 8192 };
        let edge =
            |child| Edge { child, parent: DESTINATION, bytes: 8192, carries: Carries::Partial };
        let plan = Plan {
            stripe: StripeId(0),
            lost: vec![ChunkIndex(0)],
            destinations: [(ChunkIndex(0), DESTINATION)].into(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![Lane {
                range,
                lost: vec![ChunkIndex(0)],
                mode: Mode::Streamed,
                decoder: None,
                scheme: None,
                edges: HELPERS.map(edge).to_vec(),
            }],
        };
        let (free_bytes, load) = ([u64::MAX; 5], Load::new(&cluster));
        let abilities = Abilities::ALL;
        let view = View { cluster: &cluster, free_bytes: &free_bytes, load: &load, abilities };
        let batch = Batch { plans: vec![plan.clone(); 3], ..Batch::default() };
        let jobs = [job(None), job(Some(SOURCE)), job(None)];
        let plans = with_copies(batch, &jobs, &view).plans;
        assert_eq!([&plans[0], &plans[2]], [&plan, &plan]);
        assert_ne!(plans[1], plan, "what leaves the idle node is copied");
    }

    #[test]
    fn the_first_part_of_a_plan_is_copied_and_its_lanes_share_the_rest() {
        let [one, two] = HELPERS;
        let all = [(SOURCE, 0, 4096), (one, 4096, 6144), (two, 6144, 8192)];
        assert_eq!(lanes(0, 8192, 32), all);
        assert_eq!(lanes(0, 8192, STEPS), [(SOURCE, 0, 8192)]);
        assert_eq!(lanes(0, 8192, 0), [(one, 0, 4096), (two, 4096, 8192)]);
        // The same of a plan for the rest of a chunk.
        let all = [(SOURCE, 4096, 8192), (one, 8192, 10240), (two, 10240, 12288)];
        assert_eq!(lanes(4096, 12288, 32), all);
        assert_eq!(lanes(4096, 12288, 1), [(one, 4096, 8192), (two, 8192, 12288)]);
    }

    #[test]
    fn less_than_a_kibibyte_is_neither_copied_nor_rebuilt_by_itself() {
        let [one, two] = HELPERS;
        assert_eq!(lanes(0, 8192, 7), [(one, 0, 4096), (two, 4096, 8192)]);
        assert_eq!(lanes(0, 8192, 8)[0], (SOURCE, 0, 1024));
        let all = [(SOURCE, 0, 7168), (one, 7168, 7680), (two, 7680, 8192)];
        assert_eq!(lanes(0, 8192, 56), all);
        assert_eq!(lanes(0, 8192, 57), [(SOURCE, 0, 8192)]);
    }

    #[test]
    fn a_tiny_chunk_goes_with_the_larger_part() {
        let [one, two] = HELPERS;
        assert_eq!(lanes(0, 1024, 31), [(one, 0, 512), (two, 512, 1024)]);
        assert_eq!(lanes(0, 1024, 32), [(SOURCE, 0, 1024)]);
        assert_eq!(lanes(0, 1024, 33), [(SOURCE, 0, 1024)]);
    }
}
