//! What a stripe of a local code costs at least, by the lanes that plans have: one with several
//! losses, or with one that not any so many helpers rebuild.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`../crossing.rs`).
//! A lane rebuilds one chunk by a tree of sums, or several at a decoder that gathers whole chunks
//! (`plan/validate.rs`). So a stripe's lost chunks are parted into groups: each of one is a tree
//! (`tree.rs`), each of more is gathered (`lanes/gather.rs`) from one of the sets of helpers that
//! the code may take (`lanes/sets.rs`). Every chunk goes to another node that may keep it, and no
//! rack keeps more than it has places for. At given prices all of these are compared, for each set
//! of nodes that keep the chunks.
//!
//! A chunk is kept by one node in all of its ranges, which prices do not see: what a stripe takes
//! by itself counts as well, whichever nodes keep its chunks (`lanes/alone.rs`).
//!
//! Stripes of which sets of helpers or of destinations are too many are left to `several.rs`.

pub(super) mod alone;
mod gather;
mod sets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use suture_code::{ChunkIndex, ChunkSet, Code};

use crate::bound::around::around;
use crate::bound::crossing::priced::Costs;
use crate::bound::crossing::stripe::RackedStripe;
use crate::bound::crossing::tree::Workspace;
use crate::bound::search::Amounts;
use crate::bound::{BatchDemands, Demand};
use crate::need::{Needs, Part, combinations, next_combination};
use crate::planner::ports::Ports;
use crate::planner::rack_places;

use gather::{GatheredGroup, PricedGather};
use sets::helper_sets;

/// Sets of helpers whose trees are priced one by one; of more, only how many help counts.
const TREE_SETS_MAX: usize = 64;

/// So many of them have to be priced at most prices to find the cheapest.
const TREE_SETS_PRICED: usize = 4;

/// Chunks of a stripe that are lost together: beyond, groups and destinations are too many.
const LOST_MAX: usize = 4;

/// Sets of destinations that are compared at some prices.
const DESTINATIONS_MAX: usize = 1500;

/// How often a lane is priced for each rack and set of destinations, by how many chunks are lost.
const LANE_SUMS: [usize; LOST_MAX + 1] = [0, 1, 2, 20, 160];

/// Simple sums that take as long as one price of a tree.
const SUMS_PER_PRICE: usize = 6;

/// A stripe whose lost chunks are rebuilt by lanes.
pub(super) struct LaneStripe {
    bytes: f64,
    lost: usize,
    /// Nodes that may keep a lost chunk.
    destinations: Vec<u32>,
    /// How many of them each rack may keep.
    places: Vec<usize>,
    gathers: Vec<GatheredGroup>,
    /// Nodes without a chunk of the stripe.
    decoders: Vec<u32>,
    /// Trees into each destination; chunks that are rebuilt alike share them.
    trees: Vec<SetTrees>,
    /// Which of these are the trees of each lost chunk.
    tree_of: Vec<usize>,
}

/// What codes answered: the helper sets of some of the lost chunks of a demand, by its name.
pub(super) struct AskedSets {
    known: BTreeMap<(usize, ChunkSet), Option<Vec<ChunkSet>>>,
    needs: Needs,
}

impl Default for AskedSets {
    fn default() -> AskedSets {
        AskedSets { known: BTreeMap::new(), needs: Needs::of_bound() }
    }
}

impl AskedSets {
    fn find(&mut self, demand: &Demand<'_>, lost: &[ChunkIndex]) -> Option<Vec<ChunkSet>> {
        let known = self.known.entry((demand.name, lost.iter().copied().collect()));
        known.or_insert_with(|| Some(helper_sets(demand, lost)?.into_iter().collect())).clone()
    }
}

