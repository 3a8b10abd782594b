//! The options by which a chunk can be rebuilt, and the cheapest tree.
//!
//! Place: `[plan]`, each choice of the potential planner. A tree of k helpers, with sums anywhere;
//! the traces of a scheme, which does without no helper or without one, decoded at any of them or
//! at the destination; or whole chunks and parts of chunks, gathered at a destination or a helper.
//! Helpers are named by their place in the item's list, which is the need's: forced ones, then free
//! ones. What each puts on which port is defined in `charge.rs`.

use std::rc::Rc;

use suture_code::{ChunkIndex, Scheme, Shortened};

use crate::need::Part;
use crate::plan::SchemeId;
use crate::planner::exact::instance::ExactRequest;
use crate::planner::exact::potential::ports::{PRICE_MAX, PortGrowth, PortIndex, PricedPorts};
use crate::planner::keep::DestinationRule;

/// Up to so many sets of helpers that the code takes are compared, and so many joined to trees.
pub(super) const CODE_SETS_MAX: usize = 128;
pub(super) const CODE_SETS_JOINED: usize = 4;

/// Parity checks whose cheapest sets are compared by what they cost together.
const CHECKED_SETS_MAX: usize = 8;

/// Something to be rebuilt: a part of a request, or a range of it.
pub(super) struct PricedPart<'a> {
    pub request: &'a ExactRequest<'a>,
    pub part: &'a Part,
    /// The smallest sets of helpers that the code takes, by place, forced ones included; none where
    /// any others will do, or there are too many to compare.
    pub known_sets: Rc<[Vec<usize>]>,
    /// The nodes of what the need lists: forced, then free.
    pub holders: Vec<u32>,
    /// Chunks of this length, in lengths of the longest chunk.
    pub length: f64,
    /// Which list of candidate schemes serves it.
    pub candidates: Option<usize>,
    /// The nodes that may keep it, and those that do.
    pub rule: DestinationRule,
    /// Each of several lost chunks by itself, where a tree of its own may be better.
    pub apart: Vec<PricedPart<'a>>,
    /// Of three chunks those without the first, the second and the third; none where these two are
    /// cheaper apart.
    pub pairs: Vec<Option<PricedPart<'a>>>,
    /// The same chunk rebuilt by other options than the cheapest (`Needs::find_around`): of a sum
    /// without each of the forced helpers, by their places.
    pub around: Vec<Option<PricedPart<'a>>>,
}

/// What a helper sends and reads, in lengths of the longest chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct HelperShare {
    pub sent: f64,
    pub read: f64,
}

/// How it is rebuilt.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RepairOption {
    /// On a tree: helpers, and how many others each adds to its own. The rest arrives at the
    /// destination.
    Tree { helpers: Vec<u8>, sums: Vec<u8> },
    /// The same, but sums are formed within racks first.
    Racks { helpers: Vec<u8>, sums: Vec<u8>, arrivals: Vec<(u32, u8)> },
    /// The same in any shape, with nodes that hold no chunk of the stripe and only add up: the
    /// parent of each helper, then of each relay, by its place among them, their number for the
    /// destination.
    Arborescence { helpers: Vec<u8>, relays: Vec<u32>, parents: Vec<u8> },
    /// From whole chunks, or what the code asks for, at one decoder.
    Gather { helpers: Vec<u8>, decoder: Decoder },
    /// Each of several chunks on a tree of its own.
    Apart { trees: Vec<RepairOption> },
    /// One of three chunks, by its place, on a tree of its own, the others gathered.
    Beside { alone: u8, tree: Box<RepairOption>, gather: Box<RepairOption> },
    /// One chunk from more than its cheapest repair takes, by the place among its other options.
    Around { detour: u8, option: Box<RepairOption> },
    /// From traces, by one of the item's candidate schemes; each decoder does so many of
    /// [`SHARES`].
    Traces { scheme: u8, decoders: Vec<(Decoder, u8)> },
}

/// Parts into which the decoding of traces is cut. A whole chunk's traces are many times what a sum
/// brings to a link.
pub(super) const SHARES: u8 = 4;

