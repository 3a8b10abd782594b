//! The cheapest tree of any shape, at prices that do not grow.
//!
//! Place: `[plan]`, a choice of the mixtures of small batches (`mixture.rs`) where racks have
//! links. Sums are formed within racks first (`rack.rs`) unless the nodes of a rack receive so
//! slowly that their chunks had better leave one by one, or a node of it without a chunk adds up
//! for them. What it costs a node to send to another depends on these two alone; so of given nodes
//! the cheapest tree is a minimum arborescence, and which nodes these are is searched for: one
//! helper takes the place of another, and relays come or go, as long as that gains.
//!
//! Source: Y. Chu, T. Liu, "On the shortest arborescence of a directed graph", 1965; J. Edmonds,
//! "Optimum branchings", 1967.

use std::collections::BTreeMap;

use crate::id::NodeId;
use crate::plan::{Carries, Edge};
use crate::planner::View;
use crate::planner::exact::potential::option::{PricedPart, Prices, RepairOption};
use crate::planner::exact::potential::ports::{PortIndex, PricedPorts};

/// The most times that a tree is changed for a cheaper one.
const CHANGES_MAX: usize = 64;

/// A change gains less: nothing.
const GAIN_MIN: f64 = 1e-6;

/// What a relay receives and sends, in lengths of the longest chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelayLoad {
    pub received: f64,
    pub sent: f64,
}

/// Of these nodes those that receive and send so much most cheaply: the best in each rack where a
/// chunk of the stripe is held or kept, and the best elsewhere.
pub(super) fn relays(
    item: &PricedPart<'_>,
    destinations: &[u32],
    nodes: impl Iterator<Item = NodeId>,
    load: RelayLoad,
    ports: &PricedPorts<'_>,
) -> Vec<u32> {
    let racks: Vec<u32> =
        item.holders.iter().chain(destinations).map(|node| ports.rack(*node)).collect();
    let mut cheapest: BTreeMap<Option<u32>, (f64, u32)> = BTreeMap::new();
    for node in nodes {
        let rack = Some(ports.rack(node.0)).filter(|rack| racks.contains(rack));
        let (up, down) = (ports.up(node.0), ports.down(node.0));
        let cost = ports.cost(up, load.sent) + ports.cost(down, load.received);
        if cheapest.get(&rack).is_none_or(|(known, _)| cost < *known) {
            cheapest.insert(rack, (cost, node.0));
        }
    }
    cheapest.into_values().map(|(_, node)| node).collect()
}

/// The tree of these helpers whose sums all meet at the cheapest node without a chunk of the
/// stripe; `None` where there is none but the destination. For where racks have no links.
pub(super) fn relayed(
    item: &PricedPart<'_>,
    root: u32,
    view: &View<'_>,
    ports: &PricedPorts<'_>,
    helpers: &[usize],
) -> Option<RepairOption> {
    let count = helpers.len();
    let may_relay = |node: &NodeId| node.0 != root && item.request.job.may_be_kept_by(*node, view);
    let cost = |node: NodeId| {
        let received = ports.cost(ports.down(node.0), count as f64 * item.length);
        ports.cost(ports.up(node.0), item.length) + received
    };
    let priced = view.cluster.ids().filter(may_relay).map(|node| (cost(node), node.0));
    let (_, relay) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(RepairOption::Arborescence {
        helpers: helpers.iter().map(|place| *place as u8).collect(),
        relays: vec![relay],
        parents: vec![count as u8; count].into_iter().chain([count as u8 + 1]).collect(),
    })
}

/// What trees are made of.
#[derive(Clone, Copy)]
pub(super) struct ArborescenceSearch<'a> {
    pub item: &'a PricedPart<'a>,
    pub root: u32,
    /// Nodes that may add up without a chunk.
    pub relays: &'a [u32],
    pub ports: &'a PricedPorts<'a>,
    pub prices: &'a Prices,
}

