//! Grants and releases that arrive before the dispatch of their task: a bounded buffer.
//!
//! Place: ... admit -> [dispatch -> slices flow] -> chunk proven and durable -> ...
//! Peers and coordinator talk over different connections, so a parent's grant, or a release that
//! was said again, may overtake the task. Both are remembered until it comes: a grant is not said
//! twice. When the buffer is full, the entry of the oldest repair is dropped.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{NodeId, RepairId};

/// Words of each kind that are remembered.
const EARLY_MAX: usize = 4096;

/// An edge of a repair's lane, by the node at its other end.
pub(super) type EdgeId = (RepairId, u16, NodeId);

/// What was said too early.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// By parent: the slices that it takes.
    grants: BTreeMap<EdgeId, GrantedSlices>,
    /// By child: it may send.
    releases: BTreeSet<EdgeId>,
}

/// The slices that a parent takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GrantedSlices {
    /// The first that it wants at all: the same in all that it says of a lane.
    pub first: u32,
    /// One past the last that it takes by now.
    pub below: u32,
}

impl Early {
    /// A parent takes slices.
    pub fn grant(&mut self, edge: EdgeId, GrantedSlices { first, below }: GrantedSlices) {
        let granted = self.grants.entry(edge).or_default();
        *granted = GrantedSlices { first, below: below.max(granted.below) };
        if self.grants.len() > EARLY_MAX {
            self.grants.pop_first();
        }
    }

    /// A child may send.
    pub fn release(&mut self, edge: EdgeId) {
        self.releases.insert(edge);
        if self.releases.len() > EARLY_MAX {
            self.releases.pop_first();
        }
    }

    /// What the parent granted, once.
    pub fn granted(&mut self, edge: EdgeId) -> Option<GrantedSlices> {
        self.grants.remove(&edge)
    }

    /// Whether the child was released, once.
    pub fn released(&mut self, edge: EdgeId) -> bool {
        self.releases.remove(&edge)
    }

    /// Drops everything of a repair.
    pub fn forget(&mut self, repair: RepairId) {
        self.grants.retain(|(early, _, _), _| *early != repair);
        self.releases.retain(|(early, _, _)| *early != repair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_words_are_given_once_and_the_oldest_are_forgotten() {
        let edge = |repair| (RepairId(repair), 0, NodeId(1));
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
