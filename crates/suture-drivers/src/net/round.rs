//! How much a connection carries in a round: one slice of each lane that is under way on it.
//!
//! Place: ... slice queued -> [how long its connection's turn at the port is] -> sent ...
//! Senders serve the lanes of a connection in turn, so what passed since a lane's last slice is one
//! slice of each. A port that serves its connections in proportion to their rounds serves all lanes
//! in turn, whichever connections they are on; and since the lanes of a repair have as many slices
//! each, in proportion to what they have to move. The number of lanes need not be known.

use std::collections::HashMap;

use suture_repair::id::RepairId;

/// A sample counts for one part in so many: lanes come and go, and now and then one pauses.
const SMOOTHING: u64 = 8;

/// Lanes remembered; beyond that all are forgotten, which costs one inexact round.
const LANES_MAX: usize = 4096;

/// The round of one direction of a connection.
#[derive(Debug, Default)]
pub struct Round {
    /// Of all slices so far.
    passed: u64,
    /// What had passed when each lane's last slice had.
    lanes: HashMap<(RepairId, u16), u64>,
    bytes: u64,
}

impl Round {
    /// A slice of a lane passes. Gives the bytes of the round.
    pub fn note(&mut self, lane: (RepairId, u16), bytes: u64) -> u64 {
        if self.lanes.len() >= LANES_MAX {
            self.lanes.clear();
        }
        self.passed += bytes;
        match self.lanes.insert(lane, self.passed) {
            Some(before) => {
                let sample = self.passed - before;
                self.bytes = (self.bytes * (SMOOTHING - 1) + sample).div_ceil(SMOOTHING);
            }
            None => self.bytes += bytes,
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(round: &mut Round, lanes: &[(u64, u64)], times: usize) -> u64 {
        let mut bytes = 0;
        for _ in 0..times {
            for &(repair, slice) in lanes {
                bytes = round.note((RepairId(repair), 0), slice);
            }
        }
        bytes
    }

    #[test]
    fn a_round_is_a_slice_of_each_lane() {
        let mut round = Round::default();
        assert_eq!(pass(&mut round, &[(1, 100)], 50), 100);
        assert_eq!(pass(&mut round, &[(1, 100), (2, 50), (3, 7)], 50), 157);
        let fewer = pass(&mut round, &[(2, 50)], 50);
        assert!((50..60).contains(&fewer), "{fewer}");
    }
}
