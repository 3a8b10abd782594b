//! Which nodes may keep a rebuilt chunk, and which of them would do so at the least price.
//!
//! Place: `[plan]`, the choice of destinations in the potential planner. Which nodes may is decided
//! by `keep.rs`.

use crate::id::NodeId;
use crate::planner::exact::instance::Instance;
use crate::planner::exact::potential::option::PricedPart;
use crate::planner::exact::potential::ports::PricedPorts;
use crate::planner::least::Least;

/// On clusters up to this size all nodes are looked at; a ranking would not be faster.
const SCAN_MAX: usize = 48;

/// How many nodes of a rack are looked at for one that keeps a chunk: in every sweep others.
const RACK_VISITS_MAX: usize = 8;

/// Nodes beside which another one keeps a chunk of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exclusions<'a> {
    /// Those that keep other chunks of its stripe.
    pub taken: &'a [u32],
    /// Those that are chosen for other chunks of the item.
    pub chosen: &'a [u32],
}

/// How many candidates are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct CandidateCounts {
    /// How many of all nodes together.
    pub overall: usize,
    /// Of each rack, where racks have links.
    pub per_rack: usize,
}

/// Where a destination is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct RackQuery<'a> {
    /// Those that keep other chunks of the item's stripe.
    pub taken: &'a [u32],
    pub racks: &'a [u32],
    /// At which of a rack's nodes to begin.
    pub begin: usize,
}

/// All nodes that accept chunks, by what keeping one more would cost.
pub(super) struct DestinationRanking {
    accepting: Vec<u32>,
    /// Of all nodes; prices may have risen since they were entered, but not fallen.
    ranking: Option<Least>,
    /// Accepting nodes by rack, where racks have links.
    by_rack: Vec<Vec<u32>>,
}

impl DestinationRanking {
    pub fn new(instance: &Instance<'_>, ports: &PricedPorts<'_>) -> DestinationRanking {
        let nodes = instance.view.cluster.ids().filter(|node| instance.view.accepts(*node));
        let accepting: Vec<u32> = nodes.map(|node| node.0).collect();
        let mut by_rack: Vec<Vec<u32>> = Vec::new();
        for &node in accepting.iter().filter(|_| ports.have_racks()) {
            let rack = ports.rack(node) as usize;
            if by_rack.len() <= rack {
                by_rack.resize(rack + 1, Vec::new());
            }
            by_rack[rack].push(node);
        }
        DestinationRanking { accepting, ranking: None, by_rack }
    }

    /// Ranks all nodes by the prices of now.
    pub fn rank(&mut self, ports: &PricedPorts<'_>, node_count: usize) {
        if self.accepting.len() > SCAN_MAX {
            let mut keys = vec![f64::INFINITY; node_count];
            self.accepting.iter().for_each(|node| keys[*node as usize] = price(ports, *node));
            self.ranking = Some(Least::new(keys));
        }
    }

    /// Notes that a node's price may have fallen.
    pub fn refresh(&mut self, ports: &PricedPorts<'_>, node: u32) {
        if let Some(ranking) = &mut self.ranking {
            ranking.set(node as usize, price(ports, node));
        }
    }

