//! Small batches: which part of each chunk goes which way, and to whom, by linear programs.
//!
//! Place: `[plan]`, the last step of the potential planner, after its sweeps. These leave equal
//! ranges that were put one by one where they were cheapest; where a few chunks share a few ports,
//! that is some per cent above the best mixture. So the ways that they found are the first columns
//! of a program (`master.rs`), and others are added as long as one is cheaper at its prices than
//! what its item has. Destinations are whole: the sweeps' own first, then others by branch and
//! bound, as far as some programs lead.
//!
//! Which way is cheapest is exact at such prices for trees and traces without racks. With racks and
//! where chunks are gathered it is the best of those that are tried, so the mixture may miss some.

use crate::master::{Master, Seconds};
use crate::planner::exact::potential::arborescence::{relayed, relays};
use crate::planner::exact::potential::charge::each_charge;
use crate::planner::exact::potential::option::{PricedPart, Prices, RepairOption};
use crate::planner::exact::potential::ports::PricedPorts;
use crate::planner::exact::potential::{Descent, Kinds, Piece, TRIED, rack, traces};

/// Larger batches are even without: their ranges are a small part of what ports do.
pub(super) const ITEMS_MAX: usize = 24;

/// How often cheaper ways are searched for.
const ROUNDS_MAX: usize = 60;

/// Nearer to what no mixture is below, in parts of it, there is nothing more to gain.
const GAP_MAX: f64 = 5e-4;

/// Programs that are solved for one batch in search of better destinations.
const PROGRAMS_MAX: usize = 24;

/// Ways that are looked at in search of one mixture.
const WORK_MAX: usize = 2_000_000;

/// Where racks have links, trees of any shape are searched for into so many destinations, those
/// with the cheapest other trees.
const SHAPED: usize = 3;

/// A chunk is kept whole that is kept so much by one.
const WHOLE_MIN: f64 = 1.0 - 1e-6;

/// By how much the parts of a chunk may miss it, for the numbers of the program.
const WHOLE_GAP_MAX: f64 = 1e-6;

/// The most parts of a chunk that ranges are rounded to, and the fewest bytes of one: a part may
/// take a slow port long.
const PARTS_MAX: u64 = 1 << 16;
const PART_BYTES_MIN: u64 = 64;

/// Shorter ranges are not worth a lane.
const LANE_BYTES_MIN: u64 = 1 << 10;

/// A way to rebuild an item, and who keeps its chunks then.
#[derive(Clone, PartialEq)]
struct PlacedOption {
    item: usize,
    kept: Vec<u32>,
    option: RepairOption,
}

/// Which destinations are looked at.
#[derive(Clone)]
struct Allowed {
    /// By item: the only ones that may keep its chunks, if that is decided.
    fixed: Vec<Option<Vec<u32>>>,
    /// Nodes that do not keep the chunk of an item.
    barred: Vec<(usize, u32)>,
}

impl Allowed {
    fn contains(&self, item: usize, kept: &[u32]) -> bool {
        match &self.fixed[item] {
            Some(fixed) => fixed == kept,
            None => kept.iter().all(|node| !self.barred.contains(&(item, *node))),
        }
    }
}

/// Ways, and the part of its item that goes each of them: a solution of the program.
struct Mixture {
    options: Vec<(PlacedOption, f64)>,
    seconds: f64,
}

impl Mixture {
    /// Whether the parts of each item add up to it. Where ports are apart by many orders of
    /// magnitude, the numbers of the program may not.
    fn is_whole(&self, items: usize) -> bool {
        let mut sums = vec![0.0; items];
        self.options.iter().for_each(|(placed, part)| sums[placed.item] += part);
        let is_part = |(_, part): &(PlacedOption, f64)| *part >= -WHOLE_GAP_MAX;
        self.options.iter().all(is_part)
            && sums.iter().all(|sum: &f64| (sum - 1.0).abs() <= WHOLE_GAP_MAX)
    }

