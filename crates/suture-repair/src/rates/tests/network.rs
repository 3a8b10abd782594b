//! Estimates in a loop with plans made by them: a small network that shares ports fairly.

use super::*;
use crate::random::Random;

const NODES: usize = 12;
const FLOWS: usize = 150;
const FLOW_BYTES: f64 = 2e6;

/// Rates are settled anew so often in a second.
const STEPS: usize = 10;

/// From a node to another one, with what is left of it.
struct Flow {
    ends: [usize; 2],
    left: f64,
}

/// What each direction of each node carries: sent, received.
type DrawnLinks = [[f64; NODES]; 2];

fn uneven(random: &mut Random) -> DrawnLinks {
    let mut links = [[0.0; NODES]; 2];
    links.iter_mut().flatten().for_each(|link| *link = 1e6 + 4e6 * random.unit());
    links
}

/// One of the nodes, by these weights.
fn draw(random: &mut Random, weights: &[f64; NODES]) -> usize {
    let mut at = random.unit() * weights.iter().sum::<f64>();
    for (node, weight) in weights.iter().enumerate() {
        at -= weight;
        if at < 0.0 {
            return node;
        }
    }
    weights.iter().rposition(|weight| *weight > 0.0).expect("some node has a link")
}

/// The more a direction is thought to carry, the more it is given.
fn begin(random: &mut Random, rates: &Rates) -> Flow {
    let known: Vec<Node> = (0..NODES as u32).map(|node| rates.node(N(node))).collect();
    let from = draw(random, &std::array::from_fn(|node| known[node].uplink.0));
    let other = |node: usize| if node == from { 0.0 } else { known[node].downlink.0 };
    Flow { ends: [from, draw(random, &std::array::from_fn(other))], left: FLOW_BYTES }
}

/// Max-min fair rates: the port that is full first settles its flows, and so on.
fn shares(links: &DrawnLinks, flows: &[Flow]) -> Vec<f64> {
    let mut shares = vec![0.0; flows.len()];
    let mut rising: Vec<usize> = (0..flows.len()).collect();
    let mut free = *links;
    while !rising.is_empty() {
        let mut counts = [[0.0; NODES]; 2];
        for flow in &rising {
            (0..2).for_each(|to| counts[to][flows[*flow].ends[to]] += 1.0);
        }
        let ports = (0..2).flat_map(|to| (0..NODES).map(move |node| (to, node)));
        let busy = ports.filter(|(to, node)| counts[*to][*node] > 0.0);
        let level = |&(to, node): &(usize, usize)| free[to][node] / counts[to][node];
        let full = busy.min_by(|a, b| level(a).total_cmp(&level(b))).expect("flows have ports");
        let share = level(&full);
        for flow in rising.extract_if(.., |flow| flows[*flow].ends[full.0] == full.1) {
            shares[flow] = share;
            (0..2).for_each(|to| free[to][flows[flow].ends[to]] -= share);
        }
    }
    shares
}

/// A second passes, and every node reports. All flows have more to send all the time.
fn pass(random: &mut Random, links: &DrawnLinks, flows: &mut [Flow], rates: &mut Rates) {
    let mut moved = [[0.0; NODES]; 2];
    let mut pairs = [[0.0; NODES]; NODES];
    for _ in 0..STEPS {
        for (flow, share) in shares(links, flows).into_iter().enumerate() {
            let (bytes, [from, to]) = (share / STEPS as f64, flows[flow].ends);
            flows[flow].left -= bytes;
            moved[0][from] += bytes;
            moved[1][to] += bytes;
            pairs[from][to] += bytes;
            if flows[flow].left <= 0.0 {
                flows[flow] = begin(random, rates);
            }
        }
    }
    for (node, peers) in pairs.iter().enumerate() {
        let sent = peers.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0);
        let sent: Vec<(u32, u64, bool)> =
            sent.map(|(peer, bytes)| (peer as u32, *bytes as u64, true)).collect();
        rates.report(N(node as u32), &moving(&sent, moved[1][node] as u64));
    }
}

/// What each direction is thought to carry, as a part of what it does: the median, and the most.
fn found(links: &DrawnLinks, rates: &Rates) -> [f64; 2] {
    let parts = (0..NODES).flat_map(|node| {
        let known = rates.node(N(node as u32));
        [known.uplink.0 / links[0][node], known.downlink.0 / links[1][node]]
    });
    let mut parts: Vec<f64> = parts.collect();
    parts.sort_by(f64::total_cmp);
    [parts[parts.len() / 2], parts[parts.len() - 1]]
}

#[test]
fn most_links_are_known_after_seconds_whatever_they_were_taken_for() {
    for (seed, assumed) in [(1, 100e6), (2, 100e6), (3, 0.3e6), (4, 0.3e6)] {
        let random = &mut Random::new(seed);
        let links = uneven(random);
        let mut rates = Rates::default();
        for node in 0..NODES as u32 {
            rates.declare(N(node), Node::new(format!("n{node}"), Rate(assumed)));
            rates.report(N(node), &probed(&[]));
        }
        let mut flows: Vec<Flow> = (0..FLOWS).map(|_| begin(random, &rates)).collect();
        let mut seconds = |count: usize| {
            (0..count).for_each(|_| pass(random, &links, &mut flows, &mut rates));
            found(&links, &rates)
        };
        let [median, _] = seconds(8);
        assert!((0.8..1.4).contains(&median), "seed {seed}: {median} after some seconds");
        let [median, most] = seconds(32);
        assert!((0.9..1.3).contains(&median), "seed {seed}: {median}");
        assert!(most < 5.0, "seed {seed}: {most}");
    }
}
