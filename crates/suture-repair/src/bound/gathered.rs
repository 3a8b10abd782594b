//! What chunks of codes with sub-chunks take where racks have links, by prices of ports.
//!
//! Place: beside `[plan]`, a part of the lower bound, as `crossing.rs` is for sums. Helpers send
//! parts of their chunks, of which no sums are formed on the way: all of them arrive at one
//! decoder, and what it has rebuilt goes to the destination. So at given prices (`search.rs`) the
//! cheapest option is that by the cheapest pair of decoder and destination. A chunk is kept by one
//! node, which prices do not see: what each takes by itself at its best destination counts as well.
//! Of a large batch some chunks are searched for, and all are priced as those are at last.
//!
//! Only one loss of a stripe is counted; other repairs cost nothing here.

use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::{BatchDemands, Demand, PRICED_PAIRS_MAX, takes_part};
use crate::need::Part;
use crate::planner::View;
use crate::planner::ports::{PortIndex, Ports};

/// Steps of the search that are worth beginning it, and the most of one course.
const STEPS_MIN: usize = 12;
const STEPS_MAX: usize = 200;

/// Prices that are compared in each course, for all chunks together or each by itself.
const COMPARISONS_MAX: usize = 16_000_000;
const ALONE_COMPARISONS_MAX: usize = 2_000_000;

/// The bound, in seconds, if it is above what is `known`; nothing where links between racks are not
/// modelled, or where a batch is so large that pricing it once takes too long.
pub(super) fn seconds(
    BatchDemands { demands, view, ports, .. }: BatchDemands<'_>,
    known: f64,
) -> f64 {
    if !ports.have_racks() {
        return 0.0;
    }
    let takes_part = takes_part(demands, view);
    let decoders = (0..).zip(&takes_part).filter(|(_, takes)| **takes).map(|(node, _)| node);
    let decoders: Vec<u32> = decoders.collect();
    let is_one = |(part, _): &(&Part, Option<&Part>)| !part.is_sum && part.lost.len() == 1;
    let parts = demands
        .iter()
        .flat_map(|demand| demand.needs.parts().filter(is_one).map(move |part| (demand, part)));
    let parts: Vec<(&Demand<'_>, (&Part, Option<&Part>))> = parts.collect();
    if parts.is_empty() || parts.len() * decoders.len() > PRICED_PAIRS_MAX {
        return 0.0;
    }
    let gathers = parts.into_iter().map(|(demand, (part, around))| {
        let around = around.map(|part| Box::new(Gathered::new(demand, part, None, view)));
        Gathered::new(demand, part, around, view)
    });
    let gathers: Vec<Gathered> = gathers.collect();
    if gathers.iter().any(|gather| gather.targets.is_empty()) {
        return 0.0;
    }
    let search = GatherSearch { ports, decoders: &decoders };
    let comparisons: usize = gathers.iter().map(|gather| search.comparisons(gather)).sum();
    let steps = (COMPARISONS_MAX / comparisons).min(STEPS_MAX);
    let every = (comparisons * STEPS_MAX).div_ceil(COMPARISONS_MAX);
    let sampled = if steps < STEPS_MAX {
        let some = &gathers[..gathers.len().div_ceil(every)];
        let prices = search.of(some, 0.0, STEPS_MAX).prices_from_nothing();
        search.of(&gathers, 0.0, STEPS_MAX).seconds_at(prices)
    } else {
        0.0
    };
    let known = sampled.max(known);
    if steps < STEPS_MIN {
        return known;
    }
    let together = search.of(&gathers, known, steps).seconds_from_nothing().max(known);
    let pairs: usize = gathers.iter().map(|gather| gather.targets.len()).sum();
    let alone = gathers.iter().map(|gather| {
        let steps = ALONE_COMPARISONS_MAX / (pairs * search.comparisons(gather)).max(1);
        if steps < STEPS_MIN { 0.0 } else { search.alone(gather, steps.min(STEPS_MAX)) }
    });
    alone.fold(together, f64::max)
}

/// A chunk that is rebuilt of parts of others.
#[derive(Clone)]
struct Gathered {
    bytes: f64,
    /// Nodes that send and read in any case, with how many bytes.
    forced: Vec<(u32, f64, f64)>,
    /// Others, so many of which send and read so many bytes each.
    free: Vec<u32>,
    count: usize,
    of_free: (f64, f64),
    /// Nodes that may keep the chunk, ascending.
    targets: Vec<u32>,
    /// The same chunk from others, into the same nodes.
    around: Option<Box<Gathered>>,
}

impl Gathered {
    fn new(
        demand: &Demand<'_>,
        part: &Part,
        around: Option<Box<Gathered>>,
        view: &View<'_>,
    ) -> Gathered {
        let bytes = |sub_chunks: u32| demand.bytes(u64::from(sub_chunks));
        let forced = part
            .forced
            .iter()
            .map(|sender| (demand.holder(sender.chunk).0, bytes(sender.sent), bytes(sender.read)));
        let targets = view.cluster.ids().filter(|node| demand.may_keep(*node, view));
        Gathered {
            bytes: demand.job.chunk_bytes as f64,
            forced: forced.collect(),
            free: part.free.iter().map(|chunk| demand.holder(*chunk).0).collect(),
            count: part.count,
            of_free: (bytes(part.free_sent), bytes(part.free_read)),
            targets: targets.map(|node| node.0).collect(),
            around,
        }
    }
}

/// What prices are searched for.
struct GatherSearch<'a> {
    ports: &'a Ports,
    /// Nodes that may decode.
    decoders: &'a [u32],
}

