//! What one agent does in one lane: read what, wait for whom, send or store where.
//!
//! Place: ... admit -> [dispatch] -> slices flow -> chunk durable ...
//! The coordinator sends everyone the whole plan; each derives its role here, from the code and
//! the helper set alone, so no coefficient ever travels and none can disagree.

use std::sync::Arc;

use crate::id::{ChunkCopy, NodeId};
use crate::message::{Refusal, Task};
use crate::plan::{Carries, Lane, Mode, Windows};

/// One agent's part in one lane of partial sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The agent's own contribution, if it is a helper.
    pub own: Option<Own>,
    /// Who sends it partial sums.
    pub children: Vec<NodeId>,
    /// Where its sum goes.
    pub sink: Sink,
    /// Whether it must have all of its sum before it sends the first slice.
    pub stored: bool,
    /// The lane's slices.
    pub windows: Windows,
}

/// A helper's own chunk and what it is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The copy to read.
    pub copy: ChunkCopy,
    /// Its coefficient in GF(2^8).
    pub coefficient: u8,
}

/// Where an agent's sum of a lane goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sink {
    /// On to this node.
    Forward(NodeId),
    /// Into the chunk that is being rebuilt here.
    Store,
}

impl Role {
    /// The part of `me` in each lane of the task, in the order of the lanes.
    pub fn of(task: &Task, me: NodeId) -> Result<Vec<(u16, Arc<Role>)>, Refusal> {
        let mut roles = Vec::new();
        for (index, lane) in task.plan.lanes.iter().enumerate() {
            if let Some(role) = Role::in_lane(task, lane, me)? {
                roles.push((index as u16, Arc::new(role)));
            }
        }
        Ok(roles)
    }

    fn in_lane(task: &Task, lane: &Lane, me: NodeId) -> Result<Option<Role>, Refusal> {
        if lane.decoder.is_some() || lane.edges.iter().any(|e| e.carries != Carries::Partial) {
            return Err(Refusal::Ability);
        }
        let &[lost] = lane.lost.as_slice() else { return Err(Refusal::InvalidPlan) };
        let destination = task.plan.destinations.get(&lost).ok_or(Refusal::InvalidPlan)?;
        let children: Vec<NodeId> = lane.children(me).collect();
        let sink = match lane.parent(me) {
            Some(parent) => Sink::Forward(parent),
            None if *destination == me => Sink::Store,
            None => return Ok(None),
        };
        let own = own_part(task, lane, me)?;
        if own.is_none() && children.is_empty() {
            return Err(Refusal::InvalidPlan);
        }
        let stored = lane.mode == Mode::Stored && !children.is_empty() && sink != Sink::Store;
        let windows = task.plan.windows(lane, task.slice_bytes);
        Ok(Some(Role { own, children, sink, stored, windows }))
    }

    /// How many slice streams flow into this role at a time.
    pub fn inputs(&self) -> usize {
        self.children.len() + usize::from(self.own.is_some())
    }

    /// Memory that the role holds at most: a window of slices for each stream that flows in. The
    /// sum is formed in place, in the first slice to be consumed.
    pub fn reserved_bytes(&self, slice_bytes: u32, window: u32) -> u64 {
        self.inputs() as u64 * u64::from(window) * u64::from(slice_bytes)
    }
}

fn own_part(task: &Task, lane: &Lane, me: NodeId) -> Result<Option<Own>, Refusal> {
    let survivors = task.survivors();
    let facts = task.facts(&survivors);
    let Some(chunk) = lane.parent(me).and_then(|_| facts.chunk_on(me)) else { return Ok(None) };
    let helpers = lane.helpers(&facts);
    let dag = facts.code.repair_dag(&lane.lost, &helpers).map_err(|_| Refusal::InvalidPlan)?;
    let terms = dag.partial_coefficients(lane.lost[0]).ok_or(Refusal::Ability)?;
    let (_, coefficient) =
        *terms.iter().find(|(helper, _)| *helper == chunk).ok_or(Refusal::InvalidPlan)?;
    let (_, copy) = task.stripe.copy(chunk).ok_or(Refusal::InvalidPlan)?;
    Ok(Some(Own { copy, coefficient }))
}