/// The node that turns what helpers send into finished bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoder {
    /// A destination, by its place.
    Destination(u8),
    /// A helper, by its place.
    Helper(u8),
    /// Any other node that could keep a chunk of the stripe.
    Relay(u32),
}

impl Decoder {
    /// The node, where these nodes have the helpers' chunks, and these keep what is rebuilt.
    pub fn node(self, holders: &[u32], destinations: &[u32]) -> u32 {
        match self {
            Decoder::Destination(place) => destinations[usize::from(place)],
            Decoder::Helper(place) => holders[usize::from(place)],
            Decoder::Relay(node) => node,
        }
    }
}

/// The schemes that rebuild one chunk from some of the survivors.
pub(super) struct CandidateSchemes {
    pub schemes: Vec<CandidateScheme>,
}

/// A scheme and the bits for each byte that each helper sends, by its place.
pub(super) struct CandidateScheme {
    pub scheme: SchemeId,
    pub bits: Vec<u8>,
    pub total: u32,
}

impl CandidateSchemes {
    /// The schemes of `code` for a part; `None` when there are none.
    pub fn new(code: Shortened, part: &Part) -> Option<CandidateSchemes> {
        let &[lost] = &part.lost[..] else { return None };
        let forced = part.forced.iter().map(|sender| sender.chunk);
        let places: Vec<ChunkIndex> = forced.chain(part.free.iter().copied()).collect();
        let serves = |scheme: &&Scheme| {
            let helps = |chunk: &ChunkIndex| *chunk != lost && !scheme.missing().contains(chunk);
            scheme.lost() == lost
                && code.chunks().filter(helps).all(|c| places.contains(&c) || code.is_zero(c))
        };
        let schemes = code.schemes().iter().filter(serves).map(|scheme| {
            let ranks = scheme.ranks(code.chunk_count());
            let rank = |place: &ChunkIndex| {
                ranks.iter().find(|(chunk, _)| chunk == place).map_or(0, |(_, rank)| *rank as u8)
            };
            let bits: Vec<u8> = places.iter().map(rank).collect();
            let total = bits.iter().map(|bits| u32::from(*bits)).sum();
            CandidateScheme { scheme: SchemeId::of(scheme), bits, total }
        });
        let schemes: Vec<CandidateScheme> = schemes.collect();
        (!schemes.is_empty() && part.is_sum).then_some(CandidateSchemes { schemes })
    }
}

impl RepairOption {
    /// The option as one of the detour at this place.
    pub fn around(self, detour: u8) -> RepairOption {
        RepairOption::Around { detour, option: Box::new(self) }
    }
}

