//! What repairs move between each two nodes, as senders report it, and what that shows of links.
//!
//! Place: beside [slices flow]: reports go in, estimates change.
//! Each report of a node is evidence of its own two directions: what passed them, and whether that
//! was all that was wanted. What it receives is reported by the senders, whose last reports count
//! for a few of its own. Racks are looked at once for each report of all their nodes.

use std::collections::BTreeMap;

use super::limits::{PortUse, pressure};
use super::link_estimate::Passage;
use super::{DIRECTIONS, Rates};
use crate::id::NodeId;
use crate::message::LinkReport;
use crate::throttle::Direction;
use crate::time::Span;

/// A shorter report shows too little.
const SPAN_LEAST: Span = Span::from_millis(100);

/// A sender's word counts for so many reports of the receiver.
const REPORTED_FOR: u32 = 5;

/// A transfer waits when it could not go on for this part of the time, in quarters.
const WAITING_QUARTERS: u64 = 3;

/// What a node sends to another one for repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerFlow {
    /// In bytes per second.
    pub rate: u64,
    /// Whether more was to be sent nearly all the time.
    pub is_waiting: bool,
    /// Reports of the receiver since the sender's last one.
    age: u32,
}

/// The transfers of a node: those that it sends, and those that it receives, by the other end.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerFlows {
    pub sent: BTreeMap<NodeId, PeerFlow>,
    pub received: BTreeMap<NodeId, PeerFlow>,
}

impl PeerFlows {
    pub fn of(&self, direction: Direction) -> &BTreeMap<NodeId, PeerFlow> {
        match direction {
            Direction::Up => &self.sent,
            Direction::Down => &self.received,
        }
    }
}

impl Rates {
    /// Takes in what a report states of the node's links. Its totals are noted already.
    pub(super) fn observe(&mut self, node: NodeId, report: &LinkReport) {
        if report.span < SPAN_LEAST {
            return;
        }
        self.note_transfers(node, report);
        if self.transfers == 0 {
            // Nothing is repaired: what is known keeps.
            return;
        }
        for direction in DIRECTIONS {
            let own = self.used(node, direction);
            let pressure = pressure(&own, &self.other_ports(node, direction));
            let index = direction as usize;
            let declared = self.nodes[node.index()].declared_rate(direction);
            let typical = self.typical[index];
            let measured = &mut self.nodes[node.index()].measured[index];
            if own.transfers == 0 && measured.estimate.guess().is_none() {
                continue;
            }
            let before = measured.assumed(declared, typical);
            let passage = Passage { rate: own.carried, pressure, is_held: own.is_throttled };
            let is_new = measured.estimate.guess().is_none();
            if measured.estimate.feed(before, passage, report.span) {
                measured.observed_at = self.results;
                self.is_more_known |= is_new;
            }
        }
        self.observe_rack(node, report.span);
    }

    /// A node is gone, and reports no more: nothing moves to it and from it.
    pub fn gone(&mut self, node: NodeId) {
        let Some(known) = self.nodes.get_mut(node.index()) else { return };
        let PeerFlows { sent, received } = std::mem::take(&mut known.flows);
        self.transfers -= received.len();
        for receiver in sent.into_keys() {
            let was = self.nodes[receiver.index()].flows.received.remove(&node);
            self.transfers -= usize::from(was.is_some());
        }
        for sender in received.into_keys() {
            self.nodes[sender.index()].flows.sent.remove(&node);
        }
    }

    /// Takes a sender's word in the place of its last one, and forgets that of senders that are
    /// silent.
    fn note_transfers(&mut self, node: NodeId, report: &LinkReport) {
        let flows = &mut self.nodes[node.index()].flows;
        let before = std::mem::take(&mut flows.sent);
        let mut old = Vec::new();
        flows.received.retain(|sender, flow| {
            flow.age += 1;
            let is_old = flow.age > REPORTED_FOR;
            old.extend(is_old.then_some(*sender));
            !is_old
        });
        self.transfers -= old.len();
        for sender in old {
            self.nodes[sender.index()].flows.sent.remove(&node);
        }
        for peer in before.into_keys() {
            let was = self.nodes[peer.index()].flows.received.remove(&node);
            self.transfers -= usize::from(was.is_some());
        }
        for sent in &report.sent_to {
            let is_known = sent.peer.index() < self.nodes.len() && sent.peer != node;
            let is_waiting = sent.waited.ns >= report.span.ns / 4 * WAITING_QUARTERS;
            if !is_known || (sent.bytes == 0 && !is_waiting) {
                continue;
            }
            let flow = PeerFlow { rate: report.rate(sent.bytes), is_waiting, age: 0 };
            self.nodes[node.index()].flows.sent.insert(sent.peer, flow);
            let was = self.nodes[sent.peer.index()].flows.received.insert(node, flow);
            self.transfers += usize::from(was.is_none());
        }
    }

    /// How a direction of a node was used.
    pub(super) fn used(&self, node: NodeId, direction: Direction) -> PortUse {
        let known = &self.nodes[node.index()];
        let index = direction as usize;
        let measured = &known.measured[index];
        let flows = known.flows.of(direction);
        PortUse {
            carried: measured.repair.saturating_add(measured.others),
            guess: measured.guess(known.declared_rate(direction), self.typical[index]),
            is_throttled: measured.is_throttled(),
            transfers: flows.len(),
            waiting: flows.values().filter(|flow| flow.is_waiting).count(),
        }
    }

    /// Of each transfer of a direction that waits, the other ports that it passes.
    fn other_ports(&self, node: NodeId, direction: Direction) -> Vec<Vec<PortUse>> {
        let flows = self.nodes[node.index()].flows.of(direction);
        let waiting = flows.iter().filter(|(_, flow)| flow.is_waiting);
        let ports = waiting.map(|(peer, _)| {
            let (from, to, end) = match direction {
                Direction::Up => (node, *peer, self.used(*peer, Direction::Down)),
                Direction::Down => (*peer, node, self.used(*peer, Direction::Up)),
            };
            [end].into_iter().chain(self.between(from, to)).collect()
        });
        ports.collect()
    }
}
