//! What the operator wants of nodes: one is emptied, another may be silent for a while.
//!
//! Place: beside [failure detected -> stripes affected -> queue] -> plan -> ...
//! A node that is emptied may fail, and be taken back, at any time. One that is paused mostly does
//! stop, for less or for more than it was given.

use suture_repair::event::{Command, Input};
use suture_repair::id::NodeId;
use suture_repair::time::Span;

use super::Recovery;
use crate::fault::Kind;
use crate::world::{Event, Pause, World};

impl World {
    /// Whether the coordinator receives at once what is sent to it.
    fn is_awake(&self) -> bool {
        self.coordinator.is_some() && self.asleep.is_none()
    }

    /// The operator empties a node, for the span if it is to serve again.
    pub(super) fn drain(&mut self, span: Span) {
        let node = self.any_node();
        if !self.is_awake() || self.declared.contains(&node) {
            return;
        }
        self.coverage.count(Kind::Drain);
        self.paused_nodes.remove(&node);
        self.draining.insert(node);
        self.coordinator_input(Input::Operator(Command::DrainNode(node)));
        if self.random.per_mille(300) {
            self.later(span, Event::Recovery(Recovery::Keep(node)));
        }
    }

    /// The operator lets a node be silent for the span, and mostly it is.
    pub(super) fn rest(&mut self, span: Span) {
        let node = self.any_node();
        if !self.is_awake() || self.declared.contains(&node) {
            return;
        }
        self.coverage.count(Kind::Rest);
        self.draining.remove(&node);
        self.paused_nodes.insert(node, Pause { until: self.now + span, day: self.today() + span });
        self.coordinator_input(Input::Operator(Command::PauseNode { node, span }));
        if self.random.per_mille(800) && self.host(node).agent.is_some() {
            let stopped = Span { ns: self.random.between(span.ns / 4, span.ns * 3 / 2) };
            self.crash_for(node, stopped);
        }
    }

    /// The operator no longer empties a node.
    pub(super) fn end_drain(&mut self, node: NodeId) {
        if self.draining.remove(&node) {
            self.coordinator_input(Input::Operator(Command::ReturnNode(node)));
        }
    }

    /// The end of all faults: nodes that stopped are back, and nodes go on being emptied as long
    /// as enough others are left for every chunk.
    pub(super) fn end_intents(&mut self) {
        for node in std::mem::take(&mut self.paused_nodes).into_keys() {
            self.coordinator_input(Input::Operator(Command::ReturnNode(node)));
        }
        let alive = self.hosts.iter().filter(|host| !host.gone).count();
        let spare = alive.saturating_sub(self.options.code.chunk_count());
        let kept: Vec<NodeId> = self.draining.iter().copied().skip(spare).collect();
        kept.into_iter().for_each(|node| self.end_drain(node));
    }
}
