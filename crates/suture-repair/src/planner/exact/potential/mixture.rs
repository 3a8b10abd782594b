//! Small batches: which part of each chunk is rebuilt by which option, and for which node, by
//! linear programs.
//!
//! Place: `[plan]`, the last step of the potential planner, after its sweeps. These leave equal
//! ranges that were put one by one where they were cheapest; where a few chunks share a few ports,
//! that is some per cent above the best mixture. So the options that they found are the first
//! columns of a program (`master.rs`), and others are added as long as one is cheaper at its prices
//! than what its item has. Destinations are whole: the sweeps' own first, then others by branch and
//! bound, as far as some programs lead.
//!
//! Which option is cheapest is exact at such prices for trees and traces without racks, and for
//! gathers into destinations that are decided. Of trees in racks it is the best of those that are
//! tried, so the mixture may miss some.

mod allowed;
mod columns;

use std::collections::BTreeMap;

use crate::master::{Master, Seconds};
use crate::planner::exact::potential::option::RepairOption;
use crate::planner::exact::potential::ports::PricedPorts;
use crate::planner::exact::potential::{Descent, Piece};

use allowed::{Allowed, KeptAt, KeptFraction};

/// Larger batches are even without: their ranges are a small part of what ports do.
pub(super) const ITEMS_MAX: usize = 24;

/// How often cheaper options are searched for.
const ROUNDS_MAX: usize = 60;

/// Nearer to what no mixture is below, in parts of it, there is nothing more to gain.
const GAP_MAX: f64 = 5e-4;

/// Programs that are solved for one batch in search of better destinations.
const PROGRAMS_MAX: usize = 48;

/// Options that are tried in search of one mixture.
const OPTIONS_MAX: usize = 2_000_000;

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

/// An option for an item, and the nodes that keep its chunks then.
#[derive(Clone, PartialEq)]
struct PlacedOption {
    item: usize,
    destinations: Vec<u32>,
    option: RepairOption,
}

/// Options, and the part of its item that is rebuilt by each of them: a solution of the program.
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

    /// The chunk that is kept in parts and nevertheless most by one node, and that node; `None`
    /// where each is kept by its own alone.
    fn most_decided(&self) -> Option<(KeptAt, u32)> {
        let parts = self.kept_fractions().into_iter().filter(|kept| kept.fraction < WHOLE_MIN);
        let most = parts.max_by(|a, b| a.fraction.total_cmp(&b.fraction));
        most.map(|destinations| (destinations.at, destinations.node))
    }

    /// The node that keeps most of each chunk, and how much.
    fn kept_fractions(&self) -> Vec<KeptFraction> {
        let mut sums: BTreeMap<(KeptAt, u32), f64> = BTreeMap::new();
        for (placed, part) in &self.options {
            for (place, node) in placed.destinations.iter().enumerate() {
                *sums.entry((KeptAt { item: placed.item, place }, *node)).or_default() += part;
            }
        }
        let mut most: BTreeMap<KeptAt, (u32, f64)> = BTreeMap::new();
        for ((at, node), part) in sums {
            let known = most.entry(at).or_insert((node, part));
            if part > known.1 {
                *known = (node, part);
            }
        }
        let kept = |(at, (node, fraction))| KeptFraction { at, node, fraction };
        most.into_iter().map(kept).collect()
    }
}

