//! The lower bound of plans that mix traces with whole chunks, of which no count of chunks says
//! anything: from prices (`bound/search.rs`), what every stripe must cost even if each takes its
//! cheapest repair.
//!
//! Place: beside `[plan]`. Repairs are counted as cheap as they can be: a tree's sums may meet at any
//! survivor or at the destination, several losses decode where that is cheapest, and ranges of a
//! chunk take each their own. Links between racks are not counted, so there is no such bound where
//! they have a rate.

use std::collections::BTreeMap;
use std::rc::Rc;

use suture_code::Scheme;

use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::{BatchDemands, Demand, with_batch};
use crate::id::{ChunkIndex, NodeId};
use crate::need::Part;
use crate::plan::load::Load;
use crate::planner::ports::{PortIndex, Ports};
use crate::planner::{Job, View};

/// What may be chosen for a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PricedKinds {
    /// Whole chunks or traces.
    All,
    /// Traces, wherever there is a scheme.
    TracesFirst,
}

/// The bound, in seconds; `None` where links between racks are modelled, which it cannot price.
pub(super) fn seconds(
    jobs: &[Job],
    view: &View<'_>,
    load: &Load,
    kinds: PricedKinds,
) -> Option<f64> {
    with_batch(jobs, view, |BatchDemands { demands, ports, .. }| {
        if ports.have_racks() {
            return None;
        }
        let items = items(demands, view, kinds);
        let lengths = lengths(&items, ports);
        let visits = items.iter().map(Item::visits).sum::<usize>().max(1);
        let steps = STEPS_MAX.min(VISITS_MAX / visits);
        let limits = SearchLimits { known: 0.0, enough: f64::INFINITY, steps };
        let mut helpers = HelperPrices::default();
        let search = Search::new(ports, limits, |prices, loads| {
            let offers = Offers::new(view, ports, prices, &lengths);
            let cost = |item: &Item<'_>| item.take_cheapest(&offers, &mut helpers, loads);
            items.iter().map(cost).sum()
        });
        Some(search.seconds_from(&Amounts::of(load, ports)))
    })
}

/// The most steps of one course.
const STEPS_MAX: usize = 160;

/// How often a helper is looked at in each course, with each scheme: small batches get all steps.
const VISITS_MAX: usize = 2_000_000;

/// How many of the cheapest destinations are ranked: most stripes are kept by one of these.
const RANKED_MAX: usize = 32;

/// What the helpers of a scheme send, in lengths of a chunk.
struct PricedScheme {
    /// By their places: nothing of who does not help.
    sent: Vec<f64>,
    total: f64,
}

/// A part of a job.
struct Item<'a> {
    demand: &'a Demand<'a>,
    part: &'a Part,
    /// Who holds what the need lists: forced, then free.
    holders: Vec<NodeId>,
    schemes: Rc<Vec<PricedScheme>>,
    /// Whether it may be rebuilt from whole chunks.
    may_be_whole: bool,
}

/// What is sent, and where it all meets.
#[derive(Clone, Copy, Debug)]
enum RepairKind {
    /// Whole chunks, or what the code asks for of them, added up or not.
    Whole(Meeting),
    /// The traces of a scheme, by its place.
    Traces(usize, Meeting),
}

/// Where what helpers send becomes the chunk.
#[derive(Clone, Copy, Debug)]
enum Meeting {
    /// At a destination; there may be none.
    Root(Option<NodeId>),
    /// At a helper, by its place.
    Helper(usize),
}

fn items<'a>(demands: &'a [Demand<'a>], view: &View<'_>, kinds: PricedKinds) -> Vec<Item<'a>> {
    let may_trace = view.abilities.traces && view.abilities.finished;
    let mut known: BTreeMap<(usize, usize), Rc<Vec<PricedScheme>>> = BTreeMap::new();
    let mut items = Vec::with_capacity(demands.len());
    for demand in demands {
        for (index, part) in demand.need.parts.iter().enumerate() {
            let forced = part.forced.iter().map(|sender| sender.chunk);
            let places: Vec<ChunkIndex> = forced.chain(part.free.iter().copied()).collect();
            let schemes = known.entry((demand.name, index)).or_insert_with(|| {
                Rc::new(if may_trace { priced_schemes(demand, part, &places) } else { Vec::new() })
            });
            let holders = places.iter().map(|chunk| demand.holder(*chunk)).collect();
            let may_be_whole = kinds == PricedKinds::All || schemes.is_empty();
            items.push(Item { demand, part, holders, schemes: schemes.clone(), may_be_whole });
        }
    }
    items
}

