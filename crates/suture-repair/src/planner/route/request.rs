//! A route's request: what a job needs to flow, before anyone knows where.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! One lost chunk of a code that sums whole chunks flows along the shape's tree; everything else
//! (several lost chunks, codes with sub-chunks) is gathered at one decoder, the first destination,
//! which sends finished chunks to the others. What is known of the tree here depends on the shape:
//! all of it but its size, nothing before its nodes are, or nothing before a balance says who
//! receives how often. How many help is known of codes that any k chunks decode; the others are
//! asked for every choice, and take more or fewer with the order in which helpers are preferred.
//!
//! Invariants: the candidates are enough; nodes that are to be avoided are among them only where
//! there is no other way.

use suture_code::{Code, CodeError};

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Lane, Plan, Range, Start};
use crate::planner::route::shape::ppt;
use crate::planner::{Job, PlanError, View};
use crate::policy::Shape;

/// A chunk that may help and the node that holds it.
pub(in crate::planner) type Helper = (ChunkIndex, NodeId);

/// A job with what is known of its tree.
#[derive(Debug)]
pub(in crate::planner) struct RouteRequest<'a> {
    pub job: &'a Job,
    pub shape: Shape,
    /// The lost chunks that this plan rebuilds: no more than there are nodes to keep them.
    pub lost: &'a [ChunkIndex],
    /// Survivors that may help.
    pub candidates: Vec<Helper>,
    /// How many of them it takes as a rule: exactly where any will do, otherwise when the code is
    /// asked in their order. What is built goes by the helpers that were chosen, not by this.
    pub usual_count: usize,
    pub topology: Topology,
}

/// What flows, and what is known of who sends to whom.
#[derive(Debug)]
pub(in crate::planner) enum Topology {
    /// Sums along a tree that is known before its nodes.
    Tree,
    /// Sums along a tree that the shape grows from the links of its nodes.
    Grown,
    /// Sums along a tree that follows from how often each node receives.
    Tuned,
    /// Combinations from all helpers to the first destination.
    Gather,
}

impl<'a> RouteRequest<'a> {
    pub fn new(shape: Shape, job: &'a Job, view: &View<'_>) -> Result<RouteRequest<'a>, PlanError> {
        check(job, view)?;
        let abilities = view.abilities;
        let all_at_once = abilities.combined && abilities.finished;
        let wanted_max = if all_at_once { job.lost.len() } else { job.lost.len().min(1) };
        let free = view.cluster.ids().filter(|node| job.may_be_kept_by(*node, view));
        // Rather some of the chunks now than none of them.
        let lost = &job.lost[..free.take(wanted_max).count()];
        if lost.is_empty() {
            find_candidates(job, &job.lost)?;
            return Err(PlanError::NoDestination);
        }
        let (candidates, usual_count) = find_candidates(job, lost)?;
        let topology = topology(shape, job, lost, usual_count, view)?;
        Ok(RouteRequest { job, shape, lost, candidates, usual_count, topology })
    }

    /// How many of `sources` help: k where any will do, all of them where the code chose them.
    pub fn helper_count(&self, sources: &[Helper]) -> usize {
        if self.takes_any() { self.usual_count } else { sources.len() }
    }

    /// How often each place of a flow of so many helpers receives what a helper sends, as far as
    /// that is known before the nodes are; the last place is the (first) destination.
    pub fn receives(&self, helper_count: usize) -> Vec<u64> {
        let mut receives = vec![0; helper_count + 1];
        match &self.topology {
            Topology::Tree => {
                let parents = self.shape.tree(helper_count);
                parents.into_iter().for_each(|parent| receives[parent] += 1);
            }
            Topology::Gather => receives[helper_count] = helper_count as u64,
            Topology::Grown | Topology::Tuned => receives[helper_count] = 1,
        }
        receives
    }

    /// Whether any `usual_count` of the candidates will do.
    pub fn takes_any(&self) -> bool {
        takes_any(self.job.code)
    }

    /// The helpers that the code takes when it prefers those that come early in `preferred`, in
    /// that order.
    pub fn choose_helpers(&self, preferred: &[Helper]) -> Vec<Helper> {
        if self.takes_any() {
            return preferred[..self.usual_count].to_vec();
        }
        let chunks: Vec<ChunkIndex> = preferred.iter().map(|(chunk, _)| *chunk).collect();
        let chosen = self.job.code.helpers_for(self.lost, &chunks);
        let chosen = chosen.expect("the candidates were enough when the request was made");
        preferred.iter().filter(|(chunk, _)| chosen.contains(chunk)).copied().collect()
    }

    /// What a gather from so many helpers brings to the decoder, if they send as little as they can.
    pub fn gathered_total(&self, helper_count: usize) -> u64 {
        let code = self.job.code;
        let alpha = u64::from(code.sub_chunk_count());
        let sub_chunks = match self.lost {
            [lost] => u64::from(code.least_helper_sub_chunks(*lost)),
            _ => helper_count as u64 * alpha,
        };
        sub_chunks * self.job.chunk_bytes / alpha
    }

    /// What the decoder of several chunks sends on to the other destinations.
    pub fn forwarded_bytes(&self) -> u64 {
        (self.lost.len() as u64 - 1) * self.job.chunk_bytes
    }

    /// The whole of the chunk.
    pub fn range(&self) -> Range {
        Range { from: 0, to: self.job.chunk_bytes }
    }

    /// The plan of these lanes, with the lost chunks going to `destinations` in order.
    pub fn plan(&self, destinations: &[NodeId], lanes: Vec<Lane>) -> Plan {
        Plan {
            stripe: self.job.stripe,
            lost: self.lost.to_vec(),
            destinations: self.lost.iter().copied().zip(destinations.iter().copied()).collect(),
            start: Start::Now,
            range: self.range(),
            period: None,
            lanes,
        }
    }
}

