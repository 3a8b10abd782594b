//! Which destinations a program of a small batch may use: one node of its search by branch and
//! bound.
//!
//! Place: `[plan]`, beneath the mixtures of the potential planner (`../mixture.rs`). Chunks of one
//! stripe that are rebuilt apart are items of their own; once one of them is decided, the others
//! keep clear of it.

use crate::planner::exact::potential::Descent;
use crate::planner::exact::potential::destination_ranking::{self, Exclusions};

/// A lost chunk, by its item and its place among the item's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeptAt {
    pub item: usize,
    pub place: usize,
}

/// The node that keeps most of a chunk, and what fraction of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptFraction {
    pub at: KeptAt,
    pub node: u32,
    pub fraction: f64,
}

/// Which destinations are looked at.
#[derive(Clone)]
pub(super) struct Allowed {
    /// By item and place: the only node that may keep the chunk, if that is decided.
    fixed: Vec<Vec<Option<u32>>>,
    /// Nodes that do not keep a chunk.
    barred: Vec<(KeptAt, u32)>,
}

impl Allowed {
    /// Allows any node, for items with so many chunks.
    pub fn any(chunks: impl Iterator<Item = usize>) -> Allowed {
        Allowed { fixed: chunks.map(|count| vec![None; count]).collect(), barred: Vec::new() }
    }

    /// Allows these nodes alone, for the chunks of each item.
    pub fn only(destinations: &[Vec<u32>]) -> Allowed {
        let fixed = destinations
            .iter()
            .map(|destinations| destinations.iter().copied().map(Some).collect());
        Allowed { fixed: fixed.collect(), barred: Vec::new() }
    }

    /// What is allowed where, besides, a node keeps a chunk.
    pub fn with(&self, at: KeptAt, node: u32) -> Allowed {
        let mut with = self.clone();
        with.fixed[at.item][at.place] = Some(node);
        with
    }

    /// What is allowed where, besides, a node does not keep a chunk.
    pub fn without(&self, at: KeptAt, node: u32) -> Allowed {
        let mut without = self.clone();
        without.barred.push((at, node));
        without
    }

    /// Whether a node may keep a chunk, whichever nodes keep others.
    pub fn contains(&self, at: KeptAt, node: u32) -> bool {
        match self.fixed[at.item][at.place] {
            Some(fixed) => fixed == node,
            None => !self.barred.contains(&(at, node)),
        }
    }

    /// The node that keeps a chunk, if that is decided.
    pub fn decided(&self, at: KeptAt) -> Option<u32> {
        self.fixed[at.item][at.place]
    }

    /// The nodes that keep the chunks of an item, if all are decided.
    pub fn all_decided(&self, item: usize) -> Option<Vec<u32>> {
        self.fixed[item].iter().copied().collect()
    }
}

impl Descent<'_> {
    /// Whether these nodes may keep the chunks of an item.
    pub(super) fn is_allowed(&self, allowed: &Allowed, item: usize, destinations: &[u32]) -> bool {
        let is_contained =
            |(place, node): (usize, &u32)| allowed.contains(KeptAt { item, place }, *node);
        if !destinations.iter().enumerate().all(is_contained) {
            return false;
        }
        let taken = self.decided_by_siblings(allowed, item);
        taken.is_empty() || self.fit(item, destinations, &taken)
    }

    /// Whether nodes may keep the chunks of an item beside those that keep others of its stripe.
    pub(super) fn fit(&self, item: usize, destinations: &[u32], taken: &[u32]) -> bool {
        destinations.iter().enumerate().all(|(place, node)| {
            let chosen = &destinations[..place];
            !chosen.contains(node) && self.fits(item, *node, Exclusions { taken, chosen })
        })
    }

    /// Whether a node may keep a chunk of an item beside others of it.
    pub(super) fn fits(&self, item: usize, node: u32, beside: Exclusions<'_>) -> bool {
        !beside.chosen.contains(&node)
            && destination_ranking::allows(self.instance, &self.items[item], node, beside)
    }

    /// Nodes that are decided to keep chunks of the same stripe that are rebuilt apart from an
    /// item.
    pub(super) fn decided_by_siblings(&self, allowed: &Allowed, item: usize) -> Vec<u32> {
        let places = |item: usize| {
            (0..self.items[item].part.lost.len()).map(move |place| KeptAt { item, place })
        };
        self.siblings(item).flat_map(places).filter_map(|at| allowed.decided(at)).collect()
    }

    /// A chunk that is not decided, and the node that keeps it, where another of its stripe that is
    /// rebuilt apart forbids that.
    pub(super) fn in_conflict(
        &self,
        kept: &[KeptFraction],
        allowed: &Allowed,
    ) -> Option<(KeptAt, u32)> {
        let destinations = |item: usize| {
            let of_item = kept.iter().filter(move |kept| kept.at.item == item);
            of_item.map(|kept| kept.node).collect::<Vec<u32>>()
        };
        let is_in_conflict = |at: &KeptAt| {
            let taken: Vec<u32> = self.siblings(at.item).flat_map(destinations).collect();
            !taken.is_empty() && !self.fit(at.item, &destinations(at.item), &taken)
        };
        let open = kept.iter().filter(|kept| allowed.decided(kept.at).is_none());
        let mut open = open.map(|kept| (kept.at, kept.node));
        open.find(|(at, _)| is_in_conflict(at))
    }
}
