//! What stripes cost at least where racks share links to all others, at prices of ports.
//!
//! Place: beside `[plan]`, a part of the lower bound (`bound/search.rs` says why any prices give
//! one). Prices are linear, so a stripe's cheapest tree can be found without trying trees:
//! * every helper sends one message, and all messages but one are added up to others on the way;
//!   the last arrives at the destination, which needs at least one of them;
//! * a message is added up at a helper or at the destination, for what that receives; at a relay
//!   without a chunk, which sends once itself, for what k messages cost there, shared by k - 1;
//! * of each rack that helps, but for the destination's, at least one message leaves: it crosses
//!   the rack's uplink and another rack's downlink, and is added up there.
//!
//! So a rack's cost depends on the number of its helpers and on nothing else but the cheapest place
//! for what leaves, and how many help in each rack is a small knapsack for each rack that may keep
//! the chunk. A survivor that adds up what arrives from other racks helps, or is no survivor
//! (`crossing/tree.rs`). Of a local code something helps in each rack of a set that decodes, and of
//! few chunks the helpers are those of a parity check (`crossing/tree/checked.rs`).
//!
//! A chunk is kept by one node, which prices do not see: on average it may be cheap to spread it.
//! So destinations at which a stripe alone would take longer than the whole batch are left out
//! (`crossing/kept.rs`), and of few stripes the rack of each is decided (`crossing/decided.rs`).
//!
//! Few steps find no good prices. So where all stripes together take too long for as many as it
//! takes, prices are searched for with some of them, and all are priced as those are at last.
//!
//! Only sums over whole chunks are counted, and stripes with several losses: of local codes by the
//! lanes of their plans (`crossing/lanes.rs`), of others, and where these are too many, by what
//! crosses the borders of racks (`several.rs`). Other repairs cost nothing here.

mod decided;
mod kept;
mod lanes;
mod priced;
mod stripe;
mod tree;

use crate::bound::search::{Amounts, PricedBound, Search, SearchLimits};
use crate::bound::several::{self, DemandRepair, MultiLossCosts, MultiLossRepair};
use crate::bound::whole::{self, RackChoice};
use crate::bound::{BatchDemands, Demand, PRICED_PAIRS_MAX, takes_part};
use crate::need::{Needs, Part, is_mds};
use crate::planner::ports::Ports;

use suture_code::ChunkIndex;

use crate::bound::around::around;
use lanes::{AskedSets, DestinationChoice, LaneStripe};
use priced::Costs;
use stripe::RackedStripe;
use tree::Workspace;

/// Steps of the search that are worth beginning it, and the most of one course.
const STEPS_MIN: usize = 12;
const STEPS_MAX: usize = 300;

/// Steps of the search that are worth asking parity checks.
const CHECKED_STEPS_MIN: usize = 30;

/// How many times as many prices are compared for few chunks of local codes: planning them asks the
/// same checks far more often.
const GREAT_EFFORT: usize = 16;

/// Steps of the search that are worth pricing stripes by their lanes.
const LANE_STEPS_MIN: usize = 50;

/// Prices that are compared in each course: fewer than in planning a small batch.
const COMPARISONS_MAX: usize = 1_000_000;

/// The same for all stripes together, whatever their destinations: in fewer, prices of some hundred
/// stripes do not become good.
const TOGETHER_COMPARISONS_MAX: usize = 64 * COMPARISONS_MAX;

/// Sums that are compared for a repair of several losses, in place of one price.
const MULTI_LOSS_COMPARISONS: usize = 30;

/// The bound, in seconds, if it is above what is `known`; nothing where links between racks are not
/// modelled, or where a batch is so large that pricing it once takes too long.
pub(super) fn seconds(batch: BatchDemands<'_>, known: f64) -> f64 {
    let BatchDemands { demands, view, ports, .. } = batch;
    let takes_part = takes_part(demands, view);
    let takes_part = || (0..).zip(&takes_part).filter(|(_, takes)| **takes).map(|(node, _)| node);
    // What a node without a rack sends or receives crosses no rack's link.
    if !ports.have_racks() || takes_part().any(|node| ports.rack_up(ports.rack(node)).is_none()) {
        return 0.0;
    }
    let survivors = |part: &Part| part.forced.len() + part.free.len();
    let parts = demands.iter().flat_map(Demand::parts);
    let least_comparisons = parts.map(|part| survivors(part).pow(2)).sum::<usize>();
    let relays: Vec<u32> = takes_part().collect();
    let pairs = demands.len() * relays.len();
    if least_comparisons * STEPS_MIN > TOGETHER_COMPARISONS_MAX || pairs > PRICED_PAIRS_MAX {
        return 0.0;
    }
    let lanes = lane_stripes(batch, &relays, |demand| !is_mds(demand.job.code));
    let has_lanes = lanes.iter().any(Option::is_some);
    let known = seconds_by(lanes, batch, &relays, Effort { known, is_great: false });
    // Of stripes by lanes no racks are decided, and no checks are asked.
    let is_checked = |demand: &Demand<'_>| demand.job.lost.len() == 1 && !is_mds(demand.job.code);
    let efforts: &[bool] = match demands.iter().any(is_checked) {
        true if has_lanes => &[false, true],
        true => &[true],
        false => &[],
    };
    let known = efforts.iter().fold(known, |known, &is_great| {
        let none = demands.iter().map(|_| None).collect();
        seconds_by(none, batch, &relays, Effort { known, is_great })
    });
    // Where any k chunks determine the rest, what crosses may say more, or the lanes.
    let lanes = lane_stripes(batch, &relays, |demand| is_mds(demand.job.code));
    if lanes.iter().all(Option::is_none) {
        return known;
    }
    seconds_by(lanes, batch, &relays, Effort { known, is_great: false })
}

