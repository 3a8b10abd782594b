//! Potential: every chunk again and again by the cheapest of its options, at prices that sharpen.
//!
//! Place: `[plan]`, one of the exact planners, also beneath `flow.rs` where flows do not see it
//! all. For what is no flow: traces, which send different amounts and may do without one helper;
//! several losses, whose decoder sends as well as receives; racks, whose links many helpers share.
//! A port's price grows exponentially with its load (`potential/ports.rs`); a sweep takes every
//! chunk out in random order and puts it back by the cheapest option (`potential/option.rs`), and
//! the exponent grows from sweep to sweep, from shaping the whole to shaving the peak. Where a
//! single chunk is a large part of a port's load, chunks are then cut into ranges that choose for
//! themselves. What few chunks found is mixed anew by linear programs (`potential/mixture.rs`).
//!
//! Multiplicative weights of this kind approximate packing linear programs (Plotkin, Shmoys,
//! Tardos, 1995); what the paper proves for fractions, whole chunks reach within a few per cent.

mod arborescence;
mod charge;
mod destination_ranking;
mod gather;
mod lanes;
mod mixture;
mod option;
mod ports;
mod rack;
mod several;
mod traces;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::id::NodeId;
use crate::need::Part;
use crate::plan::Plan;
use crate::planner::exact::instance::{AroundNeeds, CHUNK_UNITS, ExactRequest, Instance};
use crate::planner::keep::DestinationRule;
use crate::random::Random;

use charge::each_charge;
use destination_ranking::{CandidateCounts, DestinationRanking, RackQuery};
use option::{CandidateSchemes, PricedPart, Prices, RepairOption};
use ports::PricedPorts;

/// The exponent of the busiest port in the first and in the last sweep over whole chunks. Beginning
/// flat leaves the last sweeps less to mend: from 2 on six sweeps do better than eight from 8 on.
const SHARPNESS: RangeInclusive<f64> = 2.0..=80.0;

/// Sweeps over whole chunks.
const SWEEPS: usize = 6;

/// The same over ranges of chunks, which are small enough for sharper prices.
const RANGE_SHARPNESS: RangeInclusive<f64> = 4.0..=600.0;

/// Up to so few sweeps over ranges begin steeper: plans of three are 1 to 1.6 % faster so, those of
/// four to six no slower.
const FEW_RANGE_SWEEPS: usize = 7;
const FEW_RANGE_SHARPNESS: RangeInclusive<f64> = 20.0..=600.0;

/// The fewest sweeps over ranges that are worth it, and the most.
const RANGE_SWEEPS: (usize, usize) = (3, 32);

/// The most where a mixture follows (`potential/mixture.rs`).
const MIXED_SWEEPS_MAX: usize = 11;

/// How often a range is looked at in all. Large batches have small parts, and need no ranges.
const VISITS_MAX: usize = 15_000;

/// The most ranges of a chunk: what a few chunks on many nodes need to be even.
const CUTS_MAX: usize = 32;

/// The shortest range into which chunks are cut.
const RANGE_BYTES_MIN: u64 = 32 << 10;

/// Up to so many ranges, chunks move to other destinations with all of their ranges, after these
/// sweeps. Where whole chunks fit best says little when all of them are cut.
const RELOCATED_MAX: usize = 512;
const RELOCATIONS: [usize; 4] = [0, 4, 10, 18];

/// A chunk that is a smaller part of all prices stays where it is.
const RELOCATED_MIN: f64 = 0.01;

/// A few chunks are planned anew in another order, so often that so many are planned in all, and no
/// more often than that: where each weighs much, the order decides.
const TRIES_ITEMS: usize = 128;
const TRIES_MAX: usize = 4;

/// Up to so many chunks in racks, each of these plans is mixed; of more, only the best.
const MIXED_EACH_MAX: usize = 8;

/// How many nodes are tried for that.
const TRIED: CandidateCounts = CandidateCounts { overall: 8, per_rack: 2 };

/// How many racks are considered for a destination, where racks have links.
const DESTINATION_RACKS_MAX: usize = 4;

