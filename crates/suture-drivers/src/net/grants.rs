//! Which slices may come in, as the readers of all connections ask.
//!
//! Place: ... slice granted by the core -> [what may be received] -> slice received ...
//! What is admitted the core decides (`suture_repair::admission`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use suture_repair::admission::Admissions;
use suture_repair::id::{NodeId, RepairId};
use suture_repair::slice::SliceId;

/// What was granted to whom.
#[derive(Debug, Default)]
pub struct Grants {
    admissions: Mutex<Admissions>,
}

impl Grants {
    /// `child` may send the slices of the lane from `first` on, below `below`.
    pub fn grant(&self, repair: RepairId, lane: u16, child: NodeId, slices: (u32, u32)) {
        self.admissions().grant(repair, lane, child, slices);
    }

    /// Whether there is memory for this slice; if so, it is taken.
    pub fn admit(&self, child: NodeId, id: SliceId) -> bool {
        self.admissions().admit(child, id)
    }

    /// The repair is over.
    pub fn discard(&self, repair: RepairId) {
        self.admissions().discard(repair);
    }

    fn admissions(&self) -> MutexGuard<'_, Admissions> {
        self.admissions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
