//! What it costs at some prices to gather chunks of a stripe at one decoder.
//!
//! Place: beside `[plan]`, a part of the bound by the lanes of a stripe (`../lanes.rs`).
//! Every helper reads its chunk and sends it straight to the decoder, which sends each rebuilt
//! chunk straight to its destination. A decoder is a helper, which sends its own chunk nowhere, or
//! a node without a chunk of the stripe; if that is a destination, it sends one chunk less. So what
//! a set of helpers costs depends on nothing but the rack of the decoder, and what a decoder
//! receives on nothing but their number.

use crate::bound::crossing::priced::Costs;
use crate::bound::search::Amounts;

/// Chunks of a stripe that may be gathered together, and from which helpers.
pub(super) struct GatheredGroup {
    /// The lost chunks, by place: a bit each.
    pub chunks: u8,
    sets: Vec<GatherSet>,
    /// How many helpers sets have, each number once.
    sizes: Vec<usize>,
}

/// Helpers of a gather.
struct GatherSet {
    nodes: Vec<u32>,
    /// How many of them are in each rack.
    held: Vec<u8>,
    /// The place of their number among all.
    size: usize,
}

impl GatheredGroup {
    /// The group of these lost chunks; `rack` is that of a node, of so many.
    pub fn new(
        chunks: u8,
        sets: Vec<Vec<u32>>,
        rack_count: usize,
        rack: impl Fn(u32) -> u32,
    ) -> GatheredGroup {
        let mut sizes: Vec<usize> = sets.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let set = |nodes: Vec<u32>| {
            let mut held = vec![0; rack_count];
            nodes.iter().for_each(|node| held[rack(*node) as usize] += 1);
            let size = sizes.iter().position(|size| *size == nodes.len());
            GatherSet { size: size.expect("all sizes are known"), held, nodes }
        };
        let sets = sets.into_iter().map(set).collect();
        GatheredGroup { chunks, sets, sizes }
    }

    /// Prices that are looked at for so many racks and nodes without a chunk.
    pub fn comparisons(&self, rack_count: usize, decoders: usize) -> usize {
        let of_set = |set: &GatherSet| 2 * set.nodes.len() + rack_count;
        self.sets.iter().map(of_set).sum::<usize>() + self.sizes.len() * decoders
    }

    /// How many chunks are rebuilt.
    fn count(&self) -> f64 {
        f64::from(self.chunks.count_ones())
    }
}

/// Where chunks are gathered, and from which set of the group.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    /// What it costs until the decoder has all it needs.
    cost: f64,
    decoder: u32,
    set: usize,
}

const NOWHERE: Gathering = Gathering { cost: f64::INFINITY, decoder: 0, set: 0 };

/// What it costs at some prices to gather a group.
pub(super) struct PricedGather<'a> {
    group: &'a GatheredGroup,
    /// The cheapest decoder of each rack that sends all rebuilt chunks on, with what that costs its
    /// uplink.
    inside: Vec<Gathering>,
    /// For each rack and size the cheapest set, if it is decoded there, but for what the decoder
    /// receives.
    arriving: Vec<Gathering>,
}