/// What it costs the nodes that may be in a tree to send to each other: helpers by place, then
/// relays, and the destination, which stands last.
struct EdgeCosts {
    count: usize,
    /// Row by row, by the node that sends.
    costs: Vec<f64>,
    /// What it costs each relay to send at all.
    relayed: Vec<f64>,
}

impl EdgeCosts {
    fn new(search: &ArborescenceSearch<'_>) -> EdgeCosts {
        let ArborescenceSearch { item, root, relays, ports, .. } = search;
        let nodes = item.holders.iter().chain(*relays).chain([root]);
        let nodes: Vec<u32> = nodes.copied().collect();
        let price = |port: PortIndex| ports.cost(port, item.length);
        let down: Vec<f64> = nodes.iter().map(|node| price(ports.down(*node))).collect();
        let racks = nodes.iter().map(|node| {
            let rack = ports.rack(*node);
            (rack, ports.rack_up(rack).map(price), ports.rack_down(rack).map(price))
        });
        let racks: Vec<(u32, Option<f64>, Option<f64>)> = racks.collect();
        let mut costs = Vec::with_capacity(nodes.len() * nodes.len());
        for (from, up, _) in &racks {
            costs.extend(racks.iter().zip(&down).map(|((to, _, arriving), down)| {
                // As transfers cross: by both links, or by none.
                let links = up.zip(*arriving).filter(|_| from != to);
                down + links.map_or(0.0, |(up, arriving)| up + arriving)
            }));
        }
        let relayed = relays.iter().map(|node| price(ports.up(*node))).collect();
        EdgeCosts { count: nodes.len(), costs, relayed }
    }

    fn between(&self, child: usize, parent: usize) -> f64 {
        self.costs[child * self.count + parent]
    }
}

/// The cheapest tree of some nodes.
struct PricedTree {
    cost: f64,
    /// The helpers, by place.
    helpers: Vec<usize>,
    /// The relays, by place.
    relays: Vec<usize>,
    /// The parent of each helper, then of each relay: one of them, or their number for the
    /// destination.
    parents: Vec<usize>,
}

