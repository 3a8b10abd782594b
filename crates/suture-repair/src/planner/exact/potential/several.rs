//! The cheapest option of chunks that are decoded together, where racks have links.
//!
//! Place: `[plan]`, a choice of the potential planner for several losses of a stripe and for codes
//! with sub-chunks. The decoder's place decides what crosses between racks, so destinations in the
//! racks of helpers compete with the cheapest ones. Where helpers share racks, a tree for each of
//! several chunks brings less across than one gather, though it moves more in all: each rack sends
//! one sum for each chunk.

use crate::planner::exact::potential::destination_ranking::RackQuery;
use crate::planner::exact::potential::option::RepairOption;
use crate::planner::exact::potential::{DESTINATION_RACKS_MAX, Descent, gather, rack};

/// A tree for one of several chunks, by its place among them, with its destination and cost.
struct KnownTree {
    at: usize,
    root: u32,
    cost: f64,
    tree: RepairOption,
}

impl Descent<'_> {
    /// The cheapest option of a piece that is decoded, at the prices of now.
    pub(super) fn choose_decoded(&mut self, piece: usize) {
        let index = self.pieces[piece].item as usize;
        let sets = self.keeping_sets(piece);
        let may_forward = self.instance.view.abilities.finished;
        let mut best: Option<(f64, Vec<u32>, RepairOption)> = None;
        let mut known: Vec<KnownTree> = Vec::new();
        for destinations in sets {
            let (cost, option) = gather::cheapest_in_racks(
                &self.items[index],
                &destinations,
                may_forward,
                &self.ports,
            );
            let (cost, option) = self.gathered_around(index, &destinations, (cost, option));
            let apart = self.trees(index, &destinations, &mut known);
            let (cost, option) = apart.filter(|(apart, _)| *apart < cost).unwrap_or((cost, option));
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, destinations, option));
            }
        }
        let (_, destinations, option) = best.expect("there are destinations");
        self.destinations[index] = destinations;
        self.pieces[piece].option = Some(option);
    }

    /// A gather around the dearest helper, if it is cheaper than the one that is known.
    pub(super) fn gathered_around(
        &self,
        index: usize,
        destinations: &[u32],
        known: (f64, RepairOption),
    ) -> (f64, RepairOption) {
        let item = &self.items[index];
        let Some(detour) = item.detour_around_dearest(&self.ports) else { return known };
        let may_forward = self.instance.view.abilities.finished;
        let other = item.detour(detour);
        let (cost, option) = if self.weighs_crossing && self.ports.have_racks() {
            gather::cheapest_in_racks(other, destinations, may_forward, &self.ports)
        } else {
            gather::cheapest(other, destinations, may_forward, &self.ports)
        };
        if cost < known.0 { (cost, option.around(detour)) } else { known }
    }

    /// Destinations that compete: those that keep its chunks, if that is decided; else the cheapest
    /// and others in racks where less would cross.
    fn keeping_sets(&mut self, piece: usize) -> Vec<Vec<u32>> {
        let index = self.pieces[piece].item as usize;
        if self.are_kept {
            return vec![self.destinations[index].clone()];
        }
        let (taken, item) = (self.kept_by_siblings(index), &self.items[index]);
        let first = self.ranking.cheapest(self.instance, item, &taken, &self.ports);
        let racks = rack::destination_racks(item, first[0], DESTINATION_RACKS_MAX, &self.ports);
        let among = RackQuery { taken: &taken, racks: &racks, begin: piece + self.sweeps };
        let mut sets = self.ranking.cheapest_sets(self.instance, item, among, &first, &self.ports);
        sets.insert(0, first);
        sets
    }

    /// The cheapest trees of several chunks, and what they cost together; `None` where there are
    /// none. Where any helpers will do, all trees have the same, so that no more help than are
    /// needed. `known` are trees into other destinations.
    fn trees(
        &mut self,
        index: usize,
        destinations: &[u32],
        known: &mut Vec<KnownTree>,
    ) -> Option<(f64, RepairOption)> {
        let alone: Vec<(f64, RepairOption)> = (0..self.items[index].apart.len())
            .map(|at| self.tree(index, at, destinations[at], known))
            .collect();
        if alone.is_empty() {
            return None;
        }
        if !self.items[index].shares_helpers() {
            let cost = alone.iter().map(|(cost, _)| cost).sum();
            let trees = alone.into_iter().map(|(_, tree)| tree).collect();
            return Some((cost, RepairOption::Apart { trees }));
        }
        let parts = &self.items[index].apart;
        self.prices.compute(&parts[0], &self.ports);
        let with_helpers_of = |(_, tree): &(f64, RepairOption)| {
            let RepairOption::Racks { helpers, .. } = tree else { return None };
            let helpers: Vec<usize> = helpers.iter().map(|place| usize::from(*place)).collect();
            let trees = parts
                .iter()
                .zip(destinations)
                .map(|(part, root)| rack::joined(part, *root, &helpers, &self.ports, &self.prices));
            let (costs, trees): (Vec<f64>, Vec<RepairOption>) = trees.unzip();
            Some((costs.into_iter().sum(), RepairOption::Apart { trees }))
        };
        let shared = alone.iter().filter_map(with_helpers_of);
        shared.min_by(|a: &(f64, RepairOption), b| a.0.total_cmp(&b.0))
    }

    /// The cheapest tree of one of several chunks, and what it costs.
    fn tree(
        &mut self,
        index: usize,
        at: usize,
        root: u32,
        known: &mut Vec<KnownTree>,
    ) -> (f64, RepairOption) {
        let is_same = |known: &&KnownTree| (known.at, known.root) == (at, root);
        if let Some(KnownTree { cost, tree, .. }) = known.iter().find(is_same) {
            return (*cost, tree.clone());
        }
        let part = &self.items[index].apart[at];
        self.prices.compute(part, &self.ports);
        let (cost, tree) = rack::cheapest(part, root, &self.ports, &mut self.prices);
        known.push(KnownTree { at, root, cost, tree: tree.clone() });
        (cost, tree)
    }
}
