//! A lower bound from prices: what every stripe must cost, even if each takes its cheapest way.
//!
//! Place: beside `[plan]`, a part of the bound for plans that mix traces with whole chunks, for which
//! no count of chunks says anything. Let y be prices of ports, none below zero, that together are 1,
//! each for a second of its port. If T is what the busiest port needs, no port needs more, so
//! sum(y * seconds) <= T; and a stripe pays at least for its cheapest way, whatever the others do.
//! The sum of the cheapest ways is therefore below T for any plans and any such prices (Lagrangian
//! duality). Good prices are those of ports that are full in good plans: exponential in the load.
//! So the prices begin with the load of given plans, in several steepnesses; then everything that is
//! cheapest at these prices is mixed into the load, a little each time. Prices swing around the best
//! ones then, so their mean is better than any of them. The best of all these bounds counts.
//!
//! Ways are counted as cheap as they can be: a tree's sums may meet at any survivor or at the
//! destination, several losses decode where that is cheapest, and ranges of a chunk take each their
//! own. Links between racks are not counted, so there is no such bound where they have a rate.

use std::collections::BTreeMap;
use std::rc::Rc;

use suture_code::Scheme;

use crate::bound::{Demand, disk, down, up, with_demands};
use crate::cluster::DEAD_LINK;
use crate::id::{ChunkIndex, NodeId};
use crate::need::Part;
use crate::plan::load::{Load, NodeLoad};
use crate::planner::{Job, View};

/// What may be chosen for a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// Whole chunks or traces.
    All,
    /// Traces, wherever there is a scheme.
    TracesFirst,
}

/// How many e-folds a price falls from the busiest port to an idle one, for the load of the plans.
const STEEPNESSES: [f64; 5] = [0.0, 20.0, 60.0, 200.0, 640.0];

/// The same while loads are mixed: at first, and how it grows with each step. Where links are equal
/// prices have to move gently or they swing too far; unequal ones need steep prices.
const SEARCHES: [(f64, f64); 3] = [(120.0, 2.4), (20.0, 0.25), (10.0, 0.02)];

/// The most times that loads are mixed, and how often a part of a job is looked at for that in all.
const STEPS_MAX: usize = 160;
const LOOKS_MAX: usize = 100_000;

/// After so many steps the bound of the mean of all prices so far is taken.
const STEPS_PER_MEAN: usize = 20;

/// The bound, in seconds; `None` where links between racks are modelled, which it cannot price.
pub(super) fn seconds(jobs: &[Job], view: &View<'_>, load: &Load, ways: Ways) -> Option<f64> {
    if view.cluster.core.is_some() {
        return None;
    }
    with_demands(jobs, |demands| {
        let items = items(demands, view, ways);
        let lengths = lengths(&items);
        let given = Loads::of(load);
        let bound = |prices: &Loads, cheapest: &mut Loads| -> f64 {
            let keepers = Keepers::new(view, prices, &lengths);
            items.iter().map(|item| item.take_cheapest(prices, &keepers, cheapest)).sum()
        };
        let mut best: f64 = 0.0;
        for steepness in STEEPNESSES {
            let prices = given.prices(view, steepness);
            best = best.max(bound(&prices, &mut Loads::none(view)));
        }
        let steps = STEPS_MAX.min(LOOKS_MAX / items.len().max(1));
        for (first, growth) in SEARCHES {
            let mut loads = given.clone();
            let mut mean = loads.prices(view, first);
            for step in 1..=steps {
                let steepness = first + growth * step as f64;
                let (prices, mut cheapest) = (loads.prices(view, steepness), Loads::none(view));
                best = best.max(bound(&prices, &mut cheapest));
                mean.mix(&prices, 2.0 / (step as f64 + 1.0));
                loads.mix(&cheapest, 1.0 / (step as f64 + first / growth));
                if step % STEPS_PER_MEAN == 0 {
                    best = best.max(bound(&mean, &mut Loads::none(view)));
                }
            }
        }
        Some(best)
    })
}

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Up,
    Down,
    Read,
    Write,
}

/// Something for each port of each node: bytes, or what a byte costs.
#[derive(Clone, Debug)]
struct Loads {
    nodes: Vec<[f64; 4]>,
}

impl Loads {
    fn none(view: &View<'_>) -> Loads {
        Loads { nodes: vec![[0.0; 4]; view.cluster.nodes.len()] }
    }

    fn of(load: &Load) -> Loads {
        let bytes = |load: &NodeLoad| {
            [load.up_bytes, load.down_bytes, load.disk_read_bytes, load.disk_write_bytes]
                .map(|bytes| bytes as f64)
        };
        Loads { nodes: load.nodes().iter().map(bytes).collect() }
    }

    fn at(&self, port: Port, node: NodeId) -> f64 {
        self.nodes[node.index()][port as usize]
    }

    /// Becomes so much more like `other`.
    fn mix(&mut self, other: &Loads, part: f64) {
        let pairs = self.nodes.iter_mut().flatten().zip(other.nodes.iter().flatten());
        pairs.for_each(|(own, other)| *own += part * (other - *own));
    }

