//! The cheapest option of an item at the prices of a program, into destinations that it may use.
//!
//! Place: `[plan]`, beneath the mixtures of the potential planner (`../mixture.rs`): what is
//! cheaper here than all that an item has becomes a column of the program. Gathers are exact: every
//! decoder with the helpers that are cheapest for it, and the destinations that are cheapest then.
//! Of trees in racks, some are tried.

use crate::id::NodeId;
use crate::master::Seconds;
use crate::need::is_mds;
use crate::planner::View;
use crate::planner::exact::potential::arborescence::{RelayLoad, relayed, relays};
use crate::planner::exact::potential::charge::{each_charge, one_and_others};
use crate::planner::exact::potential::destination_ranking::Exclusions;
use crate::planner::exact::potential::gather::Decoding;
use crate::planner::exact::potential::mixture::PlacedOption;
use crate::planner::exact::potential::mixture::allowed::{Allowed, KeptAt};
use crate::planner::exact::potential::option::{PricedPart, Prices, RepairOption};
use crate::planner::exact::potential::ports::PricedPorts;
use crate::planner::exact::potential::{Descent, Kinds, TRIED, rack, traces};

/// Where racks have links, trees of any shape are searched for into so many destinations, those
/// with the cheapest other trees; and of several chunks so many gathers are looked at.
const SHAPED: usize = 3;

/// Destinations of some of several chunks that are gone on with.
const SETS_MAX: usize = 64;

