//! Ports and their prices: what one more byte here costs, given what is here already.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`, beneath
//! the potential planner. The price of a port grows exponentially with the time that it needs, so
//! the cheapest way around the sum of all ports is nearly the way around the busiest; the sharper
//! the exponent, the nearer.

use crate::cluster::Rate;
use crate::id::NodeId;
use crate::max_flow::Supply;
use crate::planner::exact::frame::{CHUNK_UNITS, Frame};

/// Exponents are cut off here: ports this far behind are all equally bad, those this far ahead all
/// equally good, and no product of two prices overflows.
const EXPONENT_MAX: f64 = 330.0;
const EXPONENT_MIN: f64 = -600.0;

/// Dearer is not told apart. Sums of prices stay numbers, so that there is a cheapest way, always.
pub(super) const PRICE_MAX: f64 = 1e300;

/// How far above its fair share a port may be and still set the scale. Beyond, it is a dead link
/// that something needs, and all others are balanced without it.
const SCALE_MAX: f64 = 16.0;

/// A port, as an index.
pub(super) type Port = usize;

/// All ports: four of each node, two of each rack. Amounts are in lengths of the longest chunk.
pub(super) struct Ports {
    node_count: usize,
    /// The rack of each node; `u32::MAX` for none. Empty where racks have no links.
    racks: Vec<u32>,
    rack_count: usize,
    states: Vec<State>,
    /// Seconds for what already runs.
    bases: Vec<f64>,
    /// Whether disks are modelled anywhere.
    have_disks: bool,
    /// The exponent of a second.
    sharpness: f64,
    /// The exponent at which prices are 1: that of the busiest port.
    shift: f64,
}

/// One port. What is looked up together lies together.
#[derive(Clone, Copy)]
struct State {
    /// Seconds for a chunk; 0 for a port that is not modelled.
    pace: f64,
    /// Seconds for what is there.
    seconds: f64,
    weight: f64,
}

impl Ports {
    pub fn new(frame: &Frame<'_>) -> Ports {
        let (cluster, nodes) = (frame.view.cluster, || frame.view.cluster.ids());
        let rack_count = if cluster.core.is_some() { cluster.racks.len() } else { 0 };
        let rack = |node| cluster.node(node).rack.map_or(u32::MAX, |rack| rack.0);
        let mut ports = Ports {
            node_count: cluster.nodes.len(),
            racks: if rack_count > 0 { nodes().map(rack).collect() } else { Vec::new() },
            rack_count,
            states: Vec::new(),
            bases: Vec::new(),
            have_disks: false,
            sharpness: 0.0,
            shift: 0.0,
        };
        let sides: [&dyn Fn(usize) -> (f64, f64); 4] = [
            &|node| port_of(&frame.sending(NodeId(node as u32)), 0),
            &|node| port_of(&frame.receiving(NodeId(node as u32)), 0),
            &|node| port_of(&frame.sending(NodeId(node as u32)), 1),
            &|node| port_of(&frame.receiving(NodeId(node as u32)), 1),
        ];
        for side in sides {
            (0..ports.node_count).map(side).for_each(|(pace, base)| ports.add(pace, base));
        }
        ports.have_disks =
            ports.states[2 * ports.node_count..].iter().any(|state| state.pace > 0.0);
        if let Some(core) = cluster.core.filter(|_| rack_count > 0) {
            let up = frame.view.load.racks().iter().map(|load| (core.rack_uplink, load.up_bytes));
            let down =
                frame.view.load.racks().iter().map(|load| (core.rack_downlink, load.down_bytes));
            for (rate, bytes) in up.chain(down) {
                let pace = frame.pace(rate);
                let chunk = frame.unit_bytes * f64::from(CHUNK_UNITS);
                ports.add(pace, pace * bytes as f64 / chunk);
            }
        }
        ports
    }