impl PricedPart<'_> {
    /// Changes the length of what is rebuilt.
    pub fn set_length(&mut self, length: f64) {
        self.length = length;
        let others = self.pairs.iter_mut().chain(&mut self.around).flatten();
        let parts = self.apart.iter_mut().chain(others);
        parts.for_each(|part| part.length = length);
    }

    /// The two of three chunks that a gather rebuilds beside a tree of the other.
    pub fn pair_without(&self, alone: usize) -> &PricedPart<'_> {
        self.pairs[alone].as_ref().expect("such a gather was priced")
    }

    /// The part as the detour at this place rebuilds it.
    pub fn detour(&self, detour: u8) -> &PricedPart<'_> {
        self.around[usize::from(detour)].as_ref().expect("this detour was priced")
    }

    /// The way around the helper that is dearest at the prices of now, of those with a way around.
    pub fn detour_around_dearest(&self, ports: &PricedPorts<'_>) -> Option<u8> {
        let cost = |place: usize| {
            let (node, HelperShare { sent, read }) = (self.holders[place], self.share(place));
            ports.cost(ports.up(node), sent) + ports.cost(ports.read(node), read)
        };
        let places = (0..self.around.len()).filter(|place| self.around[*place].is_some());
        let costs = places.map(|place| (cost(place), place));
        costs.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, place)| place as u8)
    }

    /// What each helper of a gather sends and reads, in lengths of the longest chunk.
    pub fn share(&self, place: usize) -> HelperShare {
        let alpha = f64::from(self.request.job.code.sub_chunk_count());
        let (sent, read) = match self.part.forced.get(place) {
            Some(sender) => (sender.sent, sender.read),
            None => (self.part.free_sent, self.part.free_read),
        };
        HelperShare {
            sent: self.length * f64::from(sent) / alpha,
            read: self.length * f64::from(read) / alpha,
        }
    }

    /// Sets of helpers of so many parity checks, by place, forced ones first: those that cost least
    /// by the sum of prices, be they more than it takes.
    fn sets_of_checks(&self, count: usize, price: impl Fn(usize) -> f64) -> Vec<Vec<usize>> {
        let part = self.part;
        if part.checks.is_empty() {
            return Vec::new();
        }
        let forced = part.forced.iter().map(|sender| sender.chunk);
        let mut places = [usize::MAX; 1 << u8::BITS];
        let all = forced.chain(part.free.iter().copied()).enumerate();
        all.for_each(|(place, ChunkIndex(chunk))| places[usize::from(chunk)] = place);
        let place = |chunk: ChunkIndex| places[usize::from(chunk.0)];
        let by_place = |set: Vec<ChunkIndex>| {
            let mut places: Vec<usize> = set.into_iter().map(place).collect();
            places.sort_unstable();
            places
        };
        let sets = part.cheapest_sets(count, false, |chunk| price(place(chunk)));
        sets.into_iter().map(by_place).collect()
    }

    /// The set of a parity check, without those that it does not need, of which some check may have
    /// more than the smallest sets; `None` if a forced one is among these.
    fn minimal(&self, set: Vec<usize>) -> Option<Vec<usize>> {
        if set.len() == self.wanted() {
            return Some(set);
        }
        let chunk = |place: &usize| match self.part.forced.get(*place) {
            Some(sender) => sender.chunk,
            None => self.part.free[place - self.forced()],
        };
        let chunks: Vec<ChunkIndex> = set.iter().map(chunk).collect();
        let free = self.part.taken(self.request.job.code, &chunks)?;
        let is_taken = |place: &usize| *place < self.forced() || free.contains(&chunk(place));
        Some(set.into_iter().filter(is_taken).collect())
    }

    /// Whether the same helpers serve each of several chunks, by the same places.
    pub fn shares_helpers(&self) -> bool {
        let is_alike = |part: &PricedPart<'_>| {
            part.part.any && part.holders == self.holders && part.wanted() == self.wanted()
        };
        self.apart.iter().all(is_alike)
    }

    pub fn forced(&self) -> usize {
        self.part.forced.len()
    }

    /// How many help in a tree or a gather; at least so many, where the code decides.
    pub fn wanted(&self) -> usize {
        self.forced() + self.part.count
    }
}

/// The smallest sets of helpers of a part, by place (`PricedPart::known_sets`).
pub(super) fn known_sets(part: &Part) -> Rc<[Vec<usize>]> {
    if !part.all_sets || part.sets.len() > CODE_SETS_MAX {
        return Rc::new([]);
    }
    let forced = part.forced.len();
    let place = |chunk: &ChunkIndex| {
        let found = part.free.iter().position(|free| free == chunk);
        forced + found.expect("sets are of free helpers")
    };
    let places = part.sets.iter().map(|set| (0..forced).chain(set.iter().map(place)).collect());
    places.collect()
}

/// As many of the free helpers as are wanted, those that come first; the code decides where not any
/// of them will do, and may take more of them for a sum.
pub(super) fn free_helpers(item: &PricedPart<'_>, mut preferred: Vec<usize>) -> Vec<usize> {
    let part = item.part;
    if part.any {
        preferred.truncate(part.count);
        return preferred;
    }
    let chunk = |place: &usize| part.free[place - item.forced()];
    let chunks: Vec<ChunkIndex> = preferred.iter().map(chunk).collect();
    let code = item.request.job.code;
    let chosen = if part.is_sum {
        part.first_helpers(code, &chunks)
    } else {
        part.free_helpers(code, chunks)
    };
    preferred.retain(|place| chosen.contains(&chunk(place)));
    preferred
}

