//! A task: what a job needs to flow, before anyone knows where.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`.
//! Two kinds of flow serve every code and shape: one lost chunk of a code that sums whole chunks
//! flows along the shape's tree; everything else (several lost chunks, codes with sub-chunks) is
//! gathered at one decoder, the first destination, which sends finished chunks to the others.
//!
//! Invariants: the places of a task are its helpers in order, then the destination; `received` is
//! known before the helpers are, so that a balance can weigh places against nodes. Nodes that are
//! to be avoided are candidates only where there is no other way.

use suture_code::CodeError;

use crate::id::{ChunkIndex, NodeId};
use crate::plan::load::NodeLoad;
use crate::plan::validate::sub_chunks_sent;
use crate::plan::{Carries, Edge, Lane, Mode, Plan, Range, Start};
use crate::planner::{Job, PlanError, View, chain, ppr, star};
use crate::policy::Shape;

/// A job with its flow.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub job: &'a Job,
    /// The lost chunks that this plan rebuilds: no more than there are nodes to keep them.
    pub lost: &'a [ChunkIndex],
    /// Survivors that may help.
    pub candidates: Vec<(ChunkIndex, NodeId)>,
    pub flow: Flow,
}

/// Who sends to whom, by place.
#[derive(Debug)]
pub(super) enum Flow {
    /// Sums along a tree: the parent of each helper's place, `parents.len()` being the destination.
    Tree { parents: Vec<usize> },
    /// Combinations from so many helpers to the first destination.
    Gather { helper_count: usize },
}

/// The nodes of a task.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    /// In the order of the flow's places.
    pub helpers: Vec<(ChunkIndex, NodeId)>,
    /// In the order of the lost chunks.
    pub destinations: Vec<NodeId>,
}