    /// What a byte costs at each port, so that a second at every port costs 1 together.
    fn prices(&self, view: &View<'_>, steepness: f64) -> Loads {
        let paces: Vec<[f64; 4]> = view.cluster.ids().map(|node| paces(view, node)).collect();
        let ports = || self.nodes.iter().flatten().zip(paces.iter().flatten());
        let peak = ports().map(|(bytes, pace)| bytes * pace).fold(f64::MIN_POSITIVE, f64::max);
        // Ports that nobody uses would only take a part of the sum.
        let weight = |(bytes, pace): (&f64, &f64)| match *bytes > 0.0 && *pace > 0.0 {
            true => (steepness * (bytes * pace / peak - 1.0)).exp(),
            false => 0.0,
        };
        let sum = ports().map(weight).sum::<f64>().max(f64::MIN_POSITIVE);
        let price = |(bytes, pace): (&f64, &f64)| weight((bytes, pace)) * pace / sum;
        let node = |(bytes, paces): (&[f64; 4], &[f64; 4])| {
            std::array::from_fn(|port| price((&bytes[port], &paces[port])))
        };
        Loads { nodes: self.nodes.iter().zip(&paces).map(node).collect() }
    }
}

/// Seconds for a byte at each port; nothing for a disk that is not modelled.
fn paces(view: &View<'_>, node: NodeId) -> [f64; 4] {
    let at = view.cluster.node(node);
    let rates = [up(view, node), down(view, node), disk(at.disk_read), disk(at.disk_write)];
    rates.map(|rate| 1.0 / rate.max(DEAD_LINK.0))
}

/// The bits of each byte that the helpers of a scheme send, by their places.
struct Dish {
    bits: Vec<(usize, f64)>,
    total: f64,
}

/// A part of a job.
struct Item<'a> {
    demand: &'a Demand<'a>,
    part: &'a Part,
    /// Who holds what the need lists: forced, then free.
    holders: Vec<NodeId>,
    schemes: Rc<Vec<Dish>>,
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
    let mut menus: BTreeMap<(usize, usize), Rc<Vec<Dish>>> = BTreeMap::new();
    let mut items = Vec::with_capacity(demands.len());
    for demand in demands {
        for (index, part) in demand.need.parts.iter().enumerate() {
            let forced = part.forced.iter().map(|sender| sender.chunk);
            let places: Vec<ChunkIndex> = forced.chain(part.free.iter().copied()).collect();
            let menu = menus.entry((demand.name, index)).or_insert_with(|| {
                Rc::new(if may_trace { dishes(demand, part, &places) } else { Vec::new() })
            });
            let holders = places.iter().map(|chunk| demand.holder(*chunk)).collect();
            let may_be_whole = ways == Ways::All || menu.is_empty();
            items.push(Item { demand, part, holders, schemes: menu.clone(), may_be_whole });
        }
    }
    items
}

/// The schemes that serve a part.
fn dishes(demand: &Demand<'_>, part: &Part, places: &[ChunkIndex]) -> Vec<Dish> {
    let code = demand.job.code;
    let (&[lost], true) = (&part.lost[..], part.is_sum) else { return Vec::new() };
    let schemes = code.schemes().iter().filter(|scheme| scheme.lost() == lost);
    let dish = |scheme: &Scheme| {
        let ranks = scheme.ranks(code.chunk_count()).into_iter().filter(|(_, rank)| *rank > 0);
        let bits = ranks.map(|(chunk, rank)| {
            let place = places.iter().position(|place| *place == chunk)?;
            Some((place, rank as f64))
        });
        let bits: Vec<(usize, f64)> = bits.collect::<Option<_>>()?;
        Some(Dish { total: bits.iter().map(|(_, bits)| bits).sum(), bits })
    };
    schemes.filter_map(dish).collect()
}

