//! Rates that change: what a trace says of each second, given to the links in that second.
//!
//! Place: under the testbed's repair, from the moment in which the failure is declared.
//! Only what changes is changed, by processes that stay: no second starts any. A link without any
//! bandwidth in the trace gets the least that links have here, because a bucket that is filled that
//! slowly would owe its debt for long after the link has recovered; the bound counts with the same.

use std::time::{Duration, Instant};

use anyhow::Result;
use suture_repair::cluster::{Cluster, Rate};
use suture_sim::bandwidth_trace::BandwidthTrace;

use super::network::{Network, PortName, ShapedDevice};
use super::shaping::Feeds;

/// The least that a link has: 1 Mbit/s.
pub const LEAST: Rate = Rate(125_000.0);

/// What the links of a testbed follow.
#[derive(Clone, Debug, Default)]
pub struct LinkTraces {
    /// What nodes can send; none: what the cluster says.
    pub uplinks: Option<BandwidthTrace>,
    /// What nodes can receive.
    pub downlinks: Option<BandwidthTrace>,
}

impl LinkTraces {
    /// Whether any link follows one.
    pub fn is_some(&self) -> bool {
        self.uplinks.is_some() || self.downlinks.is_some()
    }

    /// What a port has in a second, if it follows a trace.
    pub fn rate(&self, port: PortName, second: u64) -> Option<f64> {
        let (trace, node) = match port {
            PortName::NodeUp(node) => (self.uplinks.as_ref()?, node),
            PortName::NodeDown(node) => (self.downlinks.as_ref()?, node),
            PortName::RackUp(_) | PortName::RackDown(_) => return None,
        };
        Some(trace.rate(node, second).0)
    }

    /// The changes from what `now` has to what a second has, which `now` has from then on.
    fn changes<'a>(
        &self,
        devices: &'a [ShapedDevice],
        now: &mut [f64],
        second: u64,
    ) -> Vec<(&'a ShapedDevice, f64)> {
        let mut changes = Vec::new();
        for (device, now) in devices.iter().zip(now) {
            let Some(rate) = self.rate(device.port, second).filter(|rate| rate != now) else {
                continue;
            };
            *now = rate;
            changes.push((device, rate));
        }
        changes
    }
}

/// Links that follow traces, from now on and until this is dropped.
pub struct Replay<'a> {
    network: &'a Network,
    traces: &'a LinkTraces,
    feeds: Feeds,
    now: Vec<f64>,
}

impl<'a> Replay<'a> {
    /// Gives links, which have limits already, what their first second has.
    ///
    /// # Errors
    /// When a process cannot be started.
    pub fn prepare(network: &'a Network, traces: &'a LinkTraces) -> Result<Replay<'a>> {
        let now = network.devices.iter().map(|device| device.rate).collect();
        let mut replay = Replay { network, traces, feeds: Feeds::open(network)?, now };
        replay.apply(0)?;
        Ok(replay)
    }

    /// Replays second after second; it ends with an error or not at all.
    ///
    /// # Errors
    /// When the kernel has refused a change.
    pub async fn run(mut self) -> Result<()> {
        let began = Instant::now();
        for second in 1.. {
            let at = began + Duration::from_secs(second);
            tokio::time::sleep_until(at.into()).await;
            self.apply(second)?;
        }
        Ok(())
    }

    fn apply(&mut self, second: u64) -> Result<()> {
        let changes = self.traces.changes(&self.network.devices, &mut self.now, second);
        self.feeds.change(&changes)
    }
}

/// A trace as it can be replayed: from a second on, and no link with less than the least.
pub fn replayable(trace: &BandwidthTrace, cluster: &Cluster, start: u64) -> BandwidthTrace {
    let rows = (0..trace.seconds()).map(|second| {
        let node = |node| Rate(trace.rate(node, start + second).0.max(LEAST.0));
        (0..cluster.nodes.len()).map(node).collect()
    });
    BandwidthTrace::from_rows(rows.collect())
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::Node;

    use super::*;

    #[test]
    fn only_what_changes_is_changed() {
        let trace = BandwidthTrace::parse("8,16\n8,32\n0,32\n", 2).unwrap();
        let nodes = ["a", "b"].map(|name| Node::new(name, Rate(4e6))).to_vec();
        let cluster = Cluster { nodes, ..Cluster::default() };
        let uplinks = Some(replayable(&trace, &cluster, 0));
        let traces = LinkTraces { uplinks, downlinks: None };
        let device =
            |port| ShapedDevice { port, namespace: "x".into(), device: "eth0".into(), rate: 4e6 };
        let devices =
            [PortName::NodeUp(0), PortName::NodeDown(0), PortName::NodeUp(1), PortName::RackUp(0)]
                .map(device);
        let mut now = [4e6; 4];
        let mut changed = |second| {
            let changes = traces.changes(&devices, &mut now, second);
            changes.iter().map(|(device, rate)| (device.port, *rate)).collect::<Vec<_>>()
        };
        assert_eq!(changed(0), [(PortName::NodeUp(0), 1e6), (PortName::NodeUp(1), 2e6)]);
        assert_eq!(changed(1), [(PortName::NodeUp(1), 4e6)]);
        assert_eq!(changed(2), [(PortName::NodeUp(0), LEAST.0)]);
        let later = replayable(&trace, &cluster, 1);
        assert_eq!((later.rate(1, 0), later.rate(0, 2)), (Rate(4e6), Rate(1e6)));
    }
}