impl GatherSearch<'_> {
    /// Prices that are compared to find the cheapest option.
    fn comparisons(&self, gather: &Gathered) -> usize {
        let senders = gather.forced.len() + gather.free.len();
        let around = gather.around.as_ref().map_or(0, |around| self.comparisons(around));
        self.decoders.len() * senders + gather.targets.len() + self.ports.count() + around
    }

    /// A search for the bound of these.
    fn of<'b>(
        &'b self,
        gathers: &'b [Gathered],
        known: f64,
        steps: usize,
    ) -> Search<'b, impl FnMut(&Amounts, &mut Amounts) -> f64> {
        let limits = SearchLimits { known, enough: f64::INFINITY, steps };
        Search::new(self.ports, limits, |prices, loads| {
            gathers.iter().map(|gather| self.take_cheapest(gather, prices, loads)).sum()
        })
    }

    /// What a chunk takes by itself, at the best of its destinations.
    fn alone(&self, gather: &Gathered, steps: usize) -> f64 {
        let at = |target: &u32| {
            let mut only = gather.clone();
            only.targets = vec![*target];
            only.around.iter_mut().for_each(|around| around.targets = vec![*target]);
            self.of(&[only], 0.0, steps).seconds_from_nothing()
        };
        gather.targets.iter().map(at).fold(f64::INFINITY, f64::min)
    }

    /// Puts the cheapest option on `loads`, and returns what it costs.
    fn take_cheapest(&self, gather: &Gathered, prices: &Amounts, loads: &mut Amounts) -> f64 {
        let gathers = [Some(gather), gather.around.as_deref()].into_iter().flatten();
        let priced = gathers.filter_map(|gather| Some((self.cheapest(gather, prices)?, gather)));
        let cheapest = priced.min_by(|(a, _), (b, _)| a.0.total_cmp(&b.0));
        let Some(((cost, decoder, target), gather)) = cheapest else { return 0.0 };
        self.gathered(gather, decoder, prices, Some(loads));
        loads.add(self.ports.write(target), gather.bytes);
        self.each_between(decoder, target, |port| loads.add(port, gather.bytes));
        cost
    }

    /// What the cheapest option costs from these helpers, and its decoder and target.
    fn cheapest(&self, gather: &Gathered, prices: &Amounts) -> Option<(f64, u32, u32)> {
        let targets = PricedTargets::new(gather, self.ports, prices);
        let mut best: Option<(f64, u32, u32)> = None;
        for &decoder in self.decoders {
            let (keeping, target) = targets.cheapest_from(decoder);
            let cost = self.gathered(gather, decoder, prices, None) + gather.bytes * keeping;
            if best.is_none_or(|(known, ..)| cost < known) {
                best = Some((cost, decoder, target));
            }
        }
        best
    }

    /// What it costs that the cheapest helpers send to a decoder; that is put on `loads`.
    fn gathered(
        &self,
        gather: &Gathered,
        decoder: u32,
        prices: &Amounts,
        loads: Option<&mut Amounts>,
    ) -> f64 {
        let price = |node: u32, (sent, read): (f64, f64)| {
            let mut cost = read * prices.at(self.ports.read(node));
            self.each_between(node, decoder, |port| cost += sent * prices.at(port));
            cost
        };
        let mut senders: Vec<(u32, (f64, f64))> =
            gather.forced.iter().map(|(node, sent, read)| (*node, (*sent, *read))).collect();
        if gather.count > 0 {
            let free = gather.free.iter().map(|node| (price(*node, gather.of_free), *node));
            let mut free: Vec<(f64, u32)> = free.collect();
            free.sort_by(|a, b| a.0.total_cmp(&b.0));
            free.truncate(gather.count);
            senders.extend(free.into_iter().map(|(_, node)| (node, gather.of_free)));
        }
        if let Some(loads) = loads {
            for &(node, (sent, read)) in &senders {
                loads.add(self.ports.read(node), read);
                self.each_between(node, decoder, |port| loads.add(port, sent));
            }
        }
        senders.into_iter().map(|(node, amounts)| price(node, amounts)).sum()
    }

    /// Every port that a byte from one node to another passes; none where they are the same.
    fn each_between(&self, from: u32, to: u32, mut take: impl FnMut(PortIndex)) {
        if from == to {
            return;
        }
        let ports = self.ports;
        take(ports.up(from));
        take(ports.down(to));
        let (first, last) = (ports.rack(from), ports.rack(to));
        if first != last {
            ports.rack_up(first).into_iter().chain(ports.rack_down(last)).for_each(take);
        }
    }
}

