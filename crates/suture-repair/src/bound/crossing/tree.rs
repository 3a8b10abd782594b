//! The cheapest tree of a stripe at some prices, where racks share links to all others.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`crossing.rs`, which says what is
//! counted).

use crate::bound::crossing::{Holders, RackedStripe, Target};
use crate::bound::search::Amounts;
use crate::planner::ports::{PortIndex, Ports};

/// Where a message is added up to others.
#[derive(Clone, Copy, Debug)]
enum Merge {
    /// At a helper or the destination.
    Node(u32),
    /// At a relay without a chunk, in the rack from which the message comes or to which it goes.
    Relay(u32),
    /// At such a relay in a rack where nobody helps.
    FarRelay(u32),
}

/// A joint and what a message costs there.
type Priced = (f64, Merge);

fn cheaper(a: Priced, b: Priced) -> Priced {
    if b.0 < a.0 { b } else { a }
}

/// Prices of all ports, by what they are for.
pub(super) struct Costs<'a> {
    ports: &'a Ports,
    prices: &'a Amounts,
    relays: &'a [u32],
    /// The cheapest relays for so many helpers.
    known: Vec<Relays>,
}

/// The cheapest relays without a chunk of trees with so many helpers.
struct Relays {
    count: usize,
    /// The cheapest of each rack.
    inside: Vec<Priced>,
    anywhere: Priced,
}