/// The kinds of repair that compete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::planner) enum Kinds {
    /// Trees and gathers of whole chunks.
    Chunks,
    /// Traces as well, where they cost less.
    Traces,
    /// Traces wherever a scheme serves, whatever they cost; trees and gathers for the rest.
    TracesFirst,
}

/// Plans for all requests, in their order.
pub(in crate::planner) fn plans(
    instance: &Instance<'_>,
    kinds: Kinds,
    random: &mut Random,
) -> Vec<Plan> {
    let around = AroundNeeds::new(instance);
    let planned = |weighs_crossing: bool, random: &mut Random| {
        Descent { weighs_crossing, ..Descent::new(instance, &around, kinds) }.planned(random)
    };
    let first = planned(true, random);
    let tries = TRIES_ITEMS.checked_div(first.items.len()).unwrap_or(0).min(TRIES_MAX);
    let others = (1..tries).map(|at| planned(at % 2 == 0, random));
    let mut best = others.fold(first, Descent::faster);
    if best.is_mixed_last() && best.are_kept {
        best.mix();
    }
    best.plans()
}

/// So many steps from one sharpness to another.
fn sharpness(ends: RangeInclusive<f64>, steps: usize) -> impl Iterator<Item = f64> {
    let (first, last) = ends.into_inner();
    (0..steps).map(move |step| first * (last / first).powf(step as f64 / (steps - 1) as f64))
}

/// One range of an item, and how it is rebuilt.
struct Piece {
    item: u32,
    option: Option<RepairOption>,
    /// How many equal parts of the item it is.
    parts: u32,
}

/// How each piece is rebuilt, which node keeps it, and when the busiest port is done.
struct State {
    seconds: f64,
    options: Vec<Option<RepairOption>>,
    destinations: Vec<Vec<u32>>,
}

struct Descent<'a> {
    instance: &'a Instance<'a>,
    kinds: Kinds,
    items: Vec<PricedPart<'a>>,
    /// The nodes that keep the chunks of each item.
    destinations: Vec<Vec<u32>>,
    /// Those of each item side by side, in the order of the items.
    pieces: Vec<Piece>,
    /// Whether destinations may not change but by [`Descent::relocate`].
    are_kept: bool,
    candidate_sets: Vec<CandidateSchemes>,
    /// Whether decoders, their helpers and destinations are chosen by what crosses between racks.
    weighs_crossing: bool,
    ports: PricedPorts<'a>,
    ranking: DestinationRanking,
    prices: Prices,
    /// The time of all ports when everything is spread evenly.
    fair_seconds: f64,
    order: Vec<usize>,
    /// How many sweeps were made.
    sweeps: usize,
    /// How much more a mixture may compare.
    options_left: usize,
}