/// What a bound is to say more than, and whether it may compare many more prices for it: then
/// parity checks are asked.
#[derive(Clone, Copy)]
struct Effort {
    known: f64,
    is_great: bool,
}

/// The bound with the stripes of some demands by lanes; not below what is `known`.
fn seconds_by(
    lanes: Vec<Option<LaneStripe>>,
    batch: BatchDemands<'_>,
    relays: &[u32],
    Effort { known, is_great }: Effort,
) -> f64 {
    let BatchDemands { demands, view, ports, .. } = batch;
    let others: Vec<&Demand<'_>> =
        demands.iter().zip(&lanes).filter(|(_, laned)| laned.is_none()).map(|(d, _)| d).collect();
    let laned = demands.iter().zip(&lanes).filter(|(_, laned)| laned.is_some()).enumerate();
    let laned = laned.flat_map(|(at, (demand, _))| {
        sums(demand)
            .map(move |(part, around)| (at, RackedStripe::new(demand, part, around, view, ports)))
    });
    let laned: Vec<(usize, RackedStripe)> = laned.collect();
    let lanes: Vec<LaneStripe> = lanes.into_iter().flatten().collect();
    let stripes = others.iter().flat_map(|demand| {
        sums(demand).map(|(part, around)| RackedStripe::new(demand, part, around, view, ports))
    });
    let stripes = stripes.filter(|stripe| !stripe.targets.is_empty());
    let stripes = stripes.map(|stripe| if is_great { stripe } else { stripe.counted() });
    let stripes: Vec<RackedStripe> = stripes.collect();
    let several = Several::all(&others, batch);
    if stripes.is_empty() && several.is_empty() && lanes.is_empty() {
        return known;
    }
    // Without checks the same was searched for before, but for the racks of a few.
    let has_checks = stripes.iter().any(RackedStripe::has_checks);
    if is_great && stripes.len() > decided::STRIPES_MAX && !has_checks {
        return known;
    }
    let known = alone_seconds(&several, ports, relays, known);
    let times = if is_great { GREAT_EFFORT } else { 1 };
    let (several, lanes, laned) = (&several[..], &lanes[..], &laned[..]);
    let search = CrossingSearch { ports, relays, several, lanes, laned, times };
    let comparisons = if is_great { COMPARISONS_MAX } else { TOGETHER_COMPARISONS_MAX };
    let steps = search.steps(&stripes, comparisons);
    let choices = search.any_destinations();
    if steps < STEPS_MAX {
        return search.sampled_seconds(&stripes, &choices, comparisons).max(known);
    }
    if steps < if is_great { CHECKED_STEPS_MIN } else { STEPS_MIN } {
        return known;
    }
    let limits = SearchLimits { known, enough: f64::INFINITY, steps };
    let together = search.seconds(&stripes, &choices, limits).max(known);
    let together = lanes::alone::seconds(lanes, ports, relays, together);
    let together = search.whole_seconds(&stripes, &choices, together);
    let together = search.with_whole_chunks(together, &stripes);
    search.with_decided_racks(together, &stripes)
}