/// Sets of helpers that may be the cheapest of a sum, where not any of them will do: of the
/// smallest sets and of those that parity checks say the cheapest, at most so many, and what the
/// code takes of those that cost least one by one.
pub(super) fn code_sets(
    item: &PricedPart<'_>,
    count: usize,
    price: impl Fn(usize) -> f64,
    cost: impl Fn(&[usize]) -> f64,
) -> Vec<Vec<usize>> {
    let forced = item.forced();
    let checked = item.sets_of_checks(CHECKED_SETS_MAX.min(2 * count), &price);
    // The smallest sets are those of checks.
    let smallest = if checked.is_empty() { &item.known_sets[..] } else { &checked };
    let mut priced: Vec<(f64, &Vec<usize>)> =
        smallest.iter().map(|places| (cost(places), places)).collect();
    priced.sort_by(|a, b| a.0.total_cmp(&b.0));
    priced.truncate(count);
    if !checked.is_empty() {
        let minimal = priced.into_iter().filter_map(|(_, places)| item.minimal(places.clone()));
        let minimal: Vec<Vec<usize>> = minimal.collect();
        if !minimal.is_empty() {
            return minimal;
        }
        priced = Vec::new();
    }
    let mut free: Vec<(f64, usize)> =
        (forced..item.holders.len()).map(|place| (price(place), place)).collect();
    free.sort_by(|a, b| a.0.total_cmp(&b.0));
    let one_by_one = free_helpers(item, free.into_iter().map(|(_, place)| place).collect());
    let smallest = priced.into_iter().map(|(_, places)| places.clone());
    smallest.chain([(0..forced).chain(one_by_one).collect()]).collect()
}

/// Prices of one item's helpers, computed once for all options.
#[derive(Default)]
pub(super) struct Prices {
    /// What it costs each helper to read its chunk and to send so many eighths of it; nothing at
    /// all for none. Sixteen, so that looking up needs no check.
    eighths: Vec<[f64; 16]>,
    /// What reading its chunk costs each helper.
    reads: Vec<f64>,
    /// Places of the helpers that are chosen.
    order: Vec<usize>,
    /// What one more would cost each aggregation point, and by what that grows with each.
    pub next: Vec<(f64, f64)>,
    /// Where a piece that is taken out or put back is noted.
    pub charges: Vec<(PortIndex, f64)>,
}

impl Prices {
    /// Looks up the prices of an item's helpers.
    pub fn compute(&mut self, item: &PricedPart<'_>, ports: &PricedPorts<'_>) {
        self.eighths.clear();
        self.reads.clear();
        for &node in &item.holders {
            let PortGrowth { weight, factor: eighth } =
                ports.growth(ports.up(node), item.length / 8.0);
            let read =
                if ports.have_disks() { ports.cost(ports.read(node), item.length) } else { 0.0 };
            let mut prices = [0.0; 16];
            let mut power = weight;
            for price in &mut prices[1..9] {
                power = (power * eighth).min(PRICE_MAX);
                *price = power - weight + read;
            }
            // Fewer than eight are traces.
            if ports.have_processors() {
                for (eighths, price) in prices[..8].iter_mut().enumerate().skip(1) {
                    *price += ports.cost_of_traces(node, eighths as f64 * item.length / 8.0);
                }
            }
            self.eighths.push(prices);
            self.reads.push(read);
        }
    }

    /// What it costs a helper to send so many eighths of its chunk.
    pub fn sending(&self, place: usize, eighths: u8) -> f64 {
        self.eighths[place][usize::from(eighths & 15)] - self.reads[place]
    }

    /// What it costs all helpers to read their chunks and to send so many eighths of them.
    pub fn helping(&self, eighths: &[u8]) -> f64 {
        let helpers = self.eighths.iter().zip(eighths);
        helpers.map(|(prices, eighths)| prices[usize::from(eighths & 15)]).sum()
    }

