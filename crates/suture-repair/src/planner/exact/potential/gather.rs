//! The cheapest way to gather chunks, or what the code asks for of them, at one decoder.
//!
//! Place: `[plan]`, a choice of the potential planner for several losses and for codes with
//! sub-chunks. Any destination may decode, and any helper, which then sends finished chunks in
//! place of its own; in mixtures of small batches any other node, too.

use crate::planner::View;
use crate::planner::exact::potential::arborescence::{RelayLoad, relays};
use crate::planner::exact::potential::option::{
    Decoder, HelperShare, PricedPart, RepairOption, free_helpers,
};
use crate::planner::exact::potential::ports::{PortIndex, PricedPorts};

/// The charges of helpers that send to a decoder, which sends finished chunks on.
pub(super) fn each_charge(
    item: &PricedPart<'_>,
    helpers: &[u8],
    decoder: Decoder,
    destinations: &[u32],
    ports: &PricedPorts<'_>,
    mut charge: impl FnMut(PortIndex, f64),
) {
    let at = decoder.node(&item.holders, destinations);
    let mut received = 0.0;
    for &place in helpers {
        let HelperShare { sent, read } = item.share(usize::from(place));
        let node = item.holders[usize::from(place)];
        if ports.have_disks() {
            charge(ports.read(node), read);
        }
        if node != at {
            charge(ports.up(node), sent);
            received += sent;
            for link in ports.crossing(node, at).into_iter().flatten() {
                charge(link, sent);
            }
        }
    }
    charge(ports.down(at), received);
    for &node in destinations.iter().filter(|node| **node != at) {
        charge(ports.up(at), item.length);
        charge(ports.down(node), item.length);
        for link in ports.crossing(at, node).into_iter().flatten() {
            charge(link, item.length);
        }
    }
}

/// The cheapest gather for these destinations, and its cost; helpers are those that send most
/// cheaply, wherever it is decoded.
pub(super) fn cheapest(
    item: &PricedPart<'_>,
    destinations: &[u32],
    may_forward: bool,
    ports: &PricedPorts<'_>,
) -> (f64, RepairOption) {
    cheapest_within(item, destinations, may_forward, None, ports)
}

/// The cheapest gather where racks have links: helpers are chosen for the rack of the decoder.
pub(super) fn cheapest_in_racks(
    item: &PricedPart<'_>,
    destinations: &[u32],
    may_forward: bool,
    ports: &PricedPorts<'_>,
) -> (f64, RepairOption) {
    let racks = decoding_racks(item, destinations, may_forward, ports).into_iter();
    let gathers =
        racks.map(|rack| cheapest_within(item, destinations, may_forward, Some(rack), ports));
    gathers.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a destination may decode")
}

/// Racks of helpers, beside those of destinations, in which a decoder is looked for.
const DECODING_RACKS_MAX: usize = 4;

/// The racks in which a decoder may be the cheapest: those of destinations, and of helpers those
/// that hold most of them.
fn decoding_racks(
    item: &PricedPart<'_>,
    destinations: &[u32],
    may_forward: bool,
    ports: &PricedPorts<'_>,
) -> Vec<u32> {
    let mut racks: Vec<u32> = destinations.iter().map(|node| ports.rack(*node)).collect();
    let mut held: Vec<(usize, u32)> = Vec::new();
    for rack in item.holders.iter().filter(|_| may_forward).map(|node| ports.rack(*node)) {
        match held.iter_mut().find(|(_, known)| *known == rack) {
            Some((count, _)) => *count += 1,
            None => held.push((1, rack)),
        }
    }
    held.sort_unstable_by(|a, b| b.cmp(a));
    racks.extend(held.into_iter().take(DECODING_RACKS_MAX).map(|(_, rack)| rack));
    racks.sort_unstable();
    racks.dedup();
    racks
}