impl ArborescenceSearch<'_> {
    /// The cheapest tree that is found, beginning with these helpers; where not any of them will
    /// do, of just these.
    pub fn cheapest(self, helpers: Vec<usize>) -> RepairOption {
        let edges = &EdgeCosts::new(&self);
        let mut best = self.tree(edges, helpers, Vec::new(), f64::INFINITY).expect("all are tried");
        for _ in 0..CHANGES_MAX {
            let limit = best.cost * (1.0 - GAIN_MIN);
            let cheaper = self.with_other_helper(edges, &best, limit).next();
            let cheaper = cheaper.or_else(|| self.with_other_relays(edges, &best, limit).next());
            let Some(cheaper) = cheaper else { break };
            best = cheaper;
        }
        while let Some(at) = best.relay_without_child() {
            best.relays.remove(at);
            let tree = self.tree(edges, best.helpers, best.relays, f64::INFINITY);
            best = tree.expect("all are tried");
        }
        RepairOption::Arborescence {
            helpers: best.helpers.into_iter().map(|place| place as u8).collect(),
            relays: best.relays.into_iter().map(|relay| self.relays[relay]).collect(),
            parents: best.parents.into_iter().map(|parent| parent as u8).collect(),
        }
    }

    /// The cheapest tree of these, if it costs less than `limit`.
    fn tree(
        self,
        edges: &EdgeCosts,
        helpers: Vec<usize>,
        relays: Vec<usize>,
        limit: f64,
    ) -> Option<PricedTree> {
        let held = self.item.holders.len();
        let nodes = helpers.iter().copied().chain(relays.iter().map(|relay| held + relay));
        let nodes: Vec<usize> = nodes.chain([edges.count - 1]).collect();
        let count = nodes.len() - 1;
        let sent = helpers.iter().map(|place| self.prices.whole(*place)).sum::<f64>();
        let relayed = relays.iter().map(|relay| edges.relayed[*relay]).sum::<f64>();
        // No tree costs less than each node to its nearest.
        let nearest = |child: usize| {
            let others = (0..=count).filter(|parent| *parent != child);
            let costs = others.map(|parent| edges.between(nodes[child], nodes[parent]));
            costs.fold(f64::INFINITY, f64::min)
        };
        if sent + relayed + (0..count).map(nearest).sum::<f64>() >= limit {
            return None;
        }
        let from = |child: &usize| {
            nodes.iter().map(|parent| edges.between(*child, *parent)).collect::<Vec<f64>>()
        };
        let costs: Vec<Vec<f64>> = nodes[..count].iter().map(from).collect();
        let parents = parents(&costs);
        let joined = parents.iter().zip(&costs).map(|(parent, costs)| costs[*parent]);
        let cost = sent + relayed + joined.sum::<f64>();
        (cost < limit).then_some(PricedTree { cost, helpers, relays, parents })
    }

    /// Trees with one helper in place of another that cost less than `limit`.
    fn with_other_helper(
        self,
        edges: &EdgeCosts,
        than: &PricedTree,
        limit: f64,
    ) -> impl Iterator<Item = PricedTree> {
        let helpers = &than.helpers;
        let free = move |at: &usize| self.item.part.any && helpers[*at] >= self.item.forced();
        let others = (0..self.item.holders.len()).filter(|place| !helpers.contains(place));
        let swaps = others
            .flat_map(move |other| (0..helpers.len()).filter(free).map(move |at| (at, other)));
        swaps.filter_map(move |(at, other)| {
            let mut helpers = helpers.clone();
            helpers[at] = other;
            self.tree(edges, helpers, than.relays.clone(), limit)
        })
    }

    /// Trees with one relay more or less that cost less than `limit`.
    fn with_other_relays(
        self,
        edges: &EdgeCosts,
        than: &PricedTree,
        limit: f64,
    ) -> impl Iterator<Item = PricedTree> {
        (0..self.relays.len()).filter_map(move |relay| {
            let mut relays = than.relays.clone();
            relays.retain(|known| *known != relay);
            if relays.len() == than.relays.len() {
                relays.push(relay);
            }
            self.tree(edges, than.helpers.clone(), relays, limit)
        })
    }
}

impl PricedTree {
    /// The first relay without a child: it receives nothing, and so sends nothing.
    fn relay_without_child(&self) -> Option<usize> {
        let helpers = self.helpers.len();
        (0..self.relays.len()).find(|at| !self.parents.contains(&(helpers + at)))
    }
}