    fn add(&mut self, pace: f64, base: f64) {
        self.states.push(State { pace, seconds: base, weight: 1.0 });
        self.bases.push(base);
    }

    pub fn up(&self, node: u32) -> Port {
        node as usize
    }

    pub fn down(&self, node: u32) -> Port {
        self.node_count + node as usize
    }

    pub fn read(&self, node: u32) -> Port {
        2 * self.node_count + node as usize
    }

    pub fn write(&self, node: u32) -> Port {
        3 * self.node_count + node as usize
    }

    /// The two rack links that a transfer crosses, if it does.
    pub fn crossing(&self, from: u32, to: u32) -> Option<[Port; 2]> {
        if self.rack_count == 0 {
            return None;
        }
        let (from, to) = (self.rack(from), self.rack(to));
        if from == to {
            return None;
        }
        Some([self.rack_up(from)?, self.rack_down(to)?])
    }

    /// The uplink of a rack; none for a node that is a rack of its own.
    pub fn rack_up(&self, rack: u32) -> Option<Port> {
        ((rack as usize) < self.rack_count).then_some(4 * self.node_count + rack as usize)
    }

    /// The downlink of a rack.
    pub fn rack_down(&self, rack: u32) -> Option<Port> {
        self.rack_up(rack).map(|up| up + self.rack_count)
    }

    /// Whether racks have links of their own.
    pub fn have_racks(&self) -> bool {
        self.rack_count > 0
    }

    /// The rack of a node; a rack of its own for a node without one.
    pub fn rack(&self, node: u32) -> u32 {
        match self.racks[node as usize] {
            u32::MAX => self.rack_count as u32 + node,
            rack => rack,
        }
    }

    /// Whether disks are worth looking at.
    pub fn have_disks(&self) -> bool {
        self.have_disks
    }

    /// What `amount` more would cost.
    pub fn cost(&self, port: Port, amount: f64) -> f64 {
        let State { pace, weight, .. } = self.states[port];
        weight * (self.power(pace, amount) - 1.0)
    }

    /// The weight of a port now, and by what it grows with `amount` more.
    pub fn growth(&self, port: Port, amount: f64) -> (f64, f64) {
        let State { pace, weight, .. } = self.states[port];
        (weight, self.power(pace, amount))
    }

    fn power(&self, pace: f64, amount: f64) -> f64 {
        exp((self.sharpness * pace * amount).min(EXPONENT_MAX))
    }

    /// Puts `amount` on a port; less than nothing takes it off.
    pub fn charge(&mut self, port: Port, amount: f64) {
        let (sharpness, shift) = (self.sharpness, self.shift);
        let state = &mut self.states[port];
        state.seconds += state.pace * amount;
        let exponent = sharpness * state.seconds - shift;
        state.weight = exp(exponent.clamp(EXPONENT_MIN, EXPONENT_MAX));
    }

    /// The time of the busiest port, of those that do anything new.
    pub fn peak_seconds(&self) -> f64 {
        let ports = self.states.iter().zip(&self.bases);
        let busy = ports.filter(|(state, base)| state.seconds > **base * (1.0 + 1e-9));
        busy.map(|(state, _)| state.seconds).fold(0.0, f64::max)
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

/// The exponential function to seven digits, which is far more than prices deserve: powers of two by
/// their bits, and a short series for the rest.
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

/// Seconds for a chunk, and for what already runs, at one side of a supply.
fn port_of(supply: &Supply, at: usize) -> (f64, f64) {
    match supply.rates[at].is_finite() {
        true => {
            let second = 1.0 / supply.rates[at];
            (f64::from(CHUNK_UNITS) * second, supply.bases[at] * second)
        }
        false => (0.0, 0.0),
    }
}

impl Frame<'_> {
    /// Seconds for the longest chunk.
    fn pace(&self, rate: Rate) -> f64 {
        f64::from(CHUNK_UNITS) / self.rate(rate)
    }
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
