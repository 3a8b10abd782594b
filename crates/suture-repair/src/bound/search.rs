//! The search for prices at which no plans are cheap: what bounds by prices have in common.
//!
//! Place: beside `[plan]`. Let y be prices of ports, none below zero, that together are 1, each for
//! a second of its port. If T is what the busiest port needs, no port needs more, so sum(y *
//! seconds) <= T; and a stripe pays at least for its cheapest option, whatever the others do.
//! The sum of the cheapest options is therefore below T for any plans and any such prices
//! (Lagrangian duality). The work of a processor is a sum over what passes the other ports of its
//! node, so its price is added to theirs, and a search for cheapest options needs no prices of
//! processors; traces count like other bytes there, which is never too much.
//!
//! Good prices are those of ports that are full in good plans: exponential in
//! the load. So the prices begin with some load, in several steepnesses; then everything that is
//! cheapest at these prices is mixed into the load, a little each time. Prices swing around the
//! best ones then, so their mean is better than any of them. Where no load is given, prices are
//! first those of a linear program over what was cheapest so far (`master.rs`), which for a few
//! stripes ends at the best there are. The best of all these bounds counts.
//!
//! The mixed load is itself a way to do everything, in fractions, so no bound is above its peak:
//! the search ends when the two meet, or when the peak is below what is known by other means.
//! Beyond that the work is counted, not timed: it ends when it has cost about as much as planning
//! does.

use crate::master::{Master, Seconds};
use crate::plan::load::Load;
use crate::planner::ports::{PortIndex, PortWork, Ports};

/// How many e-folds a price falls from the busiest port to an idle one, for the load that is given.
const STEEPNESSES: [f64; 5] = [0.0, 20.0, 60.0, 200.0, 640.0];

/// How loads are mixed. Where links are equal prices have to move gently or they swing too far;
/// unequal ones need steep prices, and find them soon.
const COURSES: [Course; 3] = [
    Course { sharpness: 120.0, growth: 2.4, part: 0.3 },
    Course { sharpness: 20.0, growth: 0.25, part: 1.0 },
    Course { sharpness: 10.0, growth: 0.02, part: 1.0 },
];

/// One way to mix loads.
#[derive(Clone, Copy)]
struct Course {
    /// The steepness of prices at first.
    sharpness: f64,
    /// How it grows with each step.
    growth: f64,
    /// The part of all steps that it takes.
    part: f64,
}

/// Shorter courses grow faster, to where so many steps lead.
const COURSE_STEPS: usize = 160;

/// After so many steps the bound of the mean of all prices so far is taken.
const STEPS_PER_MEAN: usize = 20;

/// The most prices that are taken from a program: large batches need more, and swing around
/// instead.
const PROGRAM_STEPS: usize = 100;

/// What is mixed is itself a way to do everything, in fractions: no bound is above its peak. Nearer
/// to that than this, nothing more is searched for.
const GAP_MAX: f64 = 1e-3;