impl LaneStripe {
    /// The stripe of a demand; `None` where its code is no local one, it lost too many chunks or
    /// one that any so many helpers rebuild, sets are too many, or nodes too few.
    pub fn new(
        demand: &Demand<'_>,
        asked: &mut AskedSets,
        batch: BatchDemands<'_>,
        relays: &[u32],
    ) -> Option<LaneStripe> {
        let BatchDemands { view, ports, .. } = batch;
        let (job, lost) = (demand.job, &demand.job.lost);
        let Code::Lrc(_) = job.code.code() else { return None };
        let is_plain = lost.len() == 1 && demand.parts().all(Part::is_any);
        if is_plain || lost.len() > LOST_MAX {
            return None;
        }
        let rack_count = relays.iter().map(|node| ports.rack(*node) as usize + 1).max()?;
        let destinations = view.cluster.ids().filter(|node| demand.may_keep(*node, view));
        let destinations: Vec<u32> = destinations.map(|node| node.0).collect();
        let places = rack_places(job, view, batch.bytes);
        let places = (0..rack_count).map(|rack| places.get(rack).copied().unwrap_or(lost.len()));
        let places: Vec<usize> = places.collect();
        let holds = |node: u32| job.survivors.iter().any(|(_, holder)| holder.0 == node);
        let mut stripe = LaneStripe {
            bytes: job.chunk_bytes as f64,
            lost: lost.len(),
            destinations,
            places,
            gathers: Vec::new(),
            decoders: relays.iter().copied().filter(|node| !holds(*node)).collect(),
            trees: Vec::new(),
            tree_of: Vec::new(),
        };
        let is_possible = stripe.is_possible(&stripe.any_destinations(), ports);
        if !is_possible || stripe.destination_sets() > DESTINATIONS_MAX {
            return None;
        }
        stripe.set_trees(demand, asked, batch)?;
        for chunks in (1u8..1 << lost.len()).filter(|chunks| chunks.count_ones() > 1) {
            let group = (0..lost.len()).filter(|at| chunks >> at & 1 == 1).map(|at| lost[at]);
            let sets = asked.find(demand, &group.collect::<Vec<ChunkIndex>>())?;
            let nodes = |set: ChunkSet| {
                set.iter().map(|chunk| demand.holder(chunk).0).collect::<Vec<u32>>()
            };
            let sets: Vec<Vec<u32>> = sets.into_iter().map(nodes).collect();
            let group = GatheredGroup::new(chunks, sets, rack_count, |node| ports.rack(node));
            stripe.gathers.push(group);
        }
        Some(stripe)
    }

    /// Finds the trees of each lost chunk.
    fn set_trees(
        &mut self,
        demand: &Demand<'_>,
        asked: &mut AskedSets,
        batch: BatchDemands<'_>,
    ) -> Option<()> {
        for lost in &demand.job.lost {
            let trees = SetTrees::new(demand, *lost, &self.destinations, asked, batch)?;
            let at = self.trees.iter().position(|known| known.are_like(&trees));
            self.tree_of.push(at.unwrap_or(self.trees.len()));
            if at.is_none() {
                self.trees.push(trees);
            }
        }
        Some(())
    }

    /// The nodes that may keep a chunk.
    pub fn nodes(&self, choice: &DestinationChoice) -> Vec<u32> {
        choice.chosen.iter().chain(&choice.open).map(|at| self.destinations[*at]).collect()
    }

    /// Whether there are places for all chunks.
    pub fn is_possible(&self, choice: &DestinationChoice, ports: &Ports) -> bool {
        let mut places = self.places.clone();
        let mut take = |at: &usize| {
            let left = &mut places[ports.rack(self.destinations[*at]) as usize];
            let has_place = *left > 0;
            *left = left.saturating_sub(1);
            has_place
        };
        let DestinationChoice { chosen, open, .. } = choice;
        chosen.iter().all(&mut take)
            && chosen.len() + open.iter().filter(|at| take(at)).count() >= self.lost
    }

    /// The most sets of destinations that are compared.
    fn destination_sets(&self) -> usize {
        combinations(self.destinations.len(), self.lost)
    }

    /// Prices that are compared to find the cheapest lanes.
    pub fn comparisons(&self, ports: &Ports) -> usize {
        let rack_count = self.places.len();
        let trees = self.trees.iter().map(SetTrees::comparisons).sum::<usize>();
        let gathers =
            self.gathers.iter().map(|group| group.comparisons(rack_count, self.decoders.len()));
        let sums = self.destination_sets() * LANE_SUMS[self.lost] * (rack_count + 1);
        let sums = gathers.sum::<usize>() + sums;
        trees + sums / SUMS_PER_PRICE + ports.count()
    }

