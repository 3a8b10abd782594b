//! From lost chunks to plans: the one entry to every planning algorithm.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! A policy is shape / balance / schedule. The balance chooses helpers and destinations, the
//! shape joins them to a tree; the schedule is the coordinator's affair and ignored here.
//! Planning is a pure function of (policy, jobs, view, seed).
//!
//! By default the exact planners plan (`exact`): whole batches, by maximum flows and by prices of
//! ports, in several lanes and with traces. They know nothing of balances, shapes and routes.
//!
//! The published planners (`route`) go in steps: each job becomes a `RouteRequest` (what has to
//! flow, which nodes may take part) or a refusal; the balance (`random`, `lru`, `repairboost`,
//! `chameleon`, `car`, `greedy`) decides about the helpers and destinations of every request; with
//! the shape (`star`, `ppr`, `chain`, `ppt`, `pivot`, `rack`, `tunable`) that becomes a `Route`,
//! and a route is a plan of one lane.

mod checked;
mod error;
mod exact;
mod free_space;
pub(crate) mod keep;
mod least;
mod moving;
pub(crate) mod ports;
mod request;
pub mod route;

use suture_code::Shortened;

pub use checked::{plan_checked, validated};
pub use error::PlanError;
pub(crate) use free_space::batch_bytes;
pub(crate) use keep::{crowded_racks, full_racks, rack_places};

use crate::cluster::{Cluster, Node, Rate};
use crate::id::{ChunkIndex, NodeId, RackId, StripeId};
use crate::plan::load::Load;
use crate::plan::{Plan, StripeFacts};
use crate::policy::{Balance, Policy, Shape};
use exact::{around, flow, mix, trace};
use request::read_all;
use route::Joiner;
use route::balance::car::{self, Recovery};
use route::balance::chameleon::{self, CountedPorts};
use route::balance::lru::{self, Turns};
use route::balance::{chameleon_artifact, greedy, random, repairboost};

/// One stripe with lost chunks that a plan is asked for.
#[derive(Clone, Debug)]
pub struct Job {
    /// The stripe that lost them.
    pub stripe: StripeId,
    /// Its code, and the chunks that are known to be zero: those are neither lost nor survivors.
    pub code: Shortened,
    /// The length of the longest lost chunk: what a plan covers.
    pub chunk_bytes: u64,
    /// The chunks to rebuild, ascending.
    pub lost: Vec<ChunkIndex>,
    /// The chunks that may help and their nodes, ascending by chunk.
    pub survivors: Vec<(ChunkIndex, NodeId)>,
    /// Nodes with chunks that are not lost and cannot help: silent ones, or excluded by the
    /// operator.
    pub idle: Vec<NodeId>,
    /// Nodes that must not become a destination: they hold (or should hold) another chunk.
    pub excluded: Vec<NodeId>,
    /// How many of the lost chunks nodes of each rack may keep, where the keeper of the stripes
    /// takes no more there; empty where it has no such rule.
    pub keeper_places: Vec<usize>,
    /// Nodes because of which an earlier attempt failed: used only where no others suffice.
    pub avoid: Vec<NodeId>,
    /// The node that holds the chunk, where it is not lost and only to move: it may be copied from
    /// there.
    pub source: Option<NodeId>,
}

impl Job {
    /// How many of the lost chunks the keeper of the stripes takes in a rack.
    fn keeper_places_in(&self, rack: RackId) -> usize {
        self.keeper_places.get(rack.0 as usize).copied().unwrap_or(usize::MAX)
    }

    /// The stripe as it stands, for validation, loads and execution.
    pub fn facts(&self) -> StripeFacts<'_> {
        StripeFacts {
            stripe: self.stripe,
            code: self.code,
            chunk_bytes: self.chunk_bytes,
            survivors: &self.survivors,
            source: self.source,
        }
    }
}

