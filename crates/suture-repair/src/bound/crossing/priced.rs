//! What racks and relays cost a stripe's tree at some prices.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`crossing.rs`), beneath the
//! cheapest tree (`tree.rs`): for each number of helpers of a rack what they send costs, and the
//! cheapest place for their messages.

use crate::bound::crossing::stripe::Holders;
use crate::bound::search::Amounts;
use crate::planner::ports::Ports;

/// Where a message is added up to others.
#[derive(Clone, Copy, Debug)]
pub(super) enum Merge {
    /// At a helper or the destination.
    Node(u32),
    /// At a relay without a chunk, in the rack from which the message comes or to which it goes.
    Relay(u32),
    /// At such a relay in a rack without helpers.
    FarRelay(u32),
}

/// A merge and what a message costs there.
pub(super) type Priced = (f64, Merge);

pub(super) fn cheaper(a: Priced, b: Priced) -> Priced {
    if b.0 < a.0 { b } else { a }
}

/// Prices of all ports, by what they are for.
pub(super) struct Costs<'a> {
    pub ports: &'a Ports,
    pub prices: &'a Amounts,
    pub relays: &'a [u32],
    /// The cheapest relays for so many helpers.
    pub known: Vec<Relays>,
}

/// The cheapest relays without a chunk of trees with so many helpers.
pub(super) struct Relays {
    pub count: usize,
    /// The cheapest of each rack.
    pub inside: Vec<Priced>,
    pub anywhere: Priced,
}

impl<'a> Costs<'a> {
    pub fn new(ports: &'a Ports, prices: &'a Amounts, relays: &'a [u32]) -> Costs<'a> {
        Costs { ports, prices, relays, known: Vec::new() }
    }

    pub fn sending(&self, node: u32) -> f64 {
        self.prices.at(self.ports.up(node)) + self.prices.at(self.ports.read(node))
    }

    pub fn up(&self, node: u32) -> f64 {
        self.prices.at(self.ports.up(node))
    }

    pub fn down(&self, node: u32) -> f64 {
        self.prices.at(self.ports.down(node))
    }

    pub fn write(&self, node: u32) -> f64 {
        self.prices.at(self.ports.write(node))
    }

    pub fn leaving(&self, rack: u32) -> f64 {
        self.ports.rack_up(rack).map_or(0.0, |port| self.prices.at(port))
    }

    pub fn arriving(&self, rack: u32) -> f64 {
        self.ports.rack_down(rack).map_or(0.0, |port| self.prices.at(port))
    }

    /// The place of the relays for so many helpers among those that are known.
    pub fn relays(&mut self, count: usize) -> usize {
        if let Some(at) = self.known.iter().position(|known| known.count == count) {
            return at;
        }
        let (k, others) = (count as f64, count as f64 - 1.0);
        let none = (f64::INFINITY, Merge::Relay(0));
        let mut inside = Vec::new();
        let mut anywhere = none;
        for &node in self.relays.iter().filter(|_| count > 1) {
            let rack = self.ports.rack(node);
            let (up, down) = (self.prices.at(self.ports.up(node)), self.down(node));
            if inside.len() <= rack as usize {
                inside.resize(rack as usize + 1, none);
            }
            let near = ((k * down + up) / others, Merge::Relay(node));
            inside[rack as usize] = cheaper(inside[rack as usize], near);
            let crossing = k * self.arriving(rack) + self.leaving(rack);
            let far = (near.0 + crossing / others, Merge::FarRelay(node));
            anywhere = cheaper(anywhere, far);
        }
        self.known.push(Relays { count, inside, anywhere });
        self.known.len() - 1
    }
}

impl Relays {
    pub fn inside(&self, rack: u32) -> Priced {
        let known = self.inside.get(rack as usize).copied();
        known.unwrap_or((f64::INFINITY, Merge::Relay(0)))
    }
}

/// What is decided of a tree: survivors that help, others that do not, and the only target by its
/// place, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Decided {
    pub helping: Vec<u32>,
    pub idle: Vec<u32>,
    pub target: Option<usize>,
}

