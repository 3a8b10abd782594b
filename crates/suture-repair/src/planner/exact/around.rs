//! Around: slow helpers are done without, where the code's cheapest repair would take them.
//!
//! Place: `[plan]`, the exact planner, around `flow.rs` and `mix.rs`. The cheapest repair of a
//! local code, or of a code with sub-chunks, names its helpers: all of a local group, or all
//! survivors. Where one of these is slow, repairs from others send more and are done sooner: of
//! `lrc(6,2,2)` six chunks in place of three, but none by the slow node. For small batches the
//! potential planner chooses between both, in parts of each chunk. Here batches of any size are
//! planned again with helpers avoided, by as many of the jobs as is best, and the plans with the
//! lowest peak stay.
//!
//! Reed-Solomon codes take any k helpers, so the other planners leave out slow ones by themselves.
//!
//! Invariant: no batch takes longer than it would without this.

use std::cell::Cell;

use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::need::is_mds;
use crate::plan::load::{Load, NodeLoad, Port, PortLoad};
use crate::plan::{Edge, Plan};
use crate::planner::exact::instance::Instance;
use crate::planner::{Batch, Job, View};

/// How often slow nodes are looked for in the best plans so far.
const ROUNDS_MAX: usize = 6;

/// What is won by avoiding helpers, at least: the cheapest repair is left for nothing less.
const GAIN_MIN: f64 = 0.01;

/// A helper is slow where it takes longer than everything else by so much of that.
const SLOW_MIN: f64 = 0.05;

/// How often the number of jobs is tried that avoid slow helpers.
const TRIES_MAX: usize = 6;

/// Jobs that are planned again in all; a batch is planned again twice, however large it is.
const REPLANNED_MAX: usize = 100_000;
const REPLANS_MIN: usize = 2;

/// The plans of `plan_batch` for all jobs that can be planned, around slow helpers where that is
/// faster.
pub(in crate::planner) fn plan(
    jobs: &[Job],
    view: &View<'_>,
    plan_batch: impl Fn(&[Job]) -> Batch,
) -> Batch {
    let batch = plan_batch(jobs);
    let is_slowed = |batch: &Batch| {
        let load = load(batch.planned(jobs), view);
        !slow_sets(&load, view.cluster).is_empty()
    };
    if !jobs.iter().any(names_helpers) || !is_slowed(&batch) {
        return batch;
    }
    let replans = (REPLANNED_MAX / jobs.len()).max(REPLANS_MIN);
    let around = Around { view, plan_batch, replans_left: Cell::new(replans) };
    let mut best = Planned::new(jobs.to_vec(), batch, view);
    for _ in 0..ROUNDS_MAX {
        let tried = slow_sets(&best.load, view.cluster).into_iter();
        let tried = tried.filter_map(|slow| around.without(&slow, &best));
        match tried.min_by(|a, b| a.peak_seconds.total_cmp(&b.peak_seconds)) {
            Some(next) if next.peak_seconds < best.peak_seconds * (1.0 - GAIN_MIN) => best = next,
            _ => break,
        }
    }
    best.batch
}

/// Whether these plans for all requests take longer than need be because of helpers that others
/// could replace at a higher cost: of few requests, also where these help too few to add up what
/// is sent.
pub(in crate::planner) fn is_slowed(
    instance: &Instance<'_>,
    plans: &[Plan],
    are_few: bool,
) -> bool {
    if !instance.requests.iter().any(|request| names_helpers(request.job)) {
        return false;
    }
    let jobs = instance.requests.iter().map(|request| request.job);
    let (load, cluster) = (load(jobs.zip(plans), instance.view), instance.view.cluster);
    if are_few { is_above_level(&load, cluster) } else { !slow_sets(&load, cluster).is_empty() }
}

/// What plans bring to ports beside what already runs.
fn load<'a>(planned: impl Iterator<Item = (&'a Job, &'a Plan)>, view: &View<'_>) -> Load {
    let mut load = view.load.clone();
    load.add_all(view.cluster, planned.map(|(job, plan)| (plan, job.facts())));
    load
}

/// Whether the job's cheapest repair may need helpers that others could replace at a higher cost.
fn names_helpers(job: &Job) -> bool {
    !is_mds(job.code) || job.code.sub_chunk_count() > 1
}

/// A batch, the jobs that were asked for, and what its plans bring to ports.
struct Planned {
    /// As they were asked for, with the nodes that they avoid.
    jobs: Vec<Job>,
    batch: Batch,
    load: Load,
    peak_seconds: f64,
}

impl Planned {
    fn new(jobs: Vec<Job>, batch: Batch, view: &View<'_>) -> Planned {
        let load = load(batch.planned(&jobs), view);
        let peak_seconds = load.max_seconds(view.cluster);
        Planned { jobs, batch, load, peak_seconds }
    }

    /// The jobs, by index, whose plans take one of these helpers and may do without.
    fn helped_by(&self, slow: &[NodeId]) -> Vec<usize> {
        let is_slow = |edge: &Edge| slow.binary_search(&edge.child).is_ok();
        let takes = |plan: &Plan| plan.lanes.iter().flat_map(|lane| &lane.edges).any(is_slow);
        let planned = self.batch.planned_at(&self.jobs);
        let helped = planned.filter(|(at, plan)| names_helpers(&self.jobs[*at]) && takes(plan));
        helped.map(|(at, _)| at).collect()
    }
}

