//! The ports of a cluster, numbered once: what everything that plans or bounds a batch counts with.
//!
//! Place: beside `[plan]`. Four ports for each node, then two for each rack whose links are
//! modelled, then one for each node's processor, where any may be what repairs wait for
//! (`processor.rs`). Each has a rate, and bytes that running repairs still bring to it; for a
//! processor both are nanoseconds of work, so many for each byte at the other ports of its node.
//! Readers scale these as they count: the tally of the balances, supplies of flows and prices of
//! the exact planners, prices of the bounds. `plan::load::Load` is the same in whole bytes, for
//! plans that are made.

use std::ops::Range;

use crate::cluster::{Node, Rate};
use crate::id::{NodeId, RackId};
use crate::planner::View;
use crate::processor::{Processor, ProcessorCosts};

/// The number of a port.
pub(crate) type PortIndex = usize;

/// What a byte at a port brings to a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PortWork {
    /// The port that is the processor.
    pub processor: PortIndex,
    /// Nanoseconds for each byte.
    pub work: f64,
}

/// All ports of a cluster.
#[derive(Debug)]
pub(crate) struct Ports {
    node_count: usize,
    /// Racks with links; none where these are not modelled.
    rack_count: usize,
    /// The rack of each node; for a node without one, a number of its own beyond those of racks.
    racks: Vec<u32>,
    have_disks: bool,
    /// Bytes per second; infinite for what is not modelled, above zero for a dead link.
    rates: Vec<f64>,
    /// The other way round, since divisions are slow.
    seconds_per_byte: Vec<f64>,
    /// Bytes that running repairs still have to move.
    running: Vec<u64>,
    /// Work of its processor for a byte at each port of nodes; none where no processor counts.
    work: Vec<f64>,
    /// By node what a byte of traces costs beyond that: sent, received.
    trace_work: Vec<[f64; 2]>,
}

impl Ports {
    /// The ports of the view's cluster, with what is free of each.
    pub fn new(view: &View<'_>) -> Ports {
        let (cluster, load) = (view.cluster, view.load);
        let rack_count = if cluster.has_rack_links() { cluster.racks.len() } else { 0 };
        let rack = |id: NodeId| match cluster.node(id).rack {
            Some(rack) if rack_count > 0 => rack.0,
            _ => (rack_count + id.index()) as u32,
        };
        let mut ports = Ports {
            node_count: cluster.nodes.len(),
            rack_count,
            racks: cluster.ids().map(rack).collect(),
            have_disks: false,
            rates: Vec::with_capacity(4 * cluster.nodes.len() + 2 * rack_count),
            seconds_per_byte: Vec::new(),
            running: Vec::with_capacity(4 * cluster.nodes.len() + 2 * rack_count),
            work: Vec::new(),
            trace_work: Vec::new(),
        };
        let nodes = || cluster.nodes.iter().zip(load.nodes());
        nodes().for_each(|(node, load)| ports.add(Some(node.uplink_free()), load.up_bytes));
        nodes().for_each(|(node, load)| ports.add(Some(node.downlink_free()), load.down_bytes));
        nodes().for_each(|(node, load)| ports.add(node.disk_read, load.disk_read_bytes));
        nodes().for_each(|(node, load)| ports.add(node.disk_write, load.disk_write_bytes));
        // A load may be older than the racks.
        let rack_load = |rack: usize| load.racks().get(rack).copied().unwrap_or_default();
        let links = |rack: usize| cluster.rack_links(RackId(rack as u32));
        for rack in 0..rack_count {
            ports.add(links(rack).map(|links| links.rack_uplink), rack_load(rack).up_bytes);
        }
        for rack in 0..rack_count {
            ports.add(links(rack).map(|links| links.rack_downlink), rack_load(rack).down_bytes);
        }
        if cluster.nodes.iter().any(may_lag) {
            ports.add_processors(view);
        }
        let disks = 2 * ports.node_count..ports.of_nodes().end;
        let are_modelled = ports.rates[disks].iter().any(|rate| rate.is_finite());
        ports.have_disks = are_modelled || ports.have_processors();
        ports.seconds_per_byte = ports.rates.iter().map(|rate| 1.0 / rate).collect();
        ports
    }

    fn add(&mut self, rate: Option<Rate>, running: u64) {
        self.rates.push(rate.map_or(f64::INFINITY, |rate| rate.usable().0));
        self.running.push(running);
    }

    /// The processors of all nodes; one that is not modelled works without end, for nothing.
    fn add_processors(&mut self, view: &View<'_>) {
        let nodes = || view.cluster.nodes.iter();
        for (node, load) in nodes().zip(view.load.nodes()) {
            let running = node.processor.map_or(0.0, |of_node| load.work(of_node.costs()));
            let rate = node.processor.map(|of_node| Rate(of_node.work_per_second()));
            self.add(rate, running as u64);
        }
        let costs = nodes().map(|node| node.processor.as_ref().map(Processor::costs).copied());
        let costs: Vec<ProcessorCosts> = costs.map(Option::unwrap_or_default).collect();
        let each = |cost: fn(&ProcessorCosts) -> f64| costs.iter().map(cost);
        let links = each(|costs| costs.sent).chain(each(|costs| costs.received));
        let disks = each(|costs| costs.read).chain(each(|costs| costs.written));
        self.work = links.chain(disks).collect();
        self.trace_work = costs.iter().map(|costs| [costs.traced, costs.decoded]).collect();
    }

