//! RepairBoost's subprocesses: a repair in parts, each planned by what the last one taught (ATC'21,
//! section 3.4).
//!
//! Place: ... queue -> [how many are planned, and for which links] -> plan -> dispatch -> ...
//! `slots:Q` plans Q chunks at a time, the next ones when all of these are done. After each
//! subprocess the node that was done last counts as that much slower than the average for the
//! next, and the one that was done first as that much faster, by a tenth at most.

use std::collections::BTreeMap;

use super::{Quota, Snapshot};
use crate::cluster::{Cluster, Rate};
use crate::id::NodeId;
use crate::time::Time;

/// How much slower or faster a node may count after one more subprocess: a node may be done early
/// or late because it had little or much to do.
const STEP_MAX: f64 = 1.1;

/// How much slower or faster than reported a node may count in the end.
const ADAPTATION_MAX: f64 = 8.0;

/// The present subprocess, and what the last ones have taught.
#[derive(Debug)]
pub(super) struct Subprocess {
    chunks: u32,
    begun: Option<Time>,
    /// By how much each node's links count as faster than reported.
    factors: BTreeMap<NodeId, f64>,
}

impl Subprocess {
    pub fn new(chunks: u32) -> Subprocess {
        Subprocess { chunks, begun: None, factors: BTreeMap::new() }
    }

    /// The next subprocess, when the last one is done.
    pub fn quota(&mut self, snapshot: &Snapshot<'_>) -> Quota {
        let is_over = snapshot.active.is_empty() && snapshot.waiting.is_empty();
        if !is_over || snapshot.ready == 0 {
            return Quota::NONE;
        }
        self.observe(snapshot);
        self.begun = Some(snapshot.now);
        Quota { stripes: self.chunks as usize, cluster: self.adapted(snapshot.cluster) }
    }

    /// Takes from the subprocess that has just ended which node was done last, and which first.
    fn observe(&mut self, snapshot: &Snapshot<'_>) {
        let (Some(begun), Some(edges)) = (self.begun, snapshot.edges) else { return };
        let finished = edges.finished(snapshot.now).into_iter().filter(|(_, at)| *at > begun);
        let seconds = finished.map(|(node, at)| (node, at.since(begun).as_secs_f64()));
        let seconds: Vec<(NodeId, f64)> = seconds.collect();
        let mean = seconds.iter().map(|(_, s)| s).sum::<f64>() / seconds.len() as f64;
        let by_time = |a: &&(NodeId, f64), b: &&(NodeId, f64)| a.1.total_cmp(&b.1);
        let extremes = [seconds.iter().max_by(by_time), seconds.iter().min_by(by_time)];
        for &(node, seconds) in extremes.into_iter().flatten() {
            let step = (mean / seconds).clamp(1.0 / STEP_MAX, STEP_MAX);
            let factor = self.factors.entry(node).or_insert(1.0);
            *factor = (*factor * step).clamp(1.0 / ADAPTATION_MAX, ADAPTATION_MAX);
        }
    }

    /// Links as the last subprocesses make them look.
    fn adapted(&self, cluster: &Cluster) -> Option<Cluster> {
        if self.factors.is_empty() {
            return None;
        }
        let mut adapted = cluster.clone();
        for (node, factor) in &self.factors {
            let node = adapted.nodes.get_mut(node.index())?;
            node.uplink = Rate(node.uplink.0 * factor);
            node.downlink = Rate(node.downlink.0 * factor);
        }
        Some(adapted)
    }
}