/// The parent of each node in the cheapest tree. `costs` are, for each node, those of all nodes
/// and, last, of the root as its parent.
fn parents(costs: &[Vec<f64>]) -> Vec<usize> {
    let count = costs.len();
    let nearest = |node: usize| {
        let others = (0..=count).filter(|parent| *parent != node);
        others.min_by(|a, b| costs[node][*a].total_cmp(&costs[node][*b])).expect("the root is left")
    };
    let nearest: Vec<usize> = (0..count).map(nearest).collect();
    let Some(circle) = circle(&nearest) else { return nearest };
    // The circle becomes one node, the last before the root; one of it leaves, for what that costs
    // more than to stay.
    let outside: Vec<usize> = (0..=count).filter(|node| !circle.contains(node)).collect();
    let into = |node: usize| {
        let parents = circle.iter().map(|parent| costs[node][*parent]);
        parents.fold(f64::INFINITY, f64::min)
    };
    let more = |node: usize, parent: usize| costs[node][parent] - costs[node][nearest[node]];
    let leaver = |parent: usize| {
        let cheaper = |a: &&usize, b: &&usize| more(**a, parent).total_cmp(&more(**b, parent));
        *circle.iter().min_by(cheaper).expect("a circle has nodes")
    };
    let (nodes, root) = (&outside[..outside.len() - 1], outside[outside.len() - 1]);
    let row = |node: &usize| {
        let others = nodes.iter().map(|parent| costs[*node][*parent]);
        others.chain([into(*node), costs[*node][root]]).collect()
    };
    let circle_row = nodes.iter().map(|parent| more(leaver(*parent), *parent));
    let circle_row = circle_row.chain([0.0, more(leaver(root), root)]).collect();
    let shrunk: Vec<Vec<f64>> = nodes.iter().map(row).chain([circle_row]).collect();
    let found = self::parents(&shrunk);
    // Numbers in the shrunken tree: those outside, the circle, the root.
    let mut parents = nearest.clone();
    let outer = |parent: usize| if parent > nodes.len() { root } else { nodes[parent] };
    for (node, parent) in nodes.iter().zip(&found) {
        parents[*node] = if *parent == nodes.len() {
            let cheaper = |a: &&usize, b: &&usize| costs[*node][**a].total_cmp(&costs[*node][**b]);
            *circle.iter().min_by(cheaper).expect("a circle has nodes")
        } else {
            outer(*parent)
        };
    }
    let parent = outer(found[nodes.len()]);
    let leaver = leaver(parent);
    parents[leaver] = parent;
    parents
}

/// Nodes that are each other's parents around a circle, if there are any.
fn circle(parents: &[usize]) -> Option<Vec<usize>> {
    (0..parents.len()).find_map(|first| {
        let mut path = vec![first];
        let mut node = parents[first];
        while node < parents.len() && !path.contains(&node) {
            path.push(node);
            node = parents[node];
        }
        (node == first).then_some(path)
    })
}

/// The edges of a tree of these nodes, those next to the destination first.
pub(super) fn edges(nodes: &[NodeId], parents: &[u8], root: NodeId, bytes: u64) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(nodes.len());
    let mut waiting = vec![(nodes.len(), root)];
    while let Some((at, parent)) = waiting.pop() {
        let children = (0..nodes.len()).filter(|child| usize::from(parents[*child]) == at);
        for child in children {
            edges.push(Edge { child: nodes[child], parent, bytes, carries: Carries::Partial });
            waiting.push((child, nodes[child]));
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::parents;
    use crate::random::Random;

    fn cost(costs: &[Vec<f64>], parents: &[usize]) -> f64 {
        parents.iter().zip(costs).map(|(parent, costs)| costs[*parent]).sum()
    }

    fn is_tree(parents: &[usize]) -> bool {
        super::circle(parents).is_none()
    }

    #[test]
    fn no_choice_of_parents_makes_a_cheaper_tree() {
        let mut random = Random::new(5);
        for _ in 0..400 {
            let count = random.between(1, 5) as usize;
            // Few different numbers, so that circles are common.
            let row = |random: &mut Random| {
                (0..=count).map(|_| random.below(9) as f64).collect::<Vec<f64>>()
            };
            let costs: Vec<Vec<f64>> = (0..count).map(|_| row(&mut random)).collect();
            let all = (0..(count + 1).pow(count as u32)).map(|mut number| {
                let mut digit = || {
                    let digit = number % (count + 1);
                    number /= count + 1;
                    digit
                };
                (0..count).map(|_| digit()).collect::<Vec<usize>>()
            });
            let is_valid = |parents: &Vec<usize>| {
                parents.iter().enumerate().all(|(node, parent)| node != *parent) && is_tree(parents)
            };
            let least = all.filter(is_valid).map(|parents| cost(&costs, &parents));
            let least = least.fold(f64::INFINITY, f64::min);
            let found = parents(&costs);
            assert!(is_tree(&found), "{costs:?} {found:?}");
            assert_eq!(cost(&costs, &found), least, "{costs:?} {found:?}");
        }
    }
}
