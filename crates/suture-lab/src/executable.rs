//! Whether the agents of this version can repair a code under a policy.
//!
//! Place: before everything else: commands that would fail late refuse early. Nothing is looked up:
//! the planner is asked for the plans.

use suture_code::{ChunkIndex, Code};
use suture_drivers::agent::ABILITIES;
use suture_repair::cluster::{Cluster, Rate};
use suture_repair::id::{NodeId, RackId, StripeId};
use suture_repair::plan::load::Load;
use suture_repair::planner::{Job, PlanError, View, plan};
use suture_repair::policy::Policy;

/// Asks the planner to repair each chunk of a stripe with that policy; why it will not, if so.
pub fn refusal(policy: Policy, code: &Code) -> Option<PlanError> {
    refusal_of(policy, code, code.chunks())
}

/// The same of some chunks, where others are like them.
pub fn refusal_of(
    policy: Policy,
    code: &Code,
    chunks: impl Iterator<Item = ChunkIndex>,
) -> Option<PlanError> {
    // One node more than chunks: the one that takes the rebuilt chunk. In two racks: whether a
    // cluster has racks says nothing of the code.
    let mut cluster = Cluster::uniform(code.chunk_count() + 1, Rate(1.0));
    cluster.racks = vec!["left".to_string(), "right".to_string()];
    for (index, node) in cluster.nodes.iter_mut().enumerate() {
        node.rack = Some(RackId(index as u32 % 2));
    }
    let free_bytes = vec![u64::MAX; cluster.nodes.len()];
    let idle = Load::new(&cluster);
    let view =
        View { cluster: &cluster, free_bytes: &free_bytes, load: &idle, abilities: ABILITIES };
    let jobs: Vec<Job> = chunks.map(|lost| job(code, lost)).collect();
    let refused = plan(policy, &jobs, &view, 1).refused.into_iter().next();
    refused.map(|(_, error)| error)
}

fn job(code: &Code, lost: ChunkIndex) -> Job {
    let location = |chunk: ChunkIndex| (chunk, NodeId(chunk.0.into()));
    Job {
        stripe: StripeId(lost.0.into()),
        code: (*code).into(),
        chunk_bytes: code.alignment() as u64,
        lost: vec![lost],
        survivors: code.chunks().filter(|chunk| *chunk != lost).map(location).collect(),
        idle: Vec::new(),
        excluded: vec![location(lost).1],
        keeper_places: Vec::new(),
        avoid: Vec::new(),
        source: None,
    }
}