impl Item<'_> {
    /// Puts the cheapest way on `loads`, and returns what it costs.
    fn take_cheapest(&self, prices: &Loads, keepers: &Keepers<'_>, loads: &mut Loads) -> f64 {
        let cost = |way: Way| {
            let mut cost = 0.0;
            self.each_charge(way, prices, keepers, |port, node, bytes| {
                cost += bytes * prices.at(port, node);
            });
            (cost, way)
        };
        let ways = self.ways(prices, keepers).into_iter().map(cost);
        let Some((cost, way)) = ways.min_by(|a, b| a.0.total_cmp(&b.0)) else { return 0.0 };
        self.each_charge(way, prices, keepers, |port, node, bytes| {
            loads.nodes[node.index()][port as usize] += bytes;
        });
        cost
    }

    /// Ways of which one is the cheapest: prices are linear, so it is no use to share anything out.
    fn ways(&self, prices: &Loads, keepers: &Keepers<'_>) -> Vec<Way> {
        let mut ways = Vec::with_capacity(2 + 2 * self.schemes.len());
        if self.may_be_whole {
            ways.push(Way::Whole(Meeting::Root(match self.part.is_sum {
                true => keepers.first(self.sums(), self.demand),
                false => keepers.cheapest_of_all(|node| self.decoding(None, node, prices)),
            })));
            let cost = |place: usize| self.decoding(Some(place), self.holders[place], prices);
            let helpers = 0..self.holders.len();
            let cheapest = helpers.min_by(|a, b| cost(*a).total_cmp(&cost(*b)));
            ways.extend(cheapest.map(|place| Way::Whole(Meeting::Helper(place))));
        }
        for (index, dish) in self.schemes.iter().enumerate() {
            let root = keepers.first(dish.total / 8.0, self.demand);
            ways.push(Way::Traces(index, Meeting::Root(root)));
            let cost = |&(place, bits): &(usize, f64)| {
                let node = self.holders[place];
                (8.0 - bits) * prices.at(Port::Up, node)
                    + (dish.total - bits) * prices.at(Port::Down, node)
            };
            let cheapest = dish.bits.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)));
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
    fn decoding(&self, helper: Option<usize>, node: NodeId, prices: &Loads) -> f64 {
        let [received, sent] = self.decoded(helper);
        received * prices.at(Port::Down, node) + sent * prices.at(Port::Up, node)
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
    fn each_charge(
        &self,
        way: Way,
        prices: &Loads,
        keepers: &Keepers<'_>,
        mut charge: impl FnMut(Port, NodeId, f64),
    ) {
        let bytes = self.chunk_bytes();
        let meeting = match way {
            Way::Whole(meeting) => {
                self.each_helper(prices, &mut charge);
                let (node, helper) = match meeting {
                    Meeting::Root(node) => (node, None),
                    Meeting::Helper(place) => (Some(self.holders[place]), Some(place)),
                };
                let [received, sent] = self.decoded(helper);
                if let Some(node) = node {
                    charge(Port::Down, node, received);
                    charge(Port::Up, node, sent);
                }
                meeting
            }
            Way::Traces(dish, meeting) => {
                let dish = &self.schemes[dish];
                for &(place, bits) in &dish.bits {
                    charge(Port::Up, self.holders[place], bits / 8.0 * bytes);
                    charge(Port::Read, self.holders[place], bytes);
                }
                match meeting {
                    Meeting::Helper(place) => {
                        let own = dish.bits.iter().find(|(helper, _)| *helper == place);
                        let own = own.map_or(0.0, |(_, bits)| *bits);
                        let node = self.holders[place];
                        charge(Port::Up, node, (8.0 - own) / 8.0 * bytes);
                        charge(Port::Down, node, (dish.total - own) / 8.0 * bytes);
                    }
                    Meeting::Root(Some(node)) => {
                        charge(Port::Down, node, (dish.total - 8.0).max(0.0) / 8.0 * bytes);
                    }
                    Meeting::Root(None) => {}
                }
                meeting
            }
        };
        let mut keep = |node: NodeId| {
            charge(Port::Down, node, bytes);
            charge(Port::Write, node, bytes);
        };
        match meeting {
            Meeting::Root(Some(node)) if self.part.is_sum => keep(node),
            _ => keepers.each_first(self.part.lost.len(), self.demand, keep),
        }
    }

    /// The cheapest helpers of a tree or a gather.
    fn each_helper(&self, prices: &Loads, charge: &mut impl FnMut(Port, NodeId, f64)) {
        let (part, demand) = (self.part, self.demand);
        let (sent, read) = (u64::from(part.free_sent), u64::from(part.free_read));
        let cost = |node: &NodeId| {
            sent as f64 * prices.at(Port::Up, *node) + read as f64 * prices.at(Port::Read, *node)
        };
        let (forced, free) = self.holders.split_at(part.forced.len());
        for (node, sender) in forced.iter().zip(&part.forced) {
            charge(Port::Up, *node, demand.bytes(u64::from(sender.sent)));
            charge(Port::Read, *node, demand.bytes(u64::from(sender.read)));
        }
        let mut free = free.to_vec();
        free.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        for node in &free[..part.count] {
            charge(Port::Up, *node, demand.bytes(sent));
            charge(Port::Read, *node, demand.bytes(read));
        }
    }
}

/// The nodes that accept chunks, by what it costs to receive so many lengths of one and keep it.
struct Keepers<'a> {
    view: &'a View<'a>,
    ranked: Vec<(f64, Vec<NodeId>)>,
}

impl<'a> Keepers<'a> {
    fn new(view: &'a View<'a>, prices: &Loads, lengths: &[f64]) -> Keepers<'a> {
        let nodes: Vec<NodeId> = view.cluster.ids().filter(|node| view.accepts(*node)).collect();
        let ranked = |&lengths: &f64| {
            let cost = |node: &NodeId| {
                lengths * prices.at(Port::Down, *node) + prices.at(Port::Write, *node)
            };
            let mut nodes = nodes.clone();
            nodes.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
            (lengths, nodes)
        };
        Keepers { view, ranked: lengths.iter().map(ranked).collect() }
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
        let traces = item.schemes.iter().map(|dish| dish.total / 8.0).collect::<Vec<_>>();
        traces.into_iter().chain([item.sums()])
    };
    let mut lengths: Vec<f64> = items.iter().flat_map(of_item).chain([1.0]).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    lengths
}
