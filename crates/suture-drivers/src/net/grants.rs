//! Which slices may come in, as the readers of all connections ask.
//!
//! Place: ... slice granted by the core -> [what may be received] -> slice received ...
//! What is admitted the core decides (`suture_repair::grants`).

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use suture_repair::grants::GrantTable;
use suture_repair::id::{NodeId, RepairId};
use suture_repair::slice::SliceId;

/// The slices that each child may send.
#[derive(Debug, Default)]
pub struct Grants {
    table: Mutex<GrantTable>,
}

impl Grants {
    /// `child` may send these slices of the lane.
    pub fn grant(&self, repair: RepairId, lane: u16, child: NodeId, slices: Range<u32>) {
        self.table().grant(repair, lane, child, slices);
    }

    /// Whether there is memory for this slice; if so, it is taken.
    pub fn admit(&self, child: NodeId, id: SliceId) -> bool {
        self.table().admit(child, id)
    }

    /// The repair is over.
    pub fn discard(&self, repair: RepairId) {
        self.table().discard(repair);
    }

    fn table(&self) -> MutexGuard<'_, GrantTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