/// What a planner may know of the world.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Nodes, racks, and the rates of links and disks.
    pub cluster: &'a Cluster,
    /// For each node, bytes of rebuilt chunks that it may take; 0 for none (down, full, drained),
    /// `u64::MAX` where space is not known.
    pub free_bytes: &'a [u64],
    /// What running repairs already put on each node.
    pub load: &'a Load,
    /// What every agent can execute.
    pub abilities: Abilities,
}

impl View<'_> {
    /// What is free of the uplink, in bytes per second; above zero.
    fn up(&self, node: NodeId) -> f64 {
        self.cluster.node(node).uplink_free().usable().0
    }

    /// What is free of the downlink, in bytes per second; above zero.
    fn down(&self, node: NodeId) -> f64 {
        self.cluster.node(node).downlink_free().usable().0
    }

    /// Whether the node may take rebuilt chunks.
    pub(crate) fn accepts(&self, node: NodeId) -> bool {
        self.free_bytes[node.index()] > 0
    }

    /// Whether the node may take a rebuilt chunk of so many bytes.
    pub(crate) fn has_space(&self, node: NodeId, bytes: u64) -> bool {
        self.free_bytes[node.index()] >= bytes.max(1)
    }
}

/// The kinds of edges that agents can execute, and what else of a task not every agent understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Partial sums of full width.
    pub partial: bool,
    /// Linear combinations of sub-chunks, and several losses at one decoder.
    pub combined: bool,
    /// Bit planes of trace repair.
    pub traces: bool,
    /// Rebuilt bytes forwarded by a decoder.
    pub finished: bool,
    /// Tasks of which a destination has part already, which is not sent to it again.
    pub skips: bool,
}

impl Abilities {
    /// No kind at all.
    pub const NONE: Abilities =
        Abilities { partial: false, combined: false, traces: false, finished: false, skips: false };

    /// Partial sums, which every agent speaks.
    pub const PARTIAL: Abilities = Abilities { partial: true, ..Abilities::NONE };

    /// What both can do.
    pub fn and(self, other: Abilities) -> Abilities {
        Abilities {
            partial: self.partial && other.partial,
            combined: self.combined && other.combined,
            traces: self.traces && other.traces,
            finished: self.finished && other.finished,
            skips: self.skips && other.skips,
        }
    }

    /// Everything that a task can ask for.
    pub const ALL: Abilities =
        Abilities { partial: true, combined: true, traces: true, finished: true, skips: true };
}

/// The outcome for a batch of jobs.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// One plan for each job that could be planned, in the order of the jobs. It rebuilds fewer
    /// chunks than the job has lost when agents cannot decode several, or nodes are too few.
    pub plans: Vec<Plan>,
    /// Jobs (by index, ascending) that could not be planned, and why.
    pub refused: Vec<(usize, PlanError)>,
    /// What the planner's panic said, if it panicked and was asked about each job by itself.
    pub panicked: Option<String>,
}

/// Plans a batch; [`plan_checked`] is for plans that are printed or dispatched. Plans are in the
/// order of the jobs, which otherwise only breaks ties.
///
/// # Panics
/// When the view is not of its own cluster, or a job excludes or avoids nodes that there are not.
pub fn plan(policy: Policy, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let usable = policy.plannable().map_err(PlanError::Policy);
    if let Err(error) = usable.and_then(|()| check(policy, jobs, view)) {
        return Batch::refuse_all(jobs, &error);
    }
    let planned =
        |policy| free_space::within(jobs, view, |jobs, view| plan_batch(policy, jobs, view, seed));
    let others = beside(policy, jobs, view);
    if others.is_empty() {
        return planned(policy);
    }
    best_of([policy].into_iter().chain(others).map(planned), jobs, view)
}

/// Up to so many jobs, others plan beside an exact planner.
const BESIDE_MAX: usize = 256;

