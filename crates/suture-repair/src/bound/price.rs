//! The lower bound of plans that mix traces with whole chunks, of which no count of chunks says
//! anything: from prices (`bound/search.rs`), what every stripe must cost even if each takes its
//! cheapest way.
//!
//! Place: beside `[plan]`. Ways are counted as cheap as they can be: a tree's sums may meet at any
//! survivor or at the destination, several losses decode where that is cheapest, and ranges of a
//! chunk take each their own. Links between racks are not counted, so there is no such bound where
//! they have a rate.

use std::collections::BTreeMap;
use std::rc::Rc;

use suture_code::Scheme;

use crate::bound::search::{self, Amounts};
use crate::bound::{Demand, with_demands};
use crate::id::{ChunkIndex, NodeId};
use crate::need::Part;
use crate::plan::load::Load;
use crate::planner::ports::{PortIndex, Ports};
use crate::planner::{Job, View};

/// What may be chosen for a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// Whole chunks or traces.
    All,
    /// Traces, wherever there is a scheme.
    TracesFirst,
}

/// The bound, in seconds; `None` where links between racks are modelled, which it cannot price.
pub(super) fn seconds(jobs: &[Job], view: &View<'_>, load: &Load, ways: Ways) -> Option<f64> {
    let ports = Ports::new(view);
    if ports.have_racks() {
        return None;
    }
    Some(with_demands(jobs, view, |demands| {
        let items = items(demands, view, ways);
        let lengths = lengths(&items);
        let looks = items.iter().map(|item| item.holders.len()).sum();
        let given = Amounts::of(load, &ports);
        search::best_seconds(&ports, &given, looks, |prices, loads| {
            let offers = Offers::new(view, &ports, prices, &lengths);
            items.iter().map(|item| item.take_cheapest(&offers, loads)).sum()
        })
    }))
}

/// The bits of each byte that the helpers of a scheme send, by their places.
struct Candidate {
    bits: Vec<(usize, f64)>,
    total: f64,
}

/// A part of a job.
struct Item<'a> {
    demand: &'a Demand<'a>,
    part: &'a Part,
    /// Who holds what the need lists: forced, then free.
    holders: Vec<NodeId>,
    schemes: Rc<Vec<Candidate>>,
    /// Whether it may be rebuilt from whole chunks.
    may_be_whole: bool,
}

/// What is sent, and where it all meets.
#[derive(Clone, Copy, Debug)]
enum Way {
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

fn items<'a>(demands: &'a [Demand<'a>], view: &View<'_>, ways: Ways) -> Vec<Item<'a>> {
    let may_trace = view.abilities.traces && view.abilities.finished;
    let mut known: BTreeMap<(usize, usize), Rc<Vec<Candidate>>> = BTreeMap::new();
    let mut items = Vec::with_capacity(demands.len());
    for demand in demands {
        for (index, part) in demand.need.parts.iter().enumerate() {
            let forced = part.forced.iter().map(|sender| sender.chunk);
            let places: Vec<ChunkIndex> = forced.chain(part.free.iter().copied()).collect();
            let schemes = known.entry((demand.name, index)).or_insert_with(|| {
                Rc::new(if may_trace { candidates(demand, part, &places) } else { Vec::new() })
            });
            let holders = places.iter().map(|chunk| demand.holder(*chunk)).collect();
            let may_be_whole = ways == Ways::All || schemes.is_empty();
            items.push(Item { demand, part, holders, schemes: schemes.clone(), may_be_whole });
        }
    }
    items
}

/// The schemes that serve a part.
fn candidates(demand: &Demand<'_>, part: &Part, places: &[ChunkIndex]) -> Vec<Candidate> {
    let code = demand.job.code;
    let (&[lost], true) = (&part.lost[..], part.is_sum) else { return Vec::new() };
    let schemes = code.schemes().iter().filter(|scheme| scheme.lost() == lost);
    let candidate = |scheme: &Scheme| {
        let ranks = scheme.ranks(code.chunk_count()).into_iter();
        let ranks = ranks.filter(|(chunk, rank)| *rank > 0 && !code.is_zero(*chunk));
        let bits = ranks.map(|(chunk, rank)| {
            let place = places.iter().position(|place| *place == chunk)?;
            Some((place, rank as f64))
        });
        let bits: Vec<(usize, f64)> = bits.collect::<Option<_>>()?;
        Some(Candidate { total: bits.iter().map(|(_, bits)| bits).sum(), bits })
    };
    schemes.filter_map(candidate).collect()
}

