//! One task of an agent: its lanes, how far it has come, and what it waits for.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! Plain state; `agent.rs` decides what becomes of it.
//! Invariants: a task has a copy to publish if and only if some lane of it ends here; its pumps are
//! open if and only if it is not preparing, and all of them done if and only if it is proving or
//! publishing; it is proving only what has no recorded checksum.

use std::sync::Arc;

use crate::id::{ChunkCopy, NodeId, RepairId};
use crate::message::Task;
use crate::plan::Range;
use crate::pump::Pump;
use crate::role::Sink;
use crate::time::Time;

/// Where a task stands: `Passing -> gone` at a helper or relay, `Preparing -> Filling [-> Proving]
/// -> Publishing -> gone` at a destination, with the copy that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// Slices pass on to parents. Ends when the last one has left.
    Passing,
    /// The temporary file is being made. Ends by `Prepared`.
    Preparing(ChunkCopy),
    /// Slices come and are written. Ends when the last one was.
    Filling(ChunkCopy),
    /// The chunk has no recorded checksum, so the coordinator proves it by fingerprints. Ends by
    /// its `Publish`.
    Proving(ChunkCopy),
    /// The chunk is being proven, if it is not yet, and made durable. Ends by `Published`.
    Publishing(ChunkCopy),
}

impl TaskState {
    /// What this agent is to publish, if it is a destination.
    pub fn copy(self) -> Option<ChunkCopy> {
        match self {
            TaskState::Passing => None,
            TaskState::Preparing(copy)
            | TaskState::Filling(copy)
            | TaskState::Proving(copy)
            | TaskState::Publishing(copy) => Some(copy),
        }
    }

    /// Whether all slices have left.
    pub fn has_received_all(self) -> bool {
        matches!(self, TaskState::Proving(_) | TaskState::Publishing(_))
    }

    /// Whether slices move in this state.
    pub fn is_transferring(self) -> bool {
        matches!(self, TaskState::Passing | TaskState::Filling(_))
    }
}

#[derive(Debug)]
pub(super) struct Running {
    pub task: Arc<Task>,
    /// The pump of each lane that this agent takes part in, ascending by lane.
    pub lanes: Vec<(u16, Pump)>,
    pub state: TaskState,
    /// The attempt whose temporary file it goes on with, if there is one.
    pub takes_over: Option<RepairId>,
    /// A peer without which it cannot go on as planned.
    pub lost: Option<NodeId>,
    pub reserved: u64,
    pub progressed_at: Time,
}

impl Running {
    pub fn pump(&self, lane: u16) -> Option<&Pump> {
        self.lanes.iter().find(|(index, _)| *index == lane).map(|(_, pump)| pump)
    }

    pub fn pump_mut(&mut self, lane: u16) -> Option<&mut Pump> {
        self.lanes.iter_mut().find(|(index, _)| *index == lane).map(|(_, pump)| pump)
    }

    /// Only lanes that end here rest. In others this node is a relay, and its parents would wait
    /// for what they asked it for; those rest when their own destination does.
    pub fn hold(&mut self, held: bool) {
        let pumps = self.lanes.iter_mut().map(|(_, pump)| pump);
        pumps.filter(|pump| stores(pump)).for_each(|pump| pump.hold(held));
    }

    /// Whether every slice of every lane has left. Lanes that were there already are done when they
    /// are opened.
    pub fn is_done(&self) -> bool {
        self.lanes.iter().all(|(_, pump)| pump.is_open() && pump.is_done())
    }

    /// From the chunk's first byte on, of which an attempt that is gone on with did the first. At a
    /// destination only what brings the chunk counts, so that no other work makes it look complete.
    pub fn bytes_done(&self) -> u64 {
        let pumps = self.lanes.iter().map(|(_, pump)| pump);
        let counts = |pump: &&Pump| self.state == TaskState::Passing || stores(pump);
        self.task.plan.range.from + pumps.filter(counts).map(Pump::bytes_done).sum::<u64>()
    }

