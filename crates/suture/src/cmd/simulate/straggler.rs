//! `--straggler NODE:FACTOR[:FROM[..TO]]`: a node that becomes slow, unannounced.
//!
//! Place: before `[slices flow]`: which node will be slow.

use std::str::FromStr;

use anyhow::Result;
use suture_edge::error::bad_input;
use suture_repair::cluster::Cluster;
use suture_sim::capacity::Straggler;

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