    /// Any of the nodes that may keep a chunk.
    pub fn any_destinations(&self) -> DestinationChoice {
        DestinationChoice::any_of((0..self.destinations.len()).collect())
    }

    /// Puts the cheapest lanes into such destinations on `loads`, and returns what they cost and
    /// the destinations of the chunks, by place.
    pub fn take_cheapest(
        &self,
        choice: &DestinationChoice,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
        loads: &mut Amounts,
    ) -> (f64, Vec<usize>) {
        let candidates = self.candidates(choice, costs);
        let trees = self.tree_costs(&candidates, costs, workspace);
        let costs = &*costs;
        let gather = |group| PricedGather::new(group, &self.decoders, costs);
        let gathers: Vec<PricedGather<'_>> = self.gathers.iter().map(gather).collect();
        let priced = PricedStripe { stripe: self, costs, gathers, trees };
        let (lanes, kept) = priced.cheapest(&candidates, choice);
        for &(chunks, ends) in &lanes.lanes[..lanes.count] {
            let into = (0..kept.len()).filter(|at| ends >> at & 1 == 1).map(|at| kept[at]);
            let into: Vec<usize> = into.collect();
            match self.gathers.iter().position(|group| group.chunks == chunks) {
                Some(at) => {
                    let nodes: Vec<u32> = into.iter().map(|at| self.destinations[*at]).collect();
                    priced.gathers[at].put(&nodes, self.bytes, priced.costs, loads);
                }
                None => {
                    let tree = self.tree_of[chunks.trailing_zeros() as usize];
                    let set = priced.trees[into[0]][tree].1;
                    let known = &mut Costs::new(costs.ports, costs.prices, costs.relays);
                    let tree = &self.trees[tree].sets[set];
                    tree.take(Some(into[0]), known, workspace, loads);
                }
            }
        }
        (lanes.cost * self.bytes, kept)
    }

    /// Those that are chosen, then the others, but for those of which as many others in their rack
    /// as there are chunks left are as cheap: these can always take their place.
    fn candidates(&self, choice: &DestinationChoice, costs: &Costs<'_>) -> Vec<usize> {
        let wanted = self.lost - choice.chosen.len();
        // The decoder sends as well.
        let price = |at: usize| {
            let node = self.destinations[at];
            [costs.down(node), costs.write(node), costs.up(node)]
        };
        let rack = |at: usize| costs.ports.rack(self.destinations[at]);
        let is_few = |at: &&usize| {
            let is_cheaper = |other: &&usize| {
                let (own, others) = (price(**at), price(**other));
                rack(**other) == rack(**at)
                    && others.iter().zip(&own).all(|(other, own)| other <= own)
                    && (others != own || other < at)
            };
            choice.open.iter().filter(is_cheaper).take(wanted).count() < wanted
        };
        let open = choice.open.iter().filter(is_few);
        choice.chosen.iter().chain(open).copied().collect()
    }

    /// What the cheapest of each trees costs into each candidate, for each byte, and its set.
    fn tree_costs(
        &self,
        candidates: &[usize],
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
    ) -> Vec<Vec<(f64, usize)>> {
        let mut trees = vec![Vec::new(); self.destinations.len()];
        for (place, &at) in candidates.iter().enumerate() {
            // Nodes of a rack that cost the same are the same to a tree.
            let node = self.destinations[at];
            let rack = costs.ports.rack(node);
            let is_same = |other: &&usize| {
                let other = self.destinations[**other];
                costs.ports.rack(other) == rack && costs.down(other) == costs.down(node)
            };
            let same = candidates[..place].iter().find(is_same).copied();
            trees[at] = match same {
                Some(other) => {
                    let more = costs.write(node) - costs.write(self.destinations[other]);
                    let known: &Vec<(f64, usize)> = &trees[other];
                    known.iter().map(|(cost, set)| (cost + more, *set)).collect()
                }
                None => {
                    let least = |sets: &SetTrees| sets.least_cost(at, costs, workspace);
                    self.trees.iter().map(least).collect()
                }
            };
        }
        trees
    }
}

