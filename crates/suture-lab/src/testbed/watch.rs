//! What passes through links while a repair runs, read from the counters of the core's devices.
//!
//! Place: beside the testbed's repair. The counters are those of the kernel; they count whole
//! segments with one header each, so what they count is taken for payload.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use suture_repair::cluster::{Cluster, Core, Rate};
use suture_sim::timeline::Bucket;

use super::figures::{LinkTimeline, PortUse};
use super::full_links::LinkSteps;
use super::network::{Network, PortName};
use super::scenario::Experiment;
use super::shaping::GOODPUT;
use super::tools::Feed;
use super::usage::{Counters, counters};

/// How often counters are kept.
const SAMPLE_EVERY: f64 = 0.5;

/// The process that sees the core's devices is there after this, or does not come.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// What each node sends between two readings, at most, without anything being moved: heartbeats.
const QUIET_BYTES: u64 = 256;

/// What links carried while they were watched.
pub struct LinkFigures {
    /// Each direction of each link.
    pub ports: Vec<PortUse>,
    /// What each carried on average.
    pub rates: Vec<PortRate>,
    /// The same over time.
    pub timeline: LinkTimeline,
    /// What links of nodes carried from one reading to the next.
    pub steps: LinkSteps,
    /// All that nodes sent since the watch was opened: before the failure, since the first bytes of
    /// a repair may pass before any other node is notified of it.
    pub sent_bytes: u64,
    /// When they last sent more than they do without a repair, in seconds from the beginning.
    pub last_moved: f64,
}

/// What a direction of a link carried on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortRate {
    /// The port that this is of.
    pub port: PortName,
    /// Bytes that it moves in a second.
    pub rate: f64,
}

/// Watches all links of a network.
pub struct LinkWatch<'a> {
    experiment: &'a Experiment,
    network: &'a Network,
    /// A process in the core, by whose eyes its devices are seen.
    core: Feed,
    began: Instant,
    samples: Vec<(f64, Counters)>,
    /// What nodes had sent when this was opened.
    sent_before: u64,
    /// What they had sent at the last reading, and when they last sent more than a little.
    sent: u64,
    last_moved: f64,
}

impl<'a> LinkWatch<'a> {
    /// A watch that has not begun.
    ///
    /// # Errors
    /// When its process cannot be started, or does not come to see the devices.
    pub fn open(experiment: &'a Experiment, network: &'a Network) -> Result<LinkWatch<'a>> {
        let core = Feed::open(&network.core)?;
        let (began, samples) = (Instant::now(), Vec::new());
        let (sent_before, sent, last_moved) = (0, 0, 0.0);
        let mut watch =
            LinkWatch { experiment, network, core, began, samples, sent_before, sent, last_moved };
        watch.sent_before = watch.sent_by(&watch.settle()?);
        Ok(watch)
    }

    /// The counters as soon as the process sees them: it begins outside of the core.
    fn settle(&self) -> Result<Counters> {
        let since = Instant::now();
        let names = self.network.devices.iter().map(|device| self.network.counter(device.port).0);
        let names: Vec<String> = names.collect();
        loop {
            let found = counters(self.core.process())?;
            if names.iter().all(|name| found.contains_key(name)) {
                return Ok(found);
            }
            let core = &self.network.core;
            ensure!(since.elapsed() < SETTLE_TIMEOUT, "tc does not come to {core}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The repair begins now; gives when that is, from where on seconds count.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn begin(&mut self) -> Result<Instant> {
        self.began = Instant::now();
        let counters = counters(self.core.process())?;
        (self.sent, self.last_moved) = (self.sent_by(&counters), 0.0);
        self.samples = vec![(0.0, counters)];
        Ok(self.began)
    }

    /// Reads the counters, and keeps them if it is time to.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn sample(&mut self) -> Result<()> {
        let now = self.began.elapsed().as_secs_f64();
        let counters = counters(self.core.process())?;
        let sent = self.sent_by(&counters);
        if sent > self.sent + QUIET_BYTES * self.network.nodes.len() as u64 {
            self.last_moved = now;
        }
        self.sent = sent;
        if now >= self.samples.len() as f64 * SAMPLE_EVERY {
            self.samples.push((now, counters));
        }
        Ok(())
    }

    /// What all nodes have sent so far.
    fn sent_by(&self, counters: &Counters) -> u64 {
        let devices = self.network.devices.iter();
        let uplinks = devices.filter(|device| matches!(device.port, PortName::NodeUp(_)));
        uplinks.map(|device| self.passed(device.port, counters)).sum()
    }

    /// What a direction of a link has carried so far.
    fn passed(&self, port: PortName, counters: &Counters) -> u64 {
        let (name, is_sent) = self.network.counter(port);
        let (received, sent) = counters.get(&name).copied().unwrap_or_default();
        if is_sent { sent } else { received }
    }

    /// What each link used of what it had in the `seconds` of the repair, and over time.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn end(mut self, seconds: f64) -> Result<LinkFigures> {
        self.samples.push((self.began.elapsed().as_secs_f64(), counters(self.core.process())?));
        let first = &self.samples[0].1;
        let sent_bytes = self.sent_by(&self.samples[self.samples.len() - 1].1) - self.sent_before;
        // Faults and applications may last longer than the repair.
        let is_within = |sample: &&(f64, Counters)| sample.0 <= seconds + SAMPLE_EVERY / 2.0;
        let within = self.samples[1..].iter().rev().find(is_within);
        let (until, last) = within.unwrap_or(&self.samples[self.samples.len() - 1]);
        let (mut uses, mut rates) = (Vec::new(), Vec::new());
        let step = SAMPLE_EVERY;
        let mut timeline = LinkTimeline { step, ports: Vec::new() };
        let mut steps = LinkSteps::of_nodes(self.network.nodes.len());
        steps.ends = self.samples[1..].iter().map(|(end, _)| *end).collect();
        for device in &self.network.devices {
            let bytes = |counters: &Counters| self.passed(device.port, counters);
            let moved = bytes(last) - bytes(first);
            let has = self.carried(device.port, device.rate, 0.0, *until);
            let port = port_label(device.port, &self.experiment.cluster);
            let between = |pair: &[(f64, Counters)]| {
                let ((from, earlier), (to, later)) = (&pair[0], &pair[1]);
                let possible = self.carried(device.port, device.rate, *from, *to);
                Bucket { carried: (bytes(later) - bytes(earlier)) as f64, possible }
            };
            let carried: Vec<Bucket> = self.samples.windows(2).map(between).collect();
            // The last entry may be the rest of a step.
            let all = self.samples.windows(2).zip(&carried);
            let whole = all.filter(|(pair, _)| pair[1].0 - pair[0].0 > step / 2.0);
            let used = whole.map(|(_, of_step)| of_step.carried / of_step.possible);
            timeline.ports.push((port.clone(), used.collect()));
            match device.port {
                PortName::NodeUp(node) => steps.up[node] = carried,
                PortName::NodeDown(node) => steps.down[node] = carried,
                PortName::RackUp(_) | PortName::RackDown(_) => {}
            }
            uses.push(PortUse { port, part: moved as f64 / has });
            rates.push(PortRate { port: device.port, rate: moved as f64 / until });
        }
        let last_moved = self.last_moved;
        Ok(LinkFigures { ports: uses, rates, timeline, steps, sent_bytes, last_moved })
    }

    /// What a link can carry between two moments, at goodput.
    fn carried(&self, port: PortName, rate: f64, from: f64, to: f64) -> f64 {
        let traces = &self.experiment.traces;
        let at = |second: u64| traces.rate(port, second).unwrap_or(rate);
        let mut bytes = 0.0;
        let mut now = from;
        while now < to {
            let next = (now.floor() + 1.0).min(to);
            bytes += at(now as u64) * (next - now);
            now = next;
        }
        (bytes * GOODPUT).max(1.0)
    }
}