impl<'a> Costs<'a> {
    pub fn new(ports: &'a Ports, prices: &'a Amounts, relays: &'a [u32]) -> Costs<'a> {
        Costs { ports, prices, relays, known: Vec::new() }
    }

    fn sending(&self, node: u32) -> f64 {
        self.prices.at(self.ports.up(node)) + self.prices.at(self.ports.read(node))
    }

    fn down(&self, node: u32) -> f64 {
        self.prices.at(self.ports.down(node))
    }

    fn write(&self, node: u32) -> f64 {
        self.prices.at(self.ports.write(node))
    }

    fn leaving(&self, rack: u32) -> f64 {
        self.ports.rack_up(rack).map_or(0.0, |port| self.prices.at(port))
    }

    fn arriving(&self, rack: u32) -> f64 {
        self.ports.rack_down(rack).map_or(0.0, |port| self.prices.at(port))
    }

    /// The place of the relays for so many helpers among those that are known.
    fn relays(&mut self, count: usize) -> usize {
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
    fn inside(&self, rack: u32) -> Priced {
        let known = self.inside.get(rack as usize).copied();
        known.unwrap_or((f64::INFINITY, Merge::Relay(0)))
    }
}

/// The helpers of a rack at some prices.
struct PricedRack {
    rack: u32,
    forced: usize,
    /// What each sends and receives for: those that help in any case, then the cheapest.
    helpers: Vec<(f64, f64, u32)>,
    /// What it costs that the first so many send.
    sent: Vec<f64>,
    relay: Priced,
    /// Where a message that arrives from another rack is added up.
    arrival: Priced,
}

impl PricedRack {
    fn new(holders: &Holders, relays: &Relays, costs: &Costs<'_>) -> PricedRack {
        let mut helpers: Vec<(f64, f64, u32)> = holders
            .nodes
            .iter()
            .map(|node| (costs.sending(*node), costs.down(*node), *node))
            .collect();
        helpers[holders.forced..].sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sent = vec![0.0];
        for (at, (sending, ..)) in helpers.iter().enumerate() {
            sent.push(sent[at] + sending);
        }
        let relay = relays.inside(holders.rack);
        let joints = helpers.iter().map(|(_, down, node)| (*down, Merge::Node(*node)));
        let (joint, at) = joints.fold(relay, cheaper);
        let arrival = (joint + costs.arriving(holders.rack), at);
        PricedRack { rack: holders.rack, forced: holders.forced, helpers, sent, relay, arrival }
    }

    /// What it costs more that the helper at a place is among the first `count`.
    fn extra(&self, place: usize, count: usize) -> f64 {
        if place < count {
            0.0
        } else if count > self.forced {
            self.helpers[place].0 - self.helpers[count - 1].0
        } else {
            f64::INFINITY
        }
    }

    /// Where so many messages of `count` helpers are added up within the rack, and what that costs.
    fn joined(&self, count: usize, messages: usize) -> (f64, Inside) {
        if messages == 0 {
            return (0.0, Inside::Relay);
        }
        let messages = messages as f64;
        let mut best = (messages * self.relay.0, Inside::Relay);
        for (place, (_, down, _)) in self.helpers.iter().enumerate() {
            let cost = self.extra(place, count) + messages * down;
            if cost < best.0 {
                best = (cost, Inside::Helper(place));
            }
        }
        best
    }
}

/// Where the messages of a rack are added up.
#[derive(Clone, Copy)]
enum Inside {
    Relay,
    /// At a helper, by its place.
    Helper(usize),
    Root,
    /// At the hub, in another rack.
    Away,
}

/// Into which node a stripe is rebuilt, how many help in each rack, and what arrives there.
struct CheapestTree {
    target: usize,
    root: u32,
    counts: Vec<usize>,
    /// Whether a helper of its rack sends to it; if not, the helpers of another do.
    is_fed_within: bool,
}

impl RackedStripe {
    /// Puts the cheapest tree on `loads`, and returns what it costs.
    pub fn take_cheapest(&self, costs: &mut Costs<'_>, loads: &mut Amounts) -> f64 {
        let known = costs.relays(self.count);
        let relays = &costs.known[known];
        let branches = self.racks.iter().map(|rack| PricedRack::new(rack, relays, costs));
        let branches: Vec<PricedRack> = branches.collect();
        let mut best: Option<(f64, CheapestTree)> = None;
        for (index, target) in self.targets.iter().enumerate() {
            let mut roots: Vec<(f64, f64, u32)> = target
                .nodes
                .iter()
                .map(|node| (costs.down(*node), costs.write(*node), *node))
                .collect();
            roots.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("prices are numbers"));
            let mut least = f64::INFINITY;
            for (down, write, root) in roots {
                if write < least {
                    least = write;
                    let at = RootedAt {
                        stripe: self,
                        costs,
                        relays,
                        branches: &branches,
                        target,
                        root,
                        down,
                    };
                    let (cost, counts, is_fed_within) = at.cheapest();
                    if best.as_ref().is_none_or(|(known, _)| cost + write < *known) {
                        let tree = CheapestTree { target: index, root, counts, is_fed_within };
                        best = Some((cost + write, tree));
                    }
                }
            }
        }
        let Some((cost, tree)) = best else { return 0.0 };
        let target = &self.targets[tree.target];
        let (root, down) = (tree.root, costs.down(tree.root));
        let at = RootedAt { stripe: self, costs, relays, branches: &branches, target, root, down };
        at.charge(&tree, |port, chunks| loads.add(port, chunks * self.bytes));
        cost * self.bytes
    }
}

/// A stripe that is rebuilt at some node.
struct RootedAt<'a> {
    stripe: &'a RackedStripe,
    costs: &'a Costs<'a>,
    relays: &'a Relays,
    branches: &'a [PricedRack],
    target: &'a Target,
    root: u32,
    /// What a chunk costs the node's downlink.
    down: f64,
}