impl<'a> Descent<'a> {
    fn new(instance: &'a Instance<'a>, around: &'a AroundNeeds, kinds: Kinds) -> Descent<'a> {
        let (items, candidate_sets) = items(instance, around, kinds);
        let ports = PricedPorts::new(instance);
        Descent {
            fair_seconds: fair_seconds(instance, &items),
            destinations: vec![Vec::new(); items.len()],
            pieces: (0..items.len() as u32)
                .map(|item| Piece { item, option: None, parts: 1 })
                .collect(),
            are_kept: false,
            order: (0..items.len()).collect(),
            sweeps: 0,
            options_left: 0,
            weighs_crossing: true,
            ranking: DestinationRanking::new(instance, &ports),
            prices: Prices::default(),
            instance,
            kinds,
            items,
            candidate_sets,
            ports,
        }
    }

    /// The one whose busiest port is done first.
    fn faster(self, other: Descent<'a>) -> Descent<'a> {
        if other.ports.peak_seconds() < self.ports.peak_seconds() { other } else { self }
    }

    /// Puts all chunks where they are cheapest, again and again.
    fn planned(mut self, random: &mut Random) -> Descent<'a> {
        sharpness(SHARPNESS, SWEEPS).for_each(|sharpness| self.sweep(sharpness, random));
        let visits = VISITS_MAX.saturating_sub(SWEEPS * self.items.len());
        let Some(sweeps) = self.cut(visits) else { return self };
        let ends = if sweeps <= FEW_RANGE_SWEEPS { FEW_RANGE_SHARPNESS } else { RANGE_SHARPNESS };
        let mut best = self.state();
        for (sweep, sharpness) in sharpness(ends, sweeps).enumerate() {
            self.sweep(sharpness, random);
            if RELOCATIONS.contains(&sweep) && self.pieces.len() <= RELOCATED_MAX {
                (0..self.items.len()).for_each(|item| self.relocate(item));
            }
            // After the last, the state is there still.
            if sweep + 1 < sweeps && self.ports.peak_seconds() < best.seconds {
                best = self.state();
            }
        }
        self.restore(best);
        if !self.is_mixed_last() {
            self.mix();
        }
        self
    }

    /// How everything is rebuilt now.
    fn state(&self) -> State {
        let options = self.options(0..self.pieces.len());
        State {
            seconds: self.ports.peak_seconds(),
            options,
            destinations: self.destinations.clone(),
        }
    }

    /// Goes back to a state that is faster.
    fn restore(&mut self, state: State) {
        if state.seconds >= self.ports.peak_seconds() {
            return;
        }
        (0..self.pieces.len()).for_each(|piece| self.charge(piece, -1.0));
        self.destinations = state.destinations;
        for (piece, option) in state.options.into_iter().enumerate() {
            self.pieces[piece].option = option;
            self.charge(piece, 1.0);
        }
    }

    /// Whether only the best of several descents is mixed: in racks, options are many.
    fn is_mixed_last(&self) -> bool {
        self.ports.have_racks() && self.items.len() > MIXED_EACH_MAX
    }

    /// Takes every piece out and puts it back where it is cheapest.
    fn sweep(&mut self, sharpness: f64, random: &mut Random) {
        self.ports.sharpen(sharpness, self.fair_seconds);
        self.ranking.rank(&self.ports, self.instance.view.cluster.nodes.len());
        let mut order = std::mem::take(&mut self.order);
        random.shuffle(&mut order);
        for &piece in &order {
            self.charge(piece, -1.0);
            self.choose(piece);
            self.charge(piece, 1.0);
        }
        self.order = order;
        self.sweeps += 1;
    }

    fn charge(&mut self, piece: usize, sign: f64) {
        let Piece { item, option: Some(option), parts } = &self.pieces[piece] else { return };
        let times = sign * f64::from(*parts);
        let (item, destinations) =
            (&self.items[*item as usize], &self.destinations[*item as usize]);
        let mut charges = std::mem::take(&mut self.prices.charges);
        charges.clear();
        each_charge(
            item,
            option,
            destinations,
            &self.candidate_sets,
            &self.ports,
            |port, amount| {
                charges.push((port, amount));
            },
        );
        for &(port, amount) in &charges {
            self.ports.charge(port, times * amount);
        }
        self.prices.charges = charges;
        destinations.iter().for_each(|node| self.ranking.refresh(&self.ports, *node));
    }

    /// The cheapest option of a piece at the prices of now.
    fn choose(&mut self, piece: usize) {
        let index = self.pieces[piece].item as usize;
        let item = &self.items[index];
        if !item.part.is_sum && self.weighs_crossing && self.ports.have_racks() {
            return self.choose_decoded(piece);
        }
        if !self.are_kept {
            let taken = self.kept_by_siblings(index);
            self.destinations[index] =
                self.ranking.cheapest(self.instance, item, &taken, &self.ports);
        }
        let destinations = &self.destinations[index];
        let may_forward = self.instance.view.abilities.finished;
        if !item.part.is_sum {
            let gathered = gather::cheapest(item, destinations, may_forward, &self.ports);
            let (_, option) = self.gathered_around(index, destinations, gathered);
            self.pieces[piece].option = Some(option);
            return;
        }
        self.prices.compute(item, &self.ports);
        if self.ports.have_racks() {
            self.choose_with_racks(piece);
            return;
        }
        let candidates = item.candidates.map(|candidates| &self.candidate_sets[candidates]);
        let traces = candidates.and_then(|candidates| {
            let limit = f64::INFINITY;
            traces::cheapest(
                item,
                candidates,
                destinations[0],
                &self.ports,
                &mut self.prices,
                limit,
            )
        });
        if self.kinds == Kinds::TracesFirst && traces.is_some() {
            self.pieces[piece].option = traces.map(|(_, option)| option);
            return;
        }
        let limit = traces.as_ref().map_or(f64::INFINITY, |(cost, _)| *cost);
        let tree = self.prices.tree(item, destinations[0], &self.ports, limit);
        let mut cheapest = tree.or(traces);
        if let Some(detour) = item.detour_around_dearest(&self.ports) {
            let limit = cheapest.as_ref().map_or(f64::INFINITY, |(cost, _)| *cost);
            let other = item.detour(detour);
            self.prices.compute(other, &self.ports);
            let tree = self.prices.tree(other, destinations[0], &self.ports, limit);
            let around = tree.map(|(cost, option)| (cost, option.around(detour)));
            cheapest = around.or(cheapest);
        }
        self.pieces[piece].option = cheapest.map(|(_, option)| option);
    }

    /// The same where racks have links: destinations in several racks compete.
    fn choose_with_racks(&mut self, piece: usize) {
        let index = self.pieces[piece].item as usize;
        let item = &self.items[index];
        let first = self.destinations[index][0];
        let mut roots = vec![first];
        if !self.are_kept {
            let destination_racks =
                rack::destination_racks(item, first, DESTINATION_RACKS_MAX, &self.ports);
            let taken = self.kept_by_siblings(index);
            let begin = piece + self.sweeps;
            let among = RackQuery { taken: &taken, racks: &destination_racks, begin };
            let ranking = &self.ranking;
            roots.extend(ranking.cheapest_in_racks(self.instance, item, among, &self.ports));
        }
        let mut best: Option<(f64, u32, RepairOption)> = None;
        for &root in &roots {
            let limit = best.as_ref().map_or(f64::INFINITY, |(cost, ..)| *cost);
            let (cost, option) = rack::cheapest(item, root, &self.ports, &mut self.prices);
            if best.is_none() || cost < limit {
                best = Some((cost, root, option));
            }
            let limit = best.as_ref().map_or(f64::INFINITY, |(cost, ..)| *cost);
            let candidates = item.candidates.map(|candidates| &self.candidate_sets[candidates]);
            let traces = candidates.and_then(|candidates| {
                traces::cheapest(item, candidates, root, &self.ports, &mut self.prices, limit)
            });
            if let Some((cost, option)) = traces {
                best = Some((cost, root, option));
            }
        }
        if let Some(detour) = item.detour_around_dearest(&self.ports) {
            let other = item.detour(detour);
            self.prices.compute(other, &self.ports);
            for root in roots {
                let (cost, option) = rack::cheapest(other, root, &self.ports, &mut self.prices);
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, root, option.around(detour)));
                }
            }
        }
        let (_, root, option) = best.expect("there is a destination");
        self.destinations[index][0] = root;
        self.pieces[piece].option = Some(option);
    }

    /// Moves a chunk to the destination at which all of its ranges, one after the other, cost
    /// least.
    fn relocate(&mut self, index: usize) {
        let &[destination] = &self.destinations[index][..] else { return };
        let first = self.pieces.partition_point(|piece| (piece.item as usize) < index);
        let count = self.pieces[first..].iter().take_while(|p| p.item as usize == index).count();
        let pieces = first..first + count;
        let mut best = (self.ports.potential(), destination, self.options(pieces.clone()));
        pieces.clone().for_each(|piece| self.charge(piece, -1.0));
        if best.0 - self.ports.potential() <= RELOCATED_MIN * best.0 {
            pieces.for_each(|piece| self.charge(piece, 1.0));
            return;
        }
        let taken = self.kept_by_siblings(index);
        let tried = self.ranking.cheapest_few(
            self.instance,
            &self.items[index],
            &taken,
            &self.ports,
            TRIED,
        );
        for node in tried.into_iter().filter(|node| *node != destination) {
            self.destinations[index][0] = node;
            let (mut end, mut potential) = (pieces.start, 0.0);
            // Every piece adds to the potential.
            while end < pieces.end && potential < best.0 {
                self.choose(end);
                self.charge(end, 1.0);
                end += 1;
                potential = self.ports.potential();
            }
            if potential < best.0 {
                best = (potential, node, self.options(pieces.clone()));
            }
            (pieces.start..end).for_each(|piece| self.charge(piece, -1.0));
        }
        let (_, node, options) = best;
        self.destinations[index][0] = node;
        for (piece, option) in pieces.zip(options) {
            self.pieces[piece].option = option;
            self.charge(piece, 1.0);
        }
    }

    fn options(&self, pieces: std::ops::Range<usize>) -> Vec<Option<RepairOption>> {
        self.pieces[pieces].iter().map(|piece| piece.option.clone()).collect()
    }

    /// The nodes that keep chunks of the same stripe that are rebuilt apart from this item.
    fn kept_by_siblings(&self, index: usize) -> Vec<u32> {
        self.siblings(index).flat_map(|at| self.destinations[at].iter().copied()).collect()
    }

    /// Items of the same stripe.
    fn siblings(&self, index: usize) -> impl Iterator<Item = usize> {
        let is_sibling =
            move |at: &usize| std::ptr::eq(self.items[*at].request, self.items[index].request);
        let before = (0..index).rev().take_while(is_sibling);
        before.chain((index + 1..self.items.len()).take_while(is_sibling))
    }

    /// Cuts all chunks into equal ranges that are rebuilt as the whole is now, if there are so few
    /// that each can be looked at some times. Returns how often.
    fn cut(&mut self, visits: usize) -> Option<usize> {
        let shortest = self.items.iter().map(|item| item.request.job.chunk_bytes).min()?;
        let each = visits / self.items.len();
        let cuts = (each / RANGE_SWEEPS.0).min(CUTS_MAX).min((shortest / RANGE_BYTES_MIN) as usize);
        if cuts < 2 {
            return None;
        }
        self.are_kept = true;
        self.items.iter_mut().for_each(|item| item.set_length(item.length / cuts as f64));
        let pieces = std::mem::take(&mut self.pieces).into_iter();
        let copies = |piece: Piece| {
            (0..cuts).map(move |_| Piece {
                item: piece.item,
                option: piece.option.clone(),
                parts: 1,
            })
        };
        self.pieces = pieces.flat_map(copies).collect();
        self.order = (0..self.pieces.len()).collect();
        // What is mixed at last needs good destinations more than even ranges.
        let is_mixed = self.items.len() <= mixture::ITEMS_MAX && !self.ports.have_racks();
        let most = if is_mixed { MIXED_SWEEPS_MAX } else { RANGE_SWEEPS.1 };
        Some((each / cuts).min(most))
    }

    fn plans(&self) -> Vec<Plan> {
        debug_assert!(self.pieces.is_sorted_by_key(|piece| piece.item));
        let mut at = 0;
        let requests = self.instance.requests.iter().map(|request| {
            let (mut by_chunk, mut lanes) = (BTreeMap::new(), Vec::new());
            while let Some(piece) = self.pieces.get(at)
                && std::ptr::eq(self.items[piece.item as usize].request, request)
            {
                let index = piece.item as usize;
                let same = self.pieces[at..].iter().take_while(|next| next.item == piece.item);
                let options = same.map(|piece| {
                    let option = piece.option.as_ref().expect("each was put somewhere");
                    (option, piece.parts)
                });
                let options: Vec<(&RepairOption, u32)> = options.collect();
                at += options.len();
                let (item, destinations) = (&self.items[index], &self.destinations[index]);
                let nodes = destinations.iter().map(|node| NodeId(*node));
                by_chunk.extend(item.part.lost.iter().copied().zip(nodes));
                lanes.extend(lanes::lanes(
                    item,
                    &options,
                    destinations,
                    &self.candidate_sets,
                    &self.ports,
                ));
            }
            let nodes: Vec<NodeId> = by_chunk.into_values().collect();
            request.plan(&nodes, lanes)
        });
        requests.collect()
    }
}

