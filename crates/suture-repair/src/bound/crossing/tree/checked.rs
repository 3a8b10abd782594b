//! What a chunk of a local code costs at least by its parity checks, where racks share links.
//!
//! Place: beside `[plan]`, a part of the bound by prices in racks (`../../crossing.rs`). A count of
//! helpers (`../tree.rs`) takes whichever are cheapest, and few sets of so many rebuild the chunk.
//! Given the racks that help, what a tree costs is a sum over its helpers and over these racks:
//! each helper sends, and its message is added up in its rack; of each rack but the destination's
//! one message leaves instead. So the cheapest check is found for each set of racks, by prices of
//! chunks. Whichever survivor is cheapest adds up, as if it helped.

use suture_code::lrc::ChunkPrices;

use crate::bound::crossing::priced::{Costs, Decided};
use crate::bound::crossing::stripe::{CheckedChunk, CheckedHelpers, RackedStripe};
use crate::bound::crossing::tree::{RootedAt, Workspace};
use crate::bound::search::Amounts;

/// How much dearer than all helpers together one is that must not help.
const DEAR: f64 = 1e4;

/// The helpers of the cheapest check, and what they cost at least, for each byte.
pub(super) struct CheckedTree {
    pub cost: f64,
    target: usize,
    helpers: Vec<u32>,
}

impl RackedStripe {
    /// The cheapest tree by checks whose target is the one at a place, or any; `None` where its
    /// helpers are only counted.
    pub(super) fn cheapest_by_checks(
        &self,
        target: Option<usize>,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
    ) -> Option<CheckedTree> {
        let checked = self.checked.as_ref()?;
        // With the most helpers a relay costs the least for each.
        let known = costs.relays(self.survivors());
        let (costs, relays) = (&*costs, &costs.known[known]);
        let racks = workspace.priced(self, &Decided::default(), relays, costs);
        let mut best: Option<CheckedTree> = None;
        let targets = self.targets.iter().enumerate();
        for (at, to) in targets.filter(|(at, _)| target.is_none_or(|only| only == *at)) {
            let least = |cost: &dyn Fn(u32) -> f64| {
                to.nodes.iter().map(|node| cost(*node)).fold(f64::INFINITY, f64::min)
            };
            let down = least(&|node| costs.down(node));
            let root = to.nodes.iter().find(|node| costs.down(**node) <= down)?;
            let write = least(&|node| costs.write(node));
            let rooted = RootedAt::new(self, costs, relays, racks, to, *root);
            let limit = best.as_ref().map_or(f64::INFINITY, |best| best.cost) - write;
            if let Some((cost, helpers)) = rooted.cheapest_by_checks(checked, limit) {
                best = Some(CheckedTree { cost: cost + write, target: at, helpers });
            }
        }
        best
    }

    /// Puts a tree of the helpers of a check on `loads`.
    pub(super) fn charge_checked(
        &self,
        tree: &CheckedTree,
        costs: &mut Costs<'_>,
        workspace: &mut Workspace,
        loads: &mut Amounts,
    ) {
        let to = &self.targets[tree.target].nodes;
        let helpers = RackedStripe::of_helpers(self.bytes, &tree.helpers, to, costs.ports);
        helpers.take_cheapest(costs, workspace, loads);
    }
}

/// What racks cost a tree beside its helpers.
struct RackPrices {
    /// What it costs that a message is added up in each.
    joined: Vec<f64>,
    /// What it costs more that one leaves it, and what is added up where.
    leaving: Vec<(f64, f64)>,
}

impl RootedAt<'_> {
    /// The cheapest helpers of a check and what they cost but for what is written, below `limit`.
    fn cheapest_by_checks(&self, checked: &CheckedHelpers, limit: f64) -> Option<(f64, Vec<u32>)> {
        let prices = self.rack_prices();
        let price =
            |helper: &CheckedChunk| self.costs.sending(helper.node) + prices.joined[helper.rack];
        let together: f64 = checked.chunks.iter().map(price).sum();
        let dear = if together > 0.0 { DEAR * together } else { 1.0 };
        let all = (1u32 << self.racks.len()) - 1;
        let (mut least, mut best) = (0.0, None);
        let mut limit = limit;
        for racks in (1..=all).rev().filter(|racks| self.may_be_enough(*racks)) {
            let fixed = self.fixed(racks, &prices);
            if fixed + least >= limit {
                continue;
            }
            let is_in = |helper: &CheckedChunk| racks >> helper.rack & 1 == 1;
            let each = checked.chunks.iter();
            let each = each.map(|h| (h.chunk, if is_in(h) { price(h) } else { dear }));
            let chunks = ChunkPrices::new(each);
            let of_checks = checked.checks.iter().map(|check| (check.price(false, &chunks), check));
            let (_, check) = of_checks.min_by(|a, b| a.0.total_cmp(&b.0))?;
            let chosen = check.cheapest(false, &chunks);
            let cost = chunks.sum(&chosen);
            if racks == all {
                least = cost;
            }
            let mut helpers = checked.chunks.iter().filter(|helper| chosen.contains(&helper.chunk));
            if fixed + cost < limit && helpers.clone().all(is_in) {
                limit = fixed + cost;
                best = Some((limit, helpers.by_ref().map(|helper| helper.node).collect()));
            }
        }
        best
    }

    fn rack_prices(&self) -> RackPrices {
        let mut prices = RackPrices { joined: Vec::new(), leaving: Vec::new() };
        for (at, rack) in self.racks.iter().enumerate() {
            let hub = self.hub(rack.rack).0;
            let away = rack.leaving + hub;
            let inside = rack.helpers.iter().map(|helper| helper.down).fold(rack.relay.0, f64::min);
            let is_here = Some(at) == self.target.at;
            let root = if is_here { self.down } else { f64::INFINITY };
            let joined = inside.min(away).min(root);
            prices.joined.push(joined);
            prices.leaving.push(if is_here { (0.0, 0.0) } else { (away - joined, hub) });
        }
        prices
    }

    /// Whether something helps in each rack of a set without which nothing decodes.
    fn may_be_enough(&self, racks: u32) -> bool {
        let is_in = |name: &u32| {
            let at = self.racks.iter().position(|rack| rack.rack == *name);
            at.is_some_and(|at| racks >> at & 1 == 1)
        };
        self.stripe.helping.iter().any(|helping| helping.iter().all(is_in))
    }

    /// What it costs that these racks help, beside their helpers: one message of each other than
    /// the destination's leaves it, and the destination receives one.
    fn fixed(&self, racks: u32, prices: &RackPrices) -> f64 {
        let helping = |at: usize| racks >> at & 1 == 1;
        let here = self.target.at.filter(|at| helping(*at));
        let within = here.map_or(f64::INFINITY, |at| self.down - prices.joined[at]);
        let others = (0..self.racks.len()).filter(|at| helping(*at) && Some(*at) != here);
        if others.clone().next().is_none() {
            return within;
        }
        let leaving: f64 = others.clone().map(|at| prices.leaving[at].0).sum();
        let dearest = others.map(|at| prices.leaving[at].1).fold(0.0, f64::max);
        let [arriving, beside] =
            [false, true].map(|is_fed| (self.entrance(is_fed).0 - dearest).max(0.0));
        leaving + arriving.min(within + beside)
    }
}
