//! The nodes, racks and links of a testbed: as a scenario has them, or as arguments do.
//!
//! Place: before the testbed's network. A cluster file is that of `plan` and `simulate`; a made-up
//! cluster is theirs too, but for links that are listed and given out in turn.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Deserialize;
use suture_drivers::config::check_name;
use suture_edge::error::{bad_input, quoted};
use suture_edge::units::parse_rate;
use suture_repair::cluster::{Cluster, Node, Rate};

use crate::input::{
    Bandwidth, ClusterFile, Shape, generate_cluster, of_cores, oversubscribed, read_cluster,
};

/// What every link is by default.
const LINK_DEFAULT: &str = "50Mbit";

/// The table `[cluster]` of a scenario, and the arguments of `up`.
#[derive(Clone, Debug, Default, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// A file with the nodes and their links (TOML, as for `suture plan`)
    #[arg(
        long = "cluster",
        value_name = "FILE",
        conflicts_with_all = ["nodes", "bandwidth", "racks", "cores"]
    )]
    file: Option<PathBuf>,
    /// Make up so many nodes, n0, n1, ...
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// Their links: 50Mbit, or uniform:20Mbit..100Mbit; with :same, both directions are equal
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<String>,
    /// Links in turn, the same in both directions, such as 20Mbit,40Mbit
    #[arg(long, value_name = "RATE,..", value_delimiter = ',', conflicts_with = "bandwidth")]
    #[serde(default)]
    links: Vec<String>,
    /// Spread the nodes over so many racks, r0, r1, ...
    #[arg(long, value_name = "R")]
    racks: Option<usize>,
    /// How much more a rack's nodes can send than its uplink carries, for instance 5
    #[arg(long, value_name = "X", requires = "racks")]
    oversubscription: Option<f64>,
    /// Cores that repair may have at each node; without it nodes share this machine's
    #[arg(long, value_name = "N", requires = "nodes")]
    cores: Option<f64>,
    /// Seed of random links [default: 1]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

impl ClusterSpec {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.file.is_none() && self.nodes.is_none()
    }

    /// The cluster; files are named from `folder` on.
    ///
    /// # Errors
    /// Bad input: a file that is no cluster's, or numbers that cannot be.
    pub fn build(&self, folder: &Path) -> Result<Cluster> {
        let Some(nodes) = self.nodes else { return self.read(folder) };
        if self.file.is_some() {
            return Err(bad_input("a cluster comes from a file, or has nodes made up: not both"));
        }
        if nodes == 0 {
            return Err(bad_input("a cluster has at least one node; nodes = 0 is none"));
        }
        if self.bandwidth.is_some() && !self.links.is_empty() {
            return Err(bad_input("bandwidth and links both set link rates: remove one"));
        }
        if self.oversubscription.is_some() && self.racks.is_none() {
            return Err(bad_input("oversubscription is of the links of racks: say how many racks"));
        }
        let bandwidth = self.bandwidth.as_deref().unwrap_or(LINK_DEFAULT);
        let shape = Shape {
            nodes,
            stripes: 0,
            racks: self.racks,
            oversubscription: self.oversubscription,
            bandwidth: bandwidth.parse::<Bandwidth>().map_err(bad_input)?,
            processor: self.cores.map(of_cores).transpose().map_err(bad_input)?,
        };
        let mut cluster = generate_cluster(&shape, self.seed.unwrap_or(1))?;
        let links = self.links.iter().map(|link| parse_rate(link).map(Rate).map_err(bad_input));
        let links = links.collect::<Result<Vec<Rate>>>()?;
        for (node, link) in cluster.nodes.iter_mut().zip(links.iter().cycle()) {
            (node.uplink, node.downlink) = (*link, *link);
        }
        if let (Some(factor), false) = (self.oversubscription, links.is_empty()) {
            cluster.core = Some(oversubscribed(&cluster.nodes, cluster.racks.len(), factor));
        }
        Ok(cluster)
    }

    fn read(&self, folder: &Path) -> Result<Cluster> {
        let Some(file) = &self.file else {
            return Err(bad_input("there are no nodes: say how many, or name a cluster file"));
        };
        let ClusterSpec { bandwidth, links, racks, oversubscription, cores, seed, .. } = self;
        for (is_given, key) in [
            (bandwidth.is_some(), "bandwidth"),
            (!links.is_empty(), "links"),
            (racks.is_some(), "racks"),
            (oversubscription.is_some(), "oversubscription"),
            (cores.is_some(), "cores"),
            (seed.is_some(), "seed"),
        ] {
            if is_given {
                let why = "is of nodes that are made up, and a cluster file is named: remove one";
                return Err(bad_input(format!("{key} {why}")));
            }
        }
        let path = folder.join(file);
        let file = read_cluster(&path)?;
        check_file(&file).map_err(|why| bad_input(format!("{}: {why}", path.display())))?;
        Ok(file.cluster)
    }
}

