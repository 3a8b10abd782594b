//! What one may ask an agent: what runs here, and what has a place.
//!
//! Place: beside [slices flow -> chunk proven and durable]; it only looks.

use super::running::{Running, TaskState};
use super::{Agent, AgentStatus};
use crate::id::{EdgeRef, NodeId, RepairId};
use crate::slice::SliceId;

impl Agent {
    /// What runs and what it may use.
    pub fn status(&self) -> AgentStatus {
        let running = self.tasks.iter().map(|(id, t)| (*id, t.bytes_done())).collect();
        let of_task = |(id, task): (&RepairId, &Running)| {
            let edge = |(lane, peer)| EdgeRef { repair: *id, lane, peer };
            task.arrived().map(edge).collect::<Vec<_>>()
        };
        let arrived = self.tasks.iter().flat_map(of_task).collect();
        let is_written = |(_, task): &(_, &Running)| matches!(task.state, TaskState::Proving(_));
        let written = self.tasks.iter().filter(is_written).map(|(id, _)| *id).collect();
        AgentStatus { reserved_bytes: self.reserved, running, arrived, written }
    }

    /// Whether a slice from `from` has a place here; one that has none is dropped unread.
    pub fn wants(&self, from: NodeId, id: SliceId) -> bool {
        let pump = self.tasks.get(&id.repair).and_then(|task| task.pump(id.lane));
        pump.is_some_and(|pump| pump.wants(from, id.slice))
    }
}
