//! A machine of the simulated cluster: its agent, its disk, and what it has in memory.
//!
//! Place: the effects of its agent are performed on it (`effect.rs`), and faults hit it.

use std::collections::BTreeMap;
use std::sync::Arc;

use suture_repair::agent::Agent;
use suture_repair::chunk_store::ChunkWriter;
use suture_repair::grants::GrantTable;
use suture_repair::id::{NodeId, RepairId};
use suture_repair::message::Failure;
use suture_repair::slice::SliceId;
use suture_repair::time::{Span, Time};

use crate::disk::Disk;

pub(crate) struct Host {
    /// `None` while it is down.
    pub(crate) agent: Option<Agent>,
    pub(crate) incarnation: u64,
    pub(crate) disk: Disk,
    /// Unpublished chunks, each by the repair that it is for.
    pub(crate) writers: BTreeMap<RepairId, Arc<dyn ChunkWriter>>,
    /// Spooled slices of running repairs, by lane and offset.
    pub(crate) spools: BTreeMap<(RepairId, u16), BTreeMap<u64, Vec<u8>>>,
    pub(crate) gone: bool,
    /// Which store its disk is.
    pub(crate) store: u64,
    /// Whether no coordinator has welcomed that store yet.
    pub(crate) is_new: bool,
    /// The newest epoch that it has followed, as its disk has it.
    pub(crate) followed: u32,
    /// The disk that it had before an impostor took its place.
    pub(crate) disk_of_node: Option<Disk>,
    /// What it computes is wrong now and then.
    pub(crate) has_bad_memory: bool,
    /// Until when its disk answers nothing.
    pub(crate) hangs_until: Option<Time>,
    /// Until when its link carries nothing.
    pub(crate) link_back: Option<Time>,
    /// Whether it went down without any peer being notified.
    pub(crate) has_vanished: bool,
    /// Which slices it takes into memory.
    pub(crate) grants: GrantTable,
    /// Slices in memory: by id and the child they came from (`None`: read here).
    pub(crate) buffers: BTreeMap<(SliceId, Option<NodeId>), Vec<u8>>,
    /// By how much its clock is ahead of the simulated time.
    pub(super) ahead: Span,
    pub(super) armed: Option<Time>,
}

impl Host {
    /// Its clock is ahead by as much more.
    pub(crate) fn leap(&mut self, span: Span) {
        (self.ahead.ns, self.armed) = (self.ahead.ns + span.ns, None);
    }

    /// Writes to the spool of a slice's lane.
    pub(crate) fn spool(
        &mut self,
        id: SliceId,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<(), Failure> {
        let of = (id.repair, id.lane);
        self.disk.write_beside(!self.spools.contains_key(&of))?;
        self.spools.entry(of).or_default().insert(offset, bytes);
        Ok(())
    }

    /// Drops all that a repair has here.
    pub(crate) fn discard(&mut self, repair: RepairId) {
        self.grants.discard(repair);
        self.writers.remove(&repair);
        self.spools.retain(|(of, _), _| *of != repair);
        self.buffers.retain(|(id, _), _| id.repair != repair);
    }

    /// What is left when its process ends without notice.
    pub(super) fn crash(&mut self) {
        self.grants = GrantTable::default();
        self.buffers.clear();
        self.disk.crash();
        self.writers.clear();
        self.spools.clear();
    }
}