/// Policies that may do better than an exact one, where it is no exact solution of all that is
/// asked: with links of racks, several losses, codes with sub-chunks, or little space. The best
/// batch is taken, so no exact plan takes longer than theirs.
fn beside(policy: Policy, jobs: &[Job], view: &View<'_>) -> Vec<Policy> {
    let is_exact =
        policy.balance == Balance::Flow && matches!(policy.shape, Shape::Split | Shape::Mix);
    if !is_exact || jobs.len() > BESIDE_MAX {
        return Vec::new();
    }
    let is_more = |job: &Job| job.lost.len() > 1 || job.code.sub_chunk_count() > 1;
    let is_scarce = || keep::is_scarce(view, batch_bytes(jobs));
    if !view.cluster.has_rack_links() && !jobs.iter().any(is_more) && !is_scarce() {
        return Vec::new();
    }
    let pairs = [
        (Shape::Split, Balance::Flow),
        (Shape::Tunable, Balance::Chameleon),
        (Shape::Mix, Balance::Greedy),
        (Shape::Star, Balance::RepairBoost),
        (Shape::Ppr, Balance::RepairBoost),
        (Shape::Chain, Balance::RepairBoost),
        (Shape::Mix, Balance::Random),
        (Shape::Pivot, Balance::Greedy),
    ];
    let policies = pairs.map(|(shape, balance)| Policy { shape, balance, ..policy });
    let is_other = |other: &Policy| (other.shape, other.balance) != (policy.shape, policy.balance);
    let can_plan = |other: &Policy| other.plannable().is_ok() && check(*other, jobs, view).is_ok();
    policies.into_iter().filter(is_other).filter(can_plan).collect()
}

/// Plans a batch as if each chunk were the only one that comes to its destination.
fn plan_batch(policy: Policy, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    match (policy.shape, policy.balance) {
        (Shape::Split, Balance::Flow) => {
            around::plan(jobs, view, |jobs| flow::plan(jobs, view, seed))
        }
        (Shape::Trace, Balance::Flow) => trace::plan(jobs, view, seed),
        (Shape::Mix, Balance::Flow) => around::plan(jobs, view, |jobs| mix::plan(jobs, view, seed)),
        (Shape::Mix, balance) => {
            let shapes = [Shape::Star, Shape::Ppr, Shape::Chain].into_iter();
            best_of(shapes.map(|shape| plan_shape(shape, balance, jobs, view, seed)), jobs, view)
        }
        (shape, balance) => plan_shape(shape, balance, jobs, view, seed),
    }
}

/// Whether the cluster has what the policy looks at. Racks and disks matter of nodes that can take
/// part.
fn check(policy: Policy, jobs: &[Job], view: &View<'_>) -> Result<(), PlanError> {
    let cluster = view.cluster;
    let name = |node: &Node| node.name.clone();
    // A link that carries nothing is no error: it is used where no other suffices.
    let is_no_rate = |rate: Rate| rate.0.is_nan() || rate.0 < 0.0;
    for node in &cluster.nodes {
        for (link, rate) in [("uplink", node.uplink), ("downlink", node.downlink)] {
            if is_no_rate(rate) {
                return Err(PlanError::NoRate { node: name(node), link });
            }
        }
    }
    let (needs_racks, needs_disks) = (policy.needs_racks(), policy.needs_disks());
    if needs_racks.is_none() && needs_disks.is_none() {
        return Ok(());
    }
    let takes_part = takes_part(jobs, view);
    let find = |lacks: &dyn Fn(&Node) -> bool| {
        let nodes = cluster.nodes.iter().zip(&takes_part);
        nodes.filter(|(_, takes_part)| **takes_part).map(|(node, _)| node).find(|node| lacks(node))
    };
    let outside = find(&|node| node.rack.is_none());
    if let Some(name_of_part) = needs_racks
        && (cluster.racks.is_empty() || outside.is_some())
    {
        let node = outside.filter(|_| !cluster.racks.is_empty()).map(name);
        return Err(PlanError::NoRacks { name: name_of_part, node });
    }
    let lacks_disk = |node: &Node| node.disk_read.is_none() || node.disk_write.is_none();
    match (needs_disks, find(&lacks_disk)) {
        (Some(name_of_part), Some(node)) => {
            Err(PlanError::NoDisks { name: name_of_part, node: name(node) })
        }
        _ => Ok(()),
    }
}

