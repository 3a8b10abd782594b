//! Files of a simulated cluster: whatever is accepted is a cluster, places in it and rates for it;
//! what is not is refused with file and line.
//!
//! Place: `suture plan` and `suture simulate`. An input is a cluster file, after a zero byte a
//! placement file, and after another one a trace.

use suture_code::Code;
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;
use suture_repair::plan::load::Load;
use suture_sim::bandwidth_trace::BandwidthTrace;

use crate::scratch;

#[allow(dead_code, reason = "of the command, only what it reads")]
#[path = "../../crates/suture-lab/src/input/cluster_file.rs"]
mod cluster_toml;
#[allow(dead_code, reason = "of the command, only what it reads")]
#[path = "../../crates/suture-lab/src/input/placement_file.rs"]
mod placement_file;

use cluster_toml::ClusterFile;

const CODE: &str = "rs(2,1)";

/// Inputs to begin with: with defaults and without, with racks and disks, drained and full.
pub fn valid() -> Vec<Vec<u8>> {
    let nodes = |more: &str| {
        let node = |name| format!("[[node]]\nname = \"n{name}\"\n{more}");
        (0..4).map(node).collect::<String>()
    };
    let defaults = "[defaults]\nuplink = \"1Gbit\"\ndownlink = \"100MB/s\"\n";
    let disks = "disk_read = \"1GB\"\ndisk_write = \"500MB\"\n";
    let core = "[core]\nrack_uplink = \"1Gbit\"\nrack_downlink = \"2Gbit\"\n";
    let own = "uplink = \"8bit\"\ndownlink = \"1Tbit\"\nforeground_uplink = \"4bit\"\n\
               foreground_downlink = \"1Gbit\"\ndrained = true\nfree = \"10GiB\"\n";
    let placement = "0 1 2\n3 1 0\n2 3 1\n";
    let trace = "1,2,3,4\n0,0.5,1e3,7\n";
    vec![
        format!("{defaults}{}\0{placement}\0{trace}", nodes("")),
        format!("{}\0{placement}\0", nodes(own)),
        format!("{defaults}{disks}{core}{}\0\0{trace}", nodes("rack = \"r\"\nexcluded = true\n")),
        format!("{}\0{placement}", nodes(&format!("{own}{disks}rack = \"r\"\n"))),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}

/// Gives whether the cluster file is accepted.
///
/// # Panics
/// When something is accepted that cannot be, or a refusal does not say where.
pub fn check(input: &[u8]) -> bool {
    let mut parts = input.splitn(3, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (toml, places, trace) = (scratch::file("cluster.toml", next()), next(), next());
    let ClusterFile { cluster, free_bytes, excluded } = match cluster_toml::read(&toml) {
        Ok(file) => file,
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains(&toml.display().to_string()), "{why}");
            return false;
        }
    };
    assert!(!cluster.nodes.is_empty() && free_bytes.len() == cluster.nodes.len());
    assert!(excluded.iter().all(|node| node.index() < cluster.nodes.len()));
    for (index, node) in cluster.nodes.iter().enumerate() {
        let rates = [node.uplink_free(), node.downlink_free(), node.uplink, node.downlink];
        assert!(rates.iter().all(|rate| rate.0 > 0.0 && rate.0.is_finite()), "{node:?}");
        assert_eq!(cluster.find(&node.name), Some(NodeId(index as u32)));
        assert!(node.rack.is_none_or(|rack| (rack.0 as usize) < cluster.racks.len()));
    }
    assert!(Load::new(&cluster).max_seconds(&cluster) == 0.0);
    check_places(&cluster, places);
    check_trace(&cluster, trace);
    true
}

fn check_places(cluster: &Cluster, text: &[u8]) {
    let (path, code) = (scratch::file("places", text), CODE.parse::<Code>().expect("a code"));
    match placement_file::read(&path, cluster, code) {
        Ok(nodes) => {
            assert!(nodes.iter().all(|node| node.index() < cluster.nodes.len()));
            assert_eq!(nodes.len() % code.chunk_count(), 0);
            for stripe in nodes.chunks(code.chunk_count()) {
                assert!((1..stripe.len()).all(|at| !stripe[..at].contains(&stripe[at])));
            }
        }
        Err(why) => assert!(why.to_string().contains(&path.display().to_string()), "{why}"),
    }
}

fn check_trace(cluster: &Cluster, text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let nodes = cluster.nodes.len();
    match BandwidthTrace::parse(text, nodes) {
        Ok(trace) => {
            assert!(trace.seconds() > 0);
            for (node, second) in (0..nodes).zip([0, 1, trace.seconds(), u64::MAX]) {
                let rate = trace.rate(node, second).0;
                assert!(rate.is_finite() && rate >= 0.0, "{rate}");
            }
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}