/// A survivor of a rack at some prices: what sending and receiving costs it.
#[derive(Clone, Copy)]
pub(super) struct PricedHelper {
    pub sending: f64,
    pub down: f64,
    pub node: u32,
}

/// The helpers of a rack at some prices.
pub(super) struct PricedRack {
    pub rack: u32,
    pub forced: usize,
    /// Those that help in any case, then the cheapest.
    pub helpers: Vec<PricedHelper>,
    /// What it costs that the first so many send.
    pub sent: Vec<f64>,
    /// What it costs that the messages of so many but one are added up here, and where.
    pub joined: Vec<(f64, Inside)>,
    pub relay: Priced,
    /// Where a message that arrives from another rack is added up.
    pub arrival: Priced,
    /// What a message costs the rack's uplink.
    pub leaving: f64,
}

impl PricedRack {
    pub fn none() -> PricedRack {
        let nowhere = (f64::INFINITY, Merge::Relay(0));
        PricedRack {
            rack: 0,
            forced: 0,
            helpers: Vec::new(),
            sent: Vec::new(),
            joined: Vec::new(),
            relay: nowhere,
            arrival: nowhere,
            leaving: 0.0,
        }
    }

    /// Becomes a rack of `holders`, of which some are decided about.
    pub fn set(
        &mut self,
        holders: &Holders,
        decided: &Decided,
        relays: &Relays,
        costs: &Costs<'_>,
    ) {
        (self.rack, self.forced) = (holders.rack, holders.forced);
        self.helpers.clear();
        let able = holders.nodes.iter().filter(|node| !decided.idle.contains(node));
        self.helpers.extend(able.map(|&node| PricedHelper {
            sending: costs.sending(node),
            down: costs.down(node),
            node,
        }));
        for at in self.forced..self.helpers.len() {
            if decided.helping.contains(&self.helpers[at].node) {
                self.helpers.swap(self.forced, at);
                self.forced += 1;
            }
        }
        self.helpers[self.forced..].sort_by(|a, b| a.sending.total_cmp(&b.sending));
        self.relay = relays.inside(holders.rack);
        let merges = self.helpers.iter().map(|helper| (helper.down, Merge::Node(helper.node)));
        let (merge, at) = merges.fold(self.relay, cheaper);
        self.arrival = (merge + costs.arriving(holders.rack), at);
        self.leaving = costs.leaving(holders.rack);
        self.sent.clear();
        self.sent.push(0.0);
        self.joined.clear();
        self.joined.push((0.0, Inside::Relay));
        for count in 1..=self.helpers.len() {
            self.sent.push(self.sent[count - 1] + self.helpers[count - 1].sending);
            self.joined.push(self.joined_at(count, count - 1));
        }
    }

    /// How many of it help at least where something helps in each of these racks.
    pub fn least(&self, helping: &[u32]) -> usize {
        self.forced.max(usize::from(helping.contains(&self.rack)))
    }

    /// What it costs more that the helper at a place is among the first `count`.
    pub fn extra(&self, place: usize, count: usize) -> f64 {
        if place < count {
            0.0
        } else if count > self.forced {
            self.helpers[place].sending - self.helpers[count - 1].sending
        } else {
            f64::INFINITY
        }
    }

    /// Where so many messages of `count` helpers are added up within the rack, and what that costs.
    pub fn joined_at(&self, count: usize, messages: usize) -> (f64, Inside) {
        if messages == 0 {
            return (0.0, Inside::Relay);
        }
        let messages = messages as f64;
        let mut best = (messages * self.relay.0, Inside::Relay);
        for (place, helper) in self.helpers.iter().enumerate() {
            let cost = self.extra(place, count) + messages * helper.down;
            if cost < best.0 {
                best = (cost, Inside::Helper(place));
            }
        }
        best
    }
}

/// Where the messages of a rack are added up.
#[derive(Clone, Copy)]
pub(super) enum Inside {
    Relay,
    /// At a helper, by its place.
    Helper(usize),
    Root,
    /// At the hub, in another rack.
    Away,
}