/// The schemes that serve a part.
fn priced_schemes(demand: &Demand<'_>, part: &Part, places: &[ChunkIndex]) -> Vec<PricedScheme> {
    let code = demand.job.code;
    let (&[lost], true) = (&part.lost[..], part.is_sum) else { return Vec::new() };
    let schemes = code.schemes().iter().filter(|scheme| scheme.lost() == lost);
    let candidate = |scheme: &Scheme| {
        let ranks = scheme.ranks(code.chunk_count()).into_iter();
        let ranks = ranks.filter(|(chunk, rank)| *rank > 0 && !code.is_zero(*chunk));
        let mut sent = vec![0.0; places.len()];
        for (chunk, rank) in ranks {
            sent[places.iter().position(|place| *place == chunk)?] = rank as f64 / 8.0;
        }
        Some(PricedScheme { total: sent.iter().sum(), sent })
    };
    schemes.filter_map(candidate).collect()
}

/// What a byte costs the helpers of an item, by their places.
#[derive(Default)]
struct HelperPrices {
    up: Vec<f64>,
    down: Vec<f64>,
    read: Vec<f64>,
    /// What it costs each of the free ones to help.
    helping: Vec<f64>,
}

impl HelperPrices {
    fn set(&mut self, holders: &[NodeId], offers: &Offers<'_>) {
        let HelperPrices { up, down, read, .. } = self;
        up.clear();
        down.clear();
        read.clear();
        for node in holders {
            up.push(offers.up(*node));
            down.push(offers.down(*node));
            read.push(offers.prices.at(offers.ports.read(node.0)));
        }
    }

    /// What it costs that the helpers of a scheme send, and the cheapest of them to decode, with
    /// what that costs.
    fn traces(&self, candidate: &PricedScheme) -> (f64, (f64, usize)) {
        let (mut cost, mut cheapest) = (0.0, (f64::INFINITY, 0));
        let prices = self.up.iter().zip(&self.down).zip(&self.read);
        for (place, (&sent, ((up, down), read))) in candidate.sent.iter().zip(prices).enumerate() {
            if sent > 0.0 {
                cost += sent * up + read;
                let decoding = (1.0 - sent) * up + (candidate.total - sent) * down;
                if decoding < cheapest.0 {
                    cheapest = (decoding, place);
                }
            }
        }
        (cost, cheapest)
    }
}