/// Prices more e-folds below that of the busiest port are nothing.
const EXPONENT_MIN: f64 = -40.0;

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
        amounts.add_work(ports);
        amounts
    }

    pub fn at(&self, port: PortIndex) -> f64 {
        self.0[port]
    }

    pub fn add(&mut self, port: PortIndex, amount: f64) {
        self.0[port] += amount;
    }

    /// Amounts of zero for as many ports.
    pub fn nothing(&self) -> Amounts {
        Amounts(vec![0.0; self.0.len()])
    }

    /// Adds the other amounts, port by port.
    pub fn add_all(&mut self, other: &Amounts) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += other);
    }

    /// Adds what these bytes bring to processors.
    fn add_work(&mut self, ports: &Ports) {
        for port in ports.of_nodes() {
            let Some(PortWork { processor, work }) = ports.work(port) else { return };
            self.0[processor] += work * self.0[port];
        }
    }

    /// The prices by which a byte pays at a port for the processor behind it too.
    fn with_work_paid(&self, ports: &Ports) -> Amounts {
        let mut paid = self.clone();
        for port in ports.of_nodes() {
            let Some(PortWork { processor, work }) = ports.work(port) else { return paid };
            paid.0[port] += work * self.0[processor];
            paid.0[processor] = 0.0;
        }
        paid
    }

    /// Becomes so much more like `other`.
    fn mix(&mut self, other: &Amounts, part: f64) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += part * (other - *own));
    }

    /// What it costs at these prices.
    pub fn cost(&self, prices: &Amounts) -> f64 {
        self.0.iter().zip(&prices.0).map(|(amount, price)| amount * price).sum()
    }

    /// The time of the busiest port.
    fn peak_seconds(&self, ports: &Ports) -> f64 {
        let seconds = self.0.iter().enumerate();
        seconds.map(|(port, bytes)| bytes * ports.seconds_per_byte(port)).fold(0.0, f64::max)
    }

    /// What it takes of each port that it needs.
    fn seconds(&self, ports: &Ports) -> Vec<Seconds> {
        let bytes = self.0.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0);
        let seconds = bytes.map(|(port, bytes)| (port, bytes * ports.seconds_per_byte(port)));
        seconds.filter(|(_, seconds)| *seconds > 0.0).collect()
    }

    /// Becomes what a byte costs at each port at these prices of seconds, which are 1 together.
    fn set(&mut self, prices: impl Iterator<Item = Seconds>, ports: &Ports) {
        self.0.fill(0.0);
        let mut sum = 0.0;
        for (port, price) in prices {
            self.0[port] = price * ports.seconds_per_byte(port);
            sum += price;
        }
        let sum = sum.max(f64::MIN_POSITIVE);
        self.0.iter_mut().for_each(|price| *price /= sum);
    }

    /// Becomes what a byte costs at each port for these loads, so that a second at every port costs
    /// 1 together.
    fn set_prices(&mut self, loads: &Amounts, ports: &Ports, steepness: f64) {
        let peak = loads.peak_seconds(ports).max(f64::MIN_POSITIVE);
        let mut sum = 0.0;
        for (port, price) in self.0.iter_mut().enumerate() {
            let seconds = loads.0[port] * ports.seconds_per_byte(port);
            let exponent = steepness * (seconds / peak - 1.0);
            // Unused ports would only take a part of the sum.
            *price = if seconds > 0.0 && exponent > EXPONENT_MIN { exponent.exp() } else { 0.0 };
            sum += *price;
        }
        let sum = sum.max(f64::MIN_POSITIVE);
        let prices = self.0.iter_mut().enumerate();
        prices.for_each(|(port, price)| *price *= ports.seconds_per_byte(port) / sum);
    }
}

/// What is searched for.
#[derive(Clone, Copy)]
pub(super) struct SearchLimits {
    /// A bound that is not above that is no news.
    pub known: f64,
    /// A bound that is as high as that ends the search.
    pub enough: f64,
    /// The most times that loads are mixed in each course.
    pub steps: usize,
}

/// A bound, in seconds, and the prices that show it.
pub(super) struct PricedBound {
    pub seconds: f64,
    pub prices: Amounts,
}

/// A search at work. `cost` puts the cheapest options at some prices on a load and returns what
/// they cost.
pub(super) struct Search<'a, F> {
    ports: &'a Ports,
    limits: SearchLimits,
    cost: F,
    /// The best bound so far, and the prices of it.
    best: f64,
    best_prices: Amounts,
    /// The lowest peak of what was mixed.
    most: f64,
    prices: Amounts,
    cheapest: Amounts,
}