/// Whether the stripe's chunks are on nodes of the cluster, each on one of its own.
fn check(job: &Job, view: &View<'_>) -> Result<(), PlanError> {
    let node_count = view.cluster.nodes.len();
    for (index, &(chunk, node)) in job.survivors.iter().enumerate() {
        if node.index() >= node_count {
            return Err(PlanError::NoSuchNode { chunk, node, node_count });
        }
        let other = job.survivors[..index].iter().find(|(_, other)| *other == node);
        if let Some(&(first, _)) = other {
            return Err(PlanError::SharedNode { node, first, second: chunk });
        }
    }
    Ok(())
}

/// Whether any k chunks rebuild any others.
fn takes_any(code: Code) -> bool {
    match code {
        Code::Rs(_) | Code::RsVandermonde(_) => true,
        // These send less from helpers of their choice.
        Code::Lrc(_) | Code::Butterfly(_) | Code::Clay(_) => false,
    }
}

fn topology(
    shape: Shape,
    job: &Job,
    lost: &[ChunkIndex],
    usual_count: usize,
    view: &View<'_>,
) -> Result<Topology, PlanError> {
    let abilities = view.abilities;
    let is_sum = lost.len() == 1 && job.code.sub_chunk_count() == 1;
    if is_sum && !abilities.partial {
        return Err(PlanError::Inability { needed: Carries::Partial });
    }
    match shape {
        Shape::Star | Shape::Ppr | Shape::Chain if is_sum => Ok(Topology::Tree),
        Shape::Tunable if is_sum => Ok(Topology::Tuned),
        Shape::Ppt if is_sum => {
            let is_free = takes_any(job.code);
            let candidate_count = if is_free { job.survivors.len() } else { usual_count };
            ppt::check(candidate_count, usual_count)?;
            Ok(Topology::Grown)
        }
        _ if is_sum => Ok(Topology::Grown),
        // Several chunks at once are gathered whatever the shape; one chunk only where a tree may
        // be a star.
        Shape::Ppr | Shape::Chain | Shape::Ppt | Shape::Pivot | Shape::Rack if lost.len() == 1 => {
            Err(PlanError::NoSums { shape, code: job.code })
        }
        _ if !abilities.combined => Err(PlanError::Inability { needed: Carries::Combined }),
        _ => Ok(Topology::Gather),
    }
}

/// The survivors that may help with `lost`, and how many of them it takes in their order.
fn find_candidates(job: &Job, lost: &[ChunkIndex]) -> Result<(Vec<Helper>, usize), PlanError> {
    if takes_any(job.code) && job.avoid.is_empty() && job.survivors.len() >= job.code.data_chunks()
    {
        return Ok((job.survivors.clone(), job.code.data_chunks()));
    }
    let count = |survivors: &[Helper]| {
        let chunks: Vec<ChunkIndex> = survivors.iter().map(|(chunk, _)| *chunk).collect();
        job.code.helpers_for(lost, &chunks).map(|helpers| helpers.len())
    };
    let is_trusted = |(_, node): &&Helper| !job.avoid.contains(node);
    let trusted: Vec<_> = job.survivors.iter().filter(is_trusted).copied().collect();
    if let Ok(helper_count) = count(&trusted) {
        return Ok((trusted, helper_count));
    }
    let avoided = job.survivors.iter().filter(|(_, node)| job.avoid.contains(node));
    let everyone: Vec<_> = trusted.iter().chain(avoided).copied().collect();
    let chunks: Vec<ChunkIndex> = everyone.iter().map(|(chunk, _)| *chunk).collect();
    match job.code.helpers_for(lost, &chunks) {
        // The code prefers those that come early, so these hold no more avoided nodes than needed.
        Ok(helpers) => {
            let chosen = everyone.into_iter().filter(|(chunk, _)| helpers.contains(chunk));
            Ok((chosen.collect(), helpers.len()))
        }
        Err(CodeError::NotEnoughChunks { needed, available }) => {
            Err(PlanError::NotEnoughChunks { needed, available })
        }
        Err(error) => Err(PlanError::Code(error)),
    }
}