/// What it costs to keep a byte of a chunk, by the rack of the node that keeps it.
struct PricedTargets<'a> {
    gather: &'a Gathered,
    ports: &'a Ports,
    prices: &'a Amounts,
    /// The cheapest node of each rack that has one, and what receiving and writing costs there.
    in_racks: Vec<(u32, f64, u32)>,
    /// The two places among these that are cheapest from other racks.
    first: Option<usize>,
    second: Option<usize>,
}

impl<'a> PricedTargets<'a> {
    fn new(gather: &'a Gathered, ports: &'a Ports, prices: &'a Amounts) -> PricedTargets<'a> {
        let mut in_racks: Vec<(u32, f64, u32)> = Vec::new();
        for &node in &gather.targets {
            let cost = prices.at(ports.down(node)) + prices.at(ports.write(node));
            let rack = ports.rack(node);
            match in_racks.iter_mut().find(|(known, ..)| *known == rack) {
                Some(known) if cost < known.1 => *known = (rack, cost, node),
                Some(_) => {}
                None => in_racks.push((rack, cost, node)),
            }
        }
        let mut targets =
            PricedTargets { gather, ports, prices, in_racks, first: None, second: None };
        for at in 0..targets.in_racks.len() {
            let is_cheaper = |than: Option<usize>| {
                than.is_none_or(|than| targets.arriving(at) < targets.arriving(than))
            };
            if is_cheaper(targets.first) {
                (targets.first, targets.second) = (Some(at), targets.first);
            } else if is_cheaper(targets.second) {
                targets.second = Some(at);
            }
        }
        targets
    }

    /// The same from another rack.
    fn arriving(&self, at: usize) -> f64 {
        let (rack, cost, _) = self.in_racks[at];
        cost + self.ports.rack_down(rack).map_or(0.0, |port| self.prices.at(port))
    }

    /// The cheapest node for what a decoder has rebuilt, and what a byte costs until it is kept.
    fn cheapest_from(&self, decoder: u32) -> (f64, u32) {
        let (ports, prices) = (self.ports, self.prices);
        let own = ports.rack(decoder);
        let sent = prices.at(ports.up(decoder));
        let crossing = sent + ports.rack_up(own).map_or(0.0, |port| prices.at(port));
        let is_other = |at: &usize| self.in_racks[*at].0 != own;
        let other = [self.first, self.second].into_iter().flatten().find(is_other);
        let other = other.map(|at| (crossing + self.arriving(at), self.in_racks[at].2));
        let near = self.in_racks.iter().find(|(rack, ..)| *rack == own);
        let near = near.map(|(_, cost, node)| (sent + cost, *node));
        // Where the decoder is the cheapest of its rack, it is cheaper still to keep it there.
        let here = self.gather.targets.binary_search(&decoder).is_ok();
        let here = here.then(|| (prices.at(ports.write(decoder)), decoder));
        let found = [here, near, other].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0));
        found.expect("some node may keep the chunk")
    }
}