impl<'a> PricedGather<'a> {
    /// `decoders` are nodes without a chunk of the stripe.
    pub fn new(group: &'a GatheredGroup, decoders: &[u32], costs: &Costs<'_>) -> PricedGather<'a> {
        let rack_count = group.sets.first().map_or(0, |set| set.held.len());
        let mut priced = PricedGather {
            group,
            inside: vec![NOWHERE; rack_count],
            arriving: vec![NOWHERE; rack_count * group.sizes.len()],
        };
        let links: Vec<(f64, f64)> = (0..rack_count as u32)
            .map(|rack| (costs.leaving(rack), costs.arriving(rack)))
            .collect();
        for (at, set) in group.sets.iter().enumerate() {
            priced.add(at, set, &links, costs);
        }
        for &decoder in decoders {
            let rack = costs.ports.rack(decoder) as usize;
            let forwarding = group.count() * costs.up(decoder);
            let gathering = priced.at(decoder, costs);
            priced.take(rack, Gathering { cost: gathering.cost + forwarding, ..gathering });
        }
        priced
    }

    /// Prices a set, decoded in any rack or at one of its helpers.
    fn add(&mut self, at: usize, set: &GatherSet, links: &[(f64, f64)], costs: &Costs<'_>) {
        let sending: f64 = set.nodes.iter().map(|node| costs.sending(*node)).sum();
        let leaving: f64 =
            links.iter().zip(&set.held).map(|(link, held)| link.0 * f64::from(*held)).sum();
        let in_rack = |rack: usize| {
            let held = f64::from(set.held[rack]);
            let others = set.nodes.len() as f64 - held;
            sending + leaving - links[rack].0 * held + links[rack].1 * others
        };
        let sizes = self.group.sizes.len();
        for (rack, known) in self.arriving[set.size..].iter_mut().step_by(sizes).enumerate() {
            let cost = in_rack(rack);
            if cost < known.cost {
                *known = Gathering { cost, decoder: 0, set: at };
            }
        }
        let others = set.nodes.len() as f64 - 1.0;
        for &decoder in &set.nodes {
            let rack = costs.ports.rack(decoder) as usize;
            // Rebuilt chunks are sent in place of its own.
            let forwarding = (self.group.count() - 1.0) * costs.up(decoder);
            let cost = in_rack(rack) + others * costs.down(decoder) + forwarding;
            self.take(rack, Gathering { cost, decoder, set: at });
        }
    }

    fn take(&mut self, rack: usize, gathering: Gathering) {
        if gathering.cost < self.inside[rack].cost {
            self.inside[rack] = gathering;
        }
    }

    /// The cheapest set for a decoder without a chunk.
    fn at(&self, decoder: u32, costs: &Costs<'_>) -> Gathering {
        let sizes = &self.group.sizes;
        let rack = costs.ports.rack(decoder) as usize;
        let arriving = self.arriving[rack * sizes.len()..].iter().zip(sizes);
        let gatherings = arriving.map(|(known, size)| {
            let cost = known.cost + *size as f64 * costs.down(decoder);
            Gathering { cost, decoder, ..*known }
        });
        gatherings.reduce(|a, b| if b.cost < a.cost { b } else { a }).unwrap_or(NOWHERE)
    }

    /// The cheapest gathering whose chunks go to these nodes, and what it costs with all that is
    /// written.
    fn cheapest(&self, kept: &[u32], costs: &Costs<'_>) -> Gathering {
        let to = |rack: u32, node: u32| match costs.ports.rack(node) {
            other if other == rack => costs.down(node),
            other => costs.down(node) + costs.leaving(rack) + costs.arriving(other),
        };
        let mut best = NOWHERE;
        for (rack, inside) in (0..).zip(&self.inside) {
            let sent: f64 = kept.iter().map(|node| to(rack, *node)).sum();
            if inside.cost + sent < best.cost {
                best = Gathering { cost: inside.cost + sent, ..*inside };
            }
        }
        for &decoder in kept {
            let gathering = self.at(decoder, costs);
            let others = kept.iter().filter(|node| **node != decoder);
            let rack = costs.ports.rack(decoder);
            let sent: f64 = others.map(|node| costs.up(decoder) + to(rack, *node)).sum();
            if gathering.cost + sent < best.cost {
                best = Gathering { cost: gathering.cost + sent, ..gathering };
            }
        }
        let written: f64 = kept.iter().map(|node| costs.write(*node)).sum();
        Gathering { cost: best.cost + written, ..best }
    }

    /// What the cheapest gathering costs whose chunks go to these nodes, for each byte.
    pub fn cost(&self, kept: &[u32], costs: &Costs<'_>) -> f64 {
        self.cheapest(kept, costs).cost
    }

    /// Puts that gathering of so many bytes on `loads`.
    pub fn put(&self, kept: &[u32], bytes: f64, costs: &Costs<'_>, loads: &mut Amounts) {
        let Gathering { decoder, set, .. } = self.cheapest(kept, costs);
        let ports = costs.ports;
        let mut send = |from: u32, to: u32| {
            if from == to {
                return;
            }
            let links = ports.crossing(from, to).into_iter().flatten();
            links.chain([ports.up(from), ports.down(to)]).for_each(|port| loads.add(port, bytes));
        };
        let helpers = &self.group.sets[set].nodes;
        helpers.iter().for_each(|node| send(*node, decoder));
        kept.iter().for_each(|node| send(decoder, *node));
        helpers.iter().for_each(|node| loads.add(ports.read(*node), bytes));
        kept.iter().for_each(|node| loads.add(ports.write(*node), bytes));
    }
}
