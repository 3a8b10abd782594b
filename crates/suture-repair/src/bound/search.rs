//! The search for prices at which no plans are cheap: what bounds by prices have in common.
//!
//! Place: beside `[plan]`. Let y be prices of ports, none below zero, that together are 1, each for a
//! second of its port. If T is what the busiest port needs, no port needs more, so
//! sum(y * seconds) <= T; and a stripe pays at least for its cheapest way, whatever the others do.
//! The sum of the cheapest ways is therefore below T for any plans and any such prices (Lagrangian
//! duality). Good prices are those of ports that are full in good plans: exponential in the load.
//! So the prices begin with some load, in several steepnesses; then everything that is cheapest at
//! these prices is mixed into the load, a little each time. Prices swing around the best ones then,
//! so their mean is better than any of them. The best of all these bounds counts.
//!
//! The work is counted, not timed: it ends when it has cost about as much as planning does.

use crate::plan::load::Load;
use crate::planner::ports::{PortIndex, Ports};

/// How many e-folds a price falls from the busiest port to an idle one, for the load that is given.
const STEEPNESSES: [f64; 5] = [0.0, 20.0, 60.0, 200.0, 640.0];

/// The same while loads are mixed: at first, and how it grows with each step. Where links are equal
/// prices have to move gently or they swing too far; unequal ones need steep prices.
const COURSES: [(f64, f64); 3] = [(120.0, 2.4), (20.0, 0.25), (10.0, 0.02)];

/// The most times that loads are mixed in each.
const STEPS_MAX: usize = 160;

/// How often a helper is looked at in each course: about as often as planning with traces does.
const LOOKS_MAX: usize = 1_300_000;

/// After so many steps the bound of the mean of all prices so far is taken.
const STEPS_PER_MEAN: usize = 20;

/// Something for each port: bytes, or what a byte costs.
#[derive(Clone, Debug)]
pub(super) struct Amounts(Vec<f64>);

impl Amounts {
    pub fn none(ports: &Ports) -> Amounts {
        Amounts(vec![0.0; ports.count()])
    }

    /// What plans bring to the ports of nodes.
    pub fn of(load: &Load, ports: &Ports) -> Amounts {
        let mut amounts = Amounts::none(ports);
        for (node, load) in (0..).zip(load.nodes()) {
            amounts.add(ports.up(node), load.up_bytes as f64);
            amounts.add(ports.down(node), load.down_bytes as f64);
            amounts.add(ports.read(node), load.disk_read_bytes as f64);
            amounts.add(ports.write(node), load.disk_write_bytes as f64);
        }
        amounts
    }

    pub fn at(&self, port: PortIndex) -> f64 {
        self.0[port]
    }

    pub fn add(&mut self, port: PortIndex, amount: f64) {
        self.0[port] += amount;
    }

    /// Becomes so much more like `other`.
    fn mix(&mut self, other: &Amounts, part: f64) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += part * (other - *own));
    }

    /// What a byte costs at each port, so that a second at every port costs 1 together.
    fn prices(&self, ports: &Ports, steepness: f64) -> Amounts {
        let seconds = |port: PortIndex| self.0[port] * ports.seconds_per_byte(port);
        let all = || 0..ports.count();
        let peak = all().map(seconds).fold(f64::MIN_POSITIVE, f64::max);
        // Ports that nobody uses would only take a part of the sum.
        let weight = |port: PortIndex| match seconds(port) {
            seconds if seconds > 0.0 => (steepness * (seconds / peak - 1.0)).exp(),
            _ => 0.0,
        };
        let mut prices: Vec<f64> = all().map(weight).collect();
        let sum = prices.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let paced = prices.iter_mut().enumerate();
        paced.for_each(|(port, price)| *price *= ports.seconds_per_byte(port) / sum);
        Amounts(prices)
    }
}

/// The best bound, in seconds. `cost` puts the cheapest ways at some prices on a load and returns what
/// they cost, looking at so many helpers for that; `given` is a load to begin with.
pub(super) fn best_seconds(
    ports: &Ports,
    given: &Amounts,
    looks: usize,
    cost: impl Fn(&Amounts, &mut Amounts) -> f64,
) -> f64 {
    let bound = |prices: &Amounts| cost(prices, &mut Amounts::none(ports));
    let first = STEEPNESSES.map(|steepness| bound(&given.prices(ports, steepness)));
    let mut best = first.into_iter().fold(0.0, f64::max);
    let steps = STEPS_MAX.min(LOOKS_MAX / looks.max(1));
    for (first, growth) in COURSES {
        let mut loads = given.clone();
        let mut mean = loads.prices(ports, first);
        for step in 1..=steps {
            let steepness = first + growth * step as f64;
            let (prices, mut cheapest) = (loads.prices(ports, steepness), Amounts::none(ports));
            best = best.max(cost(&prices, &mut cheapest));
            mean.mix(&prices, 2.0 / (step as f64 + 1.0));
            loads.mix(&cheapest, 1.0 / (step as f64 + first / growth));
            if step % STEPS_PER_MEAN == 0 {
                best = best.max(bound(&mean));
            }
        }
    }
    best
}

/// The same where no load is given to begin with, in so many steps.
pub(super) fn seconds_from_nothing(
    ports: &Ports,
    steps: usize,
    cost: impl Fn(&Amounts, &mut Amounts) -> f64,
) -> f64 {
    let mut equal = Amounts::none(ports);
    for port in 0..ports.count() {
        let rate = ports.rate(port);
        equal.add(port, if rate.is_finite() { rate } else { 0.0 });
    }
    let mut first = Amounts::none(ports);
    let mut best = cost(&equal.prices(ports, 0.0), &mut first);
    for (sharpness, growth) in COURSES {
        let mut loads = first.clone();
        let mut mean = loads.prices(ports, sharpness);
        for step in 1..=steps.min(300) {
            let steepness = sharpness + growth * step as f64;
            let (prices, mut cheapest) = (loads.prices(ports, steepness), Amounts::none(ports));
            best = best.max(cost(&prices, &mut cheapest));
            mean.mix(&prices, 2.0 / (step as f64 + 1.0));
            loads.mix(&cheapest, 1.0 / (step as f64 + 1.0));
            if step % STEPS_PER_MEAN == 0 {
                best = best.max(cost(&mean, &mut Amounts::none(ports)));
            }
        }
    }
    best
}
