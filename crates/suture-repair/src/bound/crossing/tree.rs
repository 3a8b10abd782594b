//! The cheapest tree of a stripe at some prices, where racks share links to all others.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`crossing.rs`, which says what
//! is counted).
//!
//! A message that arrives from another rack is added up by whichever survivor is cheapest, as if it
//! helped. If it does not in the tree that is found, both cases are tried: it helps, or it is none
//! of those that may.

mod checked;

use crate::bound::crossing::priced::{
    Costs, Decided, Inside, Merge, Priced, PricedRack, Relays, cheaper,
};
use crate::bound::crossing::stripe::{RackedStripe, Target};
use crate::bound::search::Amounts;
use crate::planner::ports::PortIndex;

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

impl Workspace {
    /// The racks of a stripe at some prices, of whose survivors some are decided about.
    fn priced(
        &mut self,
        stripe: &RackedStripe,
        decided: &Decided,
        relays: &Relays,
        costs: &Costs<'_>,
    ) -> &[PricedRack] {
        let count = stripe.racks.len();
        if self.racks.len() < count {
            self.racks.resize_with(count, PricedRack::none);
        }
        let racks = self.racks[..count].iter_mut().zip(&stripe.racks);
        racks.for_each(|(rack, holders)| rack.set(holders, decided, relays, costs));
        &self.racks[..count]
    }
}

/// How many survivors are decided about at most, one after the other.
const DECIDED_MAX: usize = 6;

impl RackedStripe {
    /// Puts the cheapest tree on `loads`, and returns what it costs.
    pub fn take_cheapest(
        &self,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
        loads: &mut Amounts,
    ) -> f64 {
        if self.targets.is_empty() { 0.0 } else { self.take(None, costs, workspace, loads) }
    }

    /// Puts the cheapest tree on `loads` whose target is the one at a place, if one is given, and
    /// returns what it costs.
    pub fn take(
        &self,
        target: Option<usize>,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
        loads: &mut Amounts,
    ) -> f64 {
        if let Some(around) = &self.around {
            let [own, other] =
                [self, around].map(|stripe| stripe.least_own(target, costs, workspace));
            if other < own {
                return around.take(target, costs, workspace, loads);
            }
        }
        let by_checks = self.cheapest_by_checks(target, costs, workspace);
        let known = costs.relays(self.count);
        let (cost, tree) = self.cheapest_decided(target, costs, &costs.known[known], workspace);
        if let Some(checked) = by_checks.filter(|checked| checked.cost > cost) {
            self.charge_checked(&checked, costs, workspace, loads);
            return checked.cost * self.bytes;
        }
        let (costs, relays) = (&*costs, &costs.known[known]);
        let (rooted, counts) = self.rooted(&tree, costs, relays, workspace);
        rooted.charge(&tree, &counts, |port, chunks| loads.add(port, chunks * self.bytes));
        cost * self.bytes
    }

    /// What the cheapest tree costs whose target is the one at a place, for each byte.
    pub fn least_cost(
        &self,
        target: usize,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
    ) -> f64 {
        let stripes = [Some(self), self.around.as_deref()].into_iter().flatten();
        let costs = stripes.map(|stripe| stripe.least_own(Some(target), costs, workspace));
        costs.fold(f64::INFINITY, f64::min)
    }

    /// The same of its own helpers, into the target at a place or into any.
    fn least_own(
        &self,
        target: Option<usize>,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
    ) -> f64 {
        let checked = self.cheapest_by_checks(target, costs, workspace);
        let known = costs.relays(self.count);
        let (cost, _) = self.cheapest_decided(target, costs, &costs.known[known], workspace);
        checked.map_or(cost, |checked| checked.cost.max(cost))
    }

    /// What trees of all survivors cost at least into the target at a place, for each byte: what
    /// each survivor sends, a message out of each other rack, and what is received and written
    /// there.
    pub fn cost_of_sending(&self, target: usize, costs: &Costs<'_>) -> f64 {
        let Target { rack: own, nodes, .. } = &self.targets[target];
        let sent = self.racks.iter().map(|rack| {
            let sent: f64 = rack.nodes.iter().map(|node| costs.sending(*node)).sum();
            sent + if rack.rack == *own { 0.0 } else { costs.leaving(rack.rack) }
        });
        sent.sum::<f64>() + costs.down(nodes[0]) + costs.write(nodes[0])
    }

