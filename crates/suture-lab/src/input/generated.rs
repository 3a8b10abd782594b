//! A made-up cluster: equal or random links, racks of equal size, stripes at random places.
//!
//! Place: arguments -> [a cluster and placement] -> plan or simulate.
//! With racks, no rack gets more chunks of a stripe than the code can lose (or than it must, with
//! few racks), so that a stripe survives the loss of a rack, as HDFS and Ceph place them. It can
//! from 1 + ceil(k / m) racks on: Theorem 2 of CAR (TDSC, section 4.4) for the loss of one.
//! Same seed, same cluster; links and places draw from streams of their own, so that another
//! bandwidth does not move the stripes.

use std::str::FromStr;

use anyhow::Result;
use suture_code::Code;
use suture_edge::error::bad_input;
use suture_edge::units::parse_rate;
use suture_repair::cluster::{Cluster, Core, Node, Rate};
use suture_repair::id::{NodeId, RackId};
use suture_repair::processor::Processor;
use suture_repair::random::Random;

/// More than any cluster has, and what still fits memory.
const NODES_MAX: usize = 100_000;
const STRIPES_MAX: usize = 10_000_000;

/// What to make up.
pub struct Shape {
    /// How many nodes the cluster has.
    pub nodes: usize,
    /// How many stripes are placed on them at random.
    pub stripes: usize,
    /// How many racks they stand in, in turn; `None`: there are none.
    pub racks: Option<usize>,
    /// How often the links of a rack's nodes go into its uplink; `None`: racks have no limit.
    pub oversubscription: Option<f64>,
    /// What the links of nodes carry.
    pub bandwidth: Bandwidth,
    /// What the processor of each node costs; `None`: nothing.
    pub processor: Option<Processor>,
}

/// The rates of links, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bandwidth {
    /// Every link carries so many bytes a second.
    Equal(f64),
    /// Uniform between two rates, uplink and downlink apart.
    Uniform(f64, f64),
    /// Uniform between two rates, uplink and downlink of a node equal.
    UniformSame(f64, f64),
}

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let Some(range) = text.strip_prefix("uniform:") else {
            return parse_rate(text).map(Bandwidth::Equal);
        };
        let (range, is_same) = match range.strip_suffix(":same") {
            Some(range) => (range, true),
            None => (range, false),
        };
        let (low, high) = range.split_once("..").ok_or_else(|| {
            format!("'{text}' is not a range of rates: write uniform:100Mbit..1Gbit")
        })?;
        let (low, high) = (parse_rate(low)?, parse_rate(high)?);
        if low > high {
            return Err(format!("'{text}' goes from the higher rate to the lower: swap them"));
        }
        Ok(if is_same { Bandwidth::UniformSame(low, high) } else { Bandwidth::Uniform(low, high) })
    }
}

/// The cluster, and the node of each chunk, stripe after stripe.
///
/// # Errors
/// Bad input when racks or stripes do not fit the nodes.
pub fn generate(shape: &Shape, code: Code, seed: u64) -> Result<(Cluster, Vec<NodeId>)> {
    check(shape)?;
    let mut seeds = Random::new(seed);
    let (mut links, mut places) = (Random::new(seeds.next_u64()), Random::new(seeds.next_u64()));
    let cluster = draw_cluster(shape, &mut links);
    let placement = place(&cluster, code, shape.stripes, &mut places);
    Ok((cluster, placement))
}

/// The node of each chunk of so many stripes, one after the other, at random places.
pub fn place(cluster: &Cluster, code: Code, stripes: usize, random: &mut Random) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = cluster.ids().collect();
    let stripe = |_| generate_stripe(cluster, code, &mut nodes, random);
    (0..stripes).flat_map(stripe).collect()
}

/// The cluster alone.
///
/// # Errors
/// Bad input when racks do not fit the nodes.
pub fn generate_cluster(shape: &Shape, seed: u64) -> Result<Cluster> {
    check(shape)?;
    let links = Random::new(seed).next_u64();
    Ok(draw_cluster(shape, &mut Random::new(links)))
}

fn check(shape: &Shape) -> Result<()> {
    for (option, found, max) in
        [("--nodes", shape.nodes, NODES_MAX), ("--stripes", shape.stripes, STRIPES_MAX)]
    {
        if found > max {
            return Err(bad_input(format!("{option} {found} is too many: at most {max}")));
        }
    }
    if shape.racks.is_some_and(|racks| racks == 0 || racks > shape.nodes) {
        return Err(bad_input(format!(
            "--racks {} does not fit {} nodes: each rack needs at least one",
            shape.racks.unwrap_or_default(),
            shape.nodes
        )));
    }
    if shape.oversubscription.is_some_and(|factor| !(factor > 0.0 && factor.is_finite())) {
        return Err(bad_input("--oversubscription must be above zero, for instance 5"));
    }
    Ok(())
}

fn draw_cluster(shape: &Shape, random: &mut Random) -> Cluster {
    let mut nodes = Vec::with_capacity(shape.nodes);
    for index in 0..shape.nodes {
        let (uplink, downlink) = draw_links(shape.bandwidth, random);
        let rack = shape.racks.map(|racks| RackId((index * racks / shape.nodes) as u32));
        nodes.push(Node {
            rack,
            downlink: Rate(downlink),
            processor: shape.processor,
            ..Node::new(format!("n{index}"), Rate(uplink))
        });
    }
    let racks = shape.racks.unwrap_or(0);
    let core = shape.oversubscription.map(|factor| oversubscribed(&nodes, racks, factor));
    let racks = (0..racks).map(|rack| format!("r{rack}")).collect();
    Cluster { nodes, racks, core, ..Cluster::default() }
}