impl<'a> Task<'a> {
    pub fn new(shape: Shape, job: &'a Job, view: &View<'_>) -> Result<Task<'a>, PlanError> {
        let abilities = view.abilities;
        let all_at_once = abilities.combined && abilities.finished;
        let wanted_max = if all_at_once { job.lost.len() } else { job.lost.len().min(1) };
        let free = view.cluster.ids().filter(|node| may_receive(job, *node, view));
        // Rather some of the chunks now than none of them.
        let lost = &job.lost[..free.take(wanted_max).count()];
        if lost.is_empty() {
            find_candidates(job, &job.lost)?;
            return Err(PlanError::NoDestination);
        }
        let (candidates, helper_count) = find_candidates(job, lost)?;
        let sums = lost.len() == 1 && job.code.sub_chunk_count() == 1;
        let flow = match shape {
            _ if sums && !abilities.partial => {
                return Err(PlanError::Inability { needed: Carries::Partial });
            }
            Shape::Star if sums => Flow::Tree { parents: star::parents(helper_count) },
            Shape::Ppr if sums => Flow::Tree { parents: ppr::parents(helper_count) },
            Shape::Chain if sums => Flow::Tree { parents: chain::parents(helper_count) },
            // Several chunks at once are gathered whatever the shape; one chunk only by a star.
            Shape::Ppr | Shape::Chain if lost.len() == 1 => {
                return Err(PlanError::NoSums { shape, code: job.code });
            }
            _ if !abilities.combined => {
                return Err(PlanError::Inability { needed: Carries::Combined });
            }
            _ => Flow::Gather { helper_count },
        };
        Ok(Task { job, lost, candidates, flow })
    }

    /// How many helpers the task takes.
    pub fn helper_count(&self) -> usize {
        match &self.flow {
            Flow::Tree { parents } => parents.len(),
            Flow::Gather { helper_count } => *helper_count,
        }
    }

    /// How often the node in `place` receives what a helper sends; `helper_count()` is the
    /// (first) destination.
    pub fn received(&self, place: usize) -> u64 {
        match &self.flow {
            Flow::Tree { parents } => {
                parents.iter().filter(|&&parent| parent == place).count() as u64
            }
            Flow::Gather { helper_count } if place == *helper_count => *helper_count as u64,
            Flow::Gather { .. } => 0,
        }
    }

    /// The helpers that the code takes when it prefers those that come early in `preferred`, in
    /// that order.
    pub fn choose_helpers(&self, preferred: &[(ChunkIndex, NodeId)]) -> Vec<(ChunkIndex, NodeId)> {
        let chunks: Vec<ChunkIndex> = preferred.iter().map(|(chunk, _)| *chunk).collect();
        let chosen = self.job.code.helpers_for(self.lost, &chunks);
        let chosen = chosen.expect("the candidates were enough when the task was made");
        preferred.iter().filter(|(chunk, _)| chosen.contains(chunk)).copied().collect()
    }

    /// The plan of the task on these nodes.
    pub fn plan(&self, place: &Placement) -> Plan {
        let job = self.job;
        let lost = self.lost.to_vec();
        let range = Range { from: 0, to: job.chunk_bytes };
        let (decoder, edges) = match &self.flow {
            Flow::Tree { parents } => (None, self.tree_edges(parents, place)),
            Flow::Gather { .. } => (Some(place.destinations[0]), self.gather_edges(place)),
        };
        Plan {
            stripe: job.stripe,
            destinations: lost.iter().copied().zip(place.destinations.iter().copied()).collect(),
            start: Start::Now,
            range,
            period: None,
            lanes: vec![Lane {
                range,
                lost: lost.clone(),
                mode: Mode::Streamed,
                decoder,
                scheme: None,
                edges,
            }],
            lost,
        }
    }

    fn tree_edges(&self, parents: &[usize], place: &Placement) -> Vec<Edge> {
        let node =
            |at: usize| place.helpers.get(at).map_or(place.destinations[0], |(_, node)| *node);
        let edge = |(child, &parent): (usize, &usize)| Edge {
            child: node(child),
            parent: node(parent),
            bytes: self.job.chunk_bytes,
            carries: Carries::Partial,
        };
        parents.iter().enumerate().map(edge).collect()
    }

    fn gather_edges(&self, place: &Placement) -> Vec<Edge> {
        let decoder = place.destinations[0];
        let sent = self.gathered_bytes(&place.helpers);
        let combined = place.helpers.iter().zip(sent).map(|(&(_, child), bytes)| Edge {
            child,
            parent: decoder,
            bytes,
            carries: Carries::Combined,
        });
        let finished = place.destinations[1..].iter().map(|&parent| Edge {
            child: decoder,
            parent,
            bytes: self.job.chunk_bytes,
            carries: Carries::Finished,
        });
        combined.chain(finished).collect()
    }

    /// What the task puts on each of its nodes. A helper reads what it sends; that is exact but
    /// for codes whose helpers combine before they send, where the load of the plan is.
    pub fn loads(&self, place: &Placement) -> Vec<(NodeId, NodeLoad)> {
        let chunk_bytes = self.job.chunk_bytes;
        let sent = match &self.flow {
            Flow::Tree { parents } => vec![chunk_bytes; parents.len()],
            Flow::Gather { .. } => self.gathered_bytes(&place.helpers),
        };
        let helper = |at: usize| NodeLoad {
            up_bytes: sent[at],
            down_bytes: self.received(at) * chunk_bytes,
            disk_read_bytes: sent[at],
            disk_write_bytes: 0,
        };
        let root_down = match &self.flow {
            Flow::Tree { parents } => self.received(parents.len()) * chunk_bytes,
            Flow::Gather { .. } => sent.iter().sum(),
        };
        let destination = |at: usize| NodeLoad {
            up_bytes: if at == 0 { (self.lost.len() as u64 - 1) * chunk_bytes } else { 0 },
            down_bytes: if at == 0 { root_down } else { chunk_bytes },
            disk_read_bytes: 0,
            disk_write_bytes: chunk_bytes,
        };
        let helpers = place.helpers.iter().enumerate().map(|(at, (_, node))| (*node, helper(at)));
        let destinations = place.destinations.iter().enumerate();
        helpers.chain(destinations.map(|(at, node)| (*node, destination(at)))).collect()
    }

    /// What each helper sends to the decoder.
    fn gathered_bytes(&self, helpers: &[(ChunkIndex, NodeId)]) -> Vec<u64> {
        let chunk_bytes = self.job.chunk_bytes;
        let alpha = u64::from(self.job.code.sub_chunk_count());
        if alpha == 1 {
            return vec![chunk_bytes; helpers.len()];
        }
        let mut chunks: Vec<ChunkIndex> = helpers.iter().map(|(chunk, _)| *chunk).collect();
        chunks.sort_unstable();
        let dag = self.job.code.repair_dag(self.lost, &chunks);
        let dag = dag.expect("the code chose these helpers");
        let bytes =
            |(chunk, _): &(ChunkIndex, NodeId)| sub_chunks_sent(&dag, *chunk) * chunk_bytes / alpha;
        helpers.iter().map(bytes).collect()
    }
}

/// Whether `node` may become a destination of the job's chunks.
pub(super) fn may_receive(job: &Job, node: NodeId, view: &View<'_>) -> bool {
    view.accepts[node.index()]
        && !job.excluded.contains(&node)
        && !job.survivors.iter().any(|(_, holder)| *holder == node)
}

/// The survivors that may help with `lost`, and how many of them it takes.
fn find_candidates(
    job: &Job,
    lost: &[ChunkIndex],
) -> Result<(Vec<(ChunkIndex, NodeId)>, usize), PlanError> {
    let count = |survivors: &[(ChunkIndex, NodeId)]| {
        let chunks: Vec<ChunkIndex> = survivors.iter().map(|(chunk, _)| *chunk).collect();
        job.code.helpers_for(lost, &chunks).map(|helpers| helpers.len())
    };
    let is_trusted = |(_, node): &&(ChunkIndex, NodeId)| !job.avoid.contains(node);
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
