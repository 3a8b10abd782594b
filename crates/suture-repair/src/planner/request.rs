//! A job as planners read it: which of its lost chunks are rebuilt now, which may help, or why
//! none.
//!
//! Place: the first step of `[plan]`, the same for the exact planner and the published ones. Of
//! several lost chunks as many are rebuilt as agents can decode and nodes can keep: rather some of
//! them now than none. What else a planner has to know of the helpers it asks for here: what they
//! send at least (`exact/instance.rs`), or how many there are (`route/request.rs`).
//!
//! Invariants: the candidates are enough; nodes that are to be avoided are among them only where
//! nothing else will do.

use std::borrow::Cow;

use suture_code::CodeError;

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Lane, Plan, Range, Start};
use crate::planner::{Abilities, Job, PlanError, View};

/// A chunk that may help and the node that holds it.
pub(in crate::planner) type Holder = (ChunkIndex, NodeId);

/// What is asked of a planner for one job.
#[derive(Debug)]
pub(in crate::planner) struct Request<'a> {
    pub job: &'a Job,
    /// The lost chunks that are rebuilt now, ascending.
    pub lost: &'a [ChunkIndex],
    /// The survivors that may help; those that are to be avoided come last.
    pub candidates: Cow<'a, [Holder]>,
}

impl<'a> Request<'a> {
    /// Reads a job. `ask` is what the planner has to know of the helpers for some lost chunks; it
    /// is `None` when these are not enough.
    ///
    /// # Errors
    /// When the stripe is not on nodes of the cluster, each chunk on one of its own; when the
    /// survivors do not determine the lost chunks; when no node can keep any of them.
    pub fn new<T>(
        job: &'a Job,
        view: &View<'_>,
        mut ask: impl FnMut(&[ChunkIndex], &[Holder]) -> Option<T>,
    ) -> Result<(Request<'a>, T), PlanError> {
        check(job, view)?;
        let all_at_once = view.abilities.combined && view.abilities.finished;
        let wanted_max = if all_at_once { job.lost.len() } else { job.lost.len().min(1) };
        let free = view.cluster.ids().filter(|node| job.may_be_kept_by(*node, view));
        let lost = &job.lost[..free.take(wanted_max).count()];
        if lost.is_empty() {
            candidates(job, &job.lost, &mut ask)?;
            return Err(PlanError::NoDestination);
        }
        let (candidates, answer) = candidates(job, lost, &mut ask)?;
        Ok((Request { job, lost, candidates }, answer))
    }

    /// The node that holds a surviving chunk.
    pub fn holder(&self, chunk: ChunkIndex) -> NodeId {
        let found = self.job.survivors.iter().find(|(held, _)| *held == chunk);
        found.expect("only survivors are asked for help").1
    }

    /// The byte at `part` of `whole` of the chunk: one where the code can be cut, or the end.
    pub fn byte_at(&self, part: u32, whole: u32) -> u64 {
        if part == whole {
            return self.job.chunk_bytes;
        }
        let alignment = self.job.code.alignment() as u64;
        let byte = u128::from(part) * u128::from(self.job.chunk_bytes) / u128::from(whole);
        byte as u64 / alignment * alignment
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

/// What planners understand of jobs, and the others by index, each with the reason.
pub(in crate::planner) fn read_all<'a, T>(
    jobs: &'a [Job],
    mut read: impl FnMut(&'a Job) -> Result<T, PlanError>,
) -> (Vec<T>, Vec<(usize, PlanError)>) {
    let (mut requests, mut refused) = (Vec::with_capacity(jobs.len()), Vec::new());
    for (index, job) in jobs.iter().enumerate() {
        match read(job) {
            Ok(request) => requests.push(request),
            Err(error) => refused.push((index, error)),
        }
    }
    (requests, refused)
}

impl Abilities {
    /// Whether agents can do what is either one sum of whole chunks or is decoded.
    ///
    /// # Errors
    /// The kind of edge that some agent cannot execute.
    pub(in crate::planner) fn suffice(self, is_sum: bool) -> Result<(), PlanError> {
        match is_sum {
            true if !self.partial => Err(PlanError::Inability { needed: Carries::Partial }),
            false if !self.combined => Err(PlanError::Inability { needed: Carries::Combined }),
            _ => Ok(()),
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

/// The survivors that may help with `lost`, and what `ask` returns for them.
fn candidates<'a, T>(
    job: &'a Job,
    lost: &[ChunkIndex],
    ask: &mut impl FnMut(&[ChunkIndex], &[Holder]) -> Option<T>,
) -> Result<(Cow<'a, [Holder]>, T), PlanError> {
    if job.avoid.is_empty()
        && let Some(answer) = ask(lost, &job.survivors)
    {
        return Ok((Cow::Borrowed(&job.survivors), answer));
    }
    let (mut helpers, avoided): (Vec<Holder>, Vec<Holder>) =
        job.survivors.iter().partition(|(_, node)| !job.avoid.contains(node));
    if let Some(answer) = ask(lost, &helpers) {
        return Ok((Cow::Owned(helpers), answer));
    }
    helpers.extend(avoided);
    let chunks: Vec<ChunkIndex> = helpers.iter().map(|(chunk, _)| *chunk).collect();
    match job.code.helpers_for(lost, &chunks) {
        // The code prefers those that come early, so these hold no more avoided nodes than needed.
        Ok(chosen) => {
            helpers.retain(|(chunk, _)| chosen.contains(chunk));
            let answer = ask(lost, &helpers).expect("the code chose these helpers");
            Ok((Cow::Owned(helpers), answer))
        }
        Err(CodeError::NotEnoughChunks { needed, available }) => {
            Err(PlanError::NotEnoughChunks { needed, available })
        }
        Err(error) => Err(PlanError::Code(error)),
    }
}