/// Refuses what a cluster file may say of a node and no testbed makes: it would count in the bound,
/// and not in what is measured.
fn check_file(file: &ClusterFile) -> Result<(), String> {
    file.cluster.racks.iter().try_for_each(|rack| check_name("rack", rack))?;
    for (node, free) in file.cluster.nodes.iter().zip(&file.free_bytes) {
        let Node { name, .. } = node;
        // Namespaces and folders have their names.
        check_name("node", name)?;
        if name.contains('/') || name.starts_with('.') {
            return Err(format!("{} cannot name a folder: rename the node", quoted(name)));
        }
        let (keys, why) = if node.foreground_uplink.0 + node.foreground_downlink.0 > 0.0 {
            ("foreground_uplink and foreground_downlink", "applications are those of [load]")
        } else if node.disk_read.or(node.disk_write).is_some() {
            ("disk_read and disk_write", "disks are this machine's")
        } else if *free != u64::MAX {
            ("drained, excluded and free", "every node serves, but those of [failure]")
        } else {
            continue;
        };
        return Err(format!("node {}: on a testbed {why}: remove {keys}", quoted(name)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_given_out_in_turn_and_racks_share_them() {
        let spec = ClusterSpec {
            nodes: Some(4),
            links: vec!["8Mbit".into(), "16Mbit".into()],
            racks: Some(2),
            oversubscription: Some(3.0),
            cores: Some(0.5),
            ..ClusterSpec::default()
        };
        let cluster = spec.build(Path::new(".")).unwrap();
        let links: Vec<f64> = cluster.nodes.iter().map(|node| node.downlink.0).collect();
        assert_eq!(links, [1e6, 2e6, 1e6, 2e6]);
        assert_eq!(cluster.core.unwrap().rack_uplink, Rate(1e6));
        assert_eq!(cluster.nodes[3].processor, of_cores(0.5).ok());
    }

    #[test]
    fn what_a_testbed_cannot_make_of_a_cluster_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let defaults = "[defaults]\nuplink = \"8Mbit\"\ndownlink = \"8Mbit\"\n[[node]]\n";
        let build = |node: &str, more: ClusterSpec| {
            let text = format!("{defaults}{node}");
            std::fs::write(folder.path().join("c.toml"), text).unwrap();
            let spec = ClusterSpec { file: Some("c.toml".into()), ..more };
            spec.build(folder.path()).map_err(|error| error.to_string())
        };
        let none = ClusterSpec::default;
        assert_eq!(build("name = \"a\"\ncores = 0.5", none()).unwrap().nodes.len(), 1);
        let seeded = ClusterSpec { seed: Some(3), ..none() };
        for (node, more, words) in [
            ("name = \"a\"", seeded, "seed is of nodes that are made up"),
            ("name = \"a\"\nrack = \"r 1\"", none(), "'r 1' is not a valid rack name"),
            ("name = \"a/b\"", none(), "'a/b' cannot name a folder"),
            ("name = \"..\"", none(), "cannot name a folder"),
            ("name = \"a b\"", none(), "'a b' is not a valid node name"),
            ("name = \"a\"\nforeground_uplink = \"1Mbit\"", none(), "those of [load]"),
            ("name = \"a\"\ndisk_write = \"1Mbit\"", none(), "remove disk_read and disk_write"),
            ("name = \"a\"\ndrained = true", none(), "remove drained, excluded and free"),
        ] {
            let why = build(node, more).unwrap_err();
            assert!(why.contains(words), "{node}: {why}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let none = ClusterSpec::default();
        let zero = ClusterSpec { nodes: Some(4), links: vec!["0Mbit".into()], ..none.clone() };
        let both = ClusterSpec { bandwidth: Some("1Mbit".into()), ..zero.clone() };
        let idle = ClusterSpec { nodes: Some(4), cores: Some(0.0), ..none.clone() };
        for (spec, words) in [
            (none, "there are no nodes"),
            (zero, "above zero"),
            (both, "remove one"),
            (idle, "0 is not a number of cores"),
        ] {
            let error = spec.build(Path::new(".")).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
