//! What would be done about all that is lost, or about some stripes, without doing it.
//!
//! Place: beside stripes affected -> queue -> [plan]. All that is lost may be a million stripes,
//! and planning them may take a minute in which no repair may wait. So the coordinator only lists
//! which stripes there are (`Coordinator::preview`, `Coordinator::preview_of`) and what is asked of
//! the planner for a batch of them (`Coordinator::preview_jobs`); planning needs no coordinator and
//! may happen on a thread of its own (`Preview::plan`).

use std::collections::BTreeSet;

use super::Coordinator;
use super::planning::{BATCH_MAX, SINGLE_CHUNK, free_beside};
use crate::bound::bound_seconds;
use crate::cluster::Cluster;
use crate::id::{ChunkIndex, StripeId};
use crate::plan::load::Load;
use crate::planner::{self, Abilities, Job, PlanError, View};
use crate::policy::Policy;
use crate::stripe::Stripe;
use crate::throttle::SharedCap;

/// What would be dispatched, as far as it has been planned.
#[derive(Clone, Debug)]
pub struct Preview {
    /// Lost chunks that would be rebuilt, and chunks that would be moved.
    pub chunks: u64,
    /// The bytes of those chunks.
    pub bytes: u64,
    /// The load of all plans.
    pub load: Load,
    /// Chunks that would be rebuilt at each node, in the order of the cluster.
    pub rebuilt_at: Vec<u64>,
    /// What cannot be repaired, and why.
    pub refused: Vec<(StripeId, PlanError)>,
    /// The least that any plans need of each batch beside those before it, in seconds.
    bounds: Vec<f64>,
    /// The load of what runs and waits now.
    load_now: Load,
    /// What each node takes now, in bytes: 0 for nodes that take nothing.
    takes: Vec<u64>,
    /// What repair may move at several nodes together.
    caps: Vec<SharedCap>,
    cluster: Cluster,
    abilities: Abilities,
    policy: Policy,
    seed: u64,
    /// Stripes to plan yet, the next last.
    left: Vec<StripeId>,
}

/// What is asked of the planner for some stripes.
#[derive(Clone, Debug, Default)]
pub struct PreviewJobs {
    jobs: Vec<Job>,
    /// Stripes whose chunks are planned one at a time.
    single: Vec<Job>,
    /// The lengths of the chunks in question, ascending.
    bytes: Vec<(StripeId, ChunkIndex, u64)>,
}

impl Coordinator {
    /// A preview of all that is lost or has to move and is not under repair, and of what silent
    /// nodes hold, which count as dead when an operator begins repairs; nothing of it is planned
    /// yet.
    pub fn preview(&self) -> Preview {
        let mut wanting = self.wanting();
        for node in self.silent() {
            wanting.extend(self.stripes.on_node(node).map(|stripe| stripe.id));
        }
        self.preview_among(wanting)
    }

    /// A preview of these stripes alone, as they are repaired when an operator wants them now: of
    /// what of them is lost and not under repair, and of what silent nodes hold of them. Those of
    /// which chunks only have to move are left out; nothing is planned yet.
    pub fn preview_of(&self, stripes: &[StripeId]) -> Preview {
        let silent = self.silent();
        let is_on_silent =
            |stripe: &Stripe| silent.iter().any(|node| stripe.chunk_on(*node).is_some());
        let is_wanting = |id: &StripeId| {
            self.lost.contains_key(id) || self.stripes.get(*id).is_some_and(is_on_silent)
        };
        self.preview_among(stripes.iter().copied().filter(is_wanting).collect())
    }

    /// A preview of those of the stripes that are not under repair.
    fn preview_among(&self, wanting: BTreeSet<StripeId>) -> Preview {
        let cluster = self.ledger.cluster().clone();
        // Ascending once they are taken from the end: jobs are searched by their stripes.
        let wanting = wanting.into_iter().rev();
        Preview {
            chunks: 0,
            bytes: 0,
            load: Load::new(&cluster),
            rebuilt_at: vec![0; cluster.nodes.len()],
            refused: Vec::new(),
            bounds: Vec::new(),
            load_now: self.ledger.load().clone(),
            takes: self.takes(),
            caps: self.throttle.shared_caps(&cluster),
            abilities: self.health.abilities(),
            policy: self.config.policy,
            seed: self.seed(),
            left: wanting.filter(|id| self.ledger.repair_of(*id).is_none()).collect(),
            cluster,
        }
    }

