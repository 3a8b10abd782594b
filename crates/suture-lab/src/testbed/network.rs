//! The network of a testbed: a namespace for each node, one for the core with its bridges, and one
//! for the coordinator and its clients.
//!
//! Place: before any process of a testbed. Nodes hang on the bridge of their rack, racks on the
//! core's bridge; where racks have no links of their own, all nodes hang on the core's bridge.
//! Links are pairs of virtual devices, made from namespace to namespace: nothing is in that of the
//! host. Connections use cubic by route, since a namespace may not choose for itself.
//!
//! Invariant: the record of all of it is written before any of it is made.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use suture_edge::error::bad_input;
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;

use super::record::{Record, Watcher};
use super::tools;

/// More would not fit one machine, nor a bridge.
pub const NODES_MAX: usize = 200;

/// What everything has in its own namespace as its only link.
const DEVICE: &str = "eth0";

/// Where coordinators and agents listen, each at an address of its own.
const PORT: u16 = 7400;

/// Where they export what they count.
const METRICS_PORT: u16 = 7402;

/// A machine of the testbed.
#[derive(Clone, Debug)]
pub struct Host {
    /// The name of its node; `client` where the coordinator runs.
    pub name: String,
    /// The name of its network namespace.
    pub namespace: String,
    /// Its address in that namespace.
    pub address: Ipv4Addr,
}

impl Host {
    /// Where its process listens.
    pub fn listen(&self) -> SocketAddr {
        (self.address, PORT).into()
    }

    /// Where its process exports what it counts.
    pub fn metrics(&self) -> SocketAddr {
        (self.address, METRICS_PORT).into()
    }
}

/// One direction of a link: what leaves a device.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapedDevice {
    /// Whose direction it is, for people: `n3 up`.
    pub port: PortName,
    /// The namespace of the device.
    pub namespace: String,
    /// The name of the device.
    pub device: String,
    /// Bytes per second of what passes there.
    pub rate: f64,
}

/// Which direction of which link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortName {
    /// What a node sends.
    NodeUp(usize),
    /// What a node receives.
    NodeDown(usize),
    /// What a rack sends to others.
    RackUp(usize),
    /// What a rack receives from others.
    RackDown(usize),
}

/// A network that stands.
pub struct Network {
    record: Record,
    watcher: Watcher,
    /// The nodes, in the order of the cluster.
    pub nodes: Vec<Host>,
    /// Where the coordinator runs, on a link without limits.
    pub client: Host,
    /// The namespace with the bridges.
    pub core: String,
    /// Every direction of every link.
    pub devices: Vec<ShapedDevice>,
    /// Whether links send packets that repair has marked after all others.
    pub has_classes: bool,
}

impl Network {
    /// Makes the network of a cluster, without limits. It goes with this process, however that
    /// ends; one that `stays` does so until it is complete ([`Network::stay`]).
    ///
    /// # Errors
    /// Bad input for more nodes than fit, and where namespaces are not allowed; a failure when the
    /// kernel refuses something else.
    pub fn up(
        cluster: &Cluster,
        title: &str,
        stays: bool,
        folder: Option<PathBuf>,
    ) -> Result<Self> {
        let count = cluster.nodes.len();
        if count > NODES_MAX {
            return Err(bad_input(format!(
                "{count} nodes are too many for one machine: a testbed has at most {NODES_MAX}"
            )));
        }
        let mut record = Record::new(title, stays)?;
        let host = |index: usize, name: &str, end: &str| Host {
            name: name.to_string(),
            namespace: record.namespace(end),
            address: Ipv4Addr::new(10, 88, (index / 250) as u8, (index % 250 + 1) as u8),
        };
        let client = host(0, "client", "client");
        let nodes = cluster.nodes.iter().enumerate();
        let nodes: Vec<Host> =
            nodes.map(|(i, node)| host(i + 1, &node.name, &format!("n{i}"))).collect();
        let core = record.namespace("core");
        let all = nodes.iter().chain([&client]).map(|host| host.namespace.clone());
        record.namespaces = all.chain([core.clone()]).collect();
        record.folders =
            folder.into_iter().map(|base| base.join(record.namespace("run"))).collect();
        record.write()?;
        let devices = devices(&record.run, cluster, &nodes, &core);
        let made = Watcher::start(&record.run).and_then(|watcher| {
            let record = record.clone();
            let has_classes = false;
            let network = Network { record, watcher, nodes, client, core, devices, has_classes };
            network.make(cluster).map(|()| network)
        });
        if made.is_err() {
            // Why it could not be made is the better reason.
            let _ = record.take_down();
        }
        made
    }

