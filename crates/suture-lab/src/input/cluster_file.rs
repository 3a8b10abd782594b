//! The cluster file: TOML with defaults, an optional core, and one table a node.
//!
//! Place: file -> [nodes, racks and rates] -> plan or simulate.
//! Unknown keys are refused, because a misspelt `uplink` would silently be the default. Every
//! refusal begins with `file:line`.
//!
//! What an operator says of a node stands beside its links: `drained = true` lets it help and take
//! no chunk, `excluded = true` neither, and `free` is the space that rebuilt chunks may take.
//! `cores` is how much of a processor it has for repair, at typical costs; without it processors
//! never hold anything up.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use suture_edge::bounded::read_text;
use suture_edge::error::bad_input;
use suture_edge::units::{format_link_rate, parse_rate, parse_size};
use suture_repair::cluster::{Cluster, Core, Node, Rate};
use suture_repair::id::NodeId;
use suture_repair::processor::{Processor, ProcessorCosts};
use toml::Spanned;

/// No cluster is longer: hundreds of thousands of nodes.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterToml {
    #[serde(default)]
    defaults: DefaultsToml,
    core: Option<CoreToml>,
    #[serde(default)]
    node: Vec<NodeToml>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DefaultsToml {
    uplink: Option<RateToml>,
    downlink: Option<RateToml>,
    disk_read: Option<RateToml>,
    disk_write: Option<RateToml>,
    cores: Option<CoresToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CoreToml {
    rack_uplink: RateToml,
    rack_downlink: RateToml,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeToml {
    name: Spanned<String>,
    rack: Option<String>,
    uplink: Option<RateToml>,
    downlink: Option<RateToml>,
    disk_read: Option<RateToml>,
    disk_write: Option<RateToml>,
    cores: Option<CoresToml>,
    foreground_uplink: Option<RateToml>,
    foreground_downlink: Option<RateToml>,
    #[serde(default)]
    drained: bool,
    #[serde(default)]
    excluded: bool,
    free: Option<SizeToml>,
}

/// A size such as `"10GiB"`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct SizeToml(u64);

impl TryFrom<String> for SizeToml {
    type Error = String;

    fn try_from(text: String) -> Result<SizeToml, String> {
        parse_size(&text).map(SizeToml)
    }
}

/// A rate such as `"200Mbit"`, above zero.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct RateToml(f64);

impl TryFrom<String> for RateToml {
    type Error = String;

    fn try_from(text: String) -> Result<RateToml, String> {
        parse_rate(&text).map(RateToml)
    }
}

/// How many cores, such as `2` or `0.5`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "f64")]
struct CoresToml(Processor);

impl TryFrom<f64> for CoresToml {
    type Error = String;

    fn try_from(cores: f64) -> Result<CoresToml, String> {
        of_cores(cores).map(CoresToml)
    }
}

/// A processor of so many cores, at typical costs.
///
/// # Errors
/// What is wrong with the number.
pub fn of_cores(cores: f64) -> Result<Processor, String> {
    Processor::new(cores, ProcessorCosts::TYPICAL).ok_or_else(|| {
        format!("{cores} is not a number of cores: give one above zero, for instance 2")
    })
}

/// What the file says.
#[derive(Default)]
pub struct ClusterFile {
    pub cluster: Cluster,
    /// Bytes of rebuilt chunks that each node may take.
    pub free_bytes: Vec<u64>,
    /// Nodes that take no part, ascending.
    pub excluded: Vec<NodeId>,
}

/// Reads the TOML of a cluster.
///
/// # Errors
/// Bad input with file and line: not readable, not TOML, or a node that cannot be.
pub fn read(path: &Path) -> Result<ClusterFile> {
    let text = File::open(path).and_then(|file| read_text(file, FILE_BYTES_MAX));
    let text =
        text.map_err(|error| bad_input(format!("cannot read {}: {error}", path.display())))?;
    parse(&text).map_err(|(at, message)| {
        let line = text[..at].matches('\n').count() + 1;
        bad_input(format!("{}:{line}: {message}", path.display()))
    })
}

/// The cluster, or where in the text it goes wrong and how.
fn parse(text: &str) -> Result<ClusterFile, (usize, String)> {
    let toml: ClusterToml = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        (at, error.message().to_string())
    })?;
    if toml.node.is_empty() {
        let message = "there is no node; add a table [[node]] with a name for each";
        return Err((text.len(), message.to_string()));
    }
    let ClusterFile { mut cluster, mut free_bytes, mut excluded } = ClusterFile::default();
    for node in &toml.node {
        let fault = |message: String| (node.name.span().start, message);
        let built = build_node(node, &toml.defaults, &mut cluster).map_err(fault)?;
        if cluster.find(&built.name).is_some() {
            return Err(fault(format!("there are two nodes '{}'; rename one", built.name)));
        }
        if toml.core.is_some() && built.rack.is_none() {
            let name = built.name;
            return Err(fault(format!("node '{name}' needs a rack, because there is a [core]")));
        }
        if node.excluded {
            excluded.push(NodeId(cluster.nodes.len() as u32));
        }
        let is_closed = node.drained || node.excluded;
        free_bytes.push(if is_closed { 0 } else { node.free.map_or(u64::MAX, |free| free.0) });
        cluster.nodes.push(built);
    }
    cluster.core = toml.core.map(|core| Core {
        rack_uplink: Rate(core.rack_uplink.0),
        rack_downlink: Rate(core.rack_downlink.0),
    });
    Ok(ClusterFile { cluster, free_bytes, excluded })
}

fn build_node(
    toml: &NodeToml,
    defaults: &DefaultsToml,
    cluster: &mut Cluster,
) -> Result<Node, String> {
    let name = toml.name.get_ref();
    // --failed takes names between commas, and trims them.
    if name.is_empty() || name.trim() != name || name.contains(',') {
        return Err(format!("'{name}' is not a name; use one without commas and outer spaces"));
    }
    let link = |own: Option<RateToml>, default: Option<RateToml>, key: &str| {
        let missing =
            || format!("node '{name}' has no {key}; give it one, or set one under [defaults]");
        own.or(default).map(|rate| Rate(rate.0)).ok_or_else(missing)
    };
    let disk =
        |own: Option<RateToml>, default: Option<RateToml>| own.or(default).map(|rate| Rate(rate.0));
    let uplink = link(toml.uplink, defaults.uplink, "uplink")?;
    let downlink = link(toml.downlink, defaults.downlink, "downlink")?;
    let taken = |foreground: Option<RateToml>, of: Rate, key: &str| {
        let rate = foreground.map_or(0.0, |rate| rate.0);
        if rate < of.0 {
            return Ok(Rate(rate));
        }
        Err(format!(
            "node '{name}': foreground_{key} leaves nothing of its {key}, {}; lower it",
            format_link_rate(of.0)
        ))
    };
    Ok(Node {
        name: name.clone(),
        rack: toml.rack.as_ref().map(|rack| cluster.rack(rack)),
        foreground_uplink: taken(toml.foreground_uplink, uplink, "uplink")?,
        foreground_downlink: taken(toml.foreground_downlink, downlink, "downlink")?,
        uplink,
        downlink,
        disk_read: disk(toml.disk_read, defaults.disk_read),
        disk_write: disk(toml.disk_write, defaults.disk_write),
        processor: toml.cores.or(defaults.cores).map(|CoresToml(processor)| processor),
    })
}