impl Descent<'_> {
    /// The cheapest option of an item at the prices that are set, and its cost; `None` where none
    /// of the destinations that are looked at is allowed.
    pub(super) fn cheapest(
        &mut self,
        item: usize,
        allowed: &Allowed,
        prices: &[f64],
    ) -> Option<(f64, PlacedOption)> {
        let known = self.destinations[item].clone();
        let sets = self.kept_sets(item, allowed);
        let mut options = Vec::new();
        for destinations in sets {
            self.destinations[item] = destinations;
            self.each_option(item, &mut options);
        }
        self.destinations[item] = known.clone();
        let mut priced = self.priced(options, prices);
        priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.options_left = self.options_left.saturating_sub(priced.len());
        let has_trees = self.items[item].part.is_sum || !self.items[item].apart.is_empty();
        if self.ports.have_racks() && has_trees {
            let mut shaped = Vec::new();
            let mut roots: Vec<&Vec<u32>> = Vec::new();
            for (_, placed) in &priced {
                if roots.len() < SHAPED && !roots.contains(&&placed.destinations) {
                    roots.push(&placed.destinations);
                }
            }
            for destinations in roots.into_iter().cloned().collect::<Vec<Vec<u32>>>() {
                self.destinations[item] = destinations;
                self.each_shape(item, prices, &mut shaped);
            }
            self.destinations[item] = known;
            let part = &self.items[item];
            let trees = part.apart.len().max(1);
            let work = part.wanted().pow(2) * part.holders.len() * trees;
            self.options_left = self.options_left.saturating_sub(work * shaped.len());
            priced.extend(self.priced(shaped, prices));
        }
        priced.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Destinations of an item that may be the cheapest at these prices.
    fn kept_sets(&mut self, item: usize, allowed: &Allowed) -> Vec<Vec<u32>> {
        if let Some(destinations) = allowed.all_decided(item) {
            return vec![destinations];
        }
        let taken = self.decided_by_siblings(allowed, item);
        let part = &self.items[item];
        let few = self.ranking.cheapest_few(self.instance, part, &taken, &self.ports, TRIED);
        let known = self.destinations[item].clone();
        let nodes = |place: usize| {
            let at = KeptAt { item, place };
            if let Some(node) = allowed.decided(at) {
                return vec![node];
            }
            let known = known.get(place).filter(|node| !few.contains(node));
            let nodes = few.iter().chain(known).copied();
            nodes.filter(|node| allowed.contains(at, *node)).collect()
        };
        let nodes: Vec<Vec<u32>> = (0..part.part.lost.len()).map(nodes).collect();
        let mut sets = match &nodes[..] {
            [nodes] => nodes.iter().map(|node| vec![*node]).collect(),
            _ => [self.gathered_sets(item, &nodes, &taken), self.joined_sets(item, &nodes, &taken)]
                .concat(),
        };
        sets.push(known);
        sets.retain(|destinations| self.is_allowed(allowed, item, destinations));
        sets.sort();
        sets.dedup();
        sets
    }

    /// Destinations of the cheapest gathers of several chunks, each of which one of its nodes
    /// keeps.
    fn gathered_sets(&self, item: usize, nodes: &[Vec<u32>], taken: &[u32]) -> Vec<Vec<u32>> {
        let part = &self.items[item];
        let decodings = self.decodings(part, &once(nodes)).into_iter();
        let placed = decodings.filter_map(|decoding| {
            let destinations = self.kept_beside(&decoding, item, nodes, taken)?;
            Some((decoding.cost(part, &destinations, &self.ports), destinations))
        });
        cheapest_sets(placed.collect())
    }

    /// The cheapest destinations of a gather that are found one by one; its decoder among them, if
    /// it is one.
    fn kept_beside(
        &self,
        decoding: &Decoding,
        item: usize,
        nodes: &[Vec<u32>],
        taken: &[u32],
    ) -> Option<Vec<u32>> {
        let part = &self.items[item];
        // Where there is least choice, first.
        let mut places: Vec<usize> = (0..nodes.len()).collect();
        places.sort_by_key(|place| nodes[*place].len());
        let mut destinations = vec![None; nodes.len()];
        if decoding.is_destination() {
            let place = places.iter().position(|place| nodes[*place].contains(&decoding.at))?;
            destinations[places.remove(place)] = Some(decoding.at);
        }
        let cost = |node: &u32| decoding.finishing(part, *node, &self.ports);
        for place in places {
            let others: Vec<u32> = destinations.iter().flatten().copied().collect();
            let free = nodes[place]
                .iter()
                .filter(|node| self.fits(item, **node, Exclusions { taken, chosen: &others }));
            destinations[place] = Some(*free.min_by(|a, b| cost(a).total_cmp(&cost(b)))?);
        }
        let mut destinations: Vec<u32> = destinations.into_iter().flatten().collect();
        // Whichever of them keeps which: the same option.
        if nodes.windows(2).all(|pair| pair[0] == pair[1]) {
            destinations.sort_unstable();
        }
        Some(destinations)
    }

    /// Destinations of the cheapest trees of several chunks, each of which one of its nodes keeps.
    fn joined_sets(&mut self, item: usize, nodes: &[Vec<u32>], taken: &[u32]) -> Vec<Vec<u32>> {
        let priced = self.priced_roots(item, nodes);
        let besides = self.beside_sets(item, nodes, &priced, taken);
        if priced.is_empty() {
            return Vec::new();
        }
        let mut sets: Vec<(f64, Vec<u32>)> = vec![(0.0, Vec::new())];
        for nodes in priced {
            let longer = sets.iter().flat_map(|(cost, destinations)| {
                let free = nodes.iter().filter(|(_, node)| {
                    self.fits(item, *node, Exclusions { taken, chosen: destinations })
                });
                free.map(move |(more, node)| (cost + more, [&destinations[..], &[*node]].concat()))
            });
            sets = longer.collect();
            sets.sort_by(|a, b| a.0.total_cmp(&b.0));
            sets.truncate(SETS_MAX);
        }
        [cheapest_sets(sets), besides].concat()
    }

    /// What a tree costs into each node that may keep it, of each of several chunks.
    fn priced_roots(&mut self, item: usize, nodes: &[Vec<u32>]) -> Vec<Vec<(f64, u32)>> {
        let mut priced = Vec::new();
        for (part, nodes) in self.items[item].apart.iter().zip(nodes) {
            self.prices.compute(part, &self.ports);
            let cost = |root: &u32| rack::cheapest(part, *root, &self.ports, &mut self.prices).0;
            priced.push(nodes.iter().map(cost).zip(nodes.iter().copied()).collect());
        }
        priced
    }

    /// Destinations of the cheapest gathers of two of three chunks and trees of the other.
    fn beside_sets(
        &self,
        item: usize,
        nodes: &[Vec<u32>],
        roots: &[Vec<(f64, u32)>],
        taken: &[u32],
    ) -> Vec<Vec<u32>> {
        let mut placed = Vec::new();
        for (alone, pair) in self.items[item].pairs.iter().enumerate() {
            let Some(pair) = pair else { continue };
            let others = [&nodes[..alone], &nodes[alone + 1..]].concat();
            for decoding in self.decodings(pair, &once(&others)) {
                let Some(mut destinations) = self.kept_beside(&decoding, item, &others, taken)
                else {
                    continue;
                };
                let free = roots[alone].iter();
                let free = free.filter(|(_, node)| {
                    self.fits(item, *node, Exclusions { taken, chosen: &destinations })
                });
                let Some((cost, root)) = free.min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
                let cost = cost + decoding.cost(pair, &destinations, &self.ports);
                destinations.insert(alone, *root);
                placed.push((cost, destinations));
            }
        }
        cheapest_sets(placed)
    }

    /// Options, each with what it costs.
    fn priced(&self, options: Vec<PlacedOption>, prices: &[f64]) -> Vec<(f64, PlacedOption)> {
        let priced = |placed: PlacedOption| (cost(&self.seconds(&placed), prices), placed);
        options.into_iter().map(priced).collect()
    }

    /// The options of an item that may be the cheapest, for the nodes that keep it now: what the
    /// sweeps take; trees through a helper for what it receives, not for what it sends; and every
    /// scheme of traces.
    fn each_option(&mut self, item: usize, options: &mut Vec<PlacedOption>) {
        let destinations = &self.destinations[item].clone();
        let mut add = |option| {
            options.push(PlacedOption { item, destinations: destinations.clone(), option })
        };
        let first = self.pieces.iter().position(|piece| piece.item as usize == item);
        let first = first.expect("every item has a piece");
        let known = self.pieces[first].option.clone();
        self.choose(first);
        let chosen = std::mem::replace(&mut self.pieces[first].option, known);
        chosen.into_iter().for_each(&mut add);
        let part = &self.items[item];
        let around = part.detour_around_dearest(&self.ports);
        let around = around.map(|detour| (detour, part.detour(detour)));
        if !part.part.is_sum {
            self.cheapest_gather(part, destinations).into_iter().for_each(&mut add);
            let other = around.and_then(|(detour, other)| {
                Some(self.cheapest_gather(other, destinations)?.around(detour))
            });
            return other.into_iter().for_each(add);
        }
        if self.ports.have_racks() {
            return;
        }
        if self.kinds != Kinds::TracesFirst || part.candidates.is_none() {
            let (view, ports) = (self.instance.view, &self.ports);
            each_tree_without_racks(part, destinations[0], view, ports, &mut self.prices, &mut add);
            if let Some((detour, other)) = around {
                let add = |tree: RepairOption| add(tree.around(detour));
                each_tree_without_racks(other, destinations[0], view, ports, &mut self.prices, add);
            }
        }
        if let Some(candidates) = part.candidates {
            self.prices.compute(part, &self.ports);
            let candidates = &self.candidate_sets[candidates];
            traces::each(part, candidates, destinations[0], &self.ports, &mut self.prices, add);
        }
    }

    /// The cheapest gather for these destinations, of all decoders and helpers.
    fn cheapest_gather(&self, part: &PricedPart<'_>, destinations: &[u32]) -> Option<RepairOption> {
        let cost = |decoding: &Decoding| decoding.cost(part, destinations, &self.ports);
        let decodings = self.decodings(part, destinations).into_iter();
        decodings.min_by(|a, b| cost(a).total_cmp(&cost(b)))?.gather(destinations)
    }

    fn decodings(&self, part: &PricedPart<'_>, destinations: &[u32]) -> Vec<Decoding> {
        Decoding::all(part, destinations, self.instance.view, &self.ports)
    }

    /// Trees of an item in any shape, where racks have links, for the nodes that keep it now; of
    /// several chunks, the cheapest of each at these prices.
    fn each_shape(&self, item: usize, prices: &[f64], options: &mut Vec<PlacedOption>) {
        let (part, destinations) = (&self.items[item], &self.destinations[item]);
        let mut add = |option| {
            options.push(PlacedOption { item, destinations: destinations.clone(), option })
        };
        if part.part.is_sum {
            self.each_tree(part, destinations[0], &mut add);
            if let Some(detour) = part.detour_around_dearest(&self.ports) {
                let add = |tree: RepairOption| add(tree.around(detour));
                self.each_tree(part.detour(detour), destinations[0], add);
            }
            return;
        }
        let cheapest = |(part, root): (&PricedPart<'_>, &u32)| {
            let mut trees: Vec<(f64, RepairOption)> = Vec::new();
            self.each_tree(part, *root, |tree| {
                let seconds = self.seconds_of(part, &tree, &[*root]);
                trees.push((cost(&seconds, prices), tree));
            });
            let cheapest = trees.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            cheapest.expect("there is a tree").1
        };
        let trees: Vec<RepairOption> = part.apart.iter().zip(destinations).map(cheapest).collect();
        for (alone, pair) in part.pairs.iter().enumerate() {
            let (_, others) = one_and_others(destinations, alone);
            let gather = pair.as_ref().and_then(|pair| self.cheapest_gather(pair, &others));
            let Some(gather) = gather else { continue };
            let (tree, gather) = (Box::new(trees[alone].clone()), Box::new(gather));
            add(RepairOption::Beside { alone: alone as u8, tree, gather });
        }
        let has_one_set = part.shares_helpers() && is_mds(part.request.job.code);
        if !has_one_set || is_helped_by(&trees, part.wanted()) {
            add(RepairOption::Apart { trees });
        }
    }

    /// Trees of one chunk into a destination.
    fn each_tree(&self, part: &PricedPart<'_>, root: u32, take: impl FnMut(RepairOption)) {
        let mut prices = Prices::default();
        prices.compute(part, &self.ports);
        let (view, length) = (self.instance.view, part.length);
        let may_relay =
            |node: &NodeId| node.0 != root && part.request.job.may_be_kept_by(*node, view);
        let nodes = view.cluster.ids().filter(may_relay);
        // A node that adds up receives two at least.
        let load = RelayLoad { received: 2.0 * length, sent: length };
        let relays = relays(part, &[root], nodes, load, &self.ports);
        rack::each(part, root, &relays, &self.ports, &prices, take);
    }

    /// The seconds that an option puts on ports for the whole item.
    pub(super) fn seconds(&self, placed: &PlacedOption) -> Vec<Seconds> {
        self.seconds_of(&self.items[placed.item], &placed.option, &placed.destinations)
    }

    fn seconds_of(
        &self,
        part: &PricedPart<'_>,
        option: &RepairOption,
        destinations: &[u32],
    ) -> Vec<Seconds> {
        let ranges = (self.pieces.len() / self.items.len()) as f64;
        let mut seconds = Vec::new();
        let sets = &self.candidate_sets;
        each_charge(part, option, destinations, sets, &self.ports, |port, amount| {
            let more = ranges * self.ports.seconds(port, amount);
            if more > 0.0 {
                seconds.push((port, more));
            }
        });
        seconds
    }
}

