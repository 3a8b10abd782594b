//! A plan, and what is known of it while agents carry it out.
//!
//! Place: ... plan -> [wait -> admit -> dispatch -> slices flow] -> chunk durable -> ...
//! The coordinator's ledger keeps these; schedules look at them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::link_load::{LinkLoad, NodeLinks, link_loads};
use crate::cluster::Cluster;
use crate::id::{NodeId, RepairId};
use crate::plan::Plan;
use crate::plan::load::disk_reads;
use crate::planner::Job;
use crate::time::Time;

/// A plan, and the job that it was made for.
#[derive(Clone, Debug)]
pub struct PlannedRepair {
    /// The job that was planned.
    pub job: Job,
    /// What is to be done.
    pub plan: Plan,
    /// What it takes of each node's links, ascending by node.
    pub(super) link_loads: Vec<(NodeId, LinkLoad)>,
    /// The links that it was planned for, by node, where the schedule keeps them.
    pub(super) planned_for: Option<Arc<[NodeLinks]>>,
}

/// A repair of which agents move something.
#[derive(Clone, Debug)]
pub struct ActiveRepair {
    /// The repair as it was dispatched.
    pub planned: Arc<PlannedRepair>,
    /// When it was dispatched.
    pub since: Time,
    /// Bytes that have come to its slowest destination, as last reported of one, from the beginning
    /// of its plan.
    pub bytes_done: u64,
    /// When that was last reported.
    pub reported_at: Time,
    /// What each participant has reported to have done of its part, from the beginning of the
    /// chunk.
    pub reported: BTreeMap<NodeId, u64>,
    /// How long it would take with all links to itself, as they were when it began.
    pub alone_seconds: f64,
    /// Whether its agents were sent `Hold`, by which it pauses.
    pub is_held: bool,
}

/// The active repairs, by id.
pub type ActiveRepairs = BTreeMap<RepairId, ActiveRepair>;

impl PlannedRepair {
    /// A plan that answers `job`.
    pub fn new(job: Job, plan: Plan) -> PlannedRepair {
        PlannedRepair { link_loads: link_loads(&plan), planned_for: None, job, plan }
    }

    /// What it takes of each node's links and disk, ascending by node.
    pub(super) fn loads_with_disks(&self) -> Vec<(NodeId, LinkLoad)> {
        let PlannedRepair { job, plan, link_loads, .. } = self;
        let mut loads: BTreeMap<NodeId, LinkLoad> = link_loads.iter().copied().collect();
        let facts = job.facts();
        for lane in &plan.lanes {
            let lane_bytes = plan.lane_bytes(lane);
            for (node, bytes) in disk_reads(lane, lane_bytes, &facts) {
                loads.entry(node).or_default().read_bytes += bytes as f64;
            }
            for destination in lane.lost.iter().filter_map(|lost| plan.destinations.get(lost)) {
                loads.entry(*destination).or_default().write_bytes += lane_bytes as f64;
            }
        }
        loads.into_iter().collect()
    }

    /// How long it takes when nothing else runs, in seconds.
    pub(super) fn seconds_alone(&self, cluster: &Cluster) -> f64 {
        let loads = self.link_loads.iter();
        loads.map(|(node, load)| load.seconds(cluster.node(*node))).fold(0.0, f64::max)
    }

    /// Whether a node sends or receives.
    pub(super) fn uses(&self, node: NodeId) -> bool {
        self.link_loads.binary_search_by_key(&node, |(node, _)| *node).is_ok()
    }
}

impl ActiveRepair {
    /// A repair that is dispatched now, to a cluster with these links.
    pub fn new(now: Time, planned: Arc<PlannedRepair>, cluster: &Cluster) -> ActiveRepair {
        ActiveRepair {
            alone_seconds: planned.seconds_alone(cluster),
            planned,
            since: now,
            bytes_done: 0,
            reported_at: now,
            reported: BTreeMap::new(),
            is_held: false,
        }
    }

    /// Notes how much a participant has done of its part. Returns whether it is more than before: a
    /// report may come late, after a later one.
    pub fn report(&mut self, node: NodeId, bytes_done: u64) -> bool {
        let before = self.reported.entry(node).or_default();
        let is_more = bytes_done > *before;
        *before = bytes_done.max(*before);
        is_more
    }

    /// Records how many bytes have come to the slowest destination of the repair.
    pub fn progressed(&mut self, now: Time, bytes_done: u64) {
        (self.bytes_done, self.reported_at) = (self.bytes_done.max(bytes_done), now);
    }

    /// What fraction of its plan is still to come.
    pub(super) fn fraction_left(&self) -> f64 {
        let bytes = self.planned.plan.range.bytes().max(1) as f64;
        1.0 - self.bytes_done as f64 / bytes
    }
}
