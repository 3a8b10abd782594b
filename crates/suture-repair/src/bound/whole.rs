//! What crosses between racks when every chunk is kept whole: a small search for racks that keep
//! them.
//!
//! Place: beside `[plan]`, a part of the lower bound. The rack that keeps a stripe's chunk decides
//! which others send a whole chunk's length: those without which too few survivors are left. These
//! are whole numbers, so within some time every rack can send and receive only so many, and stripes
//! must find racks that respect it. Racks that may take turns, each for a range of the chunk, count
//! only in the sum of all. Times at which another length fits are tried until racks are found.

use crate::max_flow::{Rounding, Supply, Transport};
use crate::planner::ports::Ports;

/// Racks that are tried for one time; beyond, it counts as enough.
const TRIALS_MAX: usize = 20_000;

/// Units of a chunk, for what arrives at racks.
const ARRIVAL_UNITS: u32 = 1 << 16;

/// A rack that may keep a stripe's chunk, and what that asks of racks.
pub(super) struct RackChoice {
    pub rack: u32,
    /// Racks that send a chunk's length each, whichever others help.
    pub senders: Vec<u32>,
    /// How many lengths are sent in all at least; one of them arrives there, if there are any.
    pub lengths: usize,
}

/// The least time that whole lengths take, of chunks of so many bytes, for the choices of each
/// stripe; not above the next time that counts more than `known`.
pub(super) fn seconds(stripes: &[Vec<RackChoice>], bytes: f64, ports: &Ports, known: f64) -> f64 {
    let rate = |port: Option<usize>| port.map_or(0.0, |port| ports.rate(port)) / bytes;
    let racks = (0..).take_while(|rack| ports.rack_up(*rack).is_some()).count();
    let [up, down] = [rate(ports.rack_up(0)), rate(ports.rack_down(0))];
    let arriving = arrival_seconds(stripes, racks, down).max(known);
    let mut order: Vec<&Vec<RackChoice>> = stripes.iter().collect();
    order.sort_by_key(|choices| choices.len());
    let search = RackSearch { least: least_sent(&order, racks), stripes: order };
    let times = |rate: f64, most: usize| (1..=most).map(move |lengths| lengths as f64 / rate);
    let all = racks as f64 * up.min(down);
    let times = times(up, stripes.len())
        .chain(times(down, stripes.len()))
        .chain(times(all, racks * stripes.len()));
    let mut times: Vec<f64> = times.filter(|time| *time > known).collect();
    times.sort_by(f64::total_cmp);
    // Between two of these times nothing more fits: the first at which all fits is the bound.
    let fits = |seconds: f64| {
        let most = |rate: f64| (seconds * rate * (1.0 + 1e-9)).floor() as usize;
        search.fits([most(up), most(down), most(all)], racks)
    };
    if fits(known) {
        return arriving;
    }
    let needed = times.partition_point(|seconds| !fits(*seconds));
    times.get(needed).copied().unwrap_or(known).max(arriving)
}

/// Every stripe to which a length must arrive, whichever rack keeps it, takes a whole one from a
/// rack's downlink.
fn arrival_seconds(stripes: &[Vec<RackChoice>], racks: usize, rate: f64) -> f64 {
    let units = ARRIVAL_UNITS;
    let supply = Supply::of_rate(rate * f64::from(units));
    let mut transport = Transport::new(vec![supply; racks]);
    for choices in stripes.iter().filter(|choices| choices.iter().all(|choice| choice.lengths > 0))
    {
        let arrival = transport.add(units, choices.iter().map(|choice| choice.rack));
        transport.ship_greedily(arrival, 1, units);
    }
    transport.balance(Rounding::Down(units), 1).seconds
}

/// What each rack sends at least for the stripes from each on, whatever is chosen.
fn least_sent(stripes: &[&Vec<RackChoice>], racks: usize) -> Vec<Vec<usize>> {
    let mut least = vec![vec![0; racks]; stripes.len() + 1];
    for at in (0..stripes.len()).rev() {
        let always =
            |rack: usize| stripes[at].iter().all(|choice| choice.senders.contains(&(rack as u32)));
        least[at] =
            (0..racks).map(|rack| least[at + 1][rack] + usize::from(always(rack))).collect();
    }
    least
}

struct RackSearch<'a> {
    /// Those with the fewest choices first.
    stripes: Vec<&'a Vec<RackChoice>>,
    least: Vec<Vec<usize>>,
}

impl RackSearch<'_> {
    /// Whether racks are found, or too many were tried, where each sends and receives at most so
    /// many, and all together.
    fn fits(&self, most: [usize; 3], racks: usize) -> bool {
        let mut lengths = [vec![0; racks], vec![0; racks], vec![0]];
        let mut trials = 0;
        self.fits_from(0, &mut lengths, most, &mut trials)
    }

    fn fits_from(
        &self,
        at: usize,
        lengths: &mut [Vec<usize>; 3],
        most: [usize; 3],
        trials: &mut usize,
    ) -> bool {
        let Some(choices) = self.stripes.get(at) else { return true };
        for choice in choices.iter() {
            *trials += 1;
            if *trials > TRIALS_MAX {
                return true;
            }
            put(choice, lengths, 1);
            let sent = lengths[0].iter().zip(&self.least[at + 1]);
            let fits = sent.fold(true, |fits, (sent, later)| fits && sent + later <= most[0])
                && lengths[1].iter().all(|received| *received <= most[1])
                && lengths[2][0] <= most[2]
                && self.fits_from(at + 1, lengths, most, trials);
            put(choice, lengths, -1);
            if fits {
                return true;
            }
        }
        false
    }
}

fn put(choice: &RackChoice, lengths: &mut [Vec<usize>; 3], sign: isize) {
    let add = |length: &mut usize, sign: isize| *length = length.wrapping_add_signed(sign);
    choice.senders.iter().for_each(|rack| add(&mut lengths[0][*rack as usize], sign));
    if choice.lengths > 0 {
        add(&mut lengths[1][choice.rack as usize], sign);
    }
    add(&mut lengths[2][0], sign * choice.lengths as isize);
}
