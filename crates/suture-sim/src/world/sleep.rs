//! A coordinator that sleeps: its process is stopped, or moved with its machine, or plans for long.
//!
//! Place: [failure detected] -> stripes affected -> ...
//! What is sent to it meanwhile waits, in order, and is taken in at once when it wakes. A node
//! whose message waits is alive, whatever the clock shows; taking it for dead breaks a rule.

use std::collections::VecDeque;

use suture_repair::coordinator::Coordinator;
use suture_repair::event::{Health, Input};
use suture_repair::id::NodeId;
use suture_repair::time::{Span, Time};

use super::{Event, Recovery, World};
use crate::fault::Kind;
use crate::violation::Violation;

/// That the coordinator takes in nothing for a while, and what waits for it.
pub(crate) struct Asleep {
    /// When it ends, unless all faults end before.
    until: Time,
    /// What was sent to the coordinator since it fell asleep.
    pub waiting: VecDeque<Input>,
}

impl World {
    pub(crate) fn put_to_sleep(&mut self, span: Span) {
        if self.coordinator.is_some() && self.asleep.is_none() {
            self.coverage.count(Kind::CoordinatorSleep);
            self.asleep = Some(Asleep { until: self.now + span, waiting: VecDeque::new() });
            self.later(span, Event::Recovery(Recovery::Awake));
        }
    }

    /// Whether the coordinator sleeps, and its sleep is over.
    pub(crate) fn has_slept(&self) -> bool {
        self.asleep.as_ref().is_some_and(|asleep| asleep.until <= self.now)
    }

    pub(crate) fn wake_up(&mut self) {
        // A sleep that was cut short may be shorter than the timers, and go unnoticed.
        let is_judged = self.has_slept();
        let Some(asleep) = &mut self.asleep else { return };
        asleep.waiting.push_back(Input::Tick);
        // What is answered meanwhile waits its turn too: the metadata speak in order.
        while let Some(input) = self.asleep.as_mut().and_then(|asleep| asleep.waiting.pop_front()) {
            let is_ordered = matches!(input, Input::Operator(_) | Input::NodeState { .. });
            let before = self.failed_nodes();
            self.take_in(input);
            let waiting = self.asleep.as_ref().map(|asleep| &asleep.waiting);
            let has_word = |node: &NodeId| {
                waiting
                    .into_iter()
                    .flatten()
                    .any(|input| matches!(input, Input::Agent { node: of, .. } if of == node))
            };
            let mut failed = self.failed_nodes().into_iter();
            let unheard = failed.find(|node| !before.contains(node) && has_word(node));
            if let Some(node) = unheard.filter(|_| is_judged && !is_ordered) {
                self.fail(Violation::Unheard(node));
            }
        }
        self.asleep = None;
        self.disturb_all(Span::ZERO);
    }

    pub(crate) fn failed_nodes(&self) -> Vec<NodeId> {
        let is_failed =
            |coordinator: &Coordinator, node: &NodeId| coordinator.health(*node) == Health::Failed;
        let nodes = 0..self.hosts.len() as u32;
        let coordinator = self.coordinator.as_ref();
        coordinator
            .into_iter()
            .flat_map(|c| nodes.clone().map(NodeId).filter(|node| is_failed(c, node)))
            .collect()
    }
}