    /// The run id, which is in all names.
    pub fn run(&self) -> &str {
        &self.record.run
    }

    /// The folder for what processes keep, if it was to have one.
    pub fn folder(&self) -> Option<&PathBuf> {
        self.record.folders.first()
    }

    /// Has it outlive this process.
    pub fn stay(self) {
        self.watcher.end();
    }

    /// Removes all of it.
    ///
    /// # Errors
    /// When something of it is left; the record is kept then.
    pub fn down(self) -> Result<()> {
        self.record.take_down()?;
        self.watcher.end();
        Ok(())
    }

    /// Moves this thread, and those that it will start, to where the coordinator runs.
    ///
    /// # Errors
    /// When the namespace is gone.
    pub fn enter(&self) -> Result<()> {
        enter(&self.client.namespace)
    }

    fn make(&self, cluster: &Cluster) -> Result<()> {
        if let Some(folder) = self.folder() {
            std::fs::create_dir(folder)
                .with_context(|| format!("cannot make '{}'", folder.display()))?;
        }
        for name in &self.record.namespaces {
            tools::ip(&["netns", "add", name]).map_err(|error| {
                bad_input(format!(
                    "cannot make a network namespace: a testbed needs a root that may \
                     (CAP_SYS_ADMIN and CAP_NET_ADMIN), which some containers have not: {error:#}"
                ))
            })?;
        }
        tools::batch("ip", &self.core, &self.core_lines(cluster))?;
        let hosts = || self.nodes.iter().chain([&self.client]);
        let addresses: Vec<Ipv4Addr> = hosts().map(|host| host.address).collect();
        hosts().try_for_each(|host| {
            tools::batch("ip", &host.namespace, &host_lines(host.address, &addresses))
        })
    }

    /// Bridges, and all links.
    fn core_lines(&self, cluster: &Cluster) -> String {
        let run = self.run();
        let mut lines = String::new();
        let mut bridge = |name: &str| {
            let _ = writeln!(lines, "link add {name} type bridge\nlink set {name} up");
        };
        let racks = core_racks(cluster);
        bridge(&format!("{run}-core"));
        (0..racks).for_each(|rack| bridge(&format!("{run}-r{rack}")));
        for rack in 0..racks {
            let (up, down) = (rack_device(run, rack, "u"), rack_device(run, rack, "d"));
            let _ = writeln!(
                lines,
                "link add {up} type veth peer name {down}\nlink set {up} master {run}-r{rack} \
                 up\nlink set {down} master {run}-core up"
            );
        }
        let rack = |index: usize| cluster.nodes[index].rack.filter(|_| racks > 0);
        let nodes = self.nodes.iter().enumerate().map(|(index, host)| {
            let bridge = rack(index).map_or("core".to_string(), |rack| format!("r{}", rack.0));
            (format!("n{index}"), host, bridge)
        });
        for (name, host, bridge) in
            nodes.chain([("client".to_string(), &self.client, "core".to_string())])
        {
            let device = format!("{run}-{name}");
            let _ = writeln!(
                lines,
                "link add {device} type veth peer name {DEVICE} netns {}\nlink set {device} master \
                 {run}-{bridge} up",
                host.namespace
            );
        }
        lines
    }

