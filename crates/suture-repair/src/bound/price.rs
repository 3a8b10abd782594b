//! The lower bound of plans that mix traces with whole chunks, of which no count of chunks says
//! anything: from prices (`bound/search.rs`), what every stripe must cost even if each takes its
//! cheapest repair.
//!
//! Place: beside `[plan]`. Repairs are counted as cheap as they can be: a tree's sums may meet at
//! any survivor or at the destination, several losses decode where that is cheapest, and ranges of
//! a chunk take each their own. Of few chunks of a local code the helpers are those of a parity
//! check, of many any so many. Links between racks are not counted, so there is no such bound
//! where they have a rate.

mod item;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bound::search::{Amounts, Search, SearchLimits};
use crate::bound::{BatchDemands, Demand, with_batch};
use crate::id::NodeId;
use crate::plan::load::Load;
use crate::planner::ports::Ports;
use crate::planner::{Job, View};
use item::{HelperPrices, Item, PricedPattern};

/// What may be chosen for a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PricedKinds {
    /// Whole chunks, or what codes ask for of them.
    Chunks,
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
    with_batch(jobs, view, |batch| {
        (!batch.ports.have_racks()).then(|| searched(batch, Some(load), kinds))
    })
}

/// The bound of whole chunks, in seconds, as if racks had no links.
pub(super) fn chunk_seconds(batch: BatchDemands<'_>) -> f64 {
    searched(batch, None, PricedKinds::Chunks)
}

fn searched(batch: BatchDemands<'_>, load: Option<&Load>, kinds: PricedKinds) -> f64 {
    let BatchDemands { demands, view, ports, .. } = batch;
    let are_few = |visits: usize| visits * STEPS_MAX <= CHECKED_VISITS_MAX;
    let checked = Some(AskedHelpers::OfChecks).filter(|_| are_few(demands.len() * VISITS_PER_ITEM));
    let checked = checked.map(|helpers| items(demands, view, kinds, helpers));
    let has_checks = |items: &Vec<Item<'_>>| items.iter().any(Item::has_checks);
    let checked = checked.filter(|items| has_checks(items) && are_few(visits(items)));
    let has_all_steps = checked.is_some();
    let items = checked.unwrap_or_else(|| items(demands, view, kinds, AskedHelpers::Any));
    let lengths = lengths(&items, ports);
    let pricing = Pricing { view, ports, lengths };
    let all: Vec<&Item<'_>> = items.iter().collect();
    let steps = if has_all_steps { STEPS_MAX } else { STEPS_MAX.min(VISITS_MAX / visits(&items)) };
    match load {
        Some(load) => pricing.search(&all, steps).seconds_from(&Amounts::of(load, ports)),
        None if steps == STEPS_MAX => pricing.search(&all, steps).seconds_from_nothing(),
        None => {
            // Prices that are good for some of many are good for all.
            let every = STEPS_MAX.div_ceil(steps.max(1));
            let some: Vec<&Item<'_>> = all.iter().copied().step_by(every).collect();
            let prices = pricing.search(&some, STEPS_MAX).prices_from_nothing();
            let sampled = pricing.search(&all, 1).seconds_at(prices);
            sampled.max(pricing.search(&all, steps).seconds_from_nothing())
        }
    }
}

/// Which helpers serve a chunk of a local code.
#[derive(Clone, Copy)]
enum AskedHelpers {
    /// Those of one of its parity checks: of many stripes all sets of them take too long.
    OfChecks,
    /// Any so many of the survivors.
    Any,
}

/// What items are priced by.
struct Pricing<'a> {
    view: &'a View<'a>,
    ports: &'a Ports,
    /// Those that may come to a node of any of the items.
    lengths: Vec<f64>,
}

impl Pricing<'_> {
    /// A search for the bound of these.
    fn search<'b>(
        &'b self,
        items: &'b [&Item<'_>],
        steps: usize,
    ) -> Search<'b, impl FnMut(&Amounts, &mut Amounts) -> f64> {
        let limits = SearchLimits { known: 0.0, enough: f64::INFINITY, steps };
        let mut helpers = HelperPrices::default();
        Search::new(self.ports, limits, move |prices, loads| {
            let offers = Offers::new(self.view, self.ports, prices, &self.lengths);
            let cost = |item: &&Item<'_>| item.take_cheapest(&offers, &mut helpers, loads);
            let cost: f64 = items.iter().map(cost).sum();
            debug_assert!(
                (loads.cost(prices) - cost).abs() <= 1e-9 * cost,
                "what is put on loads costs what it is said to cost"
            );
            cost
        })
    }
}

/// How often helpers are looked at to price all of these once, at least 1.
fn visits(items: &[Item<'_>]) -> usize {
    let visits = items.iter().flat_map(Item::patterns);
    let visits = visits.map(|pattern| pattern.visits() + VISITS_PER_ITEM);
    visits.sum::<usize>().max(1)
}

/// The most steps of one course.
const STEPS_MAX: usize = 160;

/// How often a helper is looked at in a course, with each scheme, so that the bound costs less than
/// planning does; small batches get all steps.
const VISITS_MAX: usize = 3_500_000;

/// The same where helpers are those of parity checks, which planning asks far more often.
const CHECKED_VISITS_MAX: usize = 4 * VISITS_MAX;

/// What an item costs besides, in visits.
const VISITS_PER_ITEM: usize = 200;

/// How many of the cheapest destinations are ranked: most stripes are kept by one of these.
const RANKED_MAX: usize = 32;

/// The parts of all jobs.
fn items<'a>(
    demands: &'a [Demand<'a>],
    view: &View<'_>,
    kinds: PricedKinds,
    helpers: AskedHelpers,
) -> Vec<Item<'a>> {
    type Patterns<'a> = (Rc<PricedPattern<'a>>, Option<Rc<PricedPattern<'a>>>);
    let mut known: BTreeMap<(usize, usize), Patterns<'a>> = BTreeMap::new();
    let mut items = Vec::with_capacity(demands.len());
    for demand in demands {
        for (index, (part, around)) in demand.needs.parts().enumerate() {
            let pattern = |part| {
                let pattern = PricedPattern::new(demand, part, view, kinds);
                Rc::new(match helpers {
                    AskedHelpers::OfChecks => pattern,
                    AskedHelpers::Any => pattern.without_checks(),
                })
            };
            let patterns = known.entry((demand.name, index));
            let patterns = patterns.or_insert_with(|| (pattern(part), around.map(pattern)));
            let item = Item::new(demand, patterns.0.clone());
            let around = patterns.1.clone();
            items.push(match around {
                Some(around) => item.or_around(around),
                None => item,
            });
        }
    }
    items
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

    fn read(&self, node: NodeId) -> f64 {
        self.prices.at(self.ports.read(node.0))
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

    /// The same for other lengths when `first` is known to be that for one: without disks it is
    /// the cheapest downlink, whatever the length.
    fn first_again(
        &self,
        lengths: f64,
        first: Option<NodeId>,
        demand: &Demand<'_>,
    ) -> Option<NodeId> {
        if self.ranked.len() == 1 { first } else { self.first(lengths, demand) }
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
    let mut lengths: Vec<f64> = items
        .iter()
        .flat_map(Item::patterns)
        .flat_map(PricedPattern::lengths)
        .chain([1.0])
        .collect();
    lengths.sort_by(f64::total_cmp);
    lengths.dedup();
    lengths
}