    /// What it costs a helper to read and send a whole chunk.
    pub fn whole(&self, place: usize) -> f64 {
        self.eighths[place][8]
    }

    /// The cheapest helpers of a tree: all forced ones, and as many others as it takes.
    pub fn cheapest_helpers(&mut self, item: &PricedPart<'_>) -> &[usize] {
        let mut places = std::mem::take(&mut self.order);
        places.clear();
        places.extend(0..item.holders.len());
        let (forced, wanted) = (item.forced(), item.wanted());
        if !item.part.any {
            let whole = |places: &[usize]| places.iter().map(|place| self.whole(*place)).sum();
            let sets = code_sets(item, 1, |place| self.whole(place), whole).into_iter();
            let sets = sets.map(|places| (whole(&places), places));
            let cheapest = sets.min_by(|a, b| a.0.total_cmp(&b.0));
            self.order = cheapest.expect("some helpers will do").1;
            return &self.order;
        }
        // Few are too many: drop the dearest, one by one.
        while places.len() > wanted {
            let mut dearest = forced;
            for at in forced..places.len() {
                if self.whole(places[at]) > self.whole(places[dearest]) {
                    dearest = at;
                }
            }
            places.swap_remove(dearest);
        }
        self.order = places;
        &self.order
    }

    /// The cheapest tree into a destination, and its cost, if that is less than `limit`.
    pub fn tree(
        &mut self,
        item: &PricedPart<'_>,
        root: u32,
        ports: &PricedPorts<'_>,
        limit: f64,
    ) -> Option<(f64, RepairOption)> {
        self.cheapest_helpers(item);
        let mut cost: f64 = self.order.iter().map(|place| self.whole(*place)).sum();
        if cost >= limit {
            return None;
        }
        // The destination, which must receive one, stands last.
        self.next.clear();
        let nodes = self.order.iter().map(|place| item.holders[*place]);
        for node in nodes.chain([root]) {
            let growth = ports.growth(ports.down(node), item.length);
            self.next.push((growth.cost(), growth.factor));
        }
        let count = self.order.len();
        cost += self.take(count);
        if ports.have_disks() {
            cost += ports.cost(ports.write(root), item.length);
        }
        let mut sums = vec![0u8; count];
        for _ in 1..count {
            // Nothing is added for less than nothing.
            if cost >= limit {
                return None;
            }
            let at = self.cheapest_next();
            cost += self.take(at);
            if at < count {
                sums[at] += 1;
            }
        }
        let helpers = self.order.iter().map(|place| *place as u8).collect();
        (cost < limit).then_some((cost, RepairOption::Tree { helpers, sums }))
    }

    /// The cheapest tree whose sums all meet at one helper.
    pub fn tree_through(&mut self, item: &PricedPart<'_>, place: usize) -> RepairOption {
        let mut free: Vec<usize> = (item.forced()..item.holders.len()).collect();
        free.sort_by(|a, b| self.whole(*a).total_cmp(&self.whole(*b)));
        // Those that come first are taken.
        free.sort_by_key(|free| *free != place);
        let places = (0..item.forced()).chain(free_helpers(item, free));
        let helpers: Vec<u8> = places.map(|place| place as u8).collect();
        let others = (helpers.len() - 1) as u8;
        let sums =
            helpers.iter().map(|helper| if usize::from(*helper) == place { others } else { 0 });
        RepairOption::Tree { sums: sums.collect(), helpers }
    }

    /// The aggregation point at which one more costs least; of equals, the last.
    pub fn cheapest_next(&self) -> usize {
        let mut best = (f64::INFINITY, 0);
        for (at, &(next, _)) in self.next.iter().enumerate() {
            if next <= best.0 {
                best = (next, at);
            }
        }
        best.1
    }

    /// Puts one more at an aggregation point, and returns what that costs.
    pub fn take(&mut self, at: usize) -> f64 {
        let (next, growth) = self.next[at];
        self.next[at].0 = (next * growth).min(PRICE_MAX);
        next
    }
}