/// Trees of one chunk into a destination that receive at one helper, or at relays.
fn each_tree_without_racks(
    part: &PricedPart<'_>,
    root: u32,
    view: &View<'_>,
    ports: &PricedPorts<'_>,
    prices: &mut Prices,
    mut take: impl FnMut(RepairOption),
) {
    prices.compute(part, ports);
    (0..part.holders.len()).for_each(|place| take(prices.tree_through(part, place)));
    let helpers = prices.cheapest_helpers(part);
    relayed(part, root, view, ports, helpers).into_iter().for_each(take);
}

/// All nodes of some lists, each once.
fn once(nodes: &[Vec<u32>]) -> Vec<u32> {
    let mut all = nodes.concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// The cheapest few, each once.
fn cheapest_sets(mut priced: Vec<(f64, Vec<u32>)>) -> Vec<Vec<u32>> {
    priced.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut sets: Vec<Vec<u32>> = Vec::new();
    for (_, destinations) in priced {
        if sets.len() < SHAPED && !sets.contains(&destinations) {
            sets.push(destinations);
        }
    }
    sets
}

/// What so many seconds of ports cost.
fn cost(seconds: &[Seconds], prices: &[f64]) -> f64 {
    seconds.iter().map(|(port, seconds)| prices[*port] * seconds).sum()
}

/// Whether no more than so many help with trees of several chunks together.
fn is_helped_by(trees: &[RepairOption], count: usize) -> bool {
    let mut places: Vec<u8> = Vec::new();
    for tree in trees {
        if let RepairOption::Arborescence { helpers, .. } = tree {
            places.extend(helpers);
        }
    }
    places.sort_unstable();
    places.dedup();
    places.len() <= count
}
