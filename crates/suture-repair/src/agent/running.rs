//! One task of an agent: its lanes, how far it has come, and what it waits for.
//!
//! Place: ... dispatch -> [slices flow -> chunk proven and durable] -> commit ...
//! Plain state; `agent.rs` decides what becomes of it.

use crate::id::{ChunkCopy, NodeId};
use crate::message::Task;
use crate::pump::Pump;
use crate::role::Sink;
use crate::time::Time;

/// Where a task stands. A helper's does not prepare and does not publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Preparing,
    Flowing,
    Publishing,
}

#[derive(Debug)]
pub(super) struct Running {
    pub task: Box<Task>,
    /// Ascending by lane.
    pub lanes: Vec<(u16, Pump)>,
    /// What this agent is to publish, if it is the destination.
    pub publishes: Option<ChunkCopy>,
    pub phase: Phase,
    pub held: bool,
    pub reserved: u64,
    pub progress: u64,
    pub progressed_at: Time,
}

impl Running {
    pub fn pump(&self, lane: u16) -> Option<&Pump> {
        self.lanes.iter().find(|(index, _)| *index == lane).map(|(_, pump)| pump)
    }

    pub fn pump_mut(&mut self, lane: u16) -> Option<&mut Pump> {
        self.lanes.iter_mut().find(|(index, _)| *index == lane).map(|(_, pump)| pump)
    }

    /// Only lanes that end here rest. In others this node is a relay, whose parents would wait for
    /// what they asked it for; those rest when their own destination does.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
        let pumps = self.lanes.iter_mut().map(|(_, pump)| pump);
        pumps.filter(|pump| stores(pump)).for_each(|pump| pump.hold(held));
    }

    /// From the chunk's first byte on, of which an attempt that is gone on with did the first. At a
    /// destination only what brings the chunk counts, so that no other work makes it look complete.
    pub fn bytes_done(&self) -> u64 {
        let pumps = self.lanes.iter().map(|(_, pump)| pump);
        let counts = |pump: &&Pump| self.publishes.is_none() || stores(pump);
        self.task.plan.range.from + pumps.filter(counts).map(Pump::bytes_done).sum::<u64>()
    }

    /// Whether an attempt at the chunk of `copy` can go on from `offset` with the file that is in the
    /// making here: whether it has every byte before that. Those before the plan's range were there
    /// when the task began.
    pub fn leaves(&self, copy: ChunkCopy, offset: u64) -> bool {
        let is_same = |made: ChunkCopy| (made.stripe, made.chunk) == (copy.stripe, copy.chunk);
        let reaches = |pump: &Pump| {
            let (windows, done) = (pump.role().windows, pump.slices_done());
            done == windows.count() || windows.get(done).offset >= offset
        };
        let mut pumps = self.lanes.iter().map(|(_, pump)| pump).filter(|pump| stores(pump));
        let is_making = self.phase == Phase::Flowing && self.publishes.is_some_and(is_same);
        is_making && pumps.all(reaches)
    }

    /// Whether nothing can move here before the coordinator or a parent says so. Whoever asked for
    /// something and does not get it is not idle: a tree that stands still stalls there.
    pub fn is_idle(&self) -> bool {
        let is_owed = self.lanes.iter().any(|(_, pump)| pump.is_owed());
        self.phase == Phase::Flowing && (self.held || !is_owed)
    }

    /// Edges that have arrived in full and are kept, by lane and who sent.
    pub fn arrived(&self) -> impl Iterator<Item = (u16, NodeId)> {
        self.lanes.iter().flat_map(|(lane, pump)| pump.kept().map(move |child| (*lane, child)))
    }
}

fn stores(pump: &Pump) -> bool {
    pump.role().sinks.contains(&Sink::Store)
}