    /// The device in the core through which a direction of a link passes, and whether it leaves by
    /// it: what the counters there mean.
    pub fn counter(&self, port: PortName) -> (String, bool) {
        let run = self.run();
        match port {
            PortName::NodeUp(node) => (format!("{run}-n{node}"), false),
            PortName::NodeDown(node) => (format!("{run}-n{node}"), true),
            PortName::RackUp(rack) => (rack_device(run, rack, "u"), true),
            PortName::RackDown(rack) => (rack_device(run, rack, "d"), true),
        }
    }
}

/// Moves this thread, and those that it will start, to a network namespace.
///
/// # Errors
/// When there is no such namespace.
pub fn enter(namespace: &str) -> Result<()> {
    let path = format!("/run/netns/{namespace}");
    let file = std::fs::File::open(&path).with_context(|| format!("cannot open {path}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter {namespace}"))
}

/// Racks whose links are limited.
fn core_racks(cluster: &Cluster) -> usize {
    cluster.core.map_or(0, |_| cluster.racks.len())
}

fn rack_device(run: &str, rack: usize, end: &str) -> String {
    format!("{run}-r{rack}{end}")
}

/// The link of one of these hosts. All know each other from the beginning: the kernel keeps the
/// neighbours of all namespaces in one table, which fewer than forty hosts fill.
fn host_lines(address: Ipv4Addr, hosts: &[Ipv4Addr]) -> String {
    let mut lines = format!(
        "link set lo up\naddr add {address}/16 dev {DEVICE} noprefixroute\nlink set {DEVICE} \
         address {} up\nroute add 10.88.0.0/16 dev {DEVICE} scope link src {address} congctl \
         cubic\n",
        link_address(address)
    );
    for other in hosts.iter().filter(|other| **other != address) {
        let link = link_address(*other);
        let _ = writeln!(lines, "neigh add {other} lladdr {link} dev {DEVICE} nud permanent");
    }
    lines
}

/// The address of a host's link by that of the host: one of those that are not given out elsewhere.
fn link_address(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("02:53:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn devices(run: &str, cluster: &Cluster, nodes: &[Host], core: &str) -> Vec<ShapedDevice> {
    let mut devices = Vec::new();
    for (index, (id, host)) in cluster.ids().zip(nodes).enumerate() {
        let node = cluster.node(NodeId(id.0));
        devices.push(ShapedDevice {
            port: PortName::NodeUp(index),
            namespace: host.namespace.clone(),
            device: DEVICE.to_string(),
            rate: node.uplink.0,
        });
        devices.push(ShapedDevice {
            port: PortName::NodeDown(index),
            namespace: core.to_string(),
            device: format!("{run}-n{index}"),
            rate: node.downlink.0,
        });
    }
    let Some(links) = cluster.core else { return devices };
    for rack in 0..cluster.racks.len() {
        let device = |port, end, rate| ShapedDevice {
            port,
            namespace: core.to_string(),
            device: rack_device(run, rack, end),
            rate,
        };
        devices.push(device(PortName::RackUp(rack), "u", links.rack_uplink.0));
        devices.push(device(PortName::RackDown(rack), "d", links.rack_downlink.0));
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_knows_the_links_of_all_others() {
        let hosts = [1, 2, 251].map(|host| Ipv4Addr::new(10, 88, 0, host));
        let lines = host_lines(hosts[0], &hosts);
        assert!(lines.contains("link set eth0 address 02:53:0a:58:00:01 up\n"), "{lines}");
        let known: Vec<&str> = lines.lines().filter(|line| line.starts_with("neigh")).collect();
        assert_eq!(
            known,
            [
                "neigh add 10.88.0.2 lladdr 02:53:0a:58:00:02 dev eth0 nud permanent",
                "neigh add 10.88.0.251 lladdr 02:53:0a:58:00:fb dev eth0 nud permanent",
            ]
        );
    }
}