/// The trees of a lost chunk.
struct SetTrees {
    /// One for each set of helpers, or one for all where only their number counts. Each has a
    /// target for each destination.
    sets: Vec<RackedStripe>,
}

impl SetTrees {
    /// Those of one lost chunk; `None` where it needs another.
    fn new(
        demand: &Demand<'_>,
        lost: ChunkIndex,
        destinations: &[u32],
        asked: &mut AskedSets,
        BatchDemands { view, ports, .. }: BatchDemands<'_>,
    ) -> Option<SetTrees> {
        let available: Vec<ChunkIndex> = demand.job.survivors.iter().map(|(c, _)| *c).collect();
        let name = asked.needs.find(demand.job.code, &[lost], available.iter().copied())?;
        let [part] = &asked.needs.get(name).parts[..] else { return None };
        let part = part.clone();
        // Of any so many helpers the trees are known as they are.
        let is_any = part.is_any();
        let around = around(demand.job.code, &part, &available, &mut asked.needs);
        let counted = RackedStripe::new(demand, &part, around.as_ref(), view, ports).counted();
        let counted = counted.into_each(destinations, ports);
        let sets = if is_any { None } else { asked.find(demand, &[lost]) };
        let tree = |set: ChunkSet| {
            let nodes: Vec<u32> = set.iter().map(|chunk| demand.holder(chunk).0).collect();
            RackedStripe::of_helpers(counted.bytes, &nodes, destinations, ports)
        };
        Some(SetTrees {
            sets: match sets {
                Some(sets) if sets.len() <= TREE_SETS_MAX => sets.into_iter().map(tree).collect(),
                _ => vec![counted],
            },
        })
    }

    fn are_like(&self, other: &SetTrees) -> bool {
        self.sets.len() == other.sets.len()
            && self.sets.iter().zip(&other.sets).all(|(own, other)| own.is_like(other))
    }

    fn comparisons(&self) -> usize {
        let of_set =
            |tree: &RackedStripe| tree.survivors() * tree.target_count() + tree.comparisons();
        self.sets.iter().take(TREE_SETS_PRICED).map(of_set).sum()
    }

    /// What the cheapest tree costs into a destination, for each byte, and its set.
    fn least_cost(
        &self,
        destination: usize,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
    ) -> (f64, usize) {
        if let [only] = &self.sets[..] {
            return (only.least_cost(destination, costs, workspace), 0);
        }
        let least = self.sets.iter().map(|tree| tree.cost_of_sending(destination, costs));
        let mut order: Vec<(f64, usize)> = least.zip(0..).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut best = (f64::INFINITY, 0);
        for (least, set) in order {
            if least >= best.0 {
                break;
            }
            let cost = self.sets[set].least_cost(destination, costs, workspace);
            if cost < best.0 {
                best = (cost, set);
            }
        }
        best
    }
}

/// Which nodes keep the lost chunks, by their places among the destinations.
#[derive(Clone, Debug)]
pub(super) struct DestinationChoice {
    /// These keep one each.
    pub chosen: Vec<usize>,
    /// These may keep the others.
    pub open: Vec<usize>,
    /// By lost chunk, where all are chosen: the place of its destination among these. Empty where
    /// each may go to any.
    pub order: Vec<usize>,
}

impl DestinationChoice {
    /// Destinations that are all open.
    pub fn any_of(open: Vec<usize>) -> DestinationChoice {
        DestinationChoice { chosen: Vec::new(), open, order: Vec::new() }
    }
}

/// A stripe at some prices.
struct PricedStripe<'a> {
    stripe: &'a LaneStripe,
    costs: &'a Costs<'a>,
    gathers: Vec<PricedGather<'a>>,
    /// What the cheapest of each trees costs into each destination, and its set.
    trees: Vec<Vec<(f64, usize)>>,
}