impl<'a, F: FnMut(&Amounts, &mut Amounts) -> f64> Search<'a, F> {
    pub fn new(ports: &'a Ports, limits: SearchLimits, cost: F) -> Search<'a, F> {
        let none = || Amounts::none(ports);
        let (best, most) = (0.0, f64::INFINITY);
        let (best_prices, prices, cheapest) = (none(), none(), none());
        Search { ports, limits, cost, best, best_prices, most, prices, cheapest }
    }

    /// The best bound, in seconds; `given` is a load to begin with.
    pub fn seconds_from(mut self, given: &Amounts) -> f64 {
        for steepness in STEEPNESSES {
            self.prices.set_prices(given, self.ports, steepness);
            self.take_bound();
        }
        self.most = given.peak_seconds(self.ports);
        COURSES.into_iter().for_each(|course| {
            self.follow(given, course, course.sharpness / course.growth);
        });
        self.best
    }

    /// The best bound, in seconds, from a search that begins without a load.
    pub fn seconds_from_nothing(mut self) -> f64 {
        self.search_from_nothing();
        self.best
    }

    /// The best bound and its prices, from a search that begins without a load.
    pub fn best_from_nothing(mut self) -> PricedBound {
        self.search_from_nothing();
        PricedBound { seconds: self.best, prices: self.best_prices }
    }

    /// The prices of the best bound.
    pub fn prices_from_nothing(mut self) -> Amounts {
        self.search_from_nothing();
        self.best_prices
    }

    /// The bound at prices that are given.
    pub fn seconds_at(mut self, prices: Amounts) -> f64 {
        self.prices = prices;
        self.take_bound();
        self.best
    }

    fn search_from_nothing(&mut self) {
        let mut equal = Amounts::none(self.ports);
        for port in 0..self.ports.count() {
            let rate = self.ports.rate(port);
            equal.add(port, if rate.is_finite() { rate } else { 0.0 });
        }
        self.prices.set_prices(&equal, self.ports, 0.0);
        self.take_bound();
        let first = self.cheapest.clone();
        self.most = first.peak_seconds(self.ports);
        self.solve(&first);
        COURSES.into_iter().for_each(|course| self.follow(&first, course, 1.0));
    }

    /// Takes the prices of the best mixture of what was cheapest so far, again and again: of a few
    /// stripes these are soon the best prices of all, however far links are apart.
    fn solve(&mut self, first: &Amounts) {
        let idle = vec![0.0; self.ports.count()];
        let Some(mut program) = Master::new(&[first.seconds(self.ports)], &idle) else { return };
        for _ in 0..self.limits.steps.min(PROGRAM_STEPS) {
            if self.is_over() {
                return;
            }
            program.solve();
            self.most = self.most.min(program.finish());
            self.prices.set(program.prices(), self.ports);
            self.take_bound();
            if !program.add(0, &self.cheapest.seconds(self.ports), &idle) {
                return;
            }
        }
    }

    /// Takes the bound at the prices of now.
    fn take_bound(&mut self) {
        self.cheapest.0.fill(0.0);
        let bound = if self.ports.have_processors() {
            let paid = self.prices.with_work_paid(self.ports);
            let bound = (self.cost)(&paid, &mut self.cheapest);
            self.cheapest.add_work(self.ports);
            bound
        } else {
            (self.cost)(&self.prices, &mut self.cheapest)
        };
        if bound > self.best {
            self.best = bound;
            self.best_prices.0.copy_from_slice(&self.prices.0);
        }
    }

    fn is_over(&self) -> bool {
        let SearchLimits { known, enough, .. } = self.limits;
        self.best >= enough || self.best.max(known) >= self.most * (1.0 - GAP_MAX)
    }

    /// Mixes into `first` what is cheapest at its prices, again and again; `weight` is that of
    /// `first`, in steps.
    fn follow(&mut self, first: &Amounts, course: Course, weight: f64) {
        let Course { sharpness, growth, part } = course;
        let steps = (self.limits.steps as f64 * part).ceil() as usize;
        let haste = (COURSE_STEPS as f64 / steps as f64).max(1.0);
        let (growth, weight) = (growth * haste, (weight / haste).max(1.0));
        let mut loads = first.clone();
        let mut mean = Amounts::none(self.ports);
        mean.set_prices(first, self.ports, sharpness);
        for step in 1..=steps {
            if self.is_over() {
                return;
            }
            self.prices.set_prices(&loads, self.ports, sharpness + growth * step as f64);
            self.take_bound();
            mean.mix(&self.prices, 2.0 / (step as f64 + 1.0));
            loads.mix(&self.cheapest, 1.0 / (step as f64 + weight));
            self.most = self.most.min(loads.peak_seconds(self.ports));
            if step % STEPS_PER_MEAN == 0 || step == steps {
                self.prices.0.copy_from_slice(&mean.0);
                self.take_bound();
            }
        }
    }
}