impl Descent<'_> {
    /// Mixes the options of a small batch anew, if the busiest port is done sooner for it.
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
            let placed =
                PlacedOption { item, destinations: self.destinations[item].clone(), option };
            if !options.contains(&placed) {
                options.push(placed);
            }
        }
        self.options_left = OPTIONS_MAX;
        let ports = self.ports.clone();
        let as_they_are = Allowed::only(&self.destinations);
        let mixture = self.mixed(&mut options, &as_they_are);
        let mixture = mixture.map(|mixture| self.moved(&mut options, mixture));
        self.ports = ports;
        if let Some(mixture) = mixture {
            self.carry_out(&mixture, parts);
        }
    }

    /// A faster mixture with other destinations, if one is found: branch and bound. Where the best
    /// mixture keeps a chunk in parts, it is kept by the node that has most of it, or by another;
    /// what is no faster than the best so far is given up. The same where two chunks of a stripe
    /// that are rebuilt apart may not be kept where they are.
    fn moved(&mut self, options: &mut Vec<PlacedOption>, known: Mixture) -> Mixture {
        let mut open = vec![Allowed::any(self.items.iter().map(|item| item.part.lost.len()))];
        let mut best = known;
        for _ in 0..PROGRAMS_MAX {
            let Some(allowed) = open.pop().filter(|_| self.options_left > 0) else { break };
            let Some(mixture) = self.mixed(options, &allowed) else { continue };
            if mixture.seconds >= best.seconds * (1.0 - GAP_MAX) {
                continue;
            }
            let undecided = mixture.most_decided();
            let undecided =
                undecided.or_else(|| self.in_conflict(&mixture.kept_fractions(), &allowed));
            let Some((at, node)) = undecided else {
                best = mixture;
                continue;
            };
            open.extend([allowed.without(at, node), allowed.with(at, node)]);
        }
        best
    }

    /// Takes a mixture over, in so many parts of each item, unless it is slower than what is there.
    fn carry_out(&mut self, mixture: &Mixture, parts: u32) {
        let ranges = (self.pieces.len() / self.items.len()) as f64;
        let (ports, destinations) = (self.ports.clone(), self.destinations.clone());
        let rounded = self.rounded(mixture, parts);
        let pieces = std::mem::take(&mut self.pieces);
        for ((placed, _), parts) in mixture.options.iter().zip(rounded) {
            // One of no part decides nothing: what is kept elsewhere by it is kept nowhere.
            if parts > 0 {
                self.destinations[placed.item].clone_from(&placed.destinations);
                let (item, option) = (placed.item as u32, Some(placed.option.clone()));
                self.pieces.push(Piece { item, option, parts });
            }
        }
        self.pieces.sort_by_key(|piece| piece.item);
        let scale = ranges / f64::from(parts);
        self.items.iter_mut().for_each(|item| item.set_length(item.length * scale));
        self.ports = PricedPorts::new(self.instance);
        (0..self.pieces.len()).for_each(|piece| self.charge(piece, 1.0));
        if self.ports.peak_seconds() >= ports.peak_seconds() {
            (self.pieces, self.ports, self.destinations) = (pieces, ports, destinations);
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
    /// in parts: of these options, and of others, which are added to them. Leaves other prices.
    fn mixed(&mut self, options: &mut Vec<PlacedOption>, allowed: &Allowed) -> Option<Mixture> {
        let mut columns: Vec<PlacedOption> = Vec::new();
        for item in 0..self.items.len() {
            let mut known = options.iter().filter(|placed| placed.item == item);
            let known =
                known.find(|placed| self.is_allowed(allowed, item, &placed.destinations)).cloned();
            columns.push(match known {
                Some(placed) => placed,
                None => self.cheapest(item, allowed, &vec![1.0; self.ports.bases().len()])?.1,
            });
        }
        let first: Vec<Vec<Seconds>> = columns.iter().map(|placed| self.seconds(placed)).collect();
        let mut master = Master::new(&first, self.ports.bases())?;
        let is_allowed =
            |placed: &&PlacedOption| self.is_allowed(allowed, placed.item, &placed.destinations);
        for placed in options.iter().filter(is_allowed) {
            self.add(&mut master, &mut columns, placed.clone());
        }
        for _ in 0..ROUNDS_MAX {
            master.solve();
            if self.options_left == 0 {
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

    /// Adds an option that is not there yet.
    fn add(&self, master: &mut Master, columns: &mut Vec<PlacedOption>, placed: PlacedOption) {
        let seconds = self.seconds(&placed);
        if !columns.contains(&placed) && master.add(placed.item, &seconds, self.ports.bases()) {
            columns.push(placed);
        }
    }

    /// The cheapest option of each item at the prices of the program, where it is cheaper than what
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
}
