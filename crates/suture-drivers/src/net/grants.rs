//! Which slices may come in: those that were granted, and no more of them.
//!
//! Place: ... slice granted by the core -> [what may be received] -> slice received ...
//! A slice's payload is taken off the wire before the agent core sees it, and memory for it must
//! be reserved then. The core reserves by granting; this table is its last word on it, for the
//! readers of all connections. A peer that sends twice, or without a grant, or for a repair that is
//! over, is read past. Whether the slice is *wanted* the core still decides.
//!
//! Invariant: of each lane and child, no more slices are admitted than were granted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use suture_repair::id::{NodeId, RepairId};
use suture_repair::slice::SliceId;

/// What was granted to whom.
#[derive(Debug, Default)]
pub struct Grants {
    repairs: Mutex<Repairs>,
}

/// By repair, then by lane and child.
type Repairs = HashMap<RepairId, HashMap<(u16, NodeId), Granted>>;

#[derive(Clone, Copy, Debug, Default)]
struct Granted {
    below: u32,
    admitted: u32,
}

impl Grants {
    /// `child` may send the slices of the lane from `first` on, below `below`.
    pub fn grant(&self, repair: RepairId, lane: u16, child: NodeId, (first, below): (u32, u32)) {
        let mut repairs = self.repairs();
        let granted = repairs.entry(repair).or_default().entry((lane, child)).or_default();
        granted.below = granted.below.max(below);
        // There is no memory for those before the first: they count as if they had come.
        granted.admitted = granted.admitted.max(first);
    }

    /// Whether there is memory for this slice; if so, it is taken.
    pub fn admit(&self, child: NodeId, id: SliceId) -> bool {
        let mut repairs = self.repairs();
        let lanes = repairs.get_mut(&id.repair);
        let Some(granted) = lanes.and_then(|lanes| lanes.get_mut(&(id.lane, child))) else {
            return false;
        };
        let admits = id.slice < granted.below && granted.admitted < granted.below;
        granted.admitted += u32::from(admits);
        admits
    }

    /// The repair is over.
    pub fn discard(&self, repair: RepairId) {
        self.repairs().remove(&repair);
    }

    fn repairs(&self) -> MutexGuard<'_, Repairs> {
        self.repairs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_admitted_than_was_granted() {
        let (grants, repair, child) = (Grants::default(), RepairId(1), NodeId(2));
        let id = |slice| SliceId { repair, lane: 0, slice };
        assert!(!grants.admit(child, id(0)));
        grants.grant(repair, 0, child, (0, 2));
        grants.grant(repair, 0, child, (0, 1));
        assert!(!grants.admit(child, id(2)));
        assert!(!grants.admit(NodeId(3), id(0)));
        assert!(grants.admit(child, id(1)));
        assert!(grants.admit(child, id(1)), "the core drops it; memory was reserved for two");
        assert!(!grants.admit(child, id(0)));
        grants.discard(repair);
        grants.grant(repair, 1, child, (0, 9));
        assert!(!grants.admit(child, id(0)));
    }

    #[test]
    fn what_is_skipped_leaves_no_room_for_more() {
        let (grants, repair, child) = (Grants::default(), RepairId(1), NodeId(2));
        let id = |slice| SliceId { repair, lane: 0, slice };
        grants.grant(repair, 0, child, (5, 7));
        assert!(grants.admit(child, id(5)) && grants.admit(child, id(6)));
        assert!(!grants.admit(child, id(4)) && !grants.admit(child, id(5)));
        grants.grant(repair, 0, child, (5, 8));
        assert!(grants.admit(child, id(7)) && !grants.admit(child, id(7)));
    }
}
