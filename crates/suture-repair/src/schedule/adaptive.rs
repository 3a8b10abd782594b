//! PivotRepair's adaptive scheduling: start what competes least (ICDCS'22, section IV-E).
//!
//! Place: ... plan -> [which repair starts next, if any] -> dispatch -> ...
//! Equation 3 recommends a tree: `r = Bmin - sum over running i of S(i,c) (alpha delay_i + beta)`,
//! with S(i,c) the number of nodes that both upload in, and of those that both download in, and
//! delay_i how far i is behind its expected time, as a fraction of that. The best is started,
//! again and again, until its r falls below a threshold; then again when one has finished.
//!
//! Decided here, where the paper says "fixed by experience":
//! - The threshold is 0 and alpha = beta = B / (P SHARING), B being the cluster's mean link and P
//!   the ports of the tree, one for each sender and receiver. As S summed over what runs is the
//!   number of repairs at these ports, a tree as fast as the mean starts while they are shared by
//!   fewer than SHARING repairs on average.
//! - Where nothing runs the best is started whatever its r: waiting would not make it better.
//! - When links change, trees that wait are made anew, at most once a second.

use super::{Directive, PlannedRepair, Snapshot};
use crate::id::StripeId;
use crate::time::{Span, Time};

/// Repairs at a port that keep it busy; more only slow each other down.
const SHARING: f64 = 8.0;

/// Trees that are compared: the first so many of those that wait.
const CANDIDATES_MAX: usize = 1024;

/// How often a tree that is not recommended is looked at again.
const CHECK_EVERY: Span = Span::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Adaptive {
    /// The greatest mean link seen: what the cluster has when no application uses it.
    mean_link: f64,
    looked_at: Option<Time>,
    have_links_changed: bool,
    planned_at: Option<Time>,
}

/// Cost of each port for a further repair: sum over the repairs that use it of (alpha delay +
/// beta), in units of beta; by node.
struct Competition {
    uplinks: Vec<f64>,
    downlinks: Vec<f64>,
}

/// How many stripes are to be planned now: all trees that wait are made anew when links change, so
/// there are no more than are compared, and as many again. What is more urgent waits for none.
pub(super) fn quota(snapshot: &Snapshot<'_>) -> usize {
    let waiting = snapshot.waiting.len();
    if waiting < CANDIDATES_MAX { 2 * CANDIDATES_MAX - waiting } else { snapshot.urgent }
}

impl Adaptive {
    pub fn links_changed(&mut self) {
        self.have_links_changed = true;
    }

    /// The most recommended plan, if it is recommended at all.
    pub fn next(&mut self, snapshot: &Snapshot<'_>, passed: &[StripeId]) -> Option<StripeId> {
        self.looked_at = Some(snapshot.now);
        let nodes = snapshot.cluster.nodes.iter();
        let links = nodes.flat_map(|node| [node.uplink_free().0, node.downlink_free().0]);
        let mean = links.sum::<f64>() / (2 * snapshot.cluster.nodes.len().max(1)) as f64;
        self.mean_link = self.mean_link.max(mean);
        let competition = Competition::new(snapshot);
        let candidates = snapshot.waiting.iter().take(CANDIDATES_MAX);
        let candidates = candidates.filter(|planned| !passed.contains(&planned.plan.stripe));
        let rated = candidates.map(|planned| {
            let alone = planned.seconds_alone(snapshot.cluster).max(f64::MIN_POSITIVE);
            let slowest = planned.plan.range.bytes() as f64 / alone;
            let (shared, ports) = competition.of(planned);
            let beta = self.mean_link / (ports as f64 * SHARING);
            (slowest - beta * shared, planned.plan.stripe)
        });
        // Of equals the first.
        let best = rated.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let (recommendation, stripe) = best?;
        (recommendation >= 0.0 || snapshot.active.is_empty()).then_some(stripe)
    }

    pub fn directives(&mut self, snapshot: &Snapshot<'_>) -> Vec<Directive> {
        let is_old = self.planned_at.is_none_or(|at| snapshot.now.since(at) >= CHECK_EVERY);
        if !self.have_links_changed || !is_old || snapshot.waiting.is_empty() {
            return Vec::new();
        }
        (self.have_links_changed, self.planned_at) = (false, Some(snapshot.now));
        vec![Directive::PlanAgain]
    }

    pub fn next_deadline(&self, waits: bool) -> Option<Time> {
        self.looked_at.filter(|_| waits).map(|at| at + CHECK_EVERY)
    }
}

impl Competition {
    fn new(snapshot: &Snapshot<'_>) -> Competition {
        let nodes = snapshot.cluster.nodes.len();
        let mut competition =
            Competition { uplinks: vec![0.0; nodes], downlinks: vec![0.0; nodes] };
        for repair in snapshot.active.values() {
            let expected = repair.alone_seconds.max(f64::MIN_POSITIVE);
            let taken = snapshot.now.since(repair.since).as_secs_f64();
            let weight = 1.0 + (taken - expected).max(0.0) / expected;
            for (node, load) in &repair.planned.link_loads {
                if load.up_bytes > 0.0 {
                    competition.uplinks[node.index()] += weight;
                }
                if load.down_bytes > 0.0 {
                    competition.downlinks[node.index()] += weight;
                }
            }
        }
        competition
    }

    /// What speaks against a plan, and how many ports it has.
    fn of(&self, planned: &PlannedRepair) -> (f64, usize) {
        let (mut up, mut down, mut ports) = (0.0, 0.0, 0);
        for (node, load) in &planned.link_loads {
            if load.up_bytes > 0.0 {
                up += self.uplinks[node.index()];
                ports += 1;
            }
            if load.down_bytes > 0.0 {
                down += self.downlinks[node.index()];
                ports += 1;
            }
        }
        (up + down, ports)
    }
}