impl Item<'_> {
    /// How many helpers are looked at for the cheapest repair.
    fn visits(&self) -> usize {
        self.holders.len() * (1 + self.schemes.len())
    }

    /// Puts the cheapest repair on `loads`, and returns what it costs.
    fn take_cheapest(
        &self,
        offers: &Offers<'_>,
        helpers: &mut HelperPrices,
        loads: &mut Amounts,
    ) -> f64 {
        helpers.set(&self.holders, offers);
        let Some((_, choice)) = self.cheapest(offers, helpers) else { return 0.0 };
        let mut cost = 0.0;
        self.each_charge(choice, offers, |port, bytes| {
            cost += bytes * offers.prices.at(port);
            loads.add(port, bytes);
        });
        cost
    }

    /// The cheapest repair, and what a byte of a chunk costs: prices are linear, so it is no use to
    /// share anything out.
    fn cheapest(
        &self,
        offers: &Offers<'_>,
        helpers: &mut HelperPrices,
    ) -> Option<(f64, RepairKind)> {
        let mut best: Option<(f64, RepairKind)> = None;
        let mut offer = |cost: f64, choice: RepairKind| {
            if best.is_none_or(|(known, _)| cost < known) {
                best = Some((cost, choice));
            }
        };
        let mut kept = 0.0;
        offers.each_first(self.part.lost.len(), self.demand, |node| {
            kept += offers.keeping(1.0, node);
        });
        if self.may_be_whole {
            let sent = self.sent(helpers);
            let (root, cost) = self.whole_root(offers, kept);
            offer(sent + cost, RepairKind::Whole(Meeting::Root(root)));
            let cost =
                |place: usize| self.decoding(Some(place), [helpers.down[place], helpers.up[place]]);
            let costs = (0..self.holders.len()).map(|place| (cost(place), place));
            if let Some((cost, place)) = costs.min_by(|a, b| a.0.total_cmp(&b.0)) {
                offer(sent + cost + kept, RepairKind::Whole(Meeting::Helper(place)));
            }
        }
        let every_length = offers.first_of_every_length(self.demand);
        for (index, candidate) in self.schemes.iter().enumerate() {
            let (sent, (decoding, place)) = helpers.traces(candidate);
            offer(sent + decoding + kept, RepairKind::Traces(index, Meeting::Helper(place)));
            let root = every_length.unwrap_or_else(|| offers.first(candidate.total, self.demand));
            let lengths = candidate.total.max(1.0);
            let cost = root.map_or(0.0, |node| offers.keeping(lengths, node));
            offer(sent + cost, RepairKind::Traces(index, Meeting::Root(root)));
        }
        best
    }

    /// What it costs that the cheapest helpers of a tree or a gather send.
    fn sent(&self, helpers: &mut HelperPrices) -> f64 {
        let alpha = f64::from(self.demand.job.code.sub_chunk_count());
        let HelperPrices { up, read, helping, .. } = helpers;
        let cost = |place: usize, sent: u32, bytes_read: u32| {
            (f64::from(sent) * up[place] + f64::from(bytes_read) * read[place]) / alpha
        };
        let (part, first_free) = (self.part, self.part.forced.len());
        let forced = part.forced.iter().enumerate();
        let forced: f64 = forced.map(|(place, sender)| cost(place, sender.sent, sender.read)).sum();
        let free = first_free..self.holders.len();
        helping.clear();
        helping.extend(free.map(|place| cost(place, part.free_sent, part.free_read)));
        if (1..helping.len()).contains(&part.count) {
            helping.select_nth_unstable_by(part.count - 1, f64::total_cmp);
        }
        forced + helping[..part.count].iter().sum::<f64>()
    }

    /// Where whole chunks meet most cheaply beside helpers, and what that and keeping them costs.
    fn whole_root(&self, offers: &Offers<'_>, kept: f64) -> (Option<NodeId>, f64) {
        let decoding = |node: NodeId| self.decoding(None, [offers.down(node), offers.up(node)]);
        if !self.part.is_sum {
            let root = offers.cheapest_of_all(decoding);
            return (root, kept + root.map_or(0.0, decoding));
        }
        let root = offers.first(self.sums(), self.demand);
        (root, root.map_or(0.0, |node| decoding(node) + offers.keeping(1.0, node)))
    }

    fn chunk_bytes(&self) -> f64 {
        self.demand.job.chunk_bytes as f64
    }

    /// Chunks that come to where a tree meets.
    fn sums(&self) -> f64 {
        (self.part.forced.len() + self.part.count) as f64
    }

    /// What it costs to let whole chunks meet at a node, beside sending and keeping, for each byte
    /// of a chunk.
    fn decoding(&self, helper: Option<usize>, [down, up]: [f64; 2]) -> f64 {
        let [received, sent] = self.decoded(helper);
        (received * down + sent * up) / self.chunk_bytes()
    }

    /// The bytes that a node receives and sends because it decodes, beside those that it sends as a
    /// helper or receives as a destination.
    fn decoded(&self, helper: Option<usize>) -> [f64; 2] {
        let (part, bytes) = (self.part, self.chunk_bytes());
        let sent = self.demand.bytes(part.sent());
        let Some(place) = helper else {
            return [(sent - bytes).max(0.0), part.forwards() as f64 * bytes];
        };
        let own = part.forced.get(place).map_or(part.free_sent, |sender| sender.sent);
        let own = self.demand.bytes(u64::from(own));
        // A sum is sent in place of the own chunk.
        [(sent - own).max(0.0), part.lost.len() as f64 * bytes - own]
    }

    /// Calls `charge` for every port that a repair uses, with the bytes there.
    fn each_charge(
        &self,
        choice: RepairKind,
        offers: &Offers<'_>,
        mut charge: impl FnMut(PortIndex, f64),
    ) {
        let (bytes, ports) = (self.chunk_bytes(), offers.ports);
        let (RepairKind::Whole(meeting) | RepairKind::Traces(_, meeting)) = choice;
        match choice {
            RepairKind::Whole(_) => self.each_whole(meeting, offers, &mut charge),
            RepairKind::Traces(at, _) => {
                self.each_trace(&self.schemes[at], meeting, ports, &mut charge)
            }
        }
        let mut keep = |node: NodeId| {
            charge(ports.down(node.0), bytes);
            charge(ports.write(node.0), bytes);
        };
        match meeting {
            Meeting::Root(Some(node)) if self.part.is_sum => keep(node),
            _ => offers.each_first(self.part.lost.len(), self.demand, keep),
        }
    }

    /// What whole chunks bring to ports, but for the destinations' own.
    fn each_whole(
        &self,
        meeting: Meeting,
        offers: &Offers<'_>,
        charge: &mut impl FnMut(PortIndex, f64),
    ) {
        self.each_helper(offers, charge);
        let (node, helper) = match meeting {
            Meeting::Root(node) => (node, None),
            Meeting::Helper(place) => (Some(self.holders[place]), Some(place)),
        };
        let [received, sent] = self.decoded(helper);
        if let Some(node) = node {
            charge(offers.ports.down(node.0), received);
            charge(offers.ports.up(node.0), sent);
        }
    }

    /// What the traces of a scheme bring to ports, but for the destination's own.
    fn each_trace(
        &self,
        candidate: &PricedScheme,
        meeting: Meeting,
        ports: &Ports,
        charge: &mut impl FnMut(PortIndex, f64),
    ) {
        let bytes = self.chunk_bytes();
        let helping = candidate.sent.iter().zip(&self.holders).filter(|(sent, _)| **sent > 0.0);
        for (sent, holder) in helping {
            charge(ports.up(holder.0), sent * bytes);
            charge(ports.read(holder.0), bytes);
        }
        match meeting {
            Meeting::Helper(place) => {
                let (own, node) = (candidate.sent[place], self.holders[place].0);
                charge(ports.up(node), (1.0 - own) * bytes);
                charge(ports.down(node), (candidate.total - own) * bytes);
            }
            Meeting::Root(Some(node)) => {
                charge(ports.down(node.0), (candidate.total - 1.0).max(0.0) * bytes);
            }
            Meeting::Root(None) => {}
        }
    }

    /// The cheapest helpers of a tree or a gather.
    fn each_helper(&self, offers: &Offers<'_>, charge: &mut impl FnMut(PortIndex, f64)) {
        let (part, demand, ports) = (self.part, self.demand, offers.ports);
        let (sent, read) = (u64::from(part.free_sent), u64::from(part.free_read));
        let cost = |node: &NodeId| {
            sent as f64 * offers.up(*node) + read as f64 * offers.prices.at(ports.read(node.0))
        };
        let (forced, free) = self.holders.split_at(part.forced.len());
        for (node, sender) in forced.iter().zip(&part.forced) {
            charge(ports.up(node.0), demand.bytes(u64::from(sender.sent)));
            charge(ports.read(node.0), demand.bytes(u64::from(sender.read)));
        }
        let mut free = free.to_vec();
        if (1..free.len()).contains(&part.count) {
            free.select_nth_unstable_by(part.count - 1, |a, b| cost(a).total_cmp(&cost(b)));
        }
        for node in &free[..part.count] {
            charge(ports.up(node.0), demand.bytes(sent));
            charge(ports.read(node.0), demand.bytes(read));
        }
    }
}

