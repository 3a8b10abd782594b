//! Traces: what a scheme puts on which port, the cheapest scheme, and the decoders.
//!
//! Place: `[plan]`, a choice of the potential planner where the code has trace schemes. All helpers
//! of a scheme send a few bits for each byte; any helper may decode a range, and then sends whole
//! bytes instead of its own bits. As all traces of a range meet at its decoder, decoding weighs on
//! downlinks as much as everything else together, so it is shared out finely: each share goes where
//! it costs least after those before it.

use crate::planner::exact::potential::option::{
    CandidateScheme, CandidateSchemes, Decoder, PricedPart, Prices, RepairOption, SHARES,
};
use crate::planner::exact::potential::ports::{PRICE_MAX, PortGrowth, PortIndex, PricedPorts};
use crate::planner::ports::PortWork;

/// The charges of a scheme whose decoding is shared out.
pub(super) fn each_charge(
    item: &PricedPart<'_>,
    candidate: &CandidateScheme,
    decoders: &[(Decoder, u8)],
    root: u32,
    ports: &PricedPorts<'_>,
    mut charge: impl FnMut(PortIndex, f64),
) {
    let eighth = item.length / 8.0;
    for (place, &bits) in candidate.bits.iter().enumerate().filter(|(_, bits)| **bits > 0) {
        let node = item.holders[place];
        charge(ports.up(node), f64::from(bits) * eighth);
        if ports.have_disks() {
            charge(ports.read(node), item.length);
        }
    }
    let mut at_root = 8.0 * eighth;
    for &(decoder, shares) in decoders {
        let part = f64::from(shares) / f64::from(SHARES);
        if ports.have_processors() {
            each_trace_work(item, candidate, decoder, part * eighth, root, ports, &mut charge);
        }
        let at = match decoder {
            Decoder::Destination(_) => {
                at_root += part * (f64::from(candidate.total) - 8.0) * eighth;
                root
            }
            Decoder::Helper(place) => {
                let (node, own) =
                    (item.holders[usize::from(place)], candidate.bits[usize::from(place)]);
                charge(ports.up(node), part * f64::from(8 - own) * eighth);
                charge(ports.down(node), part * (candidate.total - u32::from(own)) as f64 * eighth);
                node
            }
            Decoder::Relay(node) => {
                charge(ports.up(node), part * 8.0 * eighth);
                charge(ports.down(node), part * f64::from(candidate.total) * eighth);
                node
            }
        };
        if ports.have_racks() {
            each_crossing(item, candidate, at, root, part * eighth, ports, &mut charge);
        }
    }
    charge(ports.down(root), at_root);
}

/// What traces bring to processors beyond other bytes: to those of the helpers that send them to
/// one decoder, and to the decoder's.
fn each_trace_work(
    item: &PricedPart<'_>,
    candidate: &CandidateScheme,
    decoder: Decoder,
    eighth: f64,
    root: u32,
    ports: &PricedPorts<'_>,
    charge: &mut impl FnMut(PortIndex, f64),
) {
    let at = decoder.node(&item.holders, &[root]);
    let mut charge = |of: Option<PortWork>, amount: f64| {
        if let Some(PortWork { processor, work }) = of {
            charge(processor, work * amount);
        }
    };
    let mut received = 0.0;
    for (node, bits) in item.holders.iter().zip(&candidate.bits).filter(|(node, _)| **node != at) {
        charge(ports.trace_work(*node), f64::from(*bits) * eighth);
        received += f64::from(*bits) * eighth;
    }
    charge(ports.decoding_work(at), received);
}

/// The links between racks that traces take to one decoder, and the finished bytes from there.
fn each_crossing(
    item: &PricedPart<'_>,
    candidate: &CandidateScheme,
    at: u32,
    root: u32,
    eighth: f64,
    ports: &PricedPorts<'_>,
    charge: &mut impl FnMut(PortIndex, f64),
) {
    let sent = candidate.bits.iter().zip(&item.holders).map(|(bits, node)| (*node, at, *bits));
    for (from, to, bits) in sent.chain([(at, root, 8)]).filter(|(.., bits)| *bits > 0) {
        for link in ports.crossing(from, to).into_iter().flatten() {
            charge(link, f64::from(bits) * eighth);
        }
    }
}