/// The cluster with what its links carry of payload.
pub fn goodput_cluster(cluster: &Cluster) -> Cluster {
    let mut cluster = cluster.clone();
    for node in &mut cluster.nodes {
        node.uplink = Rate(node.uplink.0 * GOODPUT);
        node.downlink = Rate(node.downlink.0 * GOODPUT);
    }
    cluster.core = cluster.core.map(|core| Core {
        rack_uplink: Rate(core.rack_uplink.0 * GOODPUT),
        rack_downlink: Rate(core.rack_downlink.0 * GOODPUT),
    });
    cluster
}

/// The cluster with what its links carry besides what is taken of them; of racks, whose links are
/// all alike, what the one has from which least is taken. A hundredth of a link is always left.
pub fn less_taken(mut cluster: Cluster, taken: &[PortRate]) -> Cluster {
    let mut least = [f64::INFINITY; 2];
    let left = |rate: Rate, taken: f64| Rate((rate.0 - taken).max(rate.0 / 100.0));
    for PortRate { port, rate } in taken {
        match *port {
            PortName::NodeUp(node) => {
                cluster.nodes[node].uplink = left(cluster.nodes[node].uplink, *rate);
            }
            PortName::NodeDown(node) => {
                cluster.nodes[node].downlink = left(cluster.nodes[node].downlink, *rate);
            }
            PortName::RackUp(_) => least[0] = least[0].min(*rate),
            PortName::RackDown(_) => least[1] = least[1].min(*rate),
        }
    }
    let [up, down] = least.map(|rate| if rate.is_finite() { rate } else { 0.0 });
    cluster.core = cluster.core.map(|core| Core {
        rack_uplink: left(core.rack_uplink, up),
        rack_downlink: left(core.rack_downlink, down),
    });
    cluster
}

/// Which direction of which link, for people.
fn port_label(port: PortName, cluster: &Cluster) -> String {
    match port {
        PortName::NodeUp(node) => format!("{} up", cluster.nodes[node].name),
        PortName::NodeDown(node) => format!("{} down", cluster.nodes[node].name),
        PortName::RackUp(rack) => format!("{} up", cluster.racks[rack]),
        PortName::RackDown(rack) => format!("{} down", cluster.racks[rack]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_of_links_is_not_left() {
        let mut cluster = Cluster::uniform(2, Rate(100.0));
        cluster.core = Some(Core { rack_uplink: Rate(80.0), rack_downlink: Rate(60.0) });
        let taken = [
            PortRate { port: PortName::NodeUp(0), rate: 30.0 },
            PortRate { port: PortName::NodeDown(1), rate: 200.0 },
            PortRate { port: PortName::RackUp(0), rate: 50.0 },
            PortRate { port: PortName::RackUp(1), rate: 20.0 },
        ];
        let left = less_taken(cluster.clone(), &taken);
        assert_eq!((left.nodes[0].uplink, left.nodes[0].downlink), (Rate(70.0), Rate(100.0)));
        assert_eq!((left.nodes[1].uplink, left.nodes[1].downlink), (Rate(100.0), Rate(1.0)));
        let core = left.core.unwrap();
        assert_eq!((core.rack_uplink, core.rack_downlink), (Rate(60.0), Rate(60.0)));
        assert_eq!(less_taken(cluster.clone(), &[]), cluster);
    }
}