/// The ports' prices, and the nodes that accept chunks by what it costs to receive so many lengths
/// of one and keep it.
struct Offers<'a> {
    view: &'a View<'a>,
    ports: &'a Ports,
    prices: &'a Amounts,
    ranked: Vec<(f64, RankedNodes)>,
}

/// Nodes that accept chunks: so many of the cheapest in order, and all others.
struct RankedNodes {
    nodes: Vec<NodeId>,
    in_order: usize,
}

impl<'a> Offers<'a> {
    fn new(
        view: &'a View<'a>,
        ports: &'a Ports,
        prices: &'a Amounts,
        lengths: &[f64],
    ) -> Offers<'a> {
        let nodes: Vec<NodeId> = view.cluster.ids().filter(|node| view.accepts(*node)).collect();
        let mut offers = Offers { view, ports, prices, ranked: Vec::with_capacity(lengths.len()) };
        for &lengths in lengths {
            let ranked = offers.rank(nodes.clone(), lengths);
            offers.ranked.push((lengths, ranked));
        }
        offers
    }

    fn rank(&self, mut nodes: Vec<NodeId>, lengths: f64) -> RankedNodes {
        let by_cost = |a: &NodeId, b: &NodeId| {
            self.keeping(lengths, *a).total_cmp(&self.keeping(lengths, *b))
        };
        let in_order = RANKED_MAX.min(nodes.len());
        if in_order < nodes.len() {
            nodes.select_nth_unstable_by(in_order, by_cost);
        }
        nodes[..in_order].sort_by(by_cost);
        RankedNodes { nodes, in_order }
    }

    fn up(&self, node: NodeId) -> f64 {
        self.prices.at(self.ports.up(node.0))
    }

    fn down(&self, node: NodeId) -> f64 {
        self.prices.at(self.ports.down(node.0))
    }

    /// What it costs a node to receive so many lengths of a chunk and to keep it, for each byte of
    /// it.
    fn keeping(&self, lengths: f64, node: NodeId) -> f64 {
        let ports = self.ports;
        lengths * self.prices.at(ports.down(node.0)) + self.prices.at(ports.write(node.0))
    }

    fn ranked(&self, lengths: f64) -> &RankedNodes {
        if let [(_, only)] = &self.ranked[..] {
            return only;
        }
        let found = self.ranked.binary_search_by(|(known, _)| known.total_cmp(&lengths));
        &self.ranked[found.expect("all lengths were named before")].1
    }

    /// The same for every length, where it is: without disks the cheapest downlink.
    fn first_of_every_length(&self, demand: &Demand<'_>) -> Option<Option<NodeId>> {
        (self.ranked.len() == 1).then(|| self.first(1.0, demand))
    }

    /// The cheapest that may keep a chunk of the job.
    fn first(&self, lengths: f64, demand: &Demand<'_>) -> Option<NodeId> {
        let mut first = None;
        self.each_of(1, lengths, demand, |node| first = Some(node));
        first
    }

    /// Calls `keep` for the cheapest that may keep so many chunks of the job.
    fn each_first(&self, count: usize, demand: &Demand<'_>, keep: impl FnMut(NodeId)) {
        self.each_of(count, 1.0, demand, keep);
    }

    fn each_of(
        &self,
        count: usize,
        lengths: f64,
        demand: &Demand<'_>,
        mut keep: impl FnMut(NodeId),
    ) {
        let ranked = self.ranked(lengths);
        let (first, others) = ranked.nodes.split_at(ranked.in_order);
        let mut missing = count;
        for node in first.iter().filter(|node| demand.may_keep(**node, self.view)).take(count) {
            keep(*node);
            missing -= 1;
        }
        if missing > 0 {
            let others = others.iter().copied().filter(|node| demand.may_keep(*node, self.view));
            let mut others: Vec<NodeId> = others.collect();
            others.sort_by(|a, b| self.keeping(lengths, *a).total_cmp(&self.keeping(lengths, *b)));
            others.into_iter().take(missing).for_each(keep);
        }
    }

    fn cheapest_of_all(&self, cost: impl Fn(NodeId) -> f64) -> Option<NodeId> {
        let nodes = self.ranked(1.0).nodes.iter().copied();
        nodes.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
    }
}

/// Lengths of a chunk that may come to a node that keeps one: each once. Without disks destinations
/// are ranked alike for all of them.
fn lengths(items: &[Item<'_>], ports: &Ports) -> Vec<f64> {
    if !ports.have_disks() {
        return vec![1.0];
    }
    let of_item = |item: &Item<'_>| {
        let traces = item.schemes.iter().map(|candidate| candidate.total).collect::<Vec<_>>();
        traces.into_iter().chain([item.sums()])
    };
    let mut lengths: Vec<f64> = items.iter().flat_map(of_item).chain([1.0]).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    lengths
}