/// The cheapest gather whose decoder is in a rack, if one is given; an infinite cost where no node
/// may decode there.
fn cheapest_within(
    item: &PricedPart<'_>,
    destinations: &[u32],
    may_forward: bool,
    rack: Option<u32>,
    ports: &PricedPorts<'_>,
) -> (f64, RepairOption) {
    let helpers = cheapest_helpers(item, rack, ports);
    let gather = Gather::new(item, destinations, &helpers, ports);
    let decoders = (0..destinations.len()).map(|place| Decoder::Destination(place as u8));
    let able = helpers.iter().filter(|_| may_forward);
    let decoders = decoders.chain(able.map(|place| Decoder::Helper(*place as u8)));
    let mut best = (f64::INFINITY, Decoder::Destination(0));
    for decoder in decoders {
        let node = decoder.node(&item.holders, destinations);
        if rack.is_some_and(|rack| ports.rack(node) != rack) {
            continue;
        }
        let cost = gather.decoding(decoder);
        if cost < best.0 {
            best = (cost, decoder);
        }
    }
    let cost = best.0 + gather.helping_and_writing();
    let helpers = helpers.into_iter().map(|place| place as u8).collect();
    (cost, RepairOption::Gather { helpers, decoder: best.1 })
}

/// All forced helpers, and the cheapest others that the code takes for a decoder in a rack.
fn cheapest_helpers(
    item: &PricedPart<'_>,
    rack: Option<u32>,
    ports: &PricedPorts<'_>,
) -> Vec<usize> {
    let crossing = |place: usize| {
        let from = ports.rack(item.holders[place]);
        let links = rack.filter(|rack| *rack != from).map(|to| (from, to));
        let links = links.and_then(|(from, to)| Some([ports.rack_up(from)?, ports.rack_down(to)?]));
        let links = links.into_iter().flatten();
        links.map(|link| ports.cost(link, item.share(place).sent)).sum::<f64>()
    };
    let mut free: Vec<(f64, usize)> = (item.forced()..item.holders.len())
        .map(|place| (share_cost(item, place, ports) + crossing(place), place))
        .collect();
    // Forced helpers are in every set.
    let cost = |place: usize| place.checked_sub(item.forced()).map_or(0.0, |at| free[at].0);
    if let Some(set) = cheapest_set(item, None, cost) {
        return set;
    }
    free.sort_by(|a, b| a.0.total_cmp(&b.0));
    let free = free_helpers(item, free.into_iter().map(|(_, place)| place).collect());
    (0..item.forced()).chain(free).collect()
}

/// The set of helpers that costs least in all, with one of them that has to be in it; `None` where
/// the code's sets are not known (`PricedPart::known_sets`).
fn cheapest_set(
    item: &PricedPart<'_>,
    with: Option<usize>,
    cost: impl Fn(usize) -> f64,
) -> Option<Vec<usize>> {
    if item.known_sets.is_empty() {
        return None;
    }
    let sets = item.known_sets.iter();
    let sets = sets.filter(|set| with.is_none_or(|with| set.contains(&with)));
    let costs: Vec<f64> = (0..item.holders.len()).map(cost).collect();
    let priced = sets.map(|set| (set.iter().map(|place| costs[*place]).sum::<f64>(), set));
    priced.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, set)| set.clone())
}

/// What else a decoder does for the stripe.
#[derive(Clone, Copy, PartialEq)]
enum DecoderKind {
    Destination,
    /// The helper of this place.
    Helper(usize),
    Relay,
}

/// A decoder with the helpers that send to it most cheaply, at prices that do not grow.
pub(super) struct Decoding {
    pub at: u32,
    kind: DecoderKind,
    helpers: Vec<u8>,
    /// What it costs until chunks are decoded.
    cost: f64,
}