/// Of each demand that is wanted its stripe by lanes, where there is one; of none if all together
/// take too long.
fn lane_stripes(
    batch: BatchDemands<'_>,
    relays: &[u32],
    is_wanted: impl Fn(&Demand<'_>) -> bool,
) -> Vec<Option<LaneStripe>> {
    let BatchDemands { demands, ports, .. } = batch;
    let mut asked = AskedSets::default();
    let mut comparisons = 0;
    let mut stripes = Vec::with_capacity(demands.len());
    for demand in demands {
        let wanted = Some(demand).filter(|demand| is_wanted(demand));
        let stripe = wanted.and_then(|d| LaneStripe::new(d, &mut asked, batch, relays));
        comparisons += stripe.as_ref().map_or(0, |stripe| stripe.comparisons(ports));
        if comparisons * LANE_STEPS_MIN > COMPARISONS_MAX {
            return demands.iter().map(|_| None).collect();
        }
        stripes.push(stripe);
    }
    stripes
}

/// Several lost chunks of a stripe, which are rebuilt from one set of helpers, or each from its
/// own.
struct Several {
    repair: MultiLossRepair,
    /// Each by itself, where that may be cheaper for some port.
    apart: Vec<RackedStripe>,
}

/// A repair of all lost chunks of a stripe together, and what its messages cost at some prices.
struct PricedRepair<'a> {
    repair: &'a MultiLossRepair,
    repair_costs: &'a MultiLossCosts<'a>,
}

impl Several {
    fn all(demands: &[&Demand<'_>], batch: BatchDemands<'_>) -> Vec<Several> {
        let mut needs = Needs::of_bound();
        let with_apart = |of: DemandRepair<'_>| {
            let apart = if of.repair.may_be_apart() {
                apart(of.demand, of.part, &mut needs, batch)
            } else {
                Vec::new()
            };
            Several { repair: of.repair, apart }
        };
        several::repairs(demands, batch).into_iter().map(with_apart).collect()
    }

    fn comparisons(&self) -> usize {
        self.repair.comparisons() / MULTI_LOSS_COMPARISONS
            + self.apart.iter().map(RackedStripe::comparisons).sum::<usize>()
    }

    /// Puts the cheapest option on `loads`, and returns what it costs; rebuilt together, they go by
    /// `repair`.
    fn take_cheapest(
        &self,
        PricedRepair { repair, repair_costs }: PricedRepair<'_>,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
        loads: &mut Amounts,
    ) -> f64 {
        if self.apart.is_empty() {
            return repair_costs.take_cheapest(repair, loads);
        }
        let mut together = loads.nothing();
        let mut apart = loads.nothing();
        let cost = repair_costs.take_cheapest(repair, &mut together);
        let each = self.apart.iter().map(|one| one.take_cheapest(costs, workspace, &mut apart));
        let apart_cost = each.sum::<f64>();
        let (least, cheapest) =
            if apart_cost < cost { (apart_cost, apart) } else { (cost, together) };
        loads.add_all(&cheapest);
        least
    }
}

/// The lost chunks of a part as stripes with one loss each; none where one of them needs another.
fn apart(
    demand: &Demand<'_>,
    part: &Part,
    needs: &mut Needs,
    BatchDemands { view, ports, .. }: BatchDemands<'_>,
) -> Vec<RackedStripe> {
    let code = demand.job.code;
    let available: Vec<ChunkIndex> = demand.job.survivors.iter().map(|(c, _)| *c).collect();
    let mut apart = Vec::new();
    for lost in &part.lost {
        let Some(name) = needs.find(code, &[*lost], available.iter().copied()) else {
            return Vec::new();
        };
        let part = needs.get(name).parts[0].clone();
        let around = around(code, &part, &available, needs);
        apart.push(RackedStripe::new(demand, &part, around.as_ref(), view, ports).counted());
    }
    if apart.iter().any(|stripe| stripe.targets.is_empty()) { Vec::new() } else { apart }
}

/// The most that any stripe with several losses takes by itself; `known` where that is no more.
fn alone_seconds(several: &[Several], ports: &Ports, relays: &[u32], known: f64) -> f64 {
    let repairs: Vec<&MultiLossRepair> = several.iter().map(|several| &several.repair).collect();
    several::alone_seconds(&repairs, ports, known, |index, spread, prices, loads| {
        let mut costs = Costs::new(ports, prices, relays);
        let repair_costs = &MultiLossCosts::new(ports, prices, relays);
        let repair = PricedRepair { repair: spread, repair_costs };
        several[index].take_cheapest(repair, &mut costs, &mut Workspace::default(), loads)
    })
}

/// The chunks of a demand that are sums.
fn sums<'a>(demand: &'a Demand<'_>) -> impl Iterator<Item = (&'a Part, Option<&'a Part>)> {
    demand.needs.parts().filter(|(part, _)| part.is_sum)
}

/// What prices are searched for.
struct CrossingSearch<'a> {
    ports: &'a Ports,
    /// Nodes that may relay without a chunk.
    relays: &'a [u32],
    /// Stripes with several losses, which take part besides.
    several: &'a [Several],
    lanes: &'a [LaneStripe],
    /// The chunks of these that are sums of their own, and of which they are.
    laned: &'a [(usize, RackedStripe)],
    /// How many times as many prices as usual are compared.
    times: usize,
}

