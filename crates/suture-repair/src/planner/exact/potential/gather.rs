//! The cheapest way to gather chunks, or what the code asks for of them, at one decoder.
//!
//! Place: `failure -> stripes -> queue -> [plan] -> admit -> dispatch -> slices -> commit`, a part
//! of the potential planner, for several losses and for codes with sub-chunks. Any destination may
//! decode, and any helper, which then sends finished chunks in place of its own.

use crate::planner::exact::potential::option::{Decoder, Item, Way, free_helpers};
use crate::planner::exact::potential::ports::{Port, Ports};

/// The charges of helpers that send to a decoder, which sends finished chunks on.
pub(super) fn each_charge(
    item: &Item<'_>,
    helpers: &[u8],
    decoder: Decoder,
    kept: &[u32],
    ports: &Ports,
    mut charge: impl FnMut(Port, f64),
) {
    let at = match decoder {
        Decoder::Destination(place) => kept[usize::from(place)],
        Decoder::Helper(place) => item.holders[usize::from(place)],
    };
    let mut received = 0.0;
    for &place in helpers {
        let (sent, read) = item.share(usize::from(place));
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
    for &node in kept.iter().filter(|node| **node != at) {
        charge(ports.up(at), item.length);
        charge(ports.down(node), item.length);
        for link in ports.crossing(at, node).into_iter().flatten() {
            charge(link, item.length);
        }
    }
}

/// The cheapest gather for these destinations, and its cost.
pub(super) fn cheapest(
    item: &Item<'_>,
    kept: &[u32],
    may_forward: bool,
    ports: &Ports,
) -> (f64, Way) {
    let share_cost = |place: usize| {
        let (node, (sent, read)) = (item.holders[place], item.share(place));
        ports.cost(ports.up(node), sent) + ports.cost(ports.read(node), read)
    };
    let mut free: Vec<(f64, usize)> =
        (item.forced()..item.holders.len()).map(|place| (share_cost(place), place)).collect();
    free.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut helpers: Vec<usize> = (0..item.forced()).collect();
    helpers.extend(free_helpers(item, free.into_iter().map(|(_, place)| place).collect()));
    let sent: f64 = helpers.iter().map(|place| item.share(*place).0).sum();
    let helping: f64 = helpers.iter().map(|place| share_cost(*place)).sum();
    let length = item.length;
    let receiving = |node: u32| ports.cost(ports.down(node), length);
    let writing: f64 = kept.iter().map(|node| ports.cost(ports.write(*node), length)).sum();
    let all_receiving: f64 = kept.iter().map(|node| receiving(*node)).sum();
    let crossing = |from: u32, to: u32, amount: f64| -> f64 {
        let links = ports.crossing(from, to).into_iter().flatten();
        links.map(|link| ports.cost(link, amount)).sum()
    };
    let crossing_in = |at: u32| -> f64 {
        let from = helpers.iter().map(|place| (item.holders[*place], item.share(*place).0));
        from.map(|(node, sent)| crossing(node, at, sent)).sum()
    };
    let crossing_out =
        |at: u32| -> f64 { kept.iter().map(|node| crossing(at, *node, length)).sum() };

    let mut best = (f64::INFINITY, Decoder::Destination(0));
    let others = kept.len() as f64 - 1.0;
    for (place, &node) in kept.iter().enumerate() {
        let cost = all_receiving - receiving(node)
            + ports.cost(ports.down(node), sent)
            + ports.cost(ports.up(node), others * length)
            + crossing_in(node)
            + crossing_out(node);
        if cost < best.0 {
            best = (cost, Decoder::Destination(place as u8));
        }
    }
    for &place in helpers.iter().filter(|_| may_forward) {
        let (node, (own, _)) = (item.holders[place], item.share(place));
        let finished = kept.len() as f64 * length;
        let cost = all_receiving
            + ports.cost(ports.down(node), sent - own)
            + ports.cost(ports.up(node), finished)
            - ports.cost(ports.up(node), own)
            + crossing_in(node)
            + crossing_out(node);
        if cost < best.0 {
            best = (cost, Decoder::Helper(place as u8));
        }
    }
    let helpers = helpers.into_iter().map(|place| place as u8).collect();
    (best.0 + helping + writing, Way::Gather { helpers, decoder: best.1 })
}
