//! `--straggler NODE:FACTOR[:FROM[..TO]]`: a node that becomes slow, unannounced; and which link a
//! repair waits for that gets nowhere.
//!
//! Place: before `[slices flow]`: which node will be slow.

use std::str::FromStr;

use anyhow::Result;
use suture_edge::error::bad_input;
use suture_edge::units::format_link_rate;
use suture_repair::cluster::Cluster;
use suture_repair::id::NodeId;
use suture_sim::capacity::{Capacities, Straggler};

/// The value of `--straggler`.
#[derive(Clone, Debug, PartialEq)]
pub struct StragglerArg {
    node: String,
    factor: f64,
    from: f64,
    to: f64,
}

impl FromStr for StragglerArg {
    type Err = String;

    fn from_str(text: &str) -> Result<StragglerArg, String> {
        let wrong = |what: &str| {
            format!("{what}; write NODE:FACTOR:FROM..TO, such as n3:0.1:5..60 (seconds)")
        };
        let mut parts = text.splitn(3, ':');
        let (Some(node), Some(factor)) = (parts.next().filter(|n| !n.is_empty()), parts.next())
        else {
            return Err(wrong("a node and what it keeps of its rates are needed"));
        };
        let number = |text: &str| text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0);
        let keeps = number(factor).filter(|factor| *factor <= 1.0);
        let factor =
            keeps.ok_or_else(|| wrong(&format!("'{factor}' is not a number from 0 to 1")))?;
        let times = parts.next().unwrap_or("0");
        let (from, to) = times.split_once("..").map_or((times, None), |(a, b)| (a, Some(b)));
        let time = |text| number(text).ok_or_else(|| wrong(&format!("'{text}' is not a time")));
        let (from, to) = (time(from)?, to.map(time).transpose()?.unwrap_or(f64::INFINITY));
        if to <= from {
            return Err(wrong(&format!("'{times}' ends before it begins")));
        }
        Ok(StragglerArg { node: node.to_string(), factor, from, to })
    }
}

/// The stragglers among the nodes of `cluster`.
///
/// # Errors
/// When the cluster has no such node.
pub fn find(stragglers: &[StragglerArg], cluster: &Cluster) -> Result<Vec<Straggler>> {
    let find = |arg: &StragglerArg| {
        let node = cluster.find(&arg.node).ok_or_else(|| {
            bad_input(format!("--straggler {}: the cluster has no such node", arg.node))
        })?;
        Ok(Straggler { node, factor: arg.factor, from: arg.from, to: arg.to })
    };
    stragglers.iter().map(find).collect()
}

/// The slowest link of the nodes that are left, once stragglers have begun and ended: in words.
pub fn slowest_link(
    capacities: &Capacities,
    stragglers: &[Straggler],
    failed: &[NodeId],
) -> Option<String> {
    let now = capacities.last_moment();
    let cluster = capacities.average(capacities.period().max(1) as f64);
    let factor = |id: NodeId| -> f64 {
        let slow = stragglers.iter().filter(|s| s.node == id && s.from <= now && now < s.to);
        slow.map(|straggler| straggler.factor).product()
    };
    let left = cluster.ids().filter(|id| !failed.contains(id));
    let links = left.flat_map(|id| {
        let (node, factor) = (cluster.node(id), factor(id));
        let links = [("uplink", node.uplink_free()), ("downlink", node.downlink_free())];
        links.map(|(kind, rate)| (rate.0.max(0.0) * factor, kind, id))
    });
    let (rate, kind, id) = links.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let why = if factor(id) < 1.0 { ", which is a straggler" } else { "" };
    let (name, rate) = (&cluster.node(id).name, format_link_rate(rate));
    Some(format!("the slowest link is the {kind} of {name}{why}, with {rate}"))
}

#[cfg(test)]
mod tests {
    use suture_repair::cluster::Rate;

    use super::*;

    #[test]
    fn the_link_that_holds_a_repair_up_is_named() {
        let mut cluster = Cluster::uniform(4, Rate(1e6));
        cluster.nodes[2].downlink = Rate(1e3);
        let capacities = |stragglers: &[Straggler]| {
            Capacities::new(cluster.clone(), None, None, stragglers.to_vec())
        };
        let slowest = |stragglers: &[Straggler], failed: &[u32]| {
            let failed: Vec<NodeId> = failed.iter().copied().map(NodeId).collect();
            slowest_link(&capacities(stragglers), stragglers, &failed)
        };
        let said = |kind: &str| Some(format!("the slowest link is the {kind}"));
        assert_eq!(slowest(&[], &[]), said("downlink of n2, with 8.00 kbit/s"));
        assert_eq!(slowest(&[], &[2]), said("uplink of n0, with 8.00 Mbit/s"));
        let slow = |to| Straggler { node: NodeId(3), factor: 0.0, from: 5.0, to };
        let stands = said("uplink of n3, which is a straggler, with 0 bit/s");
        assert_eq!(slowest(&[slow(f64::INFINITY)], &[]), stands);
        assert_eq!(slowest(&[slow(9.0)], &[]), said("downlink of n2, with 8.00 kbit/s"));
        assert_eq!(slowest(&[], &[0, 1, 2, 3]), None);
    }
}