#[cfg(test)]
mod tests {
    use super::{GatherSearch, Gathered, PricedTargets};
    use crate::bound::search::Amounts;
    use crate::cluster::{Cluster, Core, Rate};
    use crate::id::RackId;
    use crate::plan::load::Load;
    use crate::planner::ports::Ports;
    use crate::planner::{Abilities, View};
    use crate::random::Random;

    #[test]
    fn the_cheapest_destination_of_a_decoder_is_the_cheapest_of_all() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut cluster = Cluster::uniform(random.between(2, 12) as usize, Rate(1.0));
            let racks = random.between(1, 4) as u32;
            cluster.racks = (0..racks).map(|rack| format!("r{rack}")).collect();
            cluster.core = Some(Core { rack_uplink: Rate(1.0), rack_downlink: Rate(1.0) });
            for node in &mut cluster.nodes {
                node.rack = Some(RackId(random.below(u64::from(racks)) as u32));
            }
            let (load, free) = (Load::new(&cluster), vec![u64::MAX; cluster.nodes.len()]);
            let abilities = Abilities::ALL;
            let view = View { cluster: &cluster, free_bytes: &free, load: &load, abilities };
            let ports = &Ports::new(&view);
            let mut prices = Amounts::none(ports);
            // Many are equal, and many nothing.
            (0..ports.count()).for_each(|port| prices.add(port, random.below(4) as f64));
            let nodes: Vec<u32> = cluster.ids().map(|node| node.0).collect();
            let mut targets: Vec<u32> =
                nodes.iter().copied().filter(|_| random.per_mille(500)).collect();
            if targets.is_empty() {
                targets.push(0);
            }
            let gather = Gathered {
                bytes: 1.0,
                forced: Vec::new(),
                free: Vec::new(),
                count: 0,
                of_free: (1.0, 1.0),
                targets,
                around: None,
            };
            let search = GatherSearch { ports, decoders: &nodes };
            let keeping = |decoder: u32, target: u32| {
                let mut cost = prices.at(ports.write(target));
                search.each_between(decoder, target, |port| cost += prices.at(port));
                cost
            };
            let priced = PricedTargets::new(&gather, ports, &prices);
            for &decoder in &nodes {
                let costs = gather.targets.iter().map(|target| keeping(decoder, *target));
                let least = costs.fold(f64::INFINITY, f64::min);
                let (cost, target) = priced.cheapest_from(decoder);
                assert_eq!((cost, keeping(decoder, target)), (least, least), "{seed}: {decoder}");
            }
        }
    }
}