/// The chunks of each lane and the nodes that they go to, a bit each.
#[derive(Clone, Copy)]
struct CheapestLanes {
    cost: f64,
    lanes: [(u8, u8); LOST_MAX],
    count: usize,
}

impl PricedStripe<'_> {
    /// The cheapest lanes, and the destinations that their chunks go to: those that are chosen,
    /// which are the first of the candidates, are among them.
    fn cheapest(
        &self,
        candidates: &[usize],
        choice: &DestinationChoice,
    ) -> (CheapestLanes, Vec<usize>) {
        let chosen = choice.chosen.len();
        let none = CheapestLanes { cost: f64::INFINITY, lanes: [(0, 0); LOST_MAX], count: 0 };
        let mut best = (none, Vec::new());
        let all = (1u8 << self.stripe.lost) - 1;
        let mut others: Vec<usize> = (0..self.stripe.lost - chosen).collect();
        let mut kept = candidates[..chosen].to_vec();
        loop {
            kept.truncate(chosen);
            kept.extend(others.iter().map(|at| candidates[chosen + at]));
            if self.has_places(&kept) {
                let lanes = self.lanes(all, all, &kept, &choice.order);
                if lanes.cost < best.0.cost {
                    best = (lanes, kept.clone());
                }
            }
            if !next_combination(&mut others, candidates.len() - chosen) {
                return best;
            }
        }
    }

    fn has_places(&self, kept: &[usize]) -> bool {
        let rack = |at: &usize| self.costs.ports.rack(self.stripe.destinations[*at]);
        let in_rack = |of: u32| kept.iter().filter(|at| rack(at) == of).count();
        kept.iter().all(|at| in_rack(rack(at)) <= self.stripe.places[rack(at) as usize])
    }

    /// The cheapest lanes of some of the chunks into as many of the nodes, in this order if there
    /// is one.
    fn lanes(&self, chunks: u8, ends: u8, kept: &[usize], order: &[usize]) -> CheapestLanes {
        if chunks == 0 {
            return CheapestLanes { cost: 0.0, lanes: [(0, 0); LOST_MAX], count: 0 };
        }
        let mut best = CheapestLanes { cost: f64::INFINITY, lanes: [(0, 0); LOST_MAX], count: 0 };
        let first = chunks & chunks.wrapping_neg();
        for group in parts_of(chunks).filter(|group| group & first != 0) {
            let ordered = |(chunk, _): &(usize, &usize)| group >> chunk & 1 == 1;
            let ordered = order.iter().enumerate().filter(ordered);
            let ordered = ordered.fold(0, |ends, (_, place)| ends | 1 << place);
            let into = parts_of(ends).filter(|into| match order {
                [] => into.count_ones() == group.count_ones(),
                _ => *into == ordered,
            });
            for into in into {
                let cost = self.lane_cost(group, into, kept);
                if cost >= best.cost {
                    continue;
                }
                let others = self.lanes(chunks & !group, ends & !into, kept, order);
                if cost + others.cost < best.cost {
                    best = CheapestLanes { cost: cost + others.cost, ..others };
                    best.lanes[best.count] = (group, into);
                    best.count += 1;
                }
            }
        }
        best
    }

    /// What one lane costs.
    fn lane_cost(&self, chunks: u8, ends: u8, kept: &[usize]) -> f64 {
        if chunks.count_ones() == 1 {
            let tree = self.stripe.tree_of[chunks.trailing_zeros() as usize];
            return self.trees[kept[ends.trailing_zeros() as usize]][tree].0;
        }
        let Some(at) = self.stripe.gathers.iter().position(|group| group.chunks == chunks) else {
            return f64::INFINITY;
        };
        let mut nodes = [0; LOST_MAX];
        let mut count = 0;
        for at in (0..kept.len()).filter(|at| ends >> at & 1 == 1) {
            nodes[count] = self.stripe.destinations[kept[at]];
            count += 1;
        }
        self.gathers[at].cost(&nodes[..count], self.costs)
    }
}

/// All parts of a set of bits but the empty one.
fn parts_of(bits: u8) -> impl Iterator<Item = u8> {
    (1..=bits).filter(move |part| part & !bits == 0)
}