    /// How many ports there are.
    pub fn count(&self) -> usize {
        self.rates.len()
    }

    /// Bytes per second, above zero; infinite for a port that is not modelled.
    pub fn rate(&self, port: PortIndex) -> f64 {
        self.rates[port]
    }

    /// Seconds for a byte; nothing at a port that is not modelled.
    pub fn seconds_per_byte(&self, port: PortIndex) -> f64 {
        self.seconds_per_byte[port]
    }

    /// Bytes that running repairs still bring to each port.
    pub fn running(&self) -> &[u64] {
        &self.running
    }

    /// When the busiest port is done with so many bytes at each.
    pub fn busiest_seconds(&self, bytes: &[u64]) -> f64 {
        let seconds = bytes.iter().zip(&self.rates).map(|(bytes, rate)| *bytes as f64 / rate);
        seconds.fold(0.0, f64::max)
    }

    /// The ports of nodes, which come before those of racks.
    pub fn of_nodes(&self) -> Range<PortIndex> {
        0..4 * self.node_count
    }

    /// What a node sends.
    pub fn up(&self, node: u32) -> PortIndex {
        node as usize
    }

    /// What a node receives.
    pub fn down(&self, node: u32) -> PortIndex {
        self.node_count + node as usize
    }

    /// What a node's disk reads.
    pub fn read(&self, node: u32) -> PortIndex {
        2 * self.node_count + node as usize
    }

    /// What a node's disk writes.
    pub fn write(&self, node: u32) -> PortIndex {
        3 * self.node_count + node as usize
    }

    /// Whether what disks read and write counts: some disk is modelled, or a processor, which
    /// checks it.
    pub fn have_disks(&self) -> bool {
        self.have_disks
    }

    /// Whether any processor may be what repairs wait for.
    pub fn have_processors(&self) -> bool {
        !self.work.is_empty()
    }

    /// The processor of a node, where processors count.
    fn processor(&self, node: usize) -> PortIndex {
        4 * self.node_count + 2 * self.rack_count + node
    }

    /// The processor behind a port of a node and its work for each byte there, where processors
    /// count.
    pub fn work(&self, port: PortIndex) -> Option<PortWork> {
        let work = *self.work.get(port)?;
        Some(PortWork { processor: self.processor(port % self.node_count), work })
    }

    /// The same of a byte of traces that a node sends, beyond that of any other.
    pub fn trace_work(&self, node: u32) -> Option<PortWork> {
        let [work, _] = *self.trace_work.get(node as usize)?;
        Some(PortWork { processor: self.processor(node as usize), work })
    }

    /// The same of one that it receives.
    pub fn decoding_work(&self, node: u32) -> Option<PortWork> {
        let [_, work] = *self.trace_work.get(node as usize)?;
        Some(PortWork { processor: self.processor(node as usize), work })
    }

    /// How fast a node can be for a chunk that it keeps: equal for nodes that are equally good.
    pub fn keeping_rates(&self, node: u32) -> [f64; 7] {
        let [up, down, write] = [self.up(node), self.down(node), self.write(node)];
        let seconds = |port: PortIndex| {
            let of = self.work(port);
            of.map_or(0.0, |PortWork { processor, work }| work * self.seconds_per_byte(processor))
        };
        let [rate_up, rate_down, rate_write] = [up, down, write].map(|port| self.rate(port));
        let read = seconds(self.read(node));
        [rate_up, rate_down, rate_write, seconds(up), seconds(down), read, seconds(write)]
    }

    /// Whether racks have links of their own.
    pub fn have_racks(&self) -> bool {
        self.rack_count > 0
    }

    /// The rack of a node; one of its own for a node without.
    pub fn rack(&self, node: u32) -> u32 {
        self.racks[node as usize]
    }

    /// The uplink of a rack, where it has one.
    pub fn rack_up(&self, rack: u32) -> Option<PortIndex> {
        ((rack as usize) < self.rack_count).then_some(4 * self.node_count + rack as usize)
    }

    /// The downlink of a rack, where it has one.
    pub fn rack_down(&self, rack: u32) -> Option<PortIndex> {
        self.rack_up(rack).map(|up| up + self.rack_count)
    }

    /// The two links between racks that a transfer crosses, if it does.
    pub fn crossing(&self, from: u32, to: u32) -> Option<[PortIndex; 2]> {
        if self.rack_count == 0 {
            return None;
        }
        let (from, to) = (self.rack(from), self.rack(to));
        if from == to {
            return None;
        }
        Some([self.rack_up(from)?, self.rack_down(to)?])
    }
}

/// Whether a node's processor may be what its repairs wait for.
fn may_lag(node: &Node) -> bool {
    let (up, down) = (node.uplink_free().0, node.downlink_free().0);
    node.processor.is_some_and(|processor| processor.may_be_scarce(up, down))
}
