//! The cheapest tree of any shape, at prices that do not grow.
//!
//! Place: `[plan]`, a choice of the mixtures of small batches (`mixture.rs`) where racks have
//! links. Sums are formed within racks first (`rack.rs`) unless the nodes of a rack receive so
//! slowly that their chunks had better leave one by one. What it costs a helper to send to another
//! depends on these two alone; so of given helpers the cheapest tree is a minimum arborescence, and
//! which helpers these are is searched for: one takes the place of another as long as that gains.
//!
//! Source: Y. Chu, T. Liu, "On the shortest arborescence of a directed graph", 1965; J. Edmonds,
//! "Optimum branchings", 1967.

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Carries, Edge};
use crate::planner::exact::potential::option::{PricedPart, Prices, RepairOption};
use crate::planner::exact::potential::ports::PricedPorts;

/// The most times that one helper takes the place of another.
const SWAPS_MAX: usize = 64;

/// A swap gains less: nothing.
const GAIN_MIN: f64 = 1e-6;

/// The cheapest tree that is found into a destination, beginning with these helpers; where not any
/// of them will do, of just these.
pub(super) fn cheapest(
    item: &PricedPart<'_>,
    root: u32,
    chosen: Vec<usize>,
    ports: &PricedPorts<'_>,
    prices: &Prices,
) -> RepairOption {
    let search = SwapSearch { item, root, ports, prices };
    let mut best = search.tree(chosen);
    for _ in 0..if item.part.any { SWAPS_MAX } else { 0 } {
        let Some(cheaper) = search.cheaper(&best) else { break };
        best = cheaper;
    }
    let helpers = best.helpers.into_iter().map(|place| place as u8).collect();
    let parents = best.parents.into_iter().map(|parent| parent as u8).collect();
    RepairOption::Arborescence { helpers, parents }
}

/// What trees are made of.
#[derive(Clone, Copy)]
struct SwapSearch<'a> {
    item: &'a PricedPart<'a>,
    root: u32,
    ports: &'a PricedPorts<'a>,
    prices: &'a Prices,
}

/// The cheapest tree of some helpers.
struct PricedTree {
    cost: f64,
    /// Who helps, by place.
    helpers: Vec<usize>,
    /// The parent of each: one of them, or their number for the destination.
    parents: Vec<usize>,
}

impl SwapSearch<'_> {
    fn tree(self, helpers: Vec<usize>) -> PricedTree {
        let SwapSearch { item, root, ports, prices } = self;
        let holders = helpers.iter().map(|place| item.holders[*place]);
        let nodes: Vec<u32> = holders.chain([root]).collect();
        let down: Vec<f64> =
            nodes.iter().map(|node| ports.cost(ports.down(*node), item.length)).collect();
        let edge = |child: u32, parent: usize| {
            let links = ports.crossing(child, nodes[parent]).into_iter().flatten();
            down[parent] + links.map(|link| ports.cost(link, item.length)).sum::<f64>()
        };
        let from = |child: &u32| (0..nodes.len()).map(|parent| edge(*child, parent)).collect();
        let costs: Vec<Vec<f64>> = nodes[..helpers.len()].iter().map(from).collect();
        let parents = parents(&costs);
        let sent = helpers.iter().map(|place| prices.whole(*place)).sum::<f64>();
        let joined = parents.iter().zip(&costs).map(|(parent, costs)| costs[*parent]);
        PricedTree { cost: sent + joined.sum::<f64>(), helpers, parents }
    }

    /// The first that costs less with one helper in place of another.
    fn cheaper(self, than: &PricedTree) -> Option<PricedTree> {
        let helpers = &than.helpers;
        let others = (0..self.item.holders.len()).filter(|place| !helpers.contains(place));
        let free = || (0..helpers.len()).filter(|at| helpers[*at] >= self.item.forced());
        let swaps = others.flat_map(|other| free().map(move |at| (at, other)));
        let mut trees = swaps.map(|(at, other)| {
            let mut helpers = helpers.clone();
            helpers[at] = other;
            self.tree(helpers)
        });
        trees.find(|tree| tree.cost < than.cost * (1.0 - GAIN_MIN))
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
        let joints = circle.iter().map(|joint| costs[node][*joint]);
        joints.fold(f64::INFINITY, f64::min)
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
        parents[*node] = match *parent == nodes.len() {
            true => {
                let cheaper =
                    |a: &&usize, b: &&usize| costs[*node][**a].total_cmp(&costs[*node][**b]);
                *circle.iter().min_by(cheaper).expect("a circle has nodes")
            }
            false => outer(*parent),
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

/// The edges of such a tree, those next to the destination first.
pub(super) fn edges(
    helpers: &[(ChunkIndex, NodeId)],
    parents: &[u8],
    root: NodeId,
    bytes: u64,
) -> Vec<Edge> {
    let mut edges = Vec::with_capacity(helpers.len());
    let mut waiting = vec![(helpers.len(), root)];
    while let Some((at, parent)) = waiting.pop() {
        let children = (0..helpers.len()).filter(|child| usize::from(parents[*child]) == at);
        for child in children {
            let node = helpers[child].1;
            edges.push(Edge { child: node, parent, bytes, carries: Carries::Partial });
            waiting.push((child, node));
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