impl CrossingSearch<'_> {
    /// How many steps take so many comparisons.
    fn steps(&self, stripes: &[RackedStripe], comparisons: usize) -> usize {
        (self.times * comparisons / self.comparisons(stripes)).min(STEPS_MAX)
    }

    /// Prices that are compared in a step.
    fn comparisons(&self, stripes: &[RackedStripe]) -> usize {
        let several = self.several.iter().map(Several::comparisons).sum::<usize>();
        let lanes = self.lanes.iter().map(|stripe| stripe.comparisons(self.ports)).sum::<usize>();
        let step =
            stripes.iter().map(RackedStripe::comparisons).sum::<usize>() + self.ports.count();
        step + several + lanes
    }

    /// Any destinations of each stripe by lanes.
    fn any_destinations(&self) -> Vec<DestinationChoice> {
        self.lanes.iter().map(LaneStripe::any_destinations).collect()
    }

    /// The bound of all at the best prices of the first of them, of so many that these get all
    /// steps, in seconds.
    fn sampled_seconds(
        &self,
        stripes: &[RackedStripe],
        choices: &[DestinationChoice],
        comparisons: usize,
    ) -> f64 {
        let every = (self.comparisons(stripes) * STEPS_MAX).div_ceil(self.times * comparisons);
        let first = |count: usize| ..count.div_ceil(every);
        let several = &self.several[first(self.several.len())];
        let lanes = &self.lanes[first(self.lanes.len())];
        let sampled = CrossingSearch { several, lanes, ..*self };
        let limits = SearchLimits { known: 0.0, enough: f64::INFINITY, steps: STEPS_MAX };
        let some = (&stripes[first(stripes.len())], &choices[first(choices.len())]);
        let PricedBound { prices, .. } = sampled.priced(some.0, some.1, limits);
        self.search(stripes, choices, limits).seconds_at(prices)
    }

    /// The best bound by prices, where stripes by lanes have these destinations, in seconds.
    fn seconds(
        &self,
        stripes: &[RackedStripe],
        choices: &[DestinationChoice],
        limits: SearchLimits,
    ) -> f64 {
        self.priced(stripes, choices, limits).seconds
    }

    /// The same bound and its prices.
    fn priced(
        &self,
        stripes: &[RackedStripe],
        choices: &[DestinationChoice],
        limits: SearchLimits,
    ) -> PricedBound {
        self.search(stripes, choices, limits).best_from_nothing()
    }

    /// A search for it.
    fn search<'a>(
        &'a self,
        stripes: &'a [RackedStripe],
        choices: &'a [DestinationChoice],
        limits: SearchLimits,
    ) -> Search<'a, impl FnMut(&Amounts, &mut Amounts) -> f64> {
        let mut workspace = Workspace::default();
        Search::new(self.ports, limits, move |prices, loads| {
            let mut costs = Costs::new(self.ports, prices, self.relays);
            let cost =
                |stripe: &RackedStripe| stripe.take_cheapest(&mut costs, &mut workspace, loads);
            let sums: f64 = stripes.iter().map(cost).sum();
            let repair_costs = MultiLossCosts::new(self.ports, prices, self.relays);
            let of_several = self.several.iter().map(|several| {
                let repair = PricedRepair { repair: &several.repair, repair_costs: &repair_costs };
                several.take_cheapest(repair, &mut costs, &mut workspace, loads)
            });
            let of_several: f64 = of_several.sum();
            let lanes = self.lanes.iter().zip(choices).map(|(stripe, choice)| {
                stripe.take_cheapest(choice, &mut costs, &mut workspace, loads).0
            });
            sums + of_several + lanes.sum::<f64>()
        })
    }

    /// What whole chunks take on links of racks, if they are equally long; else what is known.
    fn whole_seconds(
        &self,
        stripes: &[RackedStripe],
        choices: &[DestinationChoice],
        known: f64,
    ) -> f64 {
        let laned = self.laned.iter().map(|(at, stripe)| {
            let nodes = self.lanes[*at].nodes(&choices[*at]);
            stripe.within(&|target, node| nodes.contains(&stripe.targets[target].nodes[node]))
        });
        let laned: Vec<RackedStripe> = laned.collect();
        let all = || stripes.iter().chain(&laned);
        let Some(bytes) = all().next().map(|stripe| stripe.bytes) else { return known };
        if all().any(|stripe| stripe.bytes != bytes) {
            return known;
        }
        let choices: Vec<Vec<RackChoice>> = all().map(RackedStripe::choices).collect();
        whole::seconds(&choices, bytes, self.ports, known)
    }
}