    /// The cheapest tree, in racks as they are priced last.
    fn cheapest_decided(
        &self,
        target: Option<usize>,
        costs: &Costs<'_>,
        relays: &Relays,
        workspace: &mut Workspace,
    ) -> (f64, CheapestTree) {
        let decided = Decided { target, ..Decided::default() };
        let (cost, tree) = self.cheapest(&decided, costs, relays, workspace);
        match self.idle_merge(&tree, costs, relays, workspace) {
            Some(merge) => {
                let branched =
                    self.branched(decided, merge, f64::INFINITY, costs, relays, workspace);
                self.cheapest(&branched.1, costs, relays, workspace)
            }
            None => (cost, tree),
        }
    }

    /// The least that a tree costs, below `limit`, when it is decided of a survivor whether it
    /// helps: in both cases, and what is decided in the cheaper one.
    fn branched(
        &self,
        decided: Decided,
        merge: u32,
        limit: f64,
        costs: &Costs<'_>,
        relays: &Relays,
        workspace: &mut Workspace,
    ) -> (f64, Decided) {
        let (mut helping, mut idle) = (decided.clone(), decided);
        helping.helping.push(merge);
        idle.idle.push(merge);
        let mut best = (limit, idle.clone());
        for decided in [helping, idle] {
            let (cost, tree) = self.cheapest(&decided, costs, relays, workspace);
            if cost >= best.0 {
                continue;
            }
            let is_open = decided.helping.len() + decided.idle.len() < DECIDED_MAX;
            let merge = self.idle_merge(&tree, costs, relays, workspace).filter(|_| is_open);
            best = match merge {
                Some(merge) => {
                    let found = self.branched(decided, merge, best.0, costs, relays, workspace);
                    if found.0 < best.0 { found } else { best }
                }
                None => (cost, decided),
            };
        }
        best
    }

