//! What an option for a chunk puts on which port.
//!
//! Place: `[plan]`, whenever the potential planner (`../potential.rs`) takes a choice or takes one
//! back.

use crate::planner::exact::potential::option::{CandidateSchemes, PricedPart, RepairOption};
use crate::planner::exact::potential::ports::{PortIndex, PricedPorts};
use crate::planner::exact::potential::{gather, rack, traces};
use crate::planner::ports::PortWork;

/// Calls `charge` with every port that an option uses and how much it takes, and with each
/// processor behind one.
pub(super) fn each_charge(
    item: &PricedPart<'_>,
    option: &RepairOption,
    destinations: &[u32],
    candidate_sets: &[CandidateSchemes],
    ports: &PricedPorts<'_>,
    mut charge: impl FnMut(PortIndex, f64),
) {
    if !ports.have_processors() {
        return each_port(item, option, destinations, candidate_sets, ports, charge);
    }
    each_port(item, option, destinations, candidate_sets, ports, |port, amount| {
        charge(port, amount);
        if let Some(PortWork { processor, work }) = ports.work(port) {
            charge(processor, work * amount);
        }
    });
}

/// The same without what passes the ports of nodes brings to their processors.
fn each_port(
    item: &PricedPart<'_>,
    option: &RepairOption,
    destinations: &[u32],
    candidate_sets: &[CandidateSchemes],
    ports: &PricedPorts<'_>,
    mut charge: impl FnMut(PortIndex, f64),
) {
    match option {
        RepairOption::Apart { trees } => {
            for ((part, tree), destinations) in
                item.apart.iter().zip(trees).zip(destinations.chunks(1))
            {
                each_together(part, tree, destinations, candidate_sets, ports, &mut charge);
            }
        }
        RepairOption::Beside { alone, tree, gather } => {
            let alone = usize::from(*alone);
            let (one, others) = one_and_others(destinations, alone);
            each_together(&item.apart[alone], tree, &[one], candidate_sets, ports, &mut charge);
            each_together(item.pair_without(alone), gather, &others, candidate_sets, ports, charge);
        }
        RepairOption::Around { detour, option } => {
            let item = item.detour(*detour);
            each_together(item, option, destinations, candidate_sets, ports, charge);
        }
        together => each_together(item, together, destinations, candidate_sets, ports, charge),
    }
}

/// The one at a place, and the others in their order.
pub(super) fn one_and_others(destinations: &[u32], at: usize) -> (u32, Vec<u32>) {
    (destinations[at], [&destinations[..at], &destinations[at + 1..]].concat())
}

/// The same of chunks that are rebuilt together.
fn each_together(
    item: &PricedPart<'_>,
    option: &RepairOption,
    destinations: &[u32],
    candidate_sets: &[CandidateSchemes],
    ports: &PricedPorts<'_>,
    mut charge: impl FnMut(PortIndex, f64),
) {
    let length = item.length;
    if ports.have_disks() {
        destinations.iter().for_each(|node| charge(ports.write(*node), length));
    }
    match option {
        RepairOption::Tree { helpers, sums } | RepairOption::Racks { helpers, sums, .. } => {
            let mut at_root = helpers.len();
            for (helper, sums) in helpers.iter().zip(sums) {
                let node = item.holders[usize::from(*helper)];
                charge(ports.up(node), length);
                if *sums > 0 {
                    charge(ports.down(node), f64::from(*sums) * length);
                    at_root -= usize::from(*sums);
                }
                if ports.have_disks() {
                    charge(ports.read(node), length);
                }
            }
            charge(ports.down(destinations[0]), at_root as f64 * length);
            if let RepairOption::Racks { arrivals, .. } = option {
                rack::each_crossing(item, helpers, arrivals, destinations[0], ports, charge);
            }
        }
        RepairOption::Arborescence { helpers, relays, parents } => {
            let holders = helpers.iter().map(|place| item.holders[usize::from(*place)]);
            let nodes: Vec<u32> = holders.chain(relays.iter().copied()).collect();
            for (child, parent) in nodes.iter().zip(parents) {
                let parent = nodes.get(usize::from(*parent)).unwrap_or(&destinations[0]);
                charge(ports.up(*child), length);
                charge(ports.down(*parent), length);
                let links = ports.crossing(*child, *parent).into_iter().flatten();
                links.for_each(|link| charge(link, length));
            }
            if ports.have_disks() {
                nodes[..helpers.len()].iter().for_each(|node| charge(ports.read(*node), length));
            }
        }
        RepairOption::Apart { .. } | RepairOption::Beside { .. } | RepairOption::Around { .. } => {
            unreachable!("each part of these is charged as what it is")
        }
        RepairOption::Gather { helpers, decoder } => {
            gather::each_charge(item, helpers, *decoder, destinations, ports, charge);
        }
        RepairOption::Traces { scheme, decoders } => {
            let candidates = &candidate_sets[item.candidates.expect("traces come from candidates")];
            let candidate = &candidates.schemes[usize::from(*scheme)];
            traces::each_charge(item, candidate, decoders, destinations[0], ports, charge);
        }
    }
}
