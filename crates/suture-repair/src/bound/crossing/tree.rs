//! The cheapest tree of a stripe at some prices, where racks share links to all others.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`crossing.rs`, which says what
//! is counted).

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

/// A survivor of a rack at some prices: what sending and receiving costs it.
#[derive(Clone, Copy)]
struct PricedHelper {
    sending: f64,
    down: f64,
    node: u32,
}

/// The helpers of a rack at some prices.
struct PricedRack {
    rack: u32,
    forced: usize,
    /// Those that help in any case, then the cheapest.
    helpers: Vec<PricedHelper>,
    /// What it costs that the first so many send.
    sent: Vec<f64>,
    /// What it costs that the messages of so many but one are added up here, and where.
    joined: Vec<(f64, Inside)>,
    relay: Priced,
    /// Where a message that arrives from another rack is added up.
    arrival: Priced,
    /// What a message costs the rack's uplink.
    leaving: f64,
}

impl PricedRack {
    fn none() -> PricedRack {
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

    /// Becomes a rack of `holders`.
    fn set(&mut self, holders: &Holders, relays: &Relays, costs: &Costs<'_>) {
        (self.rack, self.forced) = (holders.rack, holders.forced);
        self.helpers.clear();
        self.helpers.extend(holders.nodes.iter().map(|&node| PricedHelper {
            sending: costs.sending(node),
            down: costs.down(node),
            node,
        }));
        self.helpers[holders.forced..].sort_by(|a, b| a.sending.total_cmp(&b.sending));
        self.relay = relays.inside(holders.rack);
        let joints = self.helpers.iter().map(|helper| (helper.down, Merge::Node(helper.node)));
        let (joint, at) = joints.fold(self.relay, cheaper);
        self.arrival = (joint + costs.arriving(holders.rack), at);
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

    /// What it costs more that the helper at a place is among the first `count`.
    fn extra(&self, place: usize, count: usize) -> f64 {
        if place < count {
            0.0
        } else if count > self.forced {
            self.helpers[place].sending - self.helpers[count - 1].sending
        } else {
            f64::INFINITY
        }
    }

    /// Where so many messages of `count` helpers are added up within the rack, and what that costs.
    fn joined_at(&self, count: usize, messages: usize) -> (f64, Inside) {
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
enum Inside {
    Relay,
    /// At a helper, by its place.
    Helper(usize),
    Root,
    /// At the hub, in another rack.
    Away,
}

/// Into which node a stripe is rebuilt, how many help in its rack, and what arrives there.
#[derive(Clone, Copy)]
struct CheapestTree {
    target: usize,
    root: u32,
    count_at_root: usize,
    /// Whether a helper of its rack sends to it; if not, the helpers of another do.
    is_fed_within: bool,
}

/// Memory that stripes share, one after the other.
#[derive(Default)]
pub(super) struct Workspace {
    racks: Vec<PricedRack>,
    knapsack: Knapsack,
    roots: Vec<(f64, f64, u32)>,
}

impl RackedStripe {
    /// Puts the cheapest tree on `loads`, and returns what it costs.
    pub fn take_cheapest(
        &self,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
        loads: &mut Amounts,
    ) -> f64 {
        let known = costs.relays(self.count);
        let (costs, relays) = (&*costs, &costs.known[known]);
        let Workspace { racks, knapsack, roots } = workspace;
        if racks.len() < self.racks.len() {
            racks.resize_with(self.racks.len(), PricedRack::none);
        }
        let racks = &mut racks[..self.racks.len()];
        racks
            .iter_mut()
            .zip(&self.racks)
            .for_each(|(rack, holders)| rack.set(holders, relays, costs));
        let at = |target: usize, root: u32| {
            let target = &self.targets[target];
            RootedAt::new(self, costs, relays, &*racks, target, root)
        };
        let mut best: Option<(f64, CheapestTree)> = None;
        for (target, Target { nodes, .. }) in self.targets.iter().enumerate() {
            roots.clear();
            roots.extend(nodes.iter().map(|node| (costs.down(*node), costs.write(*node), *node)));
            roots.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("prices are numbers"));
            let mut least = f64::INFINITY;
            for &(_, write, root) in roots.iter() {
                if write >= least {
                    continue;
                }
                least = write;
                let (cost, count_at_root, is_fed_within) = at(target, root).cheapest(knapsack);
                if best.is_none_or(|(known, _)| cost + write < known) {
                    let tree = CheapestTree { target, root, count_at_root, is_fed_within };
                    best = Some((cost + write, tree));
                }
            }
        }
        let Some((cost, tree)) = best else { return 0.0 };
        let rooted = at(tree.target, tree.root);
        rooted.cheapest(knapsack);
        let counts = knapsack.counts(self.count, &tree, rooted.target.at);
        rooted.charge(&tree, &counts, |port, chunks| loads.add(port, chunks * self.bytes));
        cost * self.bytes
    }
}

/// How many help in each rack.
#[derive(Default)]
struct Knapsack {
    /// What so many helpers cost of the racks so far.
    best: Vec<f64>,
    next: Vec<f64>,
    /// For each rack and number of helpers up to it, how many are of the rack.
    taken: Vec<usize>,
}

impl Knapsack {
    /// How many help in each rack for a tree.
    fn counts(&self, wanted: usize, tree: &CheapestTree, at_root: Option<usize>) -> Vec<usize> {
        let rows = self.taken.chunks_exact(wanted + 1).enumerate();
        let mut left = wanted - tree.count_at_root;
        let mut counts = vec![0; rows.len()];
        for (at, taken) in rows.rev() {
            counts[at] = tree.count_at_root;
            if Some(at) != at_root {
                counts[at] = taken[left];
                left -= taken[left];
            }
        }
        counts
    }
}

/// A stripe that is rebuilt at some node.
struct RootedAt<'a> {
    stripe: &'a RackedStripe,
    costs: &'a Costs<'a>,
    relays: &'a Relays,
    racks: &'a [PricedRack],
    target: &'a Target,
    root: u32,
    /// What a chunk costs the node's downlink.
    down: f64,
    /// Where messages of other racks are added up, but for helpers.
    hub: Priced,
    /// The rack where a message from another is added up most cheaply, and that for itself.
    arrivals: [(Option<u32>, Priced); 2],
}

impl<'a> RootedAt<'a> {
    fn new(
        stripe: &'a RackedStripe,
        costs: &'a Costs<'a>,
        relays: &'a Relays,
        racks: &'a [PricedRack],
        target: &'a Target,
        root: u32,
    ) -> RootedAt<'a> {
        let (down, arriving) = (costs.down(root), costs.arriving(target.rack));
        let relay = relays.inside(target.rack);
        let hub = cheaper(relays.anywhere, (arriving + down, Merge::Node(root)));
        let hub = cheaper(hub, (arriving + relay.0, relay.1));
        let mut arrivals = [(None, (f64::INFINITY, Merge::Relay(0))); 2];
        for rack in racks {
            if rack.arrival.0 < arrivals[0].1.0 {
                arrivals = [(Some(rack.rack), rack.arrival), arrivals[0]];
            } else if rack.arrival.0 < arrivals[1].1.0 {
                arrivals[1] = (Some(rack.rack), rack.arrival);
            }
        }
        RootedAt { stripe, costs, relays, racks, target, root, down, hub, arrivals }
    }

    /// Where a message that leaves a rack is added up.
    fn hub(&self, from: u32) -> Priced {
        let near = if from == self.target.rack { self.relays.anywhere } else { self.hub };
        let [first, second] = self.arrivals;
        cheaper(near, if first.0 == Some(from) { second.1 } else { first.1 })
    }

    /// Where a message that arrives at the destination's rack is added up.
    fn entrance(&self, is_fed_within: bool) -> Priced {
        let arriving = self.costs.arriving(self.target.rack);
        let root = (arriving + self.down, Merge::Node(self.root));
        match self.target.at.filter(|_| is_fed_within) {
            Some(at) => cheaper(root, self.racks[at].arrival),
            None => root,
        }
    }

    /// Where the other messages of a rack are added up when one of `count` has left for a hub.
    fn beside(&self, rack: &PricedRack, count: usize, hub: f64) -> (f64, Inside) {
        let away = ((count - 1) as f64 * (rack.leaving + hub), Inside::Away);
        let inside = rack.joined[count];
        if away.0 < inside.0 { away } else { inside }
    }

    /// The same in the destination's rack, for so many of the messages.
    fn beside_root(&self, rack: &PricedRack, count: usize, messages: usize) -> (f64, Inside) {
        // Nobody else may be there to add up what is not sent.
        if messages == 0 {
            return (0.0, Inside::Relay);
        }
        let away = rack.leaving + self.hub(rack.rack).0;
        let others = [(away, Inside::Away), (self.down, Inside::Root)];
        let others = others.map(|(cost, inside)| (messages as f64 * cost, inside));
        let all = others.into_iter().chain([rack.joined_at(count, messages)]);
        all.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are three")
    }

    /// What the cheapest tree costs but for what is written, the helpers in the destination's rack,
    /// and whether one of them sends to it.
    fn cheapest(&self, knapsack: &mut Knapsack) -> (f64, usize, bool) {
        let dearest_hub = self.others(knapsack);
        let (wanted, others) = (self.stripe.count, &knapsack.best);
        // One message must arrive where others leave, and the destination needs one: that, or a
        // helper's of its rack.
        let arriving = (self.entrance(false).0 - dearest_hub).max(0.0);
        let arriving_within = (self.entrance(true).0 - dearest_hub).max(0.0);
        let here = self.target.at.map(|at| &self.racks[at]);
        let (forced, most) = here.map_or((0, 0), |rack| (rack.forced, rack.helpers.len()));
        let mut least = (f64::INFINITY, 0, false);
        for count in forced..=most.min(wanted) {
            let others = others[wanted - count];
            if others == f64::INFINITY {
                continue;
            }
            let sent = here.map_or(0.0, |rack| rack.sent[count]);
            let joined = |messages: usize| {
                here.map_or(0.0, |rack| self.beside_root(rack, count, messages).0)
            };
            if count > 0 {
                let arriving = if count < wanted { arriving_within } else { 0.0 };
                let cost = others + sent + self.down + joined(count - 1) + arriving;
                if cost < least.0 {
                    least = (cost, count, true);
                }
            }
            if count < wanted {
                let cost = others + sent + arriving + joined(count);
                if cost < least.0 {
                    least = (cost, count, false);
                }
            }
        }
        least
    }

    /// What helpers of other racks cost, by their number, and the dearest hub that they send to.
    fn others(&self, knapsack: &mut Knapsack) -> f64 {
        let wanted = self.stripe.count;
        let Knapsack { best, next, taken } = knapsack;
        best.clear();
        best.resize(wanted + 1, f64::INFINITY);
        best[0] = 0.0;
        taken.clear();
        taken.resize(self.racks.len() * (wanted + 1), 0);
        let (mut dearest_hub, mut reached) = (0.0f64, 0);
        for (at, rack) in self.racks.iter().enumerate() {
            if Some(at) == self.target.at {
                continue;
            }
            let hub = self.hub(rack.rack).0;
            dearest_hub = dearest_hub.max(hub);
            let from = &mut taken[at * (wanted + 1)..];
            next.clear();
            next.resize(wanted + 1, f64::INFINITY);
            let most = rack.helpers.len().min(wanted);
            for count in rack.forced..=most {
                let cost = match count {
                    0 => 0.0,
                    _ => rack.sent[count] + rack.leaving + hub + self.beside(rack, count, hub).0,
                };
                for before in 0..=reached.min(wanted - count) {
                    if best[before] + cost < next[before + count] {
                        next[before + count] = best[before] + cost;
                        from[before + count] = count;
                    }
                }
            }
            reached = (reached + most).min(wanted);
            std::mem::swap(best, next);
        }
        dearest_hub
    }

    /// Calls `charge` with every port of a tree and how many chunks it moves.
    fn charge(
        &self,
        tree: &CheapestTree,
        counts: &[usize],
        mut charge: impl FnMut(PortIndex, f64),
    ) {
        let ports = self.costs.ports;
        charge(ports.write(self.root), 1.0);
        if tree.is_fed_within {
            charge(ports.down(self.root), 1.0);
        }
        let mut has_arrived = false;
        for (at, rack) in self.racks.iter().enumerate() {
            let count = counts[at];
            if count == 0 {
                continue;
            }
            let is_here = Some(at) == self.target.at;
            let messages = count - usize::from(!is_here || tree.is_fed_within);
            let hub = self.hub(rack.rack);
            let inside = match is_here {
                true => self.beside_root(rack, count, messages).1,
                false => self.beside(rack, count, hub.0).1,
            };
            self.charge_helpers(rack, count, inside, &mut charge);
            let mut leaving = usize::from(!is_here);
            let all = messages as f64;
            match inside {
                Inside::Relay => self.charge_joint(rack.relay.1, all, &mut charge),
                Inside::Helper(place) => charge(ports.down(rack.helpers[place].node), all),
                Inside::Root => charge(ports.down(self.root), all),
                Inside::Away => leaving += messages,
            }
            if !is_here && !has_arrived {
                has_arrived = true;
                leaving -= 1;
                self.charge_link(ports.rack_up(rack.rack), 1.0, &mut charge);
                self.charge_link(ports.rack_down(self.target.rack), 1.0, &mut charge);
                self.charge_joint(self.entrance(tree.is_fed_within).1, 1.0, &mut charge);
            }
            let all = leaving as f64;
            self.charge_link(ports.rack_up(rack.rack), all, &mut charge);
            if let Merge::Node(node) | Merge::Relay(node) = hub.1 {
                self.charge_link(ports.rack_down(ports.rack(node)), all, &mut charge);
            }
            self.charge_joint(hub.1, all, &mut charge);
        }
    }

    /// What the first so many helpers of a rack send, and the one at which they are added up.
    fn charge_helpers(
        &self,
        rack: &PricedRack,
        count: usize,
        inside: Inside,
        charge: &mut impl FnMut(PortIndex, f64),
    ) {
        for place in 0..count {
            let place = match inside {
                Inside::Helper(joint) if joint >= count && place + 1 == count => joint,
                _ => place,
            };
            let node = rack.helpers[place].node;
            charge(self.costs.ports.up(node), 1.0);
            charge(self.costs.ports.read(node), 1.0);
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