    /// The cheapest tree, if a survivor that does not help may add up what arrives: no tree that
    /// agrees with what is decided costs less.
    fn cheapest(
        &self,
        decided: &Decided,
        costs: &Costs<'_>,
        relays: &Relays,
        workspace: &mut Workspace,
    ) -> (f64, CheapestTree) {
        workspace.priced(self, decided, relays, costs);
        let Workspace { racks, knapsack, roots } = workspace;
        let racks = &racks[..self.racks.len()];
        let mut best: Option<(f64, CheapestTree)> = None;
        let is_open = |at: usize| decided.target.is_none_or(|only| only == at);
        let targets = self.targets.iter().enumerate().filter(|(at, _)| is_open(*at));
        for (target, Target { nodes, .. }) in targets {
            roots.clear();
            roots.extend(nodes.iter().map(|node| (costs.down(*node), costs.write(*node), *node)));
            roots.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("prices are numbers"));
            let mut least = f64::INFINITY;
            for &(_, write, root) in roots.iter() {
                if write >= least {
                    continue;
                }
                least = write;
                let at = RootedAt::new(self, costs, relays, racks, &self.targets[target], root);
                let (cost, count_at_root, is_fed_within) = at.cheapest(knapsack);
                if best.is_none_or(|(known, _)| cost + write < known) {
                    let tree = CheapestTree { target, root, count_at_root, is_fed_within };
                    best = Some((cost + write, tree));
                }
            }
        }
        best.expect("some node may keep the chunk")
    }

    /// A tree in the racks as they were priced last, and how many of each help in it.
    fn rooted<'a>(
        &'a self,
        tree: &CheapestTree,
        costs: &'a Costs<'_>,
        relays: &'a Relays,
        workspace: &'a mut Workspace,
    ) -> (RootedAt<'a>, Vec<usize>) {
        let Workspace { racks, knapsack, .. } = workspace;
        let (racks, target) = (&racks[..self.racks.len()], &self.targets[tree.target]);
        let rooted = RootedAt::new(self, costs, relays, racks, target, tree.root);
        rooted.cheapest(knapsack);
        let counts = knapsack.counts(self.count, tree, target.at);
        (rooted, counts)
    }

    /// A survivor that adds up what arrives from other racks in a tree without helping, if any.
    fn idle_merge(
        &self,
        tree: &CheapestTree,
        costs: &Costs<'_>,
        relays: &Relays,
        workspace: &mut Workspace,
    ) -> Option<u32> {
        let (rooted, counts) = self.rooted(tree, costs, relays, workspace);
        let helps = |node: u32| {
            let mut racks = rooted.racks.iter().zip(&counts);
            racks.any(|(rack, count)| rack.helpers[..*count].iter().any(|held| held.node == node))
        };
        let from = rooted.racks.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let hubs = from.map(|(rack, _)| rooted.hub(rack.rack).1);
        let entrance = rooted.entrance(tree.is_fed_within).1;
        hubs.chain([entrance]).find_map(|merge| match merge {
            Merge::Node(node) if node != tree.root && !helps(node) => Some(node),
            _ => None,
        })
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
        // Perhaps no relay is there to add up what is not sent.
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
        let mut best = (f64::INFINITY, 0, false);
        let (mut chosen, mut last) = (0, 0);
        for (at, helping) in self.stripe.helping.iter().enumerate() {
            let found = self.cheapest_with(helping, knapsack);
            last = at;
            if found.0 < best.0 {
                (best, chosen) = (found, at);
            }
        }
        if chosen != last {
            self.cheapest_with(&self.stripe.helping[chosen], knapsack);
        }
        best
    }

    /// The same where something helps in each of these racks.
    fn cheapest_with(&self, helping: &[u32], knapsack: &mut Knapsack) -> (f64, usize, bool) {
        let dearest_hub = self.others(helping, knapsack);
        let (wanted, others) = (self.stripe.count, &knapsack.best);
        // One message must arrive where others leave, and the destination needs one: that, or a
        // helper's of its rack.
        let arriving = (self.entrance(false).0 - dearest_hub).max(0.0);
        let arriving_within = (self.entrance(true).0 - dearest_hub).max(0.0);
        let here = self.target.at.map(|at| &self.racks[at]);
        let (forced, most) = here.map_or((0, 0), |rack| (rack.least(helping), rack.helpers.len()));
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
    fn others(&self, helping: &[u32], knapsack: &mut Knapsack) -> f64 {
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
            for count in rack.least(helping)..=most {
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
            let inside = if is_here {
                self.beside_root(rack, count, messages).1
            } else {
                self.beside(rack, count, hub.0).1
            };
            self.charge_helpers(rack, count, inside, &mut charge);
            let mut leaving = usize::from(!is_here);
            let all = messages as f64;
            match inside {
                Inside::Relay => self.charge_merge(rack.relay.1, all, &mut charge),
                Inside::Helper(place) => charge(ports.down(rack.helpers[place].node), all),
                Inside::Root => charge(ports.down(self.root), all),
                Inside::Away => leaving += messages,
            }
            if !is_here && !has_arrived {
                has_arrived = true;
                leaving -= 1;
                self.charge_link(ports.rack_up(rack.rack), 1.0, &mut charge);
                self.charge_link(ports.rack_down(self.target.rack), 1.0, &mut charge);
                self.charge_merge(self.entrance(tree.is_fed_within).1, 1.0, &mut charge);
            }
            let all = leaving as f64;
            self.charge_link(ports.rack_up(rack.rack), all, &mut charge);
            if let Merge::Node(node) | Merge::Relay(node) = hub.1 {
                self.charge_link(ports.rack_down(ports.rack(node)), all, &mut charge);
            }
            self.charge_merge(hub.1, all, &mut charge);
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
                Inside::Helper(merge) if merge >= count && place + 1 == count => merge,
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

    fn charge_merge(&self, merge: Merge, chunks: f64, charge: &mut impl FnMut(PortIndex, f64)) {
        let ports = self.costs.ports;
        let others = self.stripe.count as f64 - 1.0;
        let (received, sent) = (chunks * self.stripe.count as f64 / others, chunks / others);
        match merge {
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