impl Decoding {
    /// The decoding at each of these destinations and, if others may decode, at every helper and at
    /// relays, which are only as good as those in their racks.
    pub fn all(
        item: &PricedPart<'_>,
        destinations: &[u32],
        view: &View<'_>,
        ports: &PricedPorts<'_>,
    ) -> Vec<Decoding> {
        let may_forward = view.abilities.finished;
        let helpers = (0..item.holders.len()).filter(|_| may_forward);
        let helpers = helpers.map(|place| (item.holders[place], DecoderKind::Helper(place)));
        let decoders = destinations.iter().map(|node| (*node, DecoderKind::Destination));
        let relays = if may_forward {
            Decoding::relays(item, destinations, view, ports)
        } else {
            Vec::new()
        };
        let relays = relays.into_iter().map(|node| (node, DecoderKind::Relay));
        let decoders = decoders.chain(helpers).chain(relays);
        decoders.filter_map(|(at, kind)| Decoding::new(item, at, kind, ports)).collect()
    }

    /// Nodes without a chunk of the stripe that may decode.
    fn relays(
        item: &PricedPart<'_>,
        destinations: &[u32],
        view: &View<'_>,
        ports: &PricedPorts<'_>,
    ) -> Vec<u32> {
        let job = &item.request.job;
        let nodes = view.cluster.ids().filter(|node| job.may_be_kept_by(*node, view));
        let helpers = 0..item.wanted().min(item.holders.len());
        let received = helpers.map(|place| item.share(place).sent).sum();
        let sent = item.part.lost.len() as f64 * item.length;
        relays(item, destinations, nodes, RelayLoad { received, sent }, ports)
    }

    fn new(
        item: &PricedPart<'_>,
        at: u32,
        kind: DecoderKind,
        ports: &PricedPorts<'_>,
    ) -> Option<Decoding> {
        let own = match kind {
            DecoderKind::Helper(place) => Some(place),
            DecoderKind::Destination | DecoderKind::Relay => None,
        };
        let cost = |place: usize| {
            let (node, HelperShare { sent, read }) = (item.holders[place], item.share(place));
            let reading = ports.cost(ports.read(node), read);
            if own == Some(place) {
                return reading;
            }
            let links = ports.crossing(node, at).into_iter().flatten();
            let links = links.chain([ports.up(node), ports.down(at)]);
            reading + links.map(|link| ports.cost(link, sent)).sum::<f64>()
        };
        let mut free: Vec<usize> = (item.forced()..item.holders.len()).collect();
        let helpers = match cheapest_set(item, own, cost) {
            Some(helpers) => helpers,
            None if item.part.any => {
                // The decoder first, then those that cost least.
                let key = |place: &usize| (own != Some(*place), cost(*place));
                free.sort_by(|a, b| key(a).partial_cmp(&key(b)).expect("prices are numbers"));
                (0..item.forced()).chain(free.into_iter().take(item.part.count)).collect()
            }
            None => return None,
        };
        let helps = own.is_none_or(|own| helpers.contains(&own));
        helps.then(|| Decoding {
            at,
            kind,
            cost: helpers.iter().map(|place| cost(*place)).sum(),
            helpers: helpers.into_iter().map(|place| place as u8).collect(),
        })
    }

    /// What it costs to send a finished chunk to a destination, and there to write it.
    pub fn finishing(&self, item: &PricedPart<'_>, node: u32, ports: &PricedPorts<'_>) -> f64 {
        let writing = ports.cost(ports.write(node), item.length);
        if node == self.at {
            return writing;
        }
        let links = ports.crossing(self.at, node).into_iter().flatten();
        let links = links.chain([ports.up(self.at), ports.down(node)]);
        writing + links.map(|link| ports.cost(link, item.length)).sum::<f64>()
    }

    /// Whether a destination decodes.
    pub fn is_destination(&self) -> bool {
        self.kind == DecoderKind::Destination
    }

    /// What all costs for these destinations.
    pub fn cost(
        &self,
        item: &PricedPart<'_>,
        destinations: &[u32],
        ports: &PricedPorts<'_>,
    ) -> f64 {
        self.cost + destinations.iter().map(|node| self.finishing(item, *node, ports)).sum::<f64>()
    }

    /// The gather for these destinations; `None` where one of them decodes that is none of these.
    pub fn gather(self, destinations: &[u32]) -> Option<RepairOption> {
        let decoder = match self.kind {
            DecoderKind::Helper(place) => Decoder::Helper(place as u8),
            DecoderKind::Relay => Decoder::Relay(self.at),
            DecoderKind::Destination => {
                Decoder::Destination(destinations.iter().position(|node| *node == self.at)? as u8)
            }
        };
        Some(RepairOption::Gather { helpers: self.helpers, decoder })
    }
}

