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
    /// By parent: it takes all slices below the number.
    grants: BTreeMap<EdgeId, u32>,
    /// By child: it may send.
    releases: BTreeSet<EdgeId>,
}

impl Early {
    /// A parent takes all slices below `below`.
    pub fn grant(&mut self, edge: EdgeId, below: u32) {
        let granted = self.grants.entry(edge).or_default();
        *granted = below.max(*granted);
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
    pub fn granted(&mut self, edge: EdgeId) -> Option<u32> {
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
        early.grant(edge(1), 3);
        early.grant(edge(1), 2);
        early.release(edge(1));
        assert_eq!((early.granted(edge(1)), early.granted(edge(1))), (Some(3), None));
        assert!(early.released(edge(1)) && !early.released(edge(1)));
        let last = EARLY_MAX as u64 + 1;
        (1..=last).for_each(|repair| early.grant(edge(repair), 1));
        (1..=last).for_each(|repair| early.release(edge(repair)));
        assert!(early.granted(edge(1)).is_none() && !early.released(edge(1)));
        early.forget(RepairId(last));
        assert!(early.granted(edge(last)).is_none() && early.released(edge(2)));
    }
}