/// What is to be rebuilt, and the candidate schemes that serve it.
fn items<'a>(
    instance: &'a Instance<'a>,
    around: &'a AroundNeeds,
    kinds: Kinds,
) -> (Vec<PricedPart<'a>>, Vec<CandidateSchemes>) {
    let abilities = instance.view.abilities;
    let may_trace = kinds != Kinds::Chunks && abilities.traces && abilities.finished;
    let mut candidate_sets: Vec<CandidateSchemes> = Vec::new();
    let mut known: BTreeMap<(usize, usize), Option<usize>> = BTreeMap::new();
    let mut known_sets: BTreeMap<*const Part, Rc<[Vec<usize>]>> = BTreeMap::new();
    let mut sets = |part: &Part| {
        known_sets
            .entry(std::ptr::from_ref(part))
            .or_insert_with(|| option::known_sets(part))
            .clone()
    };
    let mut items = Vec::with_capacity(instance.requests.len());
    for (at, request) in instance.requests.iter().enumerate() {
        let length = f64::from(instance.units(request)) / f64::from(CHUNK_UNITS);
        for (index, part) in instance.parts(request).iter().enumerate() {
            let candidates = known.entry((request.need, index)).or_insert_with(|| {
                let candidates =
                    may_trace.then(|| CandidateSchemes::new(request.job.code, part)).flatten();
                candidates.map(|candidates| {
                    candidate_sets.push(candidates);
                    candidate_sets.len() - 1
                })
            });
            let apart = part.lost.iter().filter(|_| part.forwards() > 0);
            let apart = apart.filter_map(|lost| instance.apart(request, *lost));
            let mut priced = |part| PricedPart {
                request,
                part,
                known_sets: sets(part),
                holders: holders(request, part),
                length,
                candidates: None,
                rule: DestinationRule::default(),
                apart: Vec::new(),
                pairs: Vec::new(),
                around: Vec::new(),
            };
            let mut item = PricedPart {
                candidates: *candidates,
                rule: DestinationRule::new(request.job, request.lost.len(), instance.view),
                apart: apart.map(&mut priced).collect(),
                around: around.of(at, index).map(|part| part.map(&mut priced)).collect(),
                ..priced(part)
            };
            // Where any helpers will do, all chunks have the same.
            if let (&[a, b, c], false) = (&part.lost[..], item.shares_helpers()) {
                let pairs = [[b, c], [a, c], [a, b]].map(|lost| instance.pair(request, lost));
                item.pairs = pairs.into_iter().map(|pair| pair.map(&mut priced)).collect();
            }
            items.push(item);
        }
    }
    (items, candidate_sets)
}

/// The nodes of what a need lists: forced, then free.
fn holders(request: &ExactRequest<'_>, part: &Part) -> Vec<u32> {
    let chunks = part.forced.iter().map(|sender| sender.chunk).chain(part.free.iter().copied());
    chunks.map(|chunk| request.holder(chunk).0).collect()
}

/// When all links would be done with trees, if each did what it can.
fn fair_seconds(instance: &Instance<'_>, items: &[PricedPart<'_>]) -> f64 {
    let sent = items.iter().map(|item| {
        let alpha = f64::from(item.request.job.code.sub_chunk_count());
        item.part.sent() as f64 / alpha * item.length
    });
    let units = sent.sum::<f64>() * f64::from(CHUNK_UNITS);
    let nodes = || instance.view.cluster.ids();
    let up: f64 = nodes().map(|node| instance.sending(node).rates[0]).sum();
    let down: f64 = nodes().map(|node| instance.receiving(node).rates[0]).sum();
    0.3 * units / up.min(down)
}
