//! From jobs to what can be planned: which chunks now, who may help, what they need, or why not.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! The first step of planners that work with what a repair needs at least (`need.rs`) instead of
//! with a fixed shape. Nodes that are to be avoided are candidates only where there is no other
//! way; of several lost chunks, as many are planned as agents can decode and nodes can keep.

use suture_code::{Code, CodeError};

use crate::id::{ChunkIndex, NodeId};
use crate::need::{Need, Needs, Part};
use crate::plan::{Carries, Lane, Plan, Range, Start};
use crate::planner::{Job, PlanError, View};

/// A job that can be planned.
#[derive(Debug)]
pub(in crate::planner) struct Order<'a> {
    pub job: &'a Job,
    /// The lost chunks that are rebuilt now, ascending.
    pub lost: &'a [ChunkIndex],
    /// The name of what they need.
    pub need: usize,
}

/// All jobs that can be planned, and those that cannot.
#[derive(Debug)]
pub(in crate::planner) struct Intake<'a> {
    pub orders: Vec<Order<'a>>,
    /// By the job's index, ascending.
    pub refused: Vec<(usize, PlanError)>,
    needs: Needs,
}

impl<'a> Intake<'a> {
    pub fn new(jobs: &'a [Job], view: &View<'_>) -> Intake<'a> {
        let mut needs = Needs::default();
        let mut intake =
            Intake { orders: Vec::new(), refused: Vec::new(), needs: Needs::default() };
        for (index, job) in jobs.iter().enumerate() {
            match order(job, view, &mut needs) {
                Ok(order) => intake.orders.push(order),
                Err(error) => intake.refused.push((index, error)),
            }
        }
        intake.needs = needs;
        intake
    }

    /// What an order needs at least.
    pub fn need(&self, order: &Order<'_>) -> &Need {
        self.needs.get(order.need)
    }
}

impl Order<'_> {
    /// The node that holds a surviving chunk.
    pub fn holder(&self, chunk: ChunkIndex) -> NodeId {
        let found = self.job.survivors.iter().find(|(held, _)| *held == chunk);
        found.expect("only survivors are asked for help").1
    }

    /// The plan with these lanes. Destinations stand in the order of the lost chunks.
    pub fn plan(&self, destinations: &[NodeId], lanes: Vec<Lane>) -> Plan {
        Plan {
            stripe: self.job.stripe,
            lost: self.lost.to_vec(),
            destinations: self.lost.iter().copied().zip(destinations.iter().copied()).collect(),
            start: Start::Now,
            range: Range { from: 0, to: self.job.chunk_bytes },
            period: None,
            lanes,
        }
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
}

/// As many of a part's free helpers as it takes: those that come first in `preferred`, which names
/// all of them, as far as the code accepts that. Where their order leads the code to more helpers
/// than need be, the set whose last in that order comes first.
pub(in crate::planner) fn free_helpers(
    code: Code,
    part: &Part,
    preferred: Vec<ChunkIndex>,
) -> Vec<ChunkIndex> {
    if part.any {
        return preferred.into_iter().take(part.count).collect();
    }
    let forced = || part.forced.iter().map(|sender| sender.chunk);
    let available: Vec<ChunkIndex> = forced().chain(preferred.iter().copied()).collect();
    let chosen = accepted(code, part, &available).or_else(|| {
        let rank = |chunk: &ChunkIndex| preferred.iter().position(|other| other == chunk);
        let last = |set: &&Vec<ChunkIndex>| set.iter().map(rank).max();
        part.sets.iter().min_by_key(last).cloned()
    });
    chosen.expect("the need knows a set that will do")
}

/// The free helpers that the code takes of those available, if these are as few as the need says.
pub(in crate::planner) fn accepted(
    code: Code,
    part: &Part,
    available: &[ChunkIndex],
) -> Option<Vec<ChunkIndex>> {
    taken(code, part, available).filter(|helpers| helpers.len() == part.count)
}

/// The free helpers that the code takes of those available, be they more than the need says.
pub(in crate::planner) fn taken(
    code: Code,
    part: &Part,
    available: &[ChunkIndex],
) -> Option<Vec<ChunkIndex>> {
    let mut helpers = code.helpers_for(&part.lost, available).ok()?;
    let is_free = |chunk: &ChunkIndex| part.forced.iter().all(|sender| sender.chunk != *chunk);
    let helper_count = helpers.len();
    helpers.retain(is_free);
    (helper_count == helpers.len() + part.forced.len()).then_some(helpers)
}

fn order<'a>(job: &'a Job, view: &View<'_>, needs: &mut Needs) -> Result<Order<'a>, PlanError> {
    let abilities = view.abilities;
    let all_at_once = abilities.combined && abilities.finished;
    let wanted_max = if all_at_once { job.lost.len() } else { job.lost.len().min(1) };
    let free = view.cluster.ids().filter(|node| job.may_be_kept_by(*node, view));
    // Rather some of the chunks now than none of them.
    let lost = &job.lost[..free.take(wanted_max).count()];
    if lost.is_empty() {
        find_need(job, &job.lost, needs)?;
        return Err(PlanError::NoDestination);
    }
    let need = find_need(job, lost, needs)?;
    for part in &needs.get(need).parts {
        let (can, needed) = match part.is_sum {
            true => (abilities.partial, Carries::Partial),
            false => (abilities.combined, Carries::Combined),
        };
        if !can {
            return Err(PlanError::Inability { needed });
        }
    }
    Ok(Order { job, lost, need })
}

/// The need of the job, from survivors that are to be avoided only if there is no other way.
fn find_need(job: &Job, lost: &[ChunkIndex], needs: &mut Needs) -> Result<usize, PlanError> {
    let survivors = || job.survivors.iter().filter(|(_, node)| !job.avoid.contains(node));
    let trusted = survivors().map(|(chunk, _)| *chunk);
    if let Some(need) = needs.find(job.code, lost, trusted.clone()) {
        return Ok(need);
    }
    let avoided = job.survivors.iter().filter(|(_, node)| job.avoid.contains(node));
    let everyone: Vec<ChunkIndex> = trusted.chain(avoided.map(|(chunk, _)| *chunk)).collect();
    match job.code.helpers_for(lost, &everyone) {
        // The code prefers those that come early, so these hold no more avoided nodes than needed.
        Ok(helpers) => {
            let need = needs.find(job.code, lost, helpers.into_iter());
            Ok(need.expect("the code chose these helpers"))
        }
        Err(CodeError::NotEnoughChunks { needed, available }) => {
            Err(PlanError::NotEnoughChunks { needed, available })
        }
        Err(error) => Err(PlanError::Code(error)),
    }
}
