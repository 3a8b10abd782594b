//! One attempt to repair a stripe, and how far each of its chunks has come.
//!
//! Place: ... admit -> dispatch -> [slices flow -> chunk durable -> commit location] -> healthy.
//! An attempt may rebuild several chunks, each for a home of its own:
//! `Flowing -> Stored -> Committing -> gone`. Locations change one after the other, because each
//! change gives the stripe a new generation, which the next one must name.
//! Invariant: at most one chunk is committing; where one is stored, one is committing.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::event::{Commit, RunningRepair};
use crate::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, StripeId};
use crate::schedule::Work;
use crate::time::Time;

/// One attempt.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub stripe: StripeId,
    /// The chunks that have no new location yet.
    pub goals: Vec<Goal>,
    /// Length of a chunk.
    pub bytes: u64,
    /// What was dispatched; nothing when a copy that was found is adopted.
    pub work: Option<Arc<Work>>,
    /// Bytes that each participant has last said to have done.
    pub heard: BTreeMap<NodeId, u64>,
    pub progressed_at: Time,
    pub since: Time,
}

/// One chunk that is to get a new home.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    pub chunk: ChunkIndex,
    pub destination: NodeId,
    pub bytes_done: u64,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Slices flow.
    Flowing,
    /// The copy is durable; another chunk's location is being changed.
    Stored(ChunkCopy),
    /// The copy is durable; its location is asked for.
    Committing { commit: Commit, asked_at: Time },
}

impl Attempt {
    /// The goal whose copy is durable at `node`.
    pub fn goal_at(&mut self, node: NodeId, chunk: ChunkIndex) -> Option<&mut Goal> {
        self.goals.iter_mut().find(|goal| goal.destination == node && goal.chunk == chunk)
    }

    /// Notes how much a participant has done of its part, counted from the beginning of the chunk.
    /// Returns whether it is more than before.
    pub fn hear(&mut self, node: NodeId, bytes_done: u64) -> bool {
        for goal in self.goals.iter_mut().filter(|goal| goal.destination == node) {
            goal.bytes_done = goal.bytes_done.max(bytes_done);
        }
        let before = self.heard.entry(node).or_default();
        let is_more = bytes_done > *before;
        *before = bytes_done.max(*before);
        is_more
    }

    /// How far the slowest of its chunks is, counted from the beginning of the plan.
    pub fn bytes_come(&self) -> u64 {
        let from = self.work.as_ref().map_or(0, |work| work.plan.range.from);
        self.goals.iter().map(|goal| goal.bytes_done - from.min(goal.bytes_done)).min().unwrap_or(0)
    }

    /// The commit that has not been answered.
    pub fn commit(&self) -> Option<Commit> {
        self.goals.iter().find_map(|goal| match goal.state {
            State::Committing { commit, .. } => Some(commit),
            State::Flowing | State::Stored(_) => None,
        })
    }

    /// Whether agents still work on it.
    pub fn is_flowing(&self) -> bool {
        self.goals.iter().any(|goal| goal.state == State::Flowing)
    }

    /// Whether it can be ended without harm: no location is being changed.
    pub fn can_end(&self) -> bool {
        self.commit().is_none()
    }

    /// Whether it rebuilds `chunk`.
    pub fn rebuilds(&self, chunk: ChunkIndex) -> bool {
        self.goals.iter().any(|goal| goal.chunk == chunk)
    }

    /// Whether `node` sends, receives or keeps something of it.
    pub fn involves(&self, node: NodeId) -> bool {
        self.work.as_ref().is_some_and(|work| work.plan.participants().contains(&node))
    }

    /// Whether everything has reached the destinations, who now write and prove it.
    pub fn is_publishing(&self) -> bool {
        self.goals.iter().all(|goal| goal.bytes_done >= self.bytes)
    }

    /// What operators see of it.
    pub fn lines(&self, repair: RepairId) -> impl Iterator<Item = RunningRepair> {
        self.goals.iter().map(move |goal| RunningRepair {
            repair,
            stripe: self.stripe,
            chunk: goal.chunk,
            destination: goal.destination,
            bytes_done: goal.bytes_done.min(self.bytes),
            bytes: self.bytes,
            since: self.since,
        })
    }
}