    /// What is asked of the planner for these stripes as they stand now; none that is healthy or
    /// under repair by now.
    pub fn preview_jobs(&self, stripes: &[StripeId]) -> PreviewJobs {
        let (mut asked, silent) = (PreviewJobs::default(), self.silent());
        for id in stripes.iter().filter(|id| self.ledger.repair_of(**id).is_none()) {
            let Some(stripe) = self.stripes.get(*id) else { continue };
            let mut lost = self.lost.get(id).cloned().unwrap_or_default();
            lost.extend(silent.iter().filter_map(|node| stripe.chunk_on(*node)));
            let job = if lost.is_empty() {
                self.move_job(stripe)
            } else {
                self.job_without(stripe, &lost)
            };
            let Some(job) = job else { continue };
            let bytes = job.lost.iter().map(|lost| (*id, *lost, stripe.record(*lost).bytes));
            asked.bytes.extend(bytes);
            if self.is_single_chunk(*id) { asked.single.push(job) } else { asked.jobs.push(job) }
        }
        asked
    }
}

impl Preview {
    /// Takes the stripes to plan next, at most as many as are planned together; none at the end.
    pub fn take_stripes(&mut self) -> Vec<StripeId> {
        let from = self.left.len().saturating_sub(BATCH_MAX);
        self.left.drain(from..).rev().collect()
    }

    /// Plans one batch beside those before it.
    pub fn plan(&mut self, asked: &PreviewJobs) {
        for (jobs, policy) in [(&asked.single, SINGLE_CHUNK), (&asked.jobs, self.policy)] {
            let all = self.load_of_all();
            let free_bytes = free_beside(&all, &self.takes);
            let (cluster, abilities) = (&self.cluster, self.abilities);
            let view = View { cluster, free_bytes: &free_bytes, load: &all, abilities };
            let batch = planner::plan_checked(policy, jobs, &view, self.seed);
            if !batch.plans.is_empty() {
                self.bounds.push(bound_seconds(jobs, &view));
            }
            let job_of = |stripe| {
                let at = jobs.binary_search_by_key(&stripe, |job| job.stripe);
                jobs[at.expect("planned a job")].facts()
            };
            let plans = batch.plans.iter().map(|plan| (plan, job_of(plan.stripe)));
            self.load.add_all(&self.cluster, plans);
            for plan in &batch.plans {
                self.chunks += plan.lost.len() as u64;
                let bytes = plan.lost.iter().map(|lost| asked.bytes_of(plan.stripe, *lost));
                self.bytes += bytes.sum::<u64>();
                let destinations = plan.destinations.values();
                destinations.for_each(|node| self.rebuilt_at[node.index()] += 1);
            }
            let refused = batch.refused.into_iter();
            self.refused.extend(refused.map(|(at, why)| (jobs[at].stripe, why)));
        }
    }

    /// What the fullest link or disk needs for this and for what runs and waits, in seconds, or
    /// all nodes of a cap that they share.
    pub fn max_load_seconds(&self) -> f64 {
        let all = self.load_of_all();
        let within_caps = self.caps.iter().map(|cap| cap.seconds(&all));
        within_caps.fold(all.max_seconds(&self.cluster), f64::max)
    }

    /// The least that any plans could need for this and for what runs and waits, in seconds; `None`
    /// where it was not planned all together, or nodes share a cap, with which no bound counts.
    pub fn bound_seconds(&self) -> Option<f64> {
        match self.bounds[..] {
            [bound] if self.caps.is_empty() => Some(bound),
            _ => None,
        }
    }

    /// The cluster as it was when the preview began.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn load_of_all(&self) -> Load {
        let mut all = self.load_now.clone();
        all.add_load(&self.load);
        all
    }
}

impl PreviewJobs {
    fn bytes_of(&self, stripe: StripeId, chunk: ChunkIndex) -> u64 {
        let key = |&(stripe, chunk, _): &(StripeId, ChunkIndex, u64)| (stripe, chunk);
        let at = self.bytes.binary_search_by_key(&(stripe, chunk), key);
        at.map_or(0, |at| self.bytes[at].2)
    }
}
