//! Which port was the limit of what agents had to wait with.
//!
//! Place: beside [slices flow]: between what agents report and the estimates of `link_estimate.rs`.
//! An agent sees that more was to be sent to a peer than left, and not why: its own uplink, the
//! peer's downlink, or a link of a rack between them was full. Where one of these is known to
//! carry no more than it does, that is why. Otherwise it is more likely the port whose other
//! transfers waited as well: of a slow link all wait, of the ports behind it one each. Ports that
//! are alike in that are both taken for the limit; the wrong one shows later that it has room.
//!
//! Does not know nodes: the caller names the ports that a transfer passes.

use super::link_estimate::{Guess, Pressure};

/// How a port was used between two reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortUse {
    /// Bytes per second that passed it.
    pub carried: u64,
    /// What it is thought to carry.
    pub guess: Guess,
    /// Whether what repair may have of it was all used: then it was no link that was waited for.
    pub is_throttled: bool,
    /// The transfers of repairs that passed it, and those of them that waited.
    pub transfers: usize,
    pub waiting: usize,
}

impl PortUse {
    /// Whether it is known for a reason to wait.
    fn is_full(&self) -> bool {
        self.is_throttled || (self.guess.is_sure() && self.guess.is_near(self.carried))
    }

    /// Whether so much or more of what passes it waits than of what passes the other one; of equal
    /// parts, whether that are as many transfers or more.
    fn waits_as_much_as(&self, other: &PortUse) -> bool {
        let mine = self.waiting * other.transfers;
        let theirs = other.waiting * self.transfers;
        mine > theirs || (mine == theirs && self.waiting >= other.waiting)
    }
}

/// Whether a port was the limit. Of each transfer that passed it and waited, `others` has the other
/// ports that it passed.
pub(super) fn pressure(own: &PortUse, others: &[Vec<PortUse>]) -> Pressure {
    let is_own = |others: &&Vec<PortUse>| {
        let is_why = |other: &PortUse| !other.is_full() && own.waits_as_much_as(other);
        if own.is_full() {
            others.iter().all(|other| !other.is_full())
        } else {
            others.iter().all(is_why)
        }
    };
    let its_own = others.iter().filter(is_own).count();
    if !own.is_throttled && 2 * its_own > others.len() { Pressure::Limit } else { Pressure::Spare }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port that is sure to carry 1000.
    fn port(carried: u64, transfers: usize, waiting: usize) -> PortUse {
        let guess = Guess { mean: 1000, deviation: 10 };
        PortUse { carried, guess, is_throttled: false, transfers, waiting }
    }

    fn check(own: PortUse, others: &[PortUse], expected: Pressure) {
        let others: Vec<Vec<PortUse>> = others.iter().map(|other| vec![*other]).collect();
        assert_eq!(pressure(&own, &others), expected, "{own:?} {others:?}");
    }

    #[test]
    fn where_nothing_waits_there_is_room() {
        check(port(1000, 4, 0), &[], Pressure::Spare);
    }

    #[test]
    fn a_port_that_is_full_by_what_is_known_of_it_is_why_its_transfers_wait() {
        check(port(900, 2, 2), &[port(100, 1, 1), port(500, 9, 9)], Pressure::Limit);
        check(port(500, 2, 2), &[port(900, 1, 1), port(900, 1, 1)], Pressure::Spare);
        // It is unknown which of two it is: what is known of both is right then.
        check(port(900, 1, 1), &[port(900, 1, 1)], Pressure::Spare);
        let unsure = PortUse { guess: Guess::unsure(1000), ..port(900, 1, 1) };
        check(port(100, 1, 1), &[unsure], Pressure::Limit);
    }

    #[test]
    fn of_ports_that_should_carry_more_it_is_the_one_of_which_all_waits() {
        let slow = port(100, 8, 8);
        let behind = port(300, 6, 1);
        check(slow, &[behind; 8], Pressure::Limit);
        check(behind, &[slow], Pressure::Spare);
        // With one transfer each, nothing distinguishes them.
        check(port(100, 1, 1), &[port(100, 1, 1)], Pressure::Limit);
        check(port(100, 3, 3), &[port(100, 1, 1); 3], Pressure::Limit);
        check(port(100, 1, 1), &[port(100, 3, 3)], Pressure::Spare);
    }

    #[test]
    fn most_of_what_waits_decides() {
        let (full, idle) = (port(1000, 5, 5), port(10, 5, 1));
        check(port(400, 3, 3), &[full, full, idle], Pressure::Spare);
        check(port(400, 3, 3), &[full, idle, idle], Pressure::Limit);
        check(port(400, 2, 2), &[full, idle], Pressure::Spare);
    }

    #[test]
    fn what_repair_may_not_have_is_no_sign_of_a_slow_link() {
        let throttled = PortUse { is_throttled: true, ..port(100, 4, 4) };
        check(throttled, &[port(10, 1, 1); 4], Pressure::Spare);
        check(port(10, 4, 4), &[throttled; 4], Pressure::Spare);
    }

    #[test]
    fn a_transfer_between_racks_may_wait_for_either_of_their_links() {
        let (node, far) = (port(300, 4, 4), port(300, 6, 2));
        let rack = port(990, 9, 9);
        assert_eq!(pressure(&node, &[vec![far, rack, far]]), Pressure::Spare);
        assert_eq!(pressure(&rack, &[vec![node, far, far]]), Pressure::Limit);
    }
}