impl Item<'_> {
    /// Puts the cheapest way on `loads`, and returns what it costs.
    fn take_cheapest(&self, offers: &Offers<'_>, loads: &mut Amounts) -> f64 {
        let cost = |way: Way| {
            let mut cost = 0.0;
            self.each_charge(way, offers, |port, bytes| cost += bytes * offers.prices.at(port));
            (cost, way)
        };
        let ways = self.ways(offers).into_iter().map(cost);
        let Some((cost, way)) = ways.min_by(|a, b| a.0.total_cmp(&b.0)) else { return 0.0 };
        self.each_charge(way, offers, |port, bytes| loads.add(port, bytes));
        cost
    }

    /// Ways of which one is the cheapest: prices are linear, so it is no use to share anything out.
    fn ways(&self, offers: &Offers<'_>) -> Vec<Way> {
        let mut ways = Vec::with_capacity(2 + 2 * self.schemes.len());
        if self.may_be_whole {
            ways.push(Way::Whole(Meeting::Root(match self.part.is_sum {
                true => offers.first(self.sums(), self.demand),
                false => offers.cheapest_of_all(|node| self.decoding(None, node, offers)),
            })));
            let cost = |place: usize| self.decoding(Some(place), self.holders[place], offers);
            let helpers = 0..self.holders.len();
            let cheapest = helpers.min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            ways.extend(cheapest.map(|place| Way::Whole(Meeting::Helper(place))));
        }
        for (index, candidate) in self.schemes.iter().enumerate() {
            let root = offers.first(candidate.total / 8.0, self.demand);
            ways.push(Way::Traces(index, Meeting::Root(root)));
            let cost = |&(place, bits): &(usize, f64)| {
                let node = self.holders[place];
                (8.0 - bits) * offers.up(node) + (candidate.total - bits) * offers.down(node)
            };
            let cheapest = candidate.bits.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
            ways.extend(cheapest.map(|(place, _)| Way::Traces(index, Meeting::Helper(*place))));
        }
        ways
    }

    fn chunk_bytes(&self) -> f64 {
        self.demand.job.chunk_bytes as f64
    }

    /// Chunks that come to where a tree meets.
    fn sums(&self) -> f64 {
        (self.part.forced.len() + self.part.count) as f64
    }

    /// What it costs to let whole chunks meet at a node, beside sending and keeping.
    fn decoding(&self, helper: Option<usize>, node: NodeId, offers: &Offers<'_>) -> f64 {
        let [received, sent] = self.decoded(helper);
        received * offers.down(node) + sent * offers.up(node)
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

    /// Calls `charge` for every port that a way uses, with the bytes there.
    fn each_charge(&self, way: Way, offers: &Offers<'_>, mut charge: impl FnMut(PortIndex, f64)) {
        let (bytes, ports) = (self.chunk_bytes(), offers.ports);
        let (Way::Whole(meeting) | Way::Traces(_, meeting)) = way;
        match way {
            Way::Whole(_) => self.each_whole(meeting, offers, &mut charge),
            Way::Traces(at, _) => self.each_trace(&self.schemes[at], meeting, ports, &mut charge),
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
        candidate: &Candidate,
        meeting: Meeting,
        ports: &Ports,
        charge: &mut impl FnMut(PortIndex, f64),
    ) {
        let bytes = self.chunk_bytes();
        for &(place, bits) in &candidate.bits {
            charge(ports.up(self.holders[place].0), bits / 8.0 * bytes);
            charge(ports.read(self.holders[place].0), bytes);
        }
        match meeting {
            Meeting::Helper(place) => {
                let own = candidate.bits.iter().find(|(helper, _)| *helper == place);
                let own = own.map_or(0.0, |(_, bits)| *bits);
                let node = self.holders[place].0;
                charge(ports.up(node), (8.0 - own) / 8.0 * bytes);
                charge(ports.down(node), (candidate.total - own) / 8.0 * bytes);
            }
            Meeting::Root(Some(node)) => {
                charge(ports.down(node.0), (candidate.total - 8.0).max(0.0) / 8.0 * bytes);
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

/// The ports' prices, and the nodes that accept chunks by what it costs to receive so many lengths of
/// one and keep it.
struct Offers<'a> {
    view: &'a View<'a>,
    ports: &'a Ports,
    prices: &'a Amounts,
    ranked: Vec<(f64, Vec<NodeId>)>,
}

impl<'a> Offers<'a> {
    fn new(
        view: &'a View<'a>,
        ports: &'a Ports,
        prices: &'a Amounts,
        lengths: &[f64],
    ) -> Offers<'a> {
        let nodes: Vec<NodeId> = view.cluster.ids().filter(|node| view.accepts(*node)).collect();
        let ranked = |&lengths: &f64| {
            let cost = |node: &NodeId| {
                lengths * prices.at(ports.down(node.0)) + prices.at(ports.write(node.0))
            };
            let mut nodes = nodes.clone();
            nodes.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
            (lengths, nodes)
        };
        Offers { view, ports, prices, ranked: lengths.iter().map(ranked).collect() }
    }

    fn up(&self, node: NodeId) -> f64 {
        self.prices.at(self.ports.up(node.0))
    }

    fn down(&self, node: NodeId) -> f64 {
        self.prices.at(self.ports.down(node.0))
    }

    fn ranked(&self, lengths: f64) -> &[NodeId] {
        let known = self.ranked.iter().find(|(known, _)| *known == lengths);
        &known.expect("all lengths were named before").1
    }

    /// The cheapest that may keep a chunk of the job.
    fn first(&self, lengths: f64, demand: &Demand<'_>) -> Option<NodeId> {
        let mut nodes = self.ranked(lengths).iter().copied();
        nodes.find(|node| demand.may_keep(*node, self.view))
    }

    /// Calls `keep` for the cheapest that may keep so many chunks of the job.
    fn each_first(&self, count: usize, demand: &Demand<'_>, keep: impl FnMut(NodeId)) {
        let nodes = self.ranked(1.0).iter().copied();
        nodes.filter(|node| demand.may_keep(*node, self.view)).take(count).for_each(keep);
    }

    fn cheapest_of_all(&self, cost: impl Fn(NodeId) -> f64) -> Option<NodeId> {
        let nodes = self.ranked(1.0).iter().copied();
        nodes.min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
    }
}

/// Lengths of a chunk that may come to a node that keeps one: each once.
fn lengths(items: &[Item<'_>]) -> Vec<f64> {
    let of_item = |item: &Item<'_>| {
        let traces = item.schemes.iter().map(|candidate| candidate.total / 8.0).collect::<Vec<_>>();
        traces.into_iter().chain([item.sums()])
    };
    let mut lengths: Vec<f64> = items.iter().flat_map(of_item).chain([1.0]).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    lengths
}