/// What these links cost where there are any, by the decoder's rack.
fn crossing_price(
    item: &PricedPart<'_>,
    candidate: &CandidateScheme,
    at: u32,
    root: u32,
    eighth: f64,
    ports: &PricedPorts<'_>,
    known: &mut Vec<(u32, f64)>,
) -> f64 {
    let rack = ports.rack(at);
    if let Some((_, price)) = known.iter().find(|(known, _)| *known == rack) {
        return *price;
    }
    let mut price = 0.0;
    each_crossing(item, candidate, at, root, eighth, ports, &mut |link, amount| {
        price += ports.cost(link, amount);
    });
    known.push((rack, price));
    price
}

/// The cheapest traces into a destination, if any cost less than `limit`.
pub(super) fn cheapest(
    item: &PricedPart<'_>,
    candidates: &CandidateSchemes,
    root: u32,
    ports: &PricedPorts<'_>,
    prices: &mut Prices,
    limit: f64,
) -> Option<(f64, RepairOption)> {
    // Decoding costs about the same for all schemes: what they send decides.
    let mut best = (f64::INFINITY, 0);
    for (index, candidate) in candidates.schemes.iter().enumerate() {
        let cost = prices.helping(&candidate.bits);
        if cost < best.0 {
            best = (cost, index);
        }
    }
    let (mut cost, scheme) = best;
    if ports.have_disks() {
        cost += ports.cost(ports.write(root), item.length);
    }
    if cost >= limit {
        return None;
    }
    let (decoding, decoders) = share_out(item, &candidates.schemes[scheme], root, ports, prices);
    cost += decoding;
    (cost < limit).then_some((cost, RepairOption::Traces { scheme: scheme as u8, decoders }))
}

/// Every scheme with those that decode at the least cost.
pub(super) fn each(
    item: &PricedPart<'_>,
    candidates: &CandidateSchemes,
    root: u32,
    ports: &PricedPorts<'_>,
    prices: &mut Prices,
    mut take: impl FnMut(RepairOption),
) {
    for (index, candidate) in candidates.schemes.iter().enumerate() {
        let (_, decoders) = share_out(item, candidate, root, ports, prices);
        take(RepairOption::Traces { scheme: index as u8, decoders });
    }
}

/// Which node decodes how much, and what that costs.
fn share_out(
    item: &PricedPart<'_>,
    candidate: &CandidateScheme,
    root: u32,
    ports: &PricedPorts<'_>,
    prices: &mut Prices,
) -> (f64, Vec<(Decoder, u8)>) {
    let share = item.length / f64::from(SHARES) / 8.0;
    prices.next.clear();
    let mut crossing = Vec::new();
    for (place, &own) in candidate.bits.iter().enumerate() {
        if own == 0 {
            prices.next.push((f64::INFINITY, 1.0));
            continue;
        }
        let node = item.holders[place];
        let received = f64::from(candidate.total - u32::from(own)) * share;
        let down = ports.growth(ports.down(node), received);
        let up = ports.growth(ports.up(node), f64::from(8 - own) * share);
        let sending = (up.weight + prices.sending(place, own)) * (up.factor - 1.0);
        let crossing = if ports.have_racks() {
            crossing_price(item, candidate, node, root, share, ports, &mut crossing)
        } else {
            0.0
        };
        let decoding = ports.decoding_cost(node, received);
        let price = down.cost() + sending + crossing + decoding;
        prices.next.push((price.min(PRICE_MAX), down.factor.max(up.factor)));
    }
    // The destination stands last; its chunk arrives in any case.
    let down = ports.down(root);
    let received = (f64::from(candidate.total) - 8.0) * share;
    let PortGrowth { weight, factor: chunk } = ports.growth(down, item.length);
    let more = ports.growth(down, received).factor;
    let crossing = if ports.have_racks() {
        crossing_price(item, candidate, root, root, share, ports, &mut crossing)
    } else {
        0.0
    };
    let decoding = ports.decoding_cost(root, f64::from(candidate.total) * share);
    let price = weight * chunk * (more - 1.0) + crossing + decoding;
    prices.next.push((price.min(PRICE_MAX), more));

    let mut cost = weight * (chunk - 1.0);
    let mut decoders: Vec<(Decoder, u8)> = Vec::with_capacity(usize::from(SHARES));
    for _ in 0..SHARES {
        let at = prices.cheapest_next();
        cost += prices.take(at);
        let decoder = if at == candidate.bits.len() {
            Decoder::Destination(0)
        } else {
            Decoder::Helper(at as u8)
        };
        match decoders.iter_mut().find(|(known, _)| *known == decoder) {
            Some((_, shares)) => *shares += 1,
            None => decoders.push((decoder, 1)),
        }
    }
    (cost, decoders)
}