    /// The cheapest nodes that may keep the item's chunks, one for each, and are not taken.
    pub fn cheapest(
        &mut self,
        instance: &Instance<'_>,
        item: &PricedPart<'_>,
        taken: &[u32],
        ports: &PricedPorts<'_>,
    ) -> Vec<u32> {
        let wanted = item.part.lost.len();
        let allows =
            |node: u32, chosen: &[u32]| allows(instance, item, node, Exclusions { taken, chosen });
        let Some(ranking) = &mut self.ranking else {
            let allowed = self.accepting.iter().copied().filter(|node| allows(*node, &[]));
            let mut ranked: Vec<(f64, u32)> =
                allowed.map(|node| (price(ports, node), node)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut chosen = Vec::with_capacity(wanted);
            for (_, node) in ranked {
                if chosen.len() < wanted && (chosen.is_empty() || allows(node, &chosen)) {
                    chosen.push(node);
                }
            }
            return chosen;
        };
        let (mut chosen, mut seen) = (Vec::with_capacity(wanted), Vec::new());
        while chosen.len() < wanted
            && let Some((index, key)) = ranking.least_with_key()
        {
            let node = index as u32;
            let now = price(ports, node);
            if now > key * (1.0 + 1e-9) {
                ranking.set(index, now);
                continue;
            }
            ranking.set(index, f64::INFINITY);
            seen.push((index, now));
            if allows(node, &chosen) {
                chosen.push(node);
            }
        }
        seen.into_iter().for_each(|(index, key)| ranking.set(index, key));
        chosen
    }

    /// The cheapest nodes that may keep the item's chunk and are not taken: so many of all, and of
    /// each rack, where racks have links.
    pub fn cheapest_few(
        &self,
        instance: &Instance<'_>,
        item: &PricedPart<'_>,
        taken: &[u32],
        ports: &PricedPorts<'_>,
        counts: CandidateCounts,
    ) -> Vec<u32> {
        let allows = |node: &u32| allows(instance, item, *node, Exclusions { taken, chosen: &[] });
        let few = |nodes: &[u32], count: usize| {
            let allowed = nodes.iter().copied().filter(allows);
            let mut ranked: Vec<(f64, u32)> =
                allowed.map(|node| (price(ports, node), node)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            ranked.into_iter().take(count).map(|(_, node)| node).collect::<Vec<u32>>()
        };
        let mut nodes = few(&self.accepting, counts.overall);
        nodes.extend(self.by_rack.iter().flat_map(|rack| few(rack, counts.per_rack)));
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// A cheap node in each of these racks that may keep the item's chunk and is not taken: the
    /// cheapest of the first so many that are looked at, beginning somewhere.
    pub fn cheapest_in_racks(
        &self,
        instance: &Instance<'_>,
        item: &PricedPart<'_>,
        RackQuery { taken, racks, begin }: RackQuery<'_>,
        ports: &PricedPorts<'_>,
    ) -> Vec<u32> {
        let allows = |node: &u32| allows(instance, item, *node, Exclusions { taken, chosen: &[] });
        let best = |rack: &u32| {
            let nodes = self.by_rack.get(*rack as usize).filter(|nodes| !nodes.is_empty())?;
            let (before, after) = nodes.split_at(begin % nodes.len());
            let allowed = after.iter().chain(before).copied().filter(allows).take(RACK_VISITS_MAX);
            let priced = allowed.map(|node| (price(ports, node), node));
            priced.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, node)| node)
        };
        racks.iter().filter_map(best).collect()
    }

    /// For each of these racks, cheap nodes that may keep the item's chunks together and are not
    /// taken: as many in the rack as there may be, or one, and the others as in `first`. Those of a
    /// rack are the cheapest of so many that are looked at, beginning somewhere.
    pub fn cheapest_sets(
        &self,
        instance: &Instance<'_>,
        item: &PricedPart<'_>,
        RackQuery { taken, racks, begin }: RackQuery<'_>,
        first: &[u32],
        ports: &PricedPorts<'_>,
    ) -> Vec<Vec<u32>> {
        let wanted = first.len();
        let allows = |node: u32, chosen: &[u32]| {
            !chosen.contains(&node) && allows(instance, item, node, Exclusions { taken, chosen })
        };
        let mut sets: Vec<Vec<u32>> = Vec::new();
        for rack in racks {
            let Some(nodes) = self.by_rack.get(*rack as usize).filter(|nodes| !nodes.is_empty())
            else {
                continue;
            };
            let (before, after) = nodes.split_at(begin % nodes.len());
            let near = after.iter().chain(before).copied().filter(|node| allows(*node, &[]));
            let mut near: Vec<u32> = near.take(RACK_VISITS_MAX).collect();
            near.sort_by(|a, b| price(ports, *a).total_cmp(&price(ports, *b)));
            for most in [wanted, 1] {
                let mut set: Vec<u32> = Vec::with_capacity(wanted);
                let others = first.iter().chain(&self.accepting).copied();
                for (node, most) in
                    near.iter().map(|node| (*node, most)).chain(others.map(|node| (node, wanted)))
                {
                    if set.len() < most && allows(node, &set) {
                        set.push(node);
                    }
                    if set.len() == wanted {
                        break;
                    }
                }
                if set.len() == wanted && set != first && !sets.contains(&set) {
                    sets.push(set);
                }
            }
        }
        sets
    }
}

/// Whether a node may keep a chunk of the item beside these.
pub(super) fn allows(
    instance: &Instance<'_>,
    item: &PricedPart<'_>,
    node: u32,
    beside: Exclusions<'_>,
) -> bool {
    let others = beside.taken.iter().chain(beside.chosen);
    !beside.taken.contains(&node)
        && item.rule.allows_beside(
            NodeId(node),
            others.map(|node| NodeId(*node)),
            item.request.job,
            instance.view,
        )
}

/// What receiving and writing a chunk would cost. Never infinite: that would be no node at all.
fn price(ports: &PricedPorts<'_>, node: u32) -> f64 {
    let written = if ports.have_disks() { ports.cost(ports.write(node), 1.0) } else { 0.0 };
    (ports.cost(ports.down(node), 1.0) + written).min(f64::MAX)
}
