//! What the links of racks carry, measured by the transfers that cross them.
//!
//! Place: beside [slices flow]: what planners count with between racks.
//! A rack's link itself is not measured: what passes it is the sum of what its nodes report, and
//! what others move over it is not seen. So the estimate is of what repair gets of it. As long as
//! it has never been the limit there is none, and it limits no plan. One node is not enough to see
//! it: at least two have to wait. Until it is known how many do, no limit is attributed to a node
//! for what it sends to other racks. A probe between racks shows that both carry that much.

use std::collections::BTreeSet;

use super::limits::{PortUse, pressure};
use super::link_estimate::{Guess, LinkEstimate, Passage, Pressure};
use super::transfers::PeerFlow;
use super::{DIRECTIONS, RATE_LEAST, Rates};
use crate::event::LinkStatus;
use crate::id::{NodeId, RackId};
use crate::throttle::Direction;
use crate::time::Span;

/// So many nodes of a rack have to wait for its link.
const WAITING_NODES: usize = 2;

/// A link of which nothing is known.
const UNKNOWN: Guess = Guess { mean: u64::MAX, deviation: u64::MAX };

/// A link that was not observed while anything passed it: it may be why anything waits.
const SUSPECT: PortUse =
    PortUse { carried: 0, guess: UNKNOWN, is_throttled: false, transfers: 1, waiting: 1 << 20 };

/// One direction of a rack's links to all others.
#[derive(Clone, Copy, Debug)]
struct RackPort {
    estimate: LinkEstimate,
    /// How it was used when it was last looked at.
    used: PortUse,
}

/// What is known of the links of a rack: sent, received.
#[derive(Clone, Debug)]
pub(super) struct RackRates {
    ports: [RackPort; 2],
    /// Reports of its nodes since it was last looked at.
    reports: usize,
}

impl Default for RackRates {
    fn default() -> RackRates {
        let port = RackPort { estimate: LinkEstimate::default(), used: SUSPECT };
        RackRates { ports: [port; 2], reports: 0 }
    }
}

/// A transfer that crosses racks, by its ends in the rack and elsewhere.
struct CrossRackFlow {
    inside: NodeId,
    outside: NodeId,
    flow: PeerFlow,
}

impl Rates {
    /// What the links of a rack are thought to carry, as far as they have been the limit: sent,
    /// received.
    pub fn rack_status(&self, rack: RackId) -> [Option<LinkStatus>; 2] {
        DIRECTIONS.map(|direction| {
            let port = self.racks.get(rack.0 as usize)?.ports[direction as usize];
            let guess = port.estimate.guess()?;
            Some(LinkStatus {
                capacity: guess.mean.max(RATE_LEAST),
                uncertainty: Some(guess.deviation),
                is_declared: false,
                taken: 0,
                repair: port.used.carried,
            })
        })
    }

    /// The links of racks that a transfer passes.
    pub(super) fn between(&self, from: NodeId, to: NodeId) -> Vec<PortUse> {
        let (from, to) = (self.rack_of(from), self.rack_of(to));
        let (Some(from), Some(to)) = (from, to) else { return Vec::new() };
        if from == to {
            return Vec::new();
        }
        vec![self.rack_use(from, Direction::Up), self.rack_use(to, Direction::Down)]
    }

    fn rack_use(&self, rack: RackId, direction: Direction) -> PortUse {
        let rack = self.racks.get(rack.0 as usize);
        rack.map_or(SUSPECT, |rack| rack.ports[direction as usize].used)
    }

    /// A probe has shown that the links between two nodes carry that much.
    pub(super) fn probed_racks(&mut self, from: NodeId, to: NodeId, rate: u64) {
        let (Some(from), Some(to)) = (self.rack_of(from), self.rack_of(to)) else { return };
        if from == to {
            return;
        }
        for (rack, direction) in [(from, Direction::Up), (to, Direction::Down)] {
            let Some(rack) = self.racks.get_mut(rack.0 as usize) else { continue };
            let estimate = &mut rack.ports[direction as usize].estimate;
            if estimate.guess().is_some_and(|guess| guess.mean < rate) {
                let passage = Passage { rate, pressure: Pressure::Spare, is_held: false };
                estimate.feed(UNKNOWN, passage, Span::ZERO);
            }
        }
    }

    /// Looks at the rack of a node that has reported of so long a time, once all of its nodes have.
    pub(super) fn observe_rack(&mut self, node: NodeId, span: Span) {
        let Some(id) = self.rack_of(node) else { return };
        let index = id.0 as usize;
        if self.racks.len() <= index {
            self.racks.resize_with(index + 1, RackRates::default);
        }
        let members: Vec<NodeId> = (0..self.nodes.len() as u32)
            .map(NodeId)
            .filter(|member| self.rack_of(*member) == Some(id))
            .collect();
        self.racks[index].reports += 1;
        if self.racks[index].reports < members.len() {
            return;
        }
        self.racks[index].reports = 0;
        for direction in DIRECTIONS {
            let crossings = self.crossings(&members, direction);
            let is_waiting = |crossing: &&CrossRackFlow| crossing.flow.is_waiting;
            let waiting = || crossings.iter().filter(is_waiting);
            let nodes: BTreeSet<NodeId> = waiting().map(|crossing| crossing.inside).collect();
            let others: Vec<Vec<PortUse>> =
                waiting().map(|crossing| self.ends(crossing, direction)).collect();
            let rates = crossings.iter().map(|crossing| crossing.flow.rate);
            let port = &mut self.racks[index].ports[direction as usize];
            let used = PortUse {
                carried: rates.fold(0, u64::saturating_add),
                guess: port.estimate.guess().unwrap_or(UNKNOWN),
                is_throttled: false,
                transfers: crossings.len(),
                waiting: others.len(),
            };
            let is_evident = nodes.len() >= WAITING_NODES;
            let pressure = if is_evident { pressure(&used, &others) } else { Pressure::Spare };
            let passage = Passage { rate: used.carried, pressure, is_held: false };
            port.estimate.feed(UNKNOWN, passage, span);
            let guess = port.estimate.guess().unwrap_or(UNKNOWN);
            port.used = if crossings.is_empty() { SUSPECT } else { PortUse { guess, ..used } };
        }
    }

    /// The transfers between these nodes of a rack and those of others.
    fn crossings(&self, members: &[NodeId], direction: Direction) -> Vec<CrossRackFlow> {
        let mut crossings = Vec::new();
        for &inside in members {
            let rack = self.rack_of(inside);
            for (&outside, &flow) in self.nodes[inside.index()].flows.of(direction) {
                let other = self.rack_of(outside);
                if other.is_some() && other != rack {
                    crossings.push(CrossRackFlow { inside, outside, flow });
                }
            }
        }
        crossings
    }

    /// The other ports of a transfer that crosses the link of a rack in this direction.
    fn ends(&self, crossing: &CrossRackFlow, direction: Direction) -> Vec<PortUse> {
        let away = match direction {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        };
        let far = self.rack_of(crossing.outside).map(|rack| self.rack_use(rack, away));
        let near = self.used(crossing.inside, direction);
        [near, self.used(crossing.outside, away)].into_iter().chain(far).collect()
    }

    fn rack_of(&self, node: NodeId) -> Option<RackId> {
        self.nodes.get(node.index())?.declared.rack
    }
}
