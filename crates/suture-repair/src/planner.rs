//! From lost chunks to plans: the one entry to every planning algorithm.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! A policy is shape / balance / schedule. The balance chooses helpers and destinations, the
//! shape joins them to a tree; the schedule is the coordinator's affair and ignored here.
//! Planning is a pure function of (policy, jobs, view, seed).
//!
//! In steps: each job becomes a `Task` (what has to flow, who may take part) or a refusal; the
//! balance (`random`, `greedy`) gives every task its nodes; and tasks with nodes become plans.
//! Shapes (`star`, `ppr`, `chain`) know no nodes: a shape is a list of parents for so many helpers.

mod chain;
mod greedy;
mod least;
mod ppr;
mod random;
mod star;
mod task;

use std::fmt;

use suture_code::{Code, CodeError};

use crate::cluster::Cluster;
use crate::id::{ChunkIndex, NodeId, StripeId};
use crate::plan::load::Load;
use crate::plan::{Carries, Plan, StripeFacts};
use crate::policy::{Balance, NotBuilt, Policy, Shape};
use task::Task;

/// One stripe with lost chunks that a plan is asked for.
#[derive(Clone, Debug)]
pub struct Job {
    /// The stripe.
    pub stripe: StripeId,
    /// Its code.
    pub code: Code,
    /// The length of its chunks.
    pub chunk_bytes: u64,
    /// The chunks to rebuild, ascending.
    pub lost: Vec<ChunkIndex>,
    /// The chunks that may help and who holds them, ascending by chunk.
    pub survivors: Vec<(ChunkIndex, NodeId)>,
    /// Nodes that must not become a destination: they hold (or should hold) another chunk.
    pub excluded: Vec<NodeId>,
    /// Nodes that disappointed an earlier attempt: used only when nothing else will do.
    pub avoid: Vec<NodeId>,
}

impl Job {
    /// The stripe as it stands, for validation, loads and execution.
    pub fn facts(&self) -> StripeFacts<'_> {
        StripeFacts {
            stripe: self.stripe,
            code: self.code,
            chunk_bytes: self.chunk_bytes,
            survivors: &self.survivors,
        }
    }
}

/// What a planner may know of the world.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Nodes and links.
    pub cluster: &'a Cluster,
    /// For each node, whether it may take a rebuilt chunk (alive, not full, not draining).
    pub accepts: &'a [bool],
    /// What running repairs already put on each node.
    pub load: &'a Load,
    /// What every agent can execute.
    pub abilities: Abilities,
}

/// The kinds of edges that agents can execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Full-width partial sums.
    pub partial: bool,
    /// Linear combinations of sub-chunks, and several losses at one decoder.
    pub combined: bool,
    /// Bit planes of trace repair.
    pub traces: bool,
    /// Rebuilt bytes forwarded by a decoder.
    pub finished: bool,
}

impl Abilities {
    /// Nothing.
    pub const NONE: Abilities =
        Abilities { partial: false, combined: false, traces: false, finished: false };

    /// Partial sums, which every agent speaks.
    pub const PARTIAL: Abilities = Abilities { partial: true, ..Abilities::NONE };

    /// What both can do.
    pub fn and(self, other: Abilities) -> Abilities {
        Abilities {
            partial: self.partial && other.partial,
            combined: self.combined && other.combined,
            traces: self.traces && other.traces,
            finished: self.finished && other.finished,
        }
    }

    /// Everything that a plan can ask for.
    pub const ALL: Abilities =
        Abilities { partial: true, combined: true, traces: true, finished: true };
}

/// The outcome for a batch of jobs.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// One plan for each job that could be planned, in the order of the jobs. It rebuilds fewer
    /// chunks than the job has lost when agents cannot decode several, or nodes are too few.
    pub plans: Vec<Plan>,
    /// Jobs (by index, ascending) that could not be planned, and why.
    pub refused: Vec<(usize, PlanError)>,
}

/// Why a stripe has no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The survivors do not determine the lost chunks.
    NotEnoughChunks {
        /// How many chunks the code needs.
        needed: usize,
        /// How many are left.
        available: usize,
    },
    /// Every living node holds a chunk of the stripe already, or is full.
    NoDestination,
    /// The code refused the helper set.
    Code(CodeError),
    /// The policy's shape joins sums, and this code's repair is not a sum of whole chunks.
    NoSums {
        /// The shape.
        shape: Shape,
        /// The code.
        code: Code,
    },
    /// Some agent cannot execute the kind of edge that the repair needs.
    Inability {
        /// The kind of edge.
        needed: Carries,
    },
    /// The policy cannot be planned with yet.
    NotBuilt(NotBuilt),
}

