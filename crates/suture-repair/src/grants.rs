//! Which slices an agent may take into memory: those that it granted, and no more of them.
//!
//! Place: ... slice granted -> [what may be received] -> slice received -> summed ...
//! A slice is taken off the wire before the agent's state machine sees it, and memory for it must
//! be reserved then. The machine reserves by granting; this table holds what it has granted by now,
//! for the readers of all connections. A peer that sends twice, or without a grant, or for a repair
//! that is over, is read past. Whether the slice is *wanted* the machine still decides.
//!
//! A decoder sends all of its parents what the first of them lacks. So slices before the first that
//! was granted come from honest peers as well: they are read past too, and take nothing of what was
//! granted.
//!
//! Invariants: of each lane and child, no more slices are admitted than were granted; what is
//! before the first takes none of them away.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::id::{NodeId, RepairId};
use crate::mutant::{Mistake, Mutant};
use crate::slice::SliceId;

/// What was granted to which node, and what has come of it.
#[derive(Clone, Debug, Default)]
pub struct GrantTable {
    repairs: BTreeMap<RepairId, BTreeMap<(u16, NodeId), GrantedLane>>,
    mistake: Mistake,
}

/// What a child was granted of a lane: the slices from `first` on, below `below`.
#[derive(Clone, Copy, Debug)]
struct GrantedLane {
    first: u32,
    below: u32,
    /// How many have come.
    admitted: u32,
}

impl GrantTable {
    /// Makes the driver commit this mistake from now on (tests).
    #[cfg(feature = "mutants")]
    pub fn mutate(&mut self, mutant: Mutant) {
        self.mistake = Mistake::of(mutant);
    }

    /// `child` may send these slices of the lane. The first is the same in all grants of a lane,
    /// and what was granted before stays so.
    pub fn grant(&mut self, repair: RepairId, lane: u16, child: NodeId, slices: Range<u32>) {
        let lanes = self.repairs.entry(repair).or_default();
        let new = GrantedLane { first: slices.start, below: slices.end, admitted: 0 };
        let granted = lanes.entry((lane, child)).or_insert(new);
        granted.below = granted.below.max(slices.end);
    }

    /// Whether there is memory for this slice; if so, it is taken.
    pub fn admit(&mut self, child: NodeId, id: SliceId) -> bool {
        let lanes = self.repairs.get_mut(&id.repair);
        let Some(granted) = lanes.and_then(|lanes| lanes.get_mut(&(id.lane, child))) else {
            return false;
        };
        let GrantedLane { first, below, admitted } = *granted;
        if id.slice < first && self.mistake.is(Mutant::AdmitEarlier) {
            granted.admitted += 1;
            return false;
        }
        let admits = (first..below).contains(&id.slice) && admitted < below - first;
        granted.admitted += u32::from(admits);
        admits
    }

    /// The repair is over.
    pub fn discard(&mut self, repair: RepairId) {
        self.repairs.remove(&repair);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPAIR: RepairId = RepairId(1);
    const CHILD: NodeId = NodeId(2);

    fn id(slice: u32) -> SliceId {
        SliceId { repair: REPAIR, lane: 0, slice }
    }

    #[test]
    fn no_more_is_admitted_than_was_granted() {
        let mut grants = GrantTable::default();
        assert!(!grants.admit(CHILD, id(0)));
        grants.grant(REPAIR, 0, CHILD, 0..2);
        grants.grant(REPAIR, 0, CHILD, 0..1);
        assert!(!grants.admit(CHILD, id(2)));
        assert!(!grants.admit(NodeId(3), id(0)));
        assert!(grants.admit(CHILD, id(1)));
        assert!(grants.admit(CHILD, id(1)), "dropped later; memory was reserved for two");
        assert!(!grants.admit(CHILD, id(0)));
        grants.discard(REPAIR);
        grants.grant(REPAIR, 1, CHILD, 0..9);
        assert!(!grants.admit(CHILD, id(0)));
    }

    #[test]
    fn what_another_parent_lacks_takes_nothing_of_what_was_granted() {
        let mut grants = GrantTable::default();
        grants.grant(REPAIR, 0, CHILD, 5..7);
        assert!((0..5).all(|slice| !grants.admit(CHILD, id(slice))));
        assert!(grants.admit(CHILD, id(5)) && grants.admit(CHILD, id(6)));
        assert!(!grants.admit(CHILD, id(4)) && !grants.admit(CHILD, id(5)));
        grants.grant(REPAIR, 0, CHILD, 5..8);
        assert!(grants.admit(CHILD, id(7)) && !grants.admit(CHILD, id(7)));
        // Nothing is to come where all is there.
        grants.grant(REPAIR, 1, CHILD, 9..9);
        let all_there = |slice| SliceId { lane: 1, ..id(slice) };
        assert!((0..10).all(|slice| !grants.admit(CHILD, all_there(slice))));
    }
}
