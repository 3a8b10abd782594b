//! One outage in which failures are made frequent, with the weight that makes it count right.
//!
//! Place: [failure detected -> ... -> stripe healthy], where it goes wrong.
//! Failure biasing for repairs and lifetimes of any distribution (Heidelberger, Shahabuddin and
//! Nicola, 1994): instead of each node's hazard, failures come at one constant rate between two
//! changes, chosen so that the next one about meets the time in which the stripes at the greatest
//! risk stay so. The likelihood ratio of a path is, for each failure, its true hazard over the rate
//! at which it was drawn, times exp of the failures drawn less those truly expected, over all time.
//! Racks and nodes share failures in fixed parts, however unlikely racks truly are (balanced
//! biasing), and among nodes those that hold the stripes at risk come more often, where these are
//! few. Bias ends after `BIASED_FAILURES_MAX` failures: later ones would only spread the weights.

use suture_repair::id::NodeId;
use suture_repair::random::Random;

use super::Model;
use super::fleet::Fleet;
use super::lifetime::draw_exponential;
use super::outage::Outage;

/// The part of drawn failures that are a rack's, where racks fail.
const RACK_SHARE: f64 = 0.3;

/// The part of drawn nodes that hold a stripe at the greatest risk, where these are few.
const CRITICAL_SHARE: f64 = 0.75;

/// So many are few: their nodes are gone through for each failure.
const CRITICAL_STRIPES_MAX: usize = 64;

/// Failures drawn in the time that matters, if they came alone: two of three times one comes.
const FAILURES_PER_CRITICAL_TIME: f64 = 1.0;

/// Most losses need far fewer.
const BIASED_FAILURES_MAX: usize = 24;

/// An outage on the way.
struct Branch<'a, 'm> {
    model: &'a Model,
    outage: &'a mut Outage<'m>,
    random: &'a mut Random,
    fleet: Fleet,
    now: f64,
    /// The likelihood ratio so far, its logarithm.
    log_weight: f64,
    is_lost: bool,
}

/// The chance that an outage which begins at `at` loses data before the mission ends, by one draw:
/// its weight if it does, and 0 else.
pub(super) fn loss_chance(
    model: &Model,
    outage: &mut Outage<'_>,
    at: f64,
    fleet: Fleet,
    random: &mut Random,
) -> f64 {
    outage.begin(at);
    let mut branch =
        Branch { model, outage, random, fleet, now: at, log_weight: 0.0, is_lost: false };
    let rate = branch.fleet.total_hazard(at) + model.racks_rate();
    branch.fail_someone(rate);
    let mut failures = 1;
    while !branch.is_lost && !branch.outage.is_over() && branch.now < model.mission_seconds {
        let rate = branch.rate(failures < BIASED_FAILURES_MAX);
        let fails_at = branch.now + draw_exponential(branch.random) / rate;
        if branch.wait(fails_at.min(model.mission_seconds), rate) == fails_at {
            branch.fail_someone(rate);
            failures += 1;
        }
    }
    if branch.is_lost { branch.log_weight.exp() } else { 0.0 }
}

impl Branch<'_, '_> {
    /// Failures a second to draw from now on: the true ones, or more.
    fn rate(&self, is_biased: bool) -> f64 {
        let critical = self.outage.critical_seconds();
        let is_possible = self.fleet.up_count() > 0 || !self.model.racks.is_empty();
        if critical <= 0.0 || !is_possible {
            return 0.0;
        }
        // The mean over that time: at age 0 a hazard may be infinite.
        let expected = self.fleet.expected_failures(self.now, self.now + critical);
        let true_rate = expected / critical + self.model.racks_rate();
        if is_biased { true_rate.max(FAILURES_PER_CRITICAL_TIME / critical) } else { true_rate }
    }

    /// Lets time pass until `to` or the next change; failures are drawn at `rate` meanwhile.
    fn wait(&mut self, to: f64, rate: f64) -> f64 {
        let mut recovered = Vec::new();
        let reached = self.outage.advance(to, &mut recovered, self.random);
        let elapsed = reached - self.now;
        let expected = self.fleet.expected_failures(self.now, reached);
        self.log_weight += rate * elapsed - expected - self.model.racks_rate() * elapsed;
        recovered.iter().for_each(|&node| self.fleet.recover(node, reached));
        self.now = reached;
        reached
    }

    /// Draws the node that fails now; `rate` is that of all failures drawn.
    fn fail_someone(&mut self, rate: f64) {
        let rack_share = match self.model.racks.len() {
            0 => 0.0,
            _ if self.fleet.up_count() == 0 => 1.0,
            _ => RACK_SHARE,
        };
        if self.random.unit() < rack_share {
            let rack = self.random.index(self.model.racks.len());
            self.log_weight += (self.model.racks_rate() / (rate * rack_share)).ln();
            let model = self.model;
            model.racks[rack].iter().for_each(|&node| self.fail(node));
        } else if self.fleet.up_count() > 0 {
            let (node, ratio) = self.draw_node();
            self.log_weight += (ratio / (rate * (1.0 - rack_share))).ln();
            self.fail(node);
        }
    }

    /// A node that is up, and its hazard over the chance with which it was drawn.
    fn draw_node(&mut self) -> (NodeId, f64) {
        let total = self.fleet.total_hazard(self.now);
        let critical = self.outage.critical_stripes(CRITICAL_STRIPES_MAX);
        let up: Vec<Vec<NodeId>> = critical.iter().map(|&stripe| self.up_of(stripe)).collect();
        let up: Vec<Vec<NodeId>> = up.into_iter().filter(|nodes| !nodes.is_empty()).collect();
        let critical_share = if up.is_empty() { 0.0 } else { CRITICAL_SHARE };
        let node = if self.random.unit() < critical_share {
            let nodes = self.random.choose(&up);
            nodes[self.random.index(nodes.len())]
        } else {
            self.fleet.draw(self.now, total, self.random)
        };
        let hazard = self.fleet.hazard(node, self.now);
        let with_node = up.iter().filter(|nodes| nodes.contains(&node));
        let by_stripe = with_node.map(|nodes| 1.0 / nodes.len() as f64).sum::<f64>();
        let by_stripe = if up.is_empty() { 0.0 } else { by_stripe / up.len() as f64 };
        let chance = (1.0 - critical_share) * hazard / total + critical_share * by_stripe;
        (node, hazard / chance)
    }

    fn up_of(&self, stripe: u32) -> Vec<NodeId> {
        let nodes = self.model.placement.nodes_of(stripe).iter().copied();
        nodes.filter(|node| self.fleet.is_up(*node)).collect()
    }

    fn fail(&mut self, node: NodeId) {
        if self.fleet.is_up(node) && !self.is_lost {
            self.fleet.fail(node);
            self.is_lost = self.outage.fail(node, self.random);
        }
    }
}