/// Plans a batch. The order of jobs matters to nobody but ties; plans come in their order.
///
/// # Panics
/// When a job or the view names a node that the cluster does not have.
pub fn plan(policy: Policy, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    if let Err(missing) = policy.built() {
        let refused = (0..jobs.len()).map(|job| (job, PlanError::NotBuilt(missing)));
        return Batch { plans: Vec::new(), refused: refused.collect() };
    }
    match policy.shape {
        Shape::Mix => {
            best_of(&[Shape::Star, Shape::Ppr, Shape::Chain], policy.balance, jobs, view, seed)
        }
        shape => plan_shape(shape, policy.balance, jobs, view, seed),
    }
}

/// The batch that serves the most jobs and then has the lowest peak; of equals, the first: shapes
/// are listed from the shallowest tree to the deepest.
fn best_of(shapes: &[Shape], balance: Balance, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let batches = shapes.iter().map(|&shape| {
        let batch = plan_shape(shape, balance, jobs, view, seed);
        let peak = peak_seconds(&batch, jobs, view);
        (batch, peak)
    });
    let better = |best: &(Batch, f64), next: &(Batch, f64)| {
        let (served, peak) = (next.0.plans.len(), next.1);
        served > best.0.plans.len() || served == best.0.plans.len() && peak < best.1
    };
    let best = batches.reduce(|best, next| if better(&best, &next) { next } else { best });
    best.expect("there is a shape to choose").0
}

/// How long the busiest port needs for the batch and for what already runs.
fn peak_seconds(batch: &Batch, jobs: &[Job], view: &View<'_>) -> f64 {
    let mut load = view.load.clone();
    for (job, plan) in batch.planned(jobs) {
        load.add(view.cluster, plan, &job.facts());
    }
    load.max_seconds(view.cluster)
}

fn plan_shape(shape: Shape, balance: Balance, jobs: &[Job], view: &View<'_>, seed: u64) -> Batch {
    let mut tasks = Vec::with_capacity(jobs.len());
    let mut refused = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        match Task::new(shape, job, view) {
            Ok(task) => tasks.push(task),
            Err(error) => refused.push((index, error)),
        }
    }
    let places = match balance {
        Balance::Random => random::place(&tasks, view, seed),
        Balance::Greedy => greedy::place(&tasks, view, seed),
        other => unreachable!("{other} is not built, and was refused before"),
    };
    let plans = tasks.iter().zip(&places).map(|(task, place)| task.plan(place)).collect();
    Batch { plans, refused }
}

impl Batch {
    /// Each plan beside its job.
    pub fn planned<'a>(&'a self, jobs: &'a [Job]) -> impl Iterator<Item = (&'a Job, &'a Plan)> {
        let mut refused = self.refused.iter().map(|(index, _)| *index).peekable();
        let jobs = jobs.iter().enumerate();
        let planned = jobs.filter(move |(index, _)| refused.next_if_eq(index).is_none());
        planned.map(|(_, job)| job).zip(&self.plans)
    }
}

impl PlanError {
    /// Whether the survivors do not determine what is lost: nothing but returning chunks can help.
    pub fn is_beyond_repair(&self) -> bool {
        matches!(
            self,
            PlanError::NotEnoughChunks { .. } | PlanError::Code(CodeError::NotDetermined { .. })
        )
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NotEnoughChunks { needed, available } => {
                write!(f, "{available} chunks are left, {needed} are needed")
            }
            PlanError::NoDestination => {
                write!(
                    f,
                    "no node can take the chunk: each holds one of the stripe, is full, or is down"
                )
            }
            PlanError::Code(error) => error.fmt(f),
            PlanError::NoSums { shape, code } => write!(
                f,
                "the shape '{shape}' joins partial sums, which {code} does not have; use star or mix"
            ),
            PlanError::Inability { needed } => {
                write!(
                    f,
                    "the repair needs edges that carry '{needed}', which some agent cannot execute"
                )
            }
            PlanError::NotBuilt(missing) => missing.fmt(f),
        }
    }
}

impl std::error::Error for PlanError {}
