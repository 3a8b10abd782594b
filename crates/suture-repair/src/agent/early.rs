//! Grants and releases that arrive before the dispatch of their task: a bounded buffer.
//!
//! Place: ... admit -> [dispatch -> slices flow] -> chunk proven and durable -> ...
//! Peers and coordinator talk over different connections, so a parent's grant, or a release that
//! was sent again, may overtake the task. Both are remembered until it comes: a grant is not sent
//! twice. When the buffer is full, the entry of the oldest repair is dropped.

use std::collections::{BTreeMap, BTreeSet};

use super::Agent;
use crate::id::{EdgeRef, RepairId};
use crate::time::Time;

/// Words of each kind that are remembered.
const EARLY_MAX: usize = 4096;

/// What was sent too early.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// By parent: the slices that it takes.
    grants: BTreeMap<EdgeRef, GrantedSlices>,
    /// By child: it may send.
    releases: BTreeSet<EdgeRef>,
}

/// The slices that a parent takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GrantedSlices {
    /// The first that it wants at all: the same in all its grants of a lane.
    pub first: u32,
    /// One past the last that it takes by now.
    pub below: u32,
}

impl Early {
    /// A parent takes slices.
    pub fn grant(&mut self, edge: EdgeRef, GrantedSlices { first, below }: GrantedSlices) {
        let granted = self.grants.entry(edge).or_default();
        *granted = GrantedSlices { first, below: below.max(granted.below) };
        if self.grants.len() > EARLY_MAX {
            self.grants.pop_first();
        }
    }

    /// A child may send.
    pub fn release(&mut self, edge: EdgeRef) {
        self.releases.insert(edge);
        if self.releases.len() > EARLY_MAX {
            self.releases.pop_first();
        }
    }

    /// What the parent granted, once.
    pub fn granted(&mut self, edge: EdgeRef) -> Option<GrantedSlices> {
        self.grants.remove(&edge)
    }

    /// Whether the child was released, once.
    pub fn released(&mut self, edge: EdgeRef) -> bool {
        self.releases.remove(&edge)
    }

    /// Drops everything of a repair.
    pub fn forget(&mut self, repair: RepairId) {
        self.grants.retain(|edge, _| edge.repair != repair);
        self.releases.retain(|edge| edge.repair != repair);
    }
}

impl Agent {
    /// A parent takes slices.
    pub(super) fn granted(&mut self, now: Time, edge: EdgeRef, slices: GrantedSlices) {
        if self.tasks.contains_key(&edge.repair) {
            let GrantedSlices { first, below } = slices;
            self.pump(now, edge.repair, edge.lane, |pump| pump.on_granted(edge.peer, first, below));
        } else if self.may_come(edge.repair) {
            self.early.grant(edge, slices);
        }
    }

    /// The coordinator lets a child send.
    pub(super) fn released(&mut self, now: Time, edge: EdgeRef) {
        if self.tasks.contains_key(&edge.repair) {
            self.pump(now, edge.repair, edge.lane, |pump| pump.on_released(edge.peer));
        } else if self.may_come(edge.repair) {
            self.early.release(edge);
        }
    }

    /// Whether a task that is not here may still be dispatched.
    fn may_come(&self, repair: RepairId) -> bool {
        repair.epoch() >= self.epoch && !self.is_ended(repair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::NodeId;

    #[test]
    fn early_words_are_given_once_and_the_oldest_are_forgotten() {
        let edge = |repair| EdgeRef { repair: RepairId(repair), lane: 0, peer: NodeId(1) };
        let mut early = Early::default();
        let below = |below| GrantedSlices { first: 1, below };
        early.grant(edge(1), below(3));
        early.grant(edge(1), below(2));
        early.release(edge(1));
        assert_eq!((early.granted(edge(1)), early.granted(edge(1))), (Some(below(3)), None));
        assert!(early.released(edge(1)) && !early.released(edge(1)));
        let last = EARLY_MAX as u64 + 1;
        (1..=last).for_each(|repair| early.grant(edge(repair), below(1)));
        (1..=last).for_each(|repair| early.release(edge(repair)));
        assert!(early.granted(edge(1)).is_none() && !early.released(edge(1)));
        early.forget(RepairId(last));
        assert!(early.granted(edge(last)).is_none() && early.released(edge(2)));
    }
}