/// Sets of helpers without which the batch may be faster, the larger one first; none where
/// what must be received takes as long, or no helper sends longer than most.
fn slow_sets(load: &Load, cluster: &Cluster) -> Vec<Vec<NodeId>> {
    if !is_above_level(load, cluster) {
        return Vec::new();
    }
    let sending = sending_seconds(load, cluster);
    let (peak, level) = (load.max_seconds(cluster), level_seconds(load, cluster));
    let above = |limit: f64| {
        let nodes = cluster.ids().filter(|node| sending[node.index()] >= limit);
        nodes.collect::<Vec<NodeId>>()
    };
    let wide = (peak * level).sqrt().max(level * (1.0 + SLOW_MIN));
    let mut sets = vec![above(wide), above(peak * (1.0 - SLOW_MIN))];
    sets.dedup();
    sets.retain(|set| !set.is_empty());
    sets
}

/// For each node, how long it sends, reads and works, and how long its rack sends.
fn sending_seconds(load: &Load, cluster: &Cluster) -> Vec<f64> {
    let mut seconds = vec![0.0f64; cluster.nodes.len()];
    let mut racks = vec![0.0f64; cluster.racks.len()];
    for PortLoad { port, seconds: of_port, .. } in load.ports(cluster) {
        match port {
            Port::Uplink(node) | Port::DiskRead(node) | Port::Processor(node) => {
                seconds[node.index()] = seconds[node.index()].max(of_port);
            }
            Port::RackUplink(rack) => racks[rack.0 as usize] = of_port,
            Port::Downlink(_) | Port::DiskWrite(_) | Port::RackDownlink(_) => {}
        }
    }
    for (node, seconds) in cluster.nodes.iter().zip(&mut seconds) {
        let rack = node.rack.map_or(0.0, |rack| racks[rack.0 as usize]);
        *seconds = seconds.max(rack);
    }
    seconds
}

/// Whether a port is busy for longer than what must be received or sent takes.
fn is_above_level(load: &Load, cluster: &Cluster) -> bool {
    load.max_seconds(cluster) > level_seconds(load, cluster) * (1.0 + SLOW_MIN)
}

/// How long the batch takes even with the fastest helpers, about: what those receive at least that
/// only keep chunks, or what is sent by all uplinks together.
fn level_seconds(load: &Load, cluster: &Cluster) -> f64 {
    let only_keeps = |node: NodeId| load.node(node).up_bytes == 0;
    let received = load.ports(cluster).map(|of_port| match of_port.port {
        Port::Downlink(node) | Port::Processor(node) if only_keeps(node) => {
            of_port.seconds * kept_part(load, node)
        }
        Port::DiskWrite(node) if only_keeps(node) => of_port.seconds,
        Port::RackDownlink(_) => of_port.seconds,
        _ => 0.0,
    });
    let received = received.fold(0.0, f64::max);
    let rates = cluster.nodes.iter().map(|node| node.uplink_free().usable().0);
    received.max(load.moved_bytes() as f64 / rates.sum::<f64>())
}

/// What part of the bytes that a node receives it keeps. The rest are sums that could be added up
/// elsewhere: beside a slow helper, plans bring so many to a destination that both take as long.
fn kept_part(load: &Load, node: NodeId) -> f64 {
    let NodeLoad { down_bytes, disk_write_bytes, .. } = load.node(node);
    if disk_write_bytes < down_bytes { disk_write_bytes as f64 / down_bytes as f64 } else { 1.0 }
}

/// A planner, and the cluster that it plans for.
struct Around<'a, F> {
    view: &'a View<'a>,
    plan_batch: F,
    /// How often the batch may be planned again.
    replans_left: Cell<usize>,
}

impl<F: Fn(&[Job]) -> Batch> Around<'_, F> {
    /// The best plans in which as many jobs as is best avoid slow helpers; none where that is
    /// impossible.
    fn without(&self, slow: &[NodeId], planned: &Planned) -> Option<Planned> {
        let helped = planned.helped_by(slow);
        // So many of these avoid them: too few for the best, and as many or more.
        let (mut few, mut many) = (0, helped.len());
        let mut best: Option<Planned> = None;
        let mut next = many;
        for _ in 0..TRIES_MAX {
            if few >= many {
                break;
            }
            let Some(tried) = self.avoiding(slow, &helped[..next], planned) else { break };
            let sending = sending_seconds(&tried.load, self.view.cluster);
            let slowest = slow.iter().map(|node| sending[node.index()]).fold(0.0, f64::max);
            (few, many) =
                if slowest >= tried.peak_seconds { (next, many) } else { (few, next.max(few)) };
            if best.as_ref().is_none_or(|best| tried.peak_seconds < best.peak_seconds) {
                best = Some(tried);
            }
            next = few.midpoint(many);
            if next == few {
                break;
            }
        }
        best
    }

    /// Plans where these jobs avoid slow helpers; none where that leaves out chunks that were
    /// rebuilt, or the batch was planned often enough.
    fn avoiding(&self, slow: &[NodeId], avoiders: &[usize], planned: &Planned) -> Option<Planned> {
        self.replans_left.set(self.replans_left.get().checked_sub(1)?);
        let mut jobs = planned.jobs.clone();
        for at in avoiders {
            let job = &mut jobs[*at];
            let holds = |node: &&NodeId| job.survivors.iter().any(|(_, holder)| holder == *node);
            let avoided: Vec<NodeId> = slow.iter().filter(holds).copied().collect();
            job.avoid.extend(avoided);
        }
        let batch = (self.plan_batch)(&jobs);
        let rebuilt = |batch: &Batch| batch.plans.iter().map(|plan| plan.lost.len()).sum::<usize>();
        let is_whole = batch.refused.len() == planned.batch.refused.len()
            && rebuilt(&batch) == rebuilt(&planned.batch);
        is_whole.then(|| Planned::new(jobs, batch, self.view))
    }
}