    /// Whether an attempt at the chunk of `copy` can go on from `offset` with the file that is in
    /// the making here: whether it has every byte before that. Those before the plan's range were
    /// there when the task began.
    pub fn leaves(&self, copy: ChunkCopy, offset: u64) -> bool {
        let Some(made) = self.in_the_making() else { return false };
        let reaches = |pump: &Pump| {
            let (slice_ranges, done) = (pump.role().slice_ranges, pump.slices_done());
            done == slice_ranges.count() || slice_ranges.get(done).offset >= offset
        };
        let mut pumps = self.lanes.iter().map(|(_, pump)| pump).filter(|pump| stores(pump));
        (made.stripe, made.chunk) == (copy.stripe, copy.chunk) && pumps.all(reaches)
    }

    /// The copy that is being written to a file here, that another attempt could go on with.
    fn in_the_making(&self) -> Option<ChunkCopy> {
        match self.state {
            TaskState::Filling(made) | TaskState::Proving(made) => Some(made),
            // It has the file of the one before it, or is about to get it.
            TaskState::Preparing(made) => self.takes_over.map(|_| made),
            TaskState::Publishing(_) | TaskState::Passing => None,
        }
    }

    /// Whether what has come here is kept for another plan when a peer is lost.
    pub fn may_go_on(&self) -> bool {
        self.task.skips && self.in_the_making().is_some() && !self.state.has_received_all()
    }

    /// What the unpublished file has of its chunk: ranges that are apart, ascending.
    pub fn written(&self) -> Vec<Range> {
        let plan = &self.task.plan;
        let pumps = self.lanes.iter().map(|(_, pump)| pump);
        // With a period, lanes have bytes here and there.
        let pumps = pumps.filter(|pump| stores(pump) && plan.period.is_none());
        let mut ranges = vec![Range { from: 0, to: plan.range.from }];
        ranges.extend(pumps.map(Pump::range_done));
        ranges.sort_unstable();
        let mut written: Vec<Range> = Vec::new();
        for range in ranges.into_iter().filter(|range| range.bytes() > 0) {
            match written.last_mut().filter(|last| range.from <= last.to) {
                Some(last) => last.to = last.to.max(range.to),
                None => written.push(range),
            }
        }
        written
    }

    /// Whether nothing can move here before a message of the coordinator or of a parent. A task
    /// that waits for a granted slice, a read or a send is not idle, so a stuck tree stalls at that
    /// node.
    pub fn is_idle(&self) -> bool {
        let mut pumps = self.lanes.iter().map(|(_, pump)| pump);
        let is_held = self.lanes.iter().any(|(_, pump)| pump.is_held());
        self.state.is_transferring() && (is_held || !pumps.any(Pump::is_owed))
    }

    /// Edges that have arrived in full and are spilled, by lane and sender.
    pub fn arrived(&self) -> impl Iterator<Item = (u16, NodeId)> {
        self.lanes.iter().flat_map(|(lane, pump)| pump.spilled().map(move |child| (*lane, child)))
    }

    /// # Panics
    /// Some invariant of the task does not hold.
    pub fn assert_invariants(&self, repair: RepairId) {
        let state = self.state;
        let is_destination = self.lanes.iter().any(|(_, pump)| stores(pump));
        assert_eq!(state.copy().is_some(), is_destination, "state: {repair} is {state:?}");
        let is_preparing = matches!(state, TaskState::Preparing(_));
        let is_open = self.lanes.iter().any(|(_, pump)| pump.is_open());
        assert_eq!(is_open, !is_preparing, "state: {repair} is {state:?}");
        assert_eq!(self.is_done(), state.has_received_all(), "state: {repair} is {state:?}");
        if let TaskState::Proving(copy) = state {
            let crc = self.task.stripe.record(copy.chunk).crc;
            assert_eq!(crc, None, "state: {repair} waits for a proof and has a checksum");
        }
        self.lanes.iter().for_each(|(lane, pump)| pump.assert_invariants(repair, *lane));
    }
}

fn stores(pump: &Pump) -> bool {
    pump.role().sinks.contains(&Sink::Store)
}