    /// The item that is kept in parts and nevertheless most by one node, and that node; `None`
    /// where each is kept by its own alone.
    fn most_decided(&self, items: usize) -> Option<(usize, u32)> {
        let spread = (0..items).map(|item| (item, self.most_kept(item)));
        let spread = spread.filter(|(_, (_, part))| *part < WHOLE_MIN);
        let most = spread.max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        most.map(|(item, (node, _))| (item, node))
    }

    /// The destination that keeps most of an item, and how much.
    fn most_kept(&self, item: usize) -> (u32, f64) {
        let mut kept: Vec<(u32, f64)> = Vec::new();
        for (placed, part) in self.options.iter().filter(|(placed, _)| placed.item == item) {
            match kept.iter_mut().find(|(node, _)| *node == placed.kept[0]) {
                Some((_, sum)) => *sum += part,
                None => kept.push((placed.kept[0], *part)),
            }
        }
        let most = kept.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        most.expect("every item has an option")
    }
}

impl Descent<'_> {
    /// Mixes the ways of a small batch anew, if the busiest port is done sooner for it.
    pub(super) fn mix(&mut self) {
        let shortest = self.items.iter().map(|item| item.request.job.chunk_bytes).min();
        let parts = (shortest.unwrap_or(0) / PART_BYTES_MIN).min(PARTS_MAX) as u32;
        if self.items.len() > ITEMS_MAX || parts < 2 {
            return;
        }
        let mut options: Vec<PlacedOption> = Vec::new();
        for piece in &self.pieces {
            let item = piece.item as usize;
            let option = piece.option.clone().expect("each was put somewhere");
            let placed = PlacedOption { item, kept: self.kept[item].clone(), option };
            if !options.contains(&placed) {
                options.push(placed);
            }
        }
        self.work_left = WORK_MAX;
        let ports = self.ports.clone();
        let as_they_are =
            Allowed { fixed: self.kept.iter().cloned().map(Some).collect(), barred: Vec::new() };
        let mixture = self.mixed(&mut options, &as_they_are);
        let mixture = mixture.map(|mixture| self.moved(&mut options, mixture));
        self.ports = ports;
        if let Some(mixture) = mixture {
            self.carry_out(&mixture, parts);
        }
    }

    /// A faster mixture with other destinations, if one is found: branch and bound. Where the best
    /// mixture keeps a chunk in parts, it is kept by the node that has most of it, or by another;
    /// what is no faster than the best so far is given up.
    fn moved(&mut self, options: &mut Vec<PlacedOption>, known: Mixture) -> Mixture {
        let parts = |item: &PricedPart<'_>| self.instance.parts(item.request).len();
        let is_fixed = |item: &PricedPart<'_>| parts(item) > 1 || item.part.lost.len() > 1;
        let items = self.items.iter().zip(&self.kept);
        let fixed = items.map(|(item, kept)| is_fixed(item).then(|| kept.clone())).collect();
        let mut open = vec![Allowed { fixed, barred: Vec::new() }];
        let mut best = known;
        for _ in 0..PROGRAMS_MAX {
            let Some(allowed) = open.pop().filter(|_| self.work_left > 0) else { break };
            let Some(mixture) = self.mixed(options, &allowed) else { continue };
            if mixture.seconds >= best.seconds * (1.0 - GAP_MAX) {
                continue;
            }
            let Some((item, node)) = mixture.most_decided(self.items.len()) else {
                best = mixture;
                continue;
            };
            let (mut with, mut without) = (allowed.clone(), allowed);
            with.fixed[item] = Some(vec![node]);
            without.barred.push((item, node));
            open.extend([without, with]);
        }
        best
    }

    /// Takes a mixture over, in so many parts of each item, unless it is slower than what is there.
    fn carry_out(&mut self, mixture: &Mixture, parts: u32) {
        let ranges = (self.pieces.len() / self.items.len()) as f64;
        let (ports, kept) = (self.ports.clone(), self.kept.clone());
        let rounded = self.rounded(mixture, parts);
        let pieces = std::mem::take(&mut self.pieces);
        for ((placed, _), parts) in mixture.options.iter().zip(rounded) {
            self.kept[placed.item].clone_from(&placed.kept);
            let (item, option) = (placed.item as u32, Some(placed.option.clone()));
            self.pieces.extend((parts > 0).then_some(Piece { item, option, parts }));
        }
        self.pieces.sort_by_key(|piece| piece.item);
        let scale = ranges / f64::from(parts);
        self.items.iter_mut().for_each(|item| item.set_length(item.length * scale));
        self.ports = PricedPorts::new(self.instance);
        (0..self.pieces.len()).for_each(|piece| self.charge(piece, 1.0));
        if self.ports.peak_seconds() >= ports.peak_seconds() {
            (self.pieces, self.ports, self.kept) = (pieces, ports, kept);
            self.items.iter_mut().for_each(|item| item.set_length(item.length / scale));
        }
    }

    /// The shares of a mixture as whole parts, so many of each item: each rounded down, those that
    /// are too short to nothing, and the rest one by one where ports are done soonest with it.
    fn rounded(&self, mixture: &Mixture, parts: u32) -> Vec<u32> {
        let options = &mixture.options;
        let whole = |(placed, share): &(PlacedOption, f64)| {
            let bytes = share * self.items[placed.item].request.job.chunk_bytes as f64;
            if bytes < LANE_BYTES_MIN as f64 { 0 } else { (share * f64::from(parts)) as u32 }
        };
        let mut whole: Vec<u32> = options.iter().map(whole).collect();
        let of_part = |(port, seconds): Seconds| (port, seconds / f64::from(parts));
        let seconds = options.iter().map(|(placed, _)| self.seconds(placed));
        let seconds: Vec<Vec<Seconds>> =
            seconds.map(|seconds| seconds.into_iter().map(of_part).collect()).collect();
        let mut loads = self.ports.bases().to_vec();
        for (seconds, parts) in seconds.iter().zip(&whole) {
            seconds.iter().for_each(|(port, part)| loads[*port] += f64::from(*parts) * part);
        }
        for item in 0..self.items.len() {
            let of_item = |at: &usize| options[*at].0.item == item;
            let mut places: Vec<usize> = (0..options.len()).filter(of_item).collect();
            let given: u32 = places.iter().map(|at| whole[*at]).sum();
            if given > 0 {
                places.retain(|at| whole[*at] > 0);
            }
            for _ in given..parts {
                let done = |at: &usize| {
                    let ports = seconds[*at].iter().map(|(port, part)| loads[*port] + part);
                    ports.fold(0.0, f64::max)
                };
                let soonest = places.iter().min_by(|a, b| done(a).total_cmp(&done(b)));
                let soonest = *soonest.expect("every item has an option");
                seconds[soonest].iter().for_each(|(port, part)| loads[*port] += part);
                whole[soonest] += 1;
            }
        }
        whole
    }

    /// The best mixture that is found with destinations that are allowed, where chunks may be kept
    /// in parts: of these ways, and of others, which are added to them. Leaves other prices.
    fn mixed(&mut self, options: &mut Vec<PlacedOption>, allowed: &Allowed) -> Option<Mixture> {
        let mut columns: Vec<PlacedOption> = Vec::new();
        for item in 0..self.items.len() {
            let mut known = options.iter().filter(|placed| allowed.contains(item, &placed.kept));
            let known = known.find(|placed| placed.item == item).cloned();
            columns.push(match known {
                Some(placed) => placed,
                None => self.cheapest(item, allowed, &vec![1.0; self.ports.bases().len()])?.1,
            });
        }
        let first: Vec<Vec<Seconds>> = columns.iter().map(|placed| self.seconds(placed)).collect();
        let mut master = Master::new(&first, self.ports.bases())?;
        for placed in options.iter().filter(|placed| allowed.contains(placed.item, &placed.kept)) {
            self.add(&mut master, &mut columns, placed.clone());
        }
        for _ in 0..ROUNDS_MAX {
            master.solve();
            if self.work_left == 0 {
                break;
            }
            let cheaper = self.cheaper(&master, allowed);
            let count = columns.len();
            cheaper.into_iter().for_each(|placed| self.add(&mut master, &mut columns, placed));
            if columns.len() == count {
                break;
            }
        }
        let parts = master.parts().map(|(placed, part)| (columns[placed].clone(), part)).collect();
        columns.retain(|placed| !options.contains(placed));
        options.append(&mut columns);
        let mixture = Mixture { options: parts, seconds: master.finish() };
        mixture.is_whole(self.items.len()).then_some(mixture)
    }

    /// Adds a way that is not there yet.
    fn add(&self, master: &mut Master, columns: &mut Vec<PlacedOption>, placed: PlacedOption) {
        let seconds = self.seconds(&placed);
        if !columns.contains(&placed) && master.add(placed.item, &seconds, self.ports.bases()) {
            columns.push(placed);
        }
    }

    /// The cheapest way of each item at the prices of the program, where it is cheaper than what
    /// the item has; none where next to nothing is to be gained.
    fn cheaper(&mut self, master: &Master, allowed: &Allowed) -> Vec<PlacedOption> {
        let mut prices = vec![0.0; self.ports.bases().len()];
        master.prices().for_each(|(port, price)| prices[port] = price);
        self.ports.set_prices(&prices);
        let (mut gain, mut cheaper) = (0.0, Vec::new());
        for item in 0..self.items.len() {
            let Some((cost, placed)) = self.cheapest(item, allowed, &prices) else { continue };
            let saved = master.cheapest(item) - cost;
            if saved > 0.0 {
                gain += saved;
                cheaper.push(placed);
            }
        }
        // The prices say that no mixture saves more than that.
        cheaper.retain(|_| gain > GAP_MAX * master.finish());
        cheaper
    }

    /// The cheapest way of an item at the prices that are set, and its cost; `None` where none of
    /// the destinations that are looked at is allowed.
    fn cheapest(
        &mut self,
        item: usize,
        allowed: &Allowed,
        prices: &[f64],
    ) -> Option<(f64, PlacedOption)> {
        let known = self.kept[item].clone();
        let kept = match &allowed.fixed[item] {
            Some(kept) => vec![kept.clone()],
            None => {
                let part = &self.items[item];
                let few = self.keepers.cheapest_few(self.instance, part, &[], &self.ports, TRIED);
                let few = few.into_iter().map(|node| vec![node]).chain([known.clone()]);
                few.filter(|kept| allowed.contains(item, kept)).collect()
            }
        };
        let mut options = Vec::new();
        for kept in kept {
            self.kept[item] = kept;
            self.each_option(item, &mut options);
        }
        self.kept[item] = known.clone();
        let mut priced = self.priced(options, prices);
        priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.work_left = self.work_left.saturating_sub(priced.len());
        let has_trees = self.items[item].part.is_sum || !self.items[item].apart.is_empty();
        if self.ports.have_racks() && has_trees {
            let mut shaped = Vec::new();
            let mut roots: Vec<&Vec<u32>> = Vec::new();
            for (_, placed) in &priced {
                if roots.len() < SHAPED && !roots.contains(&&placed.kept) {
                    roots.push(&placed.kept);
                }
            }
            for kept in roots.into_iter().cloned().collect::<Vec<Vec<u32>>>() {
                self.kept[item] = kept;
                self.each_shape(item, prices, &mut shaped);
            }
            self.kept[item] = known;
            let part = &self.items[item];
            let trees = part.apart.len().max(1);
            let work = part.wanted().pow(2) * part.holders.len() * trees;
            self.work_left = self.work_left.saturating_sub(work * shaped.len());
            priced.extend(self.priced(shaped, prices));
        }
        priced.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Ways, each with what it costs.
    fn priced(&self, options: Vec<PlacedOption>, prices: &[f64]) -> Vec<(f64, PlacedOption)> {
        let priced = |placed: PlacedOption| (cost(&self.seconds(&placed), prices), placed);
        options.into_iter().map(priced).collect()
    }

    /// The ways of an item that may be the cheapest, for those who keep it now: what the sweeps
    /// take; trees through a helper for what it receives, not for what it sends; and every scheme
    /// of traces.
    fn each_option(&mut self, item: usize, options: &mut Vec<PlacedOption>) {
        let kept = &self.kept[item].clone();
        let mut add = |option| options.push(PlacedOption { item, kept: kept.clone(), option });
        let first = self.pieces.iter().position(|piece| piece.item as usize == item);
        let first = first.expect("every item has a piece");
        let known = self.pieces[first].option.clone();
        self.choose(first);
        let chosen = std::mem::replace(&mut self.pieces[first].option, known);
        chosen.into_iter().for_each(&mut add);
        let part = &self.items[item];
        if !part.part.is_sum {
            return;
        }
        self.prices.compute(part, &self.ports);
        if self.ports.have_racks() {
            return;
        }
        if self.kinds != Kinds::TracesFirst || part.candidates.is_none() {
            (0..part.holders.len()).for_each(|place| add(self.prices.tree_through(part, place)));
            let helpers = self.prices.cheapest_helpers(part);
            relayed(part, kept[0], self.instance.view, &self.ports, helpers)
                .into_iter()
                .for_each(&mut add);
        }
        if let Some(candidates) = part.candidates {
            let candidates = &self.candidate_sets[candidates];
            traces::each(part, candidates, kept[0], &self.ports, &mut self.prices, add);
        }
    }

    /// Trees of an item in any shape, where racks have links, for those who keep it now; of several
    /// chunks, the cheapest of each at these prices.
    fn each_shape(&self, item: usize, prices: &[f64], options: &mut Vec<PlacedOption>) {
        let (part, kept) = (&self.items[item], &self.kept[item]);
        let mut add = |option| options.push(PlacedOption { item, kept: kept.clone(), option });
        if part.part.is_sum {
            return self.each_tree(part, kept[0], add);
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
        let trees: Vec<RepairOption> = part.apart.iter().zip(kept).map(cheapest).collect();
        if !part.shares_helpers() || is_helped_by(&trees, part.wanted()) {
            add(RepairOption::Apart { trees });
        }
    }

    /// Trees of one chunk into a destination.
    fn each_tree(&self, part: &PricedPart<'_>, root: u32, take: impl FnMut(RepairOption)) {
        let mut prices = Prices::default();
        prices.compute(part, &self.ports);
        let relays = relays(part, root, self.instance.view, &self.ports);
        rack::each(part, root, &relays, &self.ports, &prices, take);
    }

    /// The seconds that a way puts on ports for the whole item.
    fn seconds(&self, placed: &PlacedOption) -> Vec<Seconds> {
        self.seconds_of(&self.items[placed.item], &placed.option, &placed.kept)
    }

    fn seconds_of(
        &self,
        part: &PricedPart<'_>,
        option: &RepairOption,
        kept: &[u32],
    ) -> Vec<Seconds> {
        let ranges = (self.pieces.len() / self.items.len()) as f64;
        let mut seconds = Vec::new();
        let sets = &self.candidate_sets;
        each_charge(part, option, kept, sets, &self.ports, |port, amount| {
            let more = ranges * self.ports.seconds(port, amount);
            if more > 0.0 {
                seconds.push((port, more));
            }
        });
        seconds
    }
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