/// What it costs a helper to read and send its share.
fn share_cost(item: &PricedPart<'_>, place: usize, ports: &PricedPorts<'_>) -> f64 {
    let (node, HelperShare { sent, read }) = (item.holders[place], item.share(place));
    ports.cost(ports.up(node), sent) + ports.cost(ports.read(node), read)
}

/// Helpers and destinations that want a decoder.
struct Gather<'a> {
    item: &'a PricedPart<'a>,
    destinations: &'a [u32],
    helpers: &'a [usize],
    ports: &'a PricedPorts<'a>,
    /// What all helpers send, in lengths of the longest chunk.
    sent: f64,
    /// What it costs all destinations to receive their chunks.
    receiving: f64,
}

impl<'a> Gather<'a> {
    fn new(
        item: &'a PricedPart<'a>,
        destinations: &'a [u32],
        helpers: &'a [usize],
        ports: &'a PricedPorts<'a>,
    ) -> Gather<'a> {
        let sent = helpers.iter().map(|place| item.share(*place).sent).sum();
        let receiving =
            destinations.iter().map(|node| ports.cost(ports.down(*node), item.length)).sum();
        Gather { item, destinations, helpers, ports, sent, receiving }
    }

    /// What is the same for all decoders.
    fn helping_and_writing(&self) -> f64 {
        let helping = self.helpers.iter().map(|place| share_cost(self.item, *place, self.ports));
        let writing = self.destinations.iter().map(|node| self.cost(self.ports.write(*node), 1.0));
        helping.sum::<f64>() + writing.sum::<f64>()
    }

    /// What it costs to receive everything at a decoder and to send finished chunks from there.
    fn decoding(&self, decoder: Decoder) -> f64 {
        let (item, ports) = (self.item, self.ports);
        let (sent, receiving) = (self.sent, self.receiving);
        let chunks = self.destinations.len() as f64;
        let (node, cost) = match decoder {
            Decoder::Destination(place) => {
                let node = self.destinations[usize::from(place)];
                let others = receiving - self.cost(ports.down(node), 1.0);
                let decoding = ports.cost(ports.down(node), sent);
                (node, others + decoding + self.cost(ports.up(node), chunks - 1.0))
            }
            Decoder::Helper(place) => {
                let node = item.holders[usize::from(place)];
                let own = item.share(usize::from(place)).sent;
                // Finished chunks are sent in place of its own.
                let sending = self.cost(ports.up(node), chunks) - ports.cost(ports.up(node), own);
                (node, receiving + ports.cost(ports.down(node), sent - own) + sending)
            }
            Decoder::Relay(node) => {
                let decoding = ports.cost(ports.down(node), sent);
                (node, receiving + decoding + self.cost(ports.up(node), chunks))
            }
        };
        cost + self.crossing(node)
    }

    /// What it costs to cross between racks, into a decoder and from there.
    fn crossing(&self, decoder: u32) -> f64 {
        let mut links: Vec<(PortIndex, f64)> = Vec::new();
        let mut charge = |from: u32, to: u32, amount: f64| {
            for link in self.ports.crossing(from, to).into_iter().flatten() {
                match links.iter_mut().find(|(known, _)| *known == link) {
                    Some((_, sum)) => *sum += amount,
                    None => links.push((link, amount)),
                }
            }
        };
        for place in self.helpers {
            charge(self.item.holders[*place], decoder, self.item.share(*place).sent);
        }
        self.destinations.iter().for_each(|node| charge(decoder, *node, self.item.length));
        links.into_iter().map(|(link, amount)| self.ports.cost(link, amount)).sum()
    }

    /// What so many chunks cost at a port.
    fn cost(&self, port: PortIndex, chunks: f64) -> f64 {
        self.ports.cost(port, chunks * self.item.length)
    }
}