/// The links of racks that carry a rack's share of what all nodes together can move, divided by
/// `factor`.
pub fn oversubscribed(nodes: &[Node], racks: usize, factor: f64) -> Core {
    let share =
        |rate: fn(&Node) -> f64| Rate(nodes.iter().map(rate).sum::<f64>() / racks as f64 / factor);
    Core { rack_uplink: share(|n| n.uplink.0), rack_downlink: share(|n| n.downlink.0) }
}

fn draw_links(bandwidth: Bandwidth, random: &mut Random) -> (f64, f64) {
    let mut draw = |low: f64, high: f64| low + (high - low) * random.unit();
    match bandwidth {
        Bandwidth::Equal(rate) => (rate, rate),
        Bandwidth::Uniform(low, high) => (draw(low, high), draw(low, high)),
        Bandwidth::UniformSame(low, high) => {
            let rate = draw(low, high);
            (rate, rate)
        }
    }
}

/// Distinct nodes for one stripe. `nodes` holds all nodes in whatever order and is shuffled on.
fn generate_stripe(
    cluster: &Cluster,
    code: Code,
    nodes: &mut [NodeId],
    random: &mut Random,
) -> Vec<NodeId> {
    let rack_count = cluster.racks.len().max(1);
    let fair_share = code.chunk_count().div_ceil(rack_count);
    let per_rack_max = code.loss_tolerance().max(fair_share);
    let mut in_rack = vec![0; cluster.racks.len()];
    let mut chosen = Vec::with_capacity(code.chunk_count());
    // A Fisher-Yates shuffle that stops when there are enough.
    for drawn in 0..nodes.len() {
        let pick = drawn + random.index(nodes.len() - drawn);
        nodes.swap(drawn, pick);
        if let Some(rack) = cluster.node(nodes[drawn]).rack {
            if in_rack[rack.0 as usize] == per_rack_max {
                continue;
            }
            in_rack[rack.0 as usize] += 1;
        }
        chosen.push(nodes[drawn]);
        if chosen.len() == code.chunk_count() {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use suture_repair::planner::route::balance::car::rack_counts;

    use super::*;

    #[test]
    fn bandwidths_read_as_people_write_them() {
        assert_eq!("1Gbit".parse(), Ok(Bandwidth::Equal(125e6)));
        assert_eq!("uniform:80Mbit..1Gbit".parse(), Ok(Bandwidth::Uniform(10e6, 125e6)));
        assert_eq!("uniform:80Mbit..80Mbit:same".parse(), Ok(Bandwidth::UniformSame(10e6, 10e6)));
        for (text, reason) in [
            ("0Mbit", "above zero"),
            ("uniform:1Gbit", "write uniform:100Mbit..1Gbit"),
            ("uniform:1Gbit..1Mbit", "swap them"),
            ("normal:1Gbit", "not a rate"),
        ] {
            let error = text.parse::<Bandwidth>().unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn as_many_racks_as_the_theorem_asks_for_are_enough_and_fewer_are_not() {
        for (name, data, parity) in
            [("rs(6,3)", 6, 3), ("rs(10,4)", 10, 4), ("rs(3,2)", 3, 2), ("rs(4,4)", 4, 4)]
        {
            let code: Code = name.parse().unwrap();
            let needed = rack_counts(data, parity, 1).unwrap().len();
            for racks in [needed - 1, needed, needed + 2] {
                let shape = Shape {
                    nodes: racks * (data + parity),
                    stripes: 50,
                    racks: Some(racks),
                    oversubscription: None,
                    bandwidth: Bandwidth::Equal(1.0),
                    processor: None,
                };
                let (cluster, placement) = generate(&shape, code, 3).unwrap();
                let survives = |nodes: &[NodeId], rack: usize| {
                    let lives =
                        |node: &NodeId| cluster.node(*node).rack != Some(RackId(rack as u32));
                    let left = code.chunks().zip(nodes).filter(|(_, node)| lives(node));
                    code.decodable(&left.map(|(chunk, _)| chunk).collect::<Vec<_>>())
                };
                for nodes in placement.chunks(code.chunk_count()) {
                    let survives_all = (0..racks).all(|rack| survives(nodes, rack));
                    assert_eq!(survives_all, racks >= needed, "{name} in {racks} racks");
                }
            }
        }
    }

    #[test]
    fn a_stripe_survives_the_loss_of_a_rack() {
        let shape = Shape {
            nodes: 20,
            stripes: 200,
            racks: Some(5),
            oversubscription: Some(4.0),
            bandwidth: Bandwidth::Equal(100.0),
            processor: None,
        };
        let code: Code = "rs(6,3)".parse().unwrap();
        let (cluster, placement) = generate(&shape, code, 1).unwrap();
        assert_eq!(cluster.core.unwrap().rack_uplink, Rate(100.0));
        assert_eq!(placement.len(), 200 * 9);
        for nodes in placement.chunks(9) {
            for rack in 0..5 {
                let in_rack = |node: &&NodeId| cluster.node(**node).rack == Some(RackId(rack));
                assert!(nodes.iter().filter(in_rack).count() <= 3);
            }
        }
    }
}
