//! Why a stripe has no plan: what is wrong with the stripe, the cluster or the policy.
//!
//! Place: the other answer of `[plan]`, from every planner and from `checked.rs`. Every refusal
//! names the thing that was wrong and, where something can be done, what.

use std::fmt;

use suture_code::{Code, CodeError};

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, PlanFault};
use crate::planner::route::shape::ppt::TRIALS_MAX;
use crate::policy::{PolicyFault, Shape};

/// Why a stripe has no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the message of each variant explains its fields")]
pub enum PlanError {
    /// The survivors do not determine the lost chunks.
    NotEnoughChunks { needed: usize, available: usize },
    /// Every living node holds a chunk of the stripe already, is full, or is not to take any.
    NoDestination,
    /// The code refused the helper set.
    Code(CodeError),
    /// The policy's shape joins sums, and this code's repair is not a sum of whole chunks.
    NoSums { shape: Shape, code: Code },
    /// The policy is for codes with trace schemes, and this one has none.
    NoSchemes { code: Code },
    /// Some agent cannot execute the kind of edge that the repair needs.
    Inability { needed: Carries },
    /// PPT would have to try more trees than is sensible; `u64::MAX` trials stand for more.
    TooManyTrees { candidate_count: usize, helper_count: usize, trials: u64 },
    /// The policy needs racks, and the cluster has none, or a node outside of them.
    NoRacks { name: &'static str, node: Option<String> },
    /// The policy weighs disks, and a node's is not known.
    NoDisks { name: &'static str, node: String },
    /// The bandwidth of a link is negative or no number.
    NoRate { node: String, link: &'static str },
    /// A chunk is on a node that the cluster does not have.
    NoSuchNode { chunk: ChunkIndex, node: NodeId, node_count: usize },
    /// Two chunks of the stripe are on one node.
    SharedNode { node: NodeId, first: ChunkIndex, second: ChunkIndex },
    /// No plans can be made with this policy.
    Policy(PolicyFault),
    /// The planner made a plan that is none: a defect of this program.
    Invalid(PlanFault),
    /// The planner panicked: a defect of this program.
    Panicked { message: String },
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
                let (chunks, verb) =
                    if *available == 1 { ("chunk", "is") } else { ("chunks", "are") };
                write!(f, "{available} {chunks} {verb} left, {needed} are needed")
            }
            PlanError::NoDestination => write!(
                f,
                "no node can take the chunk: each holds one of the stripe, is full, drained or \
                 excluded, or is down"
            ),
            PlanError::Code(error) => error.fmt(f),
            PlanError::Inability { needed } => write!(
                f,
                "the repair needs edges that carry '{needed}', which some agent cannot execute"
            ),
            PlanError::NoSums { shape, code } => write!(
                f,
                "the shape '{shape}' joins partial sums, which {code} does not have; use star or mix"
            ),
            PlanError::NoSchemes { code } => write!(
                f,
                "the shape 'trace' sends traces, and no scheme is known for {code}; use split or mix"
            ),
            PlanError::TooManyTrees { candidate_count, helper_count, trials } => {
                too_many_trees(f, *candidate_count, *helper_count, *trials)
            }
            PlanError::Policy(fault) => fault.fmt(f),
            PlanError::Invalid(fault) => {
                write!(f, "the planner made an invalid plan, which is a defect of suture: {fault}")
            }
            PlanError::Panicked { message } => {
                write!(f, "the planner panicked, which is a defect of suture: {message}")
            }
            PlanError::NoRacks { .. }
            | PlanError::NoDisks { .. }
            | PlanError::NoRate { .. }
            | PlanError::NoSuchNode { .. }
            | PlanError::SharedNode { .. } => self.fmt_input(f),
        }
    }
}

impl PlanError {
    /// What is wrong with the cluster or the placement.
    fn fmt_input(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::NoRacks { name, node: None } => {
                write!(f, "'{name}' needs racks, and the cluster has none; give its nodes racks")
            }
            PlanError::NoRacks { name, node: Some(node) } => {
                write!(f, "'{name}' needs racks, and the node '{node}' is in none; give it one")
            }
            PlanError::NoDisks { name, node } => write!(
                f,
                "'{name}' weighs disks, and nothing is known of that of the node \
                 '{node}'; give its rates, or use chameleon"
            ),
            PlanError::NoRate { node, link } => write!(
                f,
                "the {link} of the node '{node}' has a bandwidth below zero, or one that is no \
                 number; give it a rate"
            ),
            PlanError::NoSuchNode { chunk, node, node_count } => write!(
                f,
                "chunk {chunk} is on node number {}, and the cluster has {node_count} nodes",
                node.0
            ),
            PlanError::SharedNode { node, first, second } => write!(
                f,
                "chunks {first} and {second} are both on node number {}; a stripe uses each node once",
                node.0
            ),
            _ => unreachable!("the others say what is wrong with the stripe or the policy"),
        }
    }
}

fn too_many_trees(
    f: &mut fmt::Formatter<'_>,
    candidate_count: usize,
    helper_count: usize,
    trials: u64,
) -> fmt::Result {
    let trials: &dyn fmt::Display = if trials == u64::MAX { &"countless" } else { &trials };
    write!(
        f,
        "the shape 'ppt' tries all choices of helpers and of their numbers of children: {trials} \
         with {helper_count} of {candidate_count} survivors, and no more than {TRIALS_MAX} are \
         tried; pivot finds an equally fast tree at once"
    )
}

impl std::error::Error for PlanError {}
