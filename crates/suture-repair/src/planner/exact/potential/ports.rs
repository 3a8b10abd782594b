//! Ports and their prices: what one more byte here costs, given what is here already.
//!
//! Place: `[plan]`, beneath all choices of the potential planner. The price of a port grows
//! exponentially with the time that it needs, so the option that adds least to the sum of all ports
//! is nearly the one that adds least to the busiest; the sharper the exponent, the nearer. What
//! passes a port of a node costs that of its processor too, so no choice has to know of processors
//! but for those between traces and other bytes.

use std::ops::Deref;

use crate::planner::exact::instance::{CHUNK_UNITS, Instance};
pub(super) use crate::planner::ports::PortIndex;
use crate::planner::ports::{PortWork, Ports};

/// Exponents are cut off here: ports this far behind are all equally bad, those this far ahead all
/// equally good, and no product of two prices overflows.
const EXPONENT_MAX: f64 = 330.0;
const EXPONENT_MIN: f64 = -600.0;

/// Prices above this are not distinguished. Sums of prices stay numbers, so that there is always a
/// cheapest option.
pub(super) const PRICE_MAX: f64 = 1e300;

/// How far above its fair share a port may be and still set the scale. Beyond, it is a dead link
/// that something needs, and all others are balanced without it.
const SCALE_MAX: f64 = 16.0;

/// The exponent of the longest chunk at the slowest port where prices are meant to be constant.
const LINEAR: f64 = 1e-5;

/// All ports with their loads and prices. Amounts are in lengths of the longest chunk.
#[derive(Clone)]
pub(super) struct PricedPorts<'a> {
    ports: &'a Ports,
    states: Vec<PortState>,
    /// Seconds for what already runs.
    bases: Vec<f64>,
    /// The exponent of a second.
    sharpness: f64,
    /// The exponent at which prices are 1: that of the busiest port.
    shift: f64,
}

/// One port. What is looked up together lies together.
#[derive(Clone, Copy)]
struct PortState {
    /// Seconds for the longest chunk; 0 for a port that is not modelled.
    chunk_seconds: f64,
    /// Seconds for what is there.
    seconds: f64,
    weight: f64,
}

/// Ports are numbered as they are without prices.
impl Deref for PricedPorts<'_> {
    type Target = Ports;

    fn deref(&self) -> &Ports {
        self.ports
    }
}

/// The weight of a port now, and by what it grows with some amount more.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortGrowth {
    pub weight: f64,
    pub factor: f64,
}

impl PortGrowth {
    /// A port that costs nothing, however much it moves.
    pub const NONE: PortGrowth = PortGrowth { weight: 0.0, factor: 1.0 };

    /// What the amount costs.
    pub fn cost(&self) -> f64 {
        self.weight * (self.factor - 1.0)
    }

    /// How both together grow.
    fn and(self, other: PortGrowth) -> PortGrowth {
        let weight = self.weight + other.weight;
        let cost = self.cost() + other.cost();
        let factor = if weight > 0.0 { 1.0 + cost / weight } else { 1.0 };
        PortGrowth { weight, factor }
    }
}