/// For each node, whether it holds a survivor of some job or accepts chunks.
fn takes_part(jobs: &[Job], view: &View<'_>) -> Vec<bool> {
    let mut takes_part: Vec<bool> = view.free_bytes.iter().map(|free| *free > 0).collect();
    for (_, node) in jobs.iter().flat_map(|job| &job.survivors) {
        // A node that there is not is the job's own fault.
        if let Some(takes_part) = takes_part.get_mut(node.index()) {
            *takes_part = true;
        }
    }
    takes_part
}

/// The batch that rebuilds the most chunks and then has the lowest peak; of equals, the first.
fn best_of(batches: impl Iterator<Item = Batch>, jobs: &[Job], view: &View<'_>) -> Batch {
    let batches = batches.map(|batch| {
        let rebuilt: usize = batch.plans.iter().map(|plan| plan.lost.len()).sum();
        let peak = peak_seconds(&batch, jobs, view);
        (batch, rebuilt, peak)
    });
    let is_better = |best: &(Batch, usize, f64), next: &(Batch, usize, f64)| {
        next.1 > best.1 || next.1 == best.1 && next.2 < best.2
    };
    let best = batches.reduce(|best, next| if is_better(&best, &next) { next } else { best });
    best.expect("there is a batch to choose").0
}

/// How long the busiest port needs for the batch and for what already runs.
fn peak_seconds(batch: &Batch, jobs: &[Job], view: &View<'_>) -> f64 {
    let mut load = view.load.clone();
    load.add_all(view.cluster, batch.planned(jobs).map(|(job, plan)| (plan, job.facts())));
    load.max_seconds(view.cluster)
}

fn plan_shape(shape: Shape, balance: Balance, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let (requests, refused) = read_all(jobs, |job| shape.request(job, view));
    let joiner = &mut Joiner::new(view);
    let routes = match balance {
        Balance::Random => random::place(&requests, view, seed, joiner),
        Balance::Lru => lru::place(&requests, Turns::Apart, view, joiner),
        Balance::LruShared => lru::place(&requests, Turns::Shared, view, joiner),
        Balance::RepairBoost => repairboost::place(&requests, view, joiner),
        Balance::Car(iterations) => {
            car::place(&requests, Recovery::Aware { iterations }, view, seed, joiner)
        }
        Balance::CarRandom => car::place(&requests, Recovery::Random, view, seed, joiner),
        Balance::Chameleon => chameleon::place(&requests, CountedPorts::Links, view, joiner),
        Balance::ChameleonIo => {
            chameleon::place(&requests, CountedPorts::LinksAndDisks, view, joiner)
        }
        Balance::ChameleonArtifact => chameleon_artifact::place(&requests, view, joiner),
        Balance::Greedy => greedy::place(&requests, view, seed, joiner),
        other => unreachable!("{other} is not built, and was refused before"),
    };
    let plans = requests.iter().zip(&routes).map(|(request, route)| route.plan(request)).collect();
    Batch { plans, refused, ..Batch::default() }
}

impl Batch {
    fn refuse_all(jobs: &[Job], error: &PlanError) -> Batch {
        let refused = (0..jobs.len()).map(|job| (job, error.clone()));
        Batch { refused: refused.collect(), ..Batch::default() }
    }

    /// Each plan beside its job.
    pub fn planned<'a>(&'a self, jobs: &'a [Job]) -> impl Iterator<Item = (&'a Job, &'a Plan)> {
        self.planned_at(jobs).map(|(index, plan)| (&jobs[index], plan))
    }

    /// Each plan beside the index of its job.
    fn planned_at(&self, jobs: &[Job]) -> impl Iterator<Item = (usize, &Plan)> {
        let mut refused = self.refused.iter().map(|(index, _)| *index).peekable();
        let planned = (0..jobs.len()).filter(move |index| refused.next_if_eq(index).is_none());
        planned.zip(&self.plans)
    }
}
