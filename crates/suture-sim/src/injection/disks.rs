//! Disks with faults: full, unreadable, giving errors, or giving no answer.
//!
//! Place: beside [failure detected -> stripes affected -> queue] -> plan -> ...

use suture_repair::agent::AgentInput;
use suture_repair::id::NodeId;
use suture_repair::message::DiskState;
use suture_repair::time::Span;

use super::Recovery;
use crate::fault::{Fault, Kind};
use crate::world::{Event, World};

impl World {
    /// A disk is full, or calls of it fail.
    pub(super) fn fault_disk(&mut self, fault: Fault, span: Span) {
        let node = match fault {
            Fault::DiskErrors(_) => self.writing_node(),
            _ => self.any_node(),
        };
        self.disturb(node, span);
        let recovery = match fault {
            Fault::Full(_) => {
                self.coverage.count(Kind::FullDisk);
                self.host(node).disk.set_capacity(0);
                Recovery::Capacity(node)
            }
            Fault::Unreadable(_) => {
                self.coverage.count(Kind::UnreadableDisk);
                self.host(node).disk.set_unreadable(true);
                Recovery::Reads(node)
            }
            Fault::DiskErrors(_) => {
                let seed = self.random.next_u64();
                self.host(node).disk.set_errors(Some(seed));
                Recovery::Errors(node)
            }
            _ => {
                self.host(node).disk.set_out_of_descriptors(true);
                Recovery::Descriptors(node)
            }
        };
        self.later(span, Event::Recovery(recovery));
    }

    /// A disk answers nothing, which its agent notices.
    pub(super) fn hang_disk(&mut self, span: Span) {
        let node = self.any_node();
        let until = self.now + span;
        if self.host(node).hangs_until.is_some() {
            return;
        }
        self.coverage.count(Kind::HangingDisk);
        self.disturb(node, span);
        self.hosts[node.index()].hangs_until = Some(until);
        self.agent_input(node, AgentInput::Disk(DiskState::Hanging));
        self.later(span, Event::Recovery(Recovery::Answers(node)));
    }

    /// Unless another time has begun since.
    pub(super) fn end_hang(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.index()];
        if host.hangs_until.take_if(|until| *until <= self.now).is_some() {
            self.agent_input(node, AgentInput::Disk(DiskState::Good));
        }
    }

    /// One that makes a chunk, if there is one: that is the hard case.
    fn writing_node(&mut self) -> NodeId {
        let node = self.any_node();
        let writes = |node: &NodeId| !self.host(*node).writers.is_empty();
        self.nodes().find(writes).unwrap_or(node)
    }
}