impl<'a> PricedPorts<'a> {
    pub fn new(instance: &'a Instance<'_>) -> PricedPorts<'a> {
        let ports = &instance.ports;
        let state = |port: PortIndex| {
            let second = instance.seconds_per_unit(port);
            let seconds = ports.running()[port] as f64 / instance.unit_bytes * second;
            PortState { chunk_seconds: f64::from(CHUNK_UNITS) * second, seconds, weight: 1.0 }
        };
        let states: Vec<PortState> = (0..ports.count()).map(state).collect();
        PricedPorts {
            ports,
            bases: states.iter().map(|state| state.seconds).collect(),
            states,
            sharpness: 0.0,
            shift: 0.0,
        }
    }

    /// What `amount` more would cost.
    pub fn cost(&self, port: PortIndex, amount: f64) -> f64 {
        let own = self.own_cost(port, amount);
        if !self.ports.have_processors() {
            return own;
        }
        own + self.ports.work(port).map_or(0.0, |of| self.work_cost(of, amount))
    }

    /// What `amount` more would cost a processor.
    fn work_cost(&self, PortWork { processor, work }: PortWork, amount: f64) -> f64 {
        self.own_cost(processor, work * amount)
    }

    /// What it costs the processor of a node, beyond other bytes, to send so much of traces.
    pub fn cost_of_traces(&self, node: u32, amount: f64) -> f64 {
        self.ports.trace_work(node).map_or(0.0, |of| self.work_cost(of, amount))
    }

    /// The same to receive and decode so much of them.
    pub fn decoding_cost(&self, node: u32, amount: f64) -> f64 {
        self.ports.decoding_work(node).map_or(0.0, |of| self.work_cost(of, amount))
    }

    fn own_cost(&self, port: PortIndex, amount: f64) -> f64 {
        let PortState { chunk_seconds, weight, .. } = self.states[port];
        weight * (self.power(chunk_seconds, amount) - 1.0)
    }

    /// How the weight of a port grows with `amount` more. With that of a processor behind it, it
    /// grows by what both cost together, which is near enough for the next few amounts.
    #[inline]
    pub fn growth(&self, port: PortIndex, amount: f64) -> PortGrowth {
        let own = self.own_growth(port, amount);
        if !self.ports.have_processors() {
            return own;
        }
        self.and_work(own, port, amount)
    }

    /// The same with the processor behind a port. Apart from it, since most clusters have none that
    /// counts.
    #[inline(never)]
    fn and_work(&self, own: PortGrowth, port: PortIndex, amount: f64) -> PortGrowth {
        let Some(PortWork { processor, work }) = self.ports.work(port) else { return own };
        own.and(self.own_growth(processor, work * amount))
    }

    #[inline]
    fn own_growth(&self, port: PortIndex, amount: f64) -> PortGrowth {
        let PortState { chunk_seconds, weight, .. } = self.states[port];
        PortGrowth { weight, factor: self.power(chunk_seconds, amount) }
    }

    #[inline]
    fn power(&self, chunk_seconds: f64, amount: f64) -> f64 {
        exp((self.sharpness * chunk_seconds * amount).min(EXPONENT_MAX))
    }

    /// Puts `amount` on a port; less than nothing takes it off.
    pub fn charge(&mut self, port: PortIndex, amount: f64) {
        let (sharpness, shift) = (self.sharpness, self.shift);
        let state = &mut self.states[port];
        state.seconds += state.chunk_seconds * amount;
        let exponent = sharpness * state.seconds - shift;
        state.weight = exp(exponent.clamp(EXPONENT_MIN, EXPONENT_MAX));
    }

    /// The sum of all prices: what every choice tries to keep small.
    pub fn potential(&self) -> f64 {
        let modelled = self.states.iter().filter(|state| state.chunk_seconds > 0.0);
        modelled.map(|state| state.weight).sum::<f64>().min(PRICE_MAX)
    }

    /// The time of the busiest port, of those that do anything new.
    pub fn peak_seconds(&self) -> f64 {
        let ports = self.states.iter().zip(&self.bases);
        let busy = ports.filter(|(state, base)| state.seconds > **base * (1.0 + 1e-9));
        busy.map(|(state, _)| state.seconds).fold(0.0, f64::max)
    }

    /// Sets the price of a second of each port. Every amount costs in proportion, as near as makes
    /// no difference to what is cheapest.
    pub fn set_prices(&mut self, prices: &[f64]) {
        let of_ports = self.states.iter().map(|state| state.chunk_seconds);
        let works = self.ports.of_nodes().filter_map(|port| self.ports.work(port));
        let of_work = works.map(|of| self.states[of.processor].chunk_seconds * of.work);
        let longest = of_ports.chain(of_work).fold(0.0, f64::max);
        self.sharpness = LINEAR / longest.max(f64::MIN_POSITIVE);
        self.states.iter_mut().zip(prices).for_each(|(state, price)| state.weight = *price);
    }

    /// The seconds that an amount takes.
    pub fn seconds(&self, port: PortIndex, amount: f64) -> f64 {
        self.states[port].chunk_seconds * amount
    }

    /// Seconds for what already runs, by port.
    pub fn bases(&self) -> &[f64] {
        &self.bases
    }

    /// Makes prices `sharpness` e-folds steep over the time of the busiest port.
    pub fn sharpen(&mut self, sharpness: f64, fair_seconds: f64) {
        let scale = self.peak_seconds().clamp(fair_seconds, SCALE_MAX * fair_seconds);
        // A finite number even where everything takes next to no time: times nothing it is nothing.
        self.sharpness = if scale > 0.0 { (sharpness / scale).min(f64::MAX) } else { 0.0 };
        self.shift = sharpness;
        for port in 0..self.states.len() {
            self.charge(port, 0.0);
        }
    }
}

/// The exponential function to seven digits, which is far more than prices deserve: powers of two
/// by their bits, and a short series for the rest.
#[inline]
fn exp(x: f64) -> f64 {
    // Adding and subtracting this rounds to whole numbers.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let whole = (x * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let rest = x - whole * std::f64::consts::LN_2;
    let series = 1.0 / 120.0 + rest * (1.0 / 720.0);
    let series = 1.0 / 6.0 + rest * (1.0 / 24.0 + rest * series);
    let series = 1.0 + rest * (1.0 + rest * (0.5 + rest * series));
    f64::from_bits(((whole as i64 + 1023) as u64) << 52) * series
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn the_exponential_function_is_nearly_exact() {
        for step in -6000..6000 {
            let x = f64::from(step) / 10.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-6, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
    }
}
