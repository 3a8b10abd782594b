//! How fast what runs and is planned could be at best, whatever the plans.
//!
//! Place: beside ... plan -> admit -> dispatch -> [slices flow] -> ...: operators compare with it
//! how fast repairs are. The bound of thousands of jobs takes longer to compute than any event may,
//! so the coordinator only lists the jobs (`Coordinator::planned_jobs`); the bound needs no
//! coordinator, and may be computed on a thread of its own (`PlannedJobs::bound`).
//!
//! Each repair counts whole, however far it has come, and so do its bytes: what their ratio gives
//! is a rate, and that hardly changes while a batch is carried out. Links are as plans count with
//! them, without what applications take, and without what limits keep repair from. Chunks that
//! only move are in no bound, since they may be copied.

use super::Coordinator;
use super::planning::BATCH_MAX;
use crate::bound::bound_seconds;
use crate::cluster::Cluster;
use crate::plan::load::Load;
use crate::planner::{Abilities, Job, View};
use crate::schedule::PlannedRepair;

/// What runs, and what is planned to begin next, as the bound reads it.
#[derive(Clone, Debug)]
pub struct PlannedJobs {
    jobs: Vec<Job>,
    /// The bytes of their lost chunks.
    bytes: u64,
    cluster: Cluster,
    /// What each node may take, with what these repairs bring it.
    free_bytes: Vec<u64>,
    abilities: Abilities,
}

/// The least that repairs can take, and how much they rebuild.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepairBound {
    /// No plans of whole chunks, or of what the code's helpers send at least, take less time.
    pub seconds: f64,
    /// The bytes of all their lost chunks.
    pub bytes: u64,
}

impl Coordinator {
    /// What runs, and what is planned to begin next: as many repairs as are planned together, at
    /// most. `None` where no lost chunk is being rebuilt, or a chunk moves beside those that are.
    pub fn planned_jobs(&self) -> Option<PlannedJobs> {
        if !self.has_bound() {
            return None;
        }
        let running = self.rebuilding();
        let waiting = self.ledger.waiting().iter().filter(|planned| !is_move(planned));
        let (mut jobs, mut bytes) = (Vec::new(), 0);
        for planned in running.chain(waiting).take(BATCH_MAX) {
            // A plan may rebuild fewer chunks than it was asked for.
            jobs.push(Job { lost: planned.plan.lost.clone(), ..planned.job.clone() });
            bytes += self.rebuilt_bytes(planned);
        }
        let cluster = self.ledger.cluster().clone();
        // What has been written is not free any more, and the jobs count whole.
        let free = self.takes().into_iter().zip(self.ledger.load().nodes());
        let free_bytes = free.map(|(free, node)| free.saturating_add(node.disk_write_bytes));
        let (free_bytes, abilities) = (free_bytes.collect(), self.health.abilities());
        Some(PlannedJobs { jobs, bytes, cluster, free_bytes, abilities })
    }

    /// Whether a lost chunk is being rebuilt, and none moves beside it: only then is there a bound.
    pub fn has_bound(&self) -> bool {
        self.rebuilding().next().is_some() && !self.rebuilding().any(is_move)
    }

    /// The repairs that run.
    fn rebuilding(&self) -> impl Iterator<Item = &PlannedRepair> {
        let rebuilds = self.ledger.running().filter_map(|(_, attempt)| attempt.rebuild());
        rebuilds.map(|rebuild| &*rebuild.planned)
    }

    /// The bytes of the chunks that a plan rebuilds.
    fn rebuilt_bytes(&self, planned: &PlannedRepair) -> u64 {
        let Some(stripe) = self.stripes.get(planned.plan.stripe) else { return 0 };
        planned.plan.lost.iter().map(|lost| stripe.record(*lost).bytes).sum()
    }
}

impl PlannedJobs {
    /// The bound of these repairs; `None` where nothing of them takes any time.
    pub fn bound(&self) -> Option<RepairBound> {
        let (cluster, load) = (&self.cluster, Load::new(&self.cluster));
        let (free_bytes, abilities) = (&self.free_bytes, self.abilities);
        let seconds =
            bound_seconds(&self.jobs, &View { cluster, free_bytes, load: &load, abilities });
        let is_known = seconds.is_finite() && seconds > 0.0 && self.bytes > 0;
        is_known.then_some(RepairBound { seconds, bytes: self.bytes })
    }
}

impl RepairBound {
    /// Rebuilt bytes per second at the bound.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// Whether its chunk is not lost, and only to be elsewhere.
fn is_move(planned: &PlannedRepair) -> bool {
    planned.job.source.is_some()
}