impl RootedAt<'_> {
    /// Where a message that leaves a rack is added up.
    fn hub(&self, from: u32) -> Priced {
        let arriving = self.costs.arriving(self.target.rack);
        let relay = self.relays.inside(self.target.rack);
        let mut best = self.relays.anywhere;
        if from != self.target.rack {
            best = cheaper(best, (arriving + self.down, Merge::Node(self.root)));
            best = cheaper(best, (arriving + relay.0, relay.1));
        }
        let others = self.branches.iter().filter(|branch| branch.rack != from);
        others.fold(best, |best, branch| cheaper(best, branch.arrival))
    }

    /// Where a message that arrives at the destination's rack is added up.
    fn entrance(&self, is_fed_within: bool) -> Priced {
        let arriving = self.costs.arriving(self.target.rack);
        let root = (arriving + self.down, Merge::Node(self.root));
        match self.target.at.filter(|_| is_fed_within) {
            Some(at) => cheaper(root, self.branches[at].arrival),
            None => root,
        }
    }

    /// Where the other messages of a rack are added up when one of `count` has left.
    fn beside(&self, branch: &PricedRack, count: usize) -> (f64, Inside) {
        let away = self.costs.leaving(branch.rack) + self.hub(branch.rack).0;
        let away = ((count - 1) as f64 * away, Inside::Away);
        let inside = branch.joined(count, count - 1);
        if away.0 < inside.0 { away } else { inside }
    }

    /// The same in the destination's rack, for so many of the messages.
    fn beside_root(&self, branch: &PricedRack, count: usize, messages: usize) -> (f64, Inside) {
        // Nobody else may be there to add up what is not sent.
        if messages == 0 {
            return (0.0, Inside::Relay);
        }
        let away = self.costs.leaving(branch.rack) + self.hub(branch.rack).0;
        let others = [(away, Inside::Away), (self.down, Inside::Root)];
        let others = others.map(|(cost, inside)| (messages as f64 * cost, inside));
        let all = others.into_iter().chain([branch.joined(count, messages)]);
        all.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are three")
    }

    /// What the cheapest tree costs but for what is written, the helpers in each rack, and whether one
    /// of the destination's rack sends to it.
    fn cheapest(&self) -> (f64, Vec<usize>, bool) {
        let wanted = self.stripe.count;
        let mut best = vec![f64::INFINITY; wanted + 1];
        best[0] = 0.0;
        let mut taken = vec![Vec::new(); self.branches.len()];
        let mut dearest_hub: f64 = 0.0;
        let at_target = self.target.at;
        for (at, branch) in
            self.branches.iter().enumerate().filter(|(at, _)| Some(*at) != at_target)
        {
            let hub = self.hub(branch.rack).0;
            dearest_hub = dearest_hub.max(hub);
            let leaving = self.costs.leaving(branch.rack) + hub;
            let mut next = vec![f64::INFINITY; wanted + 1];
            let mut from = vec![0; wanted + 1];
            for count in branch.forced..=branch.helpers.len().min(wanted) {
                let cost = match count {
                    0 => 0.0,
                    _ => branch.sent[count] + leaving + self.beside(branch, count).0,
                };
                for before in 0..=wanted - count {
                    if best[before] + cost < next[before + count] {
                        next[before + count] = best[before] + cost;
                        from[before + count] = count;
                    }
                }
            }
            best = next;
            taken[at] = from;
        }
        let (mut least, mut chosen) = (f64::INFINITY, (0, false));
        // One message must arrive where others leave, and the destination needs one: that, or a
        // helper's of its rack.
        let arriving = (self.entrance(false).0 - dearest_hub).max(0.0);
        let arriving_within = (self.entrance(true).0 - dearest_hub).max(0.0);
        let here = at_target.map(|at| &self.branches[at]);
        let (forced, most) = here.map_or((0, 0), |branch| (branch.forced, branch.helpers.len()));
        for count in forced..=most.min(wanted) {
            let others = best[wanted - count];
            let sent = here.map_or(0.0, |branch| branch.sent[count]);
            let joined = |messages: usize| {
                here.map_or(0.0, |branch| self.beside_root(branch, count, messages).0)
            };
            if count > 0 {
                let arriving = if count < wanted { arriving_within } else { 0.0 };
                let cost = others + sent + self.down + joined(count - 1) + arriving;
                if cost < least {
                    (least, chosen) = (cost, (count, true));
                }
            }
            if count < wanted && others + sent + arriving + joined(count) < least {
                (least, chosen) = (others + sent + arriving + joined(count), (count, false));
            }
        }
        let (count, is_fed_within) = chosen;
        let mut counts = vec![0; self.branches.len()];
        let mut left = wanted - count;
        for at in (0..self.branches.len()).rev() {
            counts[at] = match Some(at) == at_target {
                true => count,
                false => taken[at][left],
            };
            if Some(at) != at_target {
                left -= counts[at];
            }
        }
        (least, counts, is_fed_within)
    }

    /// Calls `charge` with every port of a tree and how many chunks it moves.
    fn charge(&self, tree: &CheapestTree, mut charge: impl FnMut(PortIndex, f64)) {
        let ports = self.costs.ports;
        charge(ports.write(self.root), 1.0);
        if tree.is_fed_within {
            charge(ports.down(self.root), 1.0);
        }
        let mut has_arrived = false;
        for (at, branch) in self.branches.iter().enumerate() {
            let count = tree.counts[at];
            if count == 0 {
                continue;
            }
            let is_here = Some(at) == self.target.at;
            let messages = count - usize::from(!is_here || tree.is_fed_within);
            let inside = match is_here {
                true => self.beside_root(branch, count, messages).1,
                false => self.beside(branch, count).1,
            };
            let mut helpers: Vec<usize> = (0..count).collect();
            if let Inside::Helper(place) = inside
                && place >= count
            {
                helpers[count - 1] = place;
            }
            for place in helpers {
                let node = branch.helpers[place].2;
                charge(ports.up(node), 1.0);
                charge(ports.read(node), 1.0);
            }
            let mut leaving = usize::from(!is_here);
            let all = messages as f64;
            match inside {
                Inside::Relay => self.charge_joint(branch.relay.1, all, &mut charge),
                Inside::Helper(place) => charge(ports.down(branch.helpers[place].2), all),
                Inside::Root => charge(ports.down(self.root), all),
                Inside::Away => leaving += messages,
            }
            if !is_here && !has_arrived {
                has_arrived = true;
                leaving -= 1;
                self.charge_link(ports.rack_up(branch.rack), 1.0, &mut charge);
                self.charge_link(ports.rack_down(self.target.rack), 1.0, &mut charge);
                self.charge_joint(self.entrance(tree.is_fed_within).1, 1.0, &mut charge);
            }
            let (all, (_, joint)) = (leaving as f64, self.hub(branch.rack));
            self.charge_link(ports.rack_up(branch.rack), all, &mut charge);
            if let Merge::Node(node) | Merge::Relay(node) = joint {
                self.charge_link(ports.rack_down(ports.rack(node)), all, &mut charge);
            }
            self.charge_joint(joint, all, &mut charge);
        }
    }

    fn charge_link(
        &self,
        port: Option<PortIndex>,
        chunks: f64,
        charge: &mut impl FnMut(PortIndex, f64),
    ) {
        if let Some(port) = port {
            charge(port, chunks);
        }
    }

    fn charge_joint(&self, joint: Merge, chunks: f64, charge: &mut impl FnMut(PortIndex, f64)) {
        let ports = self.costs.ports;
        let others = self.stripe.count as f64 - 1.0;
        let (received, sent) = (chunks * self.stripe.count as f64 / others, chunks / others);
        match joint {
            Merge::Node(node) => charge(ports.down(node), chunks),
            Merge::Relay(_) | Merge::FarRelay(_) if chunks == 0.0 => {}
            Merge::Relay(node) => {
                charge(ports.down(node), received);
                charge(ports.up(node), sent);
            }
            Merge::FarRelay(node) => {
                charge(ports.down(node), received);
                charge(ports.up(node), sent);
                self.charge_link(ports.rack_down(ports.rack(node)), received, charge);
                self.charge_link(ports.rack_up(ports.rack(node)), sent, charge);
            }
        }
    }
}
