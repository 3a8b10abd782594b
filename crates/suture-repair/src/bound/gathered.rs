//! What chunks of codes with sub-chunks take where racks have links, by prices of ports.
//!
//! Place: beside `[plan]`, a part of the lower bound, as `crossing.rs` is for sums. Helpers send
//! parts of their chunks, of which no sums are formed on the way: all of them arrive at one
//! decoder, and what it has rebuilt goes to the destination. So at given prices (`search.rs`) the
//! cheapest option is that by the cheapest pair of decoder and destination. A chunk is kept by one
//! node, which prices do not see: what each takes by itself at its best destination counts as well.
//!
//! Only one loss of a stripe is counted; other repairs cost nothing here.

use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::{BatchDemands, Demand, takes_part};
use crate::need::Part;
use crate::planner::View;
use crate::planner::ports::{PortIndex, Ports};

/// Steps of the search that are worth beginning it, and the most of one course.
const STEPS_MIN: usize = 12;
const STEPS_MAX: usize = 200;

/// Prices that are compared in each course, for all chunks together or each by itself.
const COMPARISONS_MAX: usize = 2_000_000;

/// The bound, in seconds, if it is above what is `known`; nothing where links between racks are not
/// modelled, or where a batch is large.
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
    let gathers: Vec<Gathered> = parts
        .map(|(demand, (part, around))| {
            let around = around.map(|part| Box::new(Gathered::new(demand, part, None, view)));
            Gathered::new(demand, part, around, view)
        })
        .collect();
    let search = GatherSearch { ports, decoders: &decoders };
    let comparisons: usize = gathers.iter().map(|gather| search.comparisons(gather)).sum();
    if gathers.is_empty() || gathers.iter().any(|gather| gather.targets.is_empty()) {
        return 0.0;
    }
    let together = match COMPARISONS_MAX / comparisons.max(1) {
        steps if steps < STEPS_MIN => return 0.0,
        steps => search.seconds(&gathers, known, steps),
    };
    let pairs: usize = gathers.iter().map(|gather| gather.targets.len()).sum();
    let alone = gathers.iter().map(|gather| {
        let steps = COMPARISONS_MAX / (pairs * search.comparisons(gather)).max(1);
        if steps < STEPS_MIN { 0.0 } else { search.alone(gather, steps) }
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
    /// Nodes that may keep the chunk.
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
        self.decoders.len() * (senders + gather.targets.len()) + self.ports.count() + around
    }

    fn seconds(&self, gathers: &[Gathered], known: f64, steps: usize) -> f64 {
        let limits = SearchLimits { known, enough: f64::INFINITY, steps: steps.min(STEPS_MAX) };
        let search = Search::new(self.ports, limits, |prices, loads| {
            gathers.iter().map(|gather| self.take_cheapest(gather, prices, loads)).sum()
        });
        search.seconds_from_nothing()
    }

    /// What a chunk takes by itself, at the best of its destinations.
    fn alone(&self, gather: &Gathered, steps: usize) -> f64 {
        let at = |target: &u32| {
            let mut only = gather.clone();
            only.targets = vec![*target];
            only.around.iter_mut().for_each(|around| around.targets = vec![*target]);
            self.seconds(&[only], 0.0, steps)
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
        let mut best: Option<(f64, u32, u32)> = None;
        for &decoder in self.decoders {
            let gathered = self.gathered(gather, decoder, prices, None);
            for &target in &gather.targets {
                let mut cost = gathered + gather.bytes * prices.at(self.ports.write(target));
                self.each_between(decoder, target, |port| cost += gather.bytes * prices.at(port));
                if best.is_none_or(|(known, ..)| cost < known) {
                    best = Some((cost, decoder, target));
                }
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
