//! How long the repair of one, two, three failed nodes takes: a table of measurements.
//!
//! Place: failure -> ... -> [stripe healthy]: all of it, as one number.
//! Measured by simulated repairs; between two measurements the time is interpolated, beyond the
//! last it grows with the number of nodes, as it does where bandwidth is the limit.

/// Seconds to repair so many nodes that failed together.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairTimes {
    /// (nodes, seconds), nodes ascending from 1.
    points: Vec<(usize, f64)>,
}

impl RepairTimes {
    /// From measurements, ascending by number of nodes.
    ///
    /// # Panics
    /// Unless there is one for a single node, they ascend, and all times are above zero.
    pub fn measured(points: Vec<(usize, f64)>) -> RepairTimes {
        assert!(points.first().is_some_and(|first| first.0 == 1), "the time of one node");
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "numbers of nodes ascend");
        assert!(points.iter().all(|(_, seconds)| *seconds > 0.0), "repairs take time");
        RepairTimes { points }
    }

    /// One node after the other.
    pub fn serial(seconds: f64) -> RepairTimes {
        RepairTimes::measured(vec![(1, seconds)])
    }

    /// Each node as if it were alone.
    pub fn parallel(seconds: f64) -> RepairTimes {
        RepairTimes::measured(vec![(1, seconds), (usize::MAX, seconds)])
    }

    /// The measurements: (nodes, seconds).
    pub fn points(&self) -> &[(usize, f64)] {
        &self.points
    }

    /// Seconds for `nodes` nodes, 1 or more.
    pub fn seconds(&self, nodes: usize) -> f64 {
        let after = self.points.partition_point(|&(count, _)| count < nodes);
        let Some(&(high, slow)) = self.points.get(after) else {
            let &(most, seconds) = self.points.last().expect("there is one");
            return seconds * nodes as f64 / most as f64;
        };
        if after == 0 || high == nodes {
            return slow;
        }
        let (low, fast) = self.points[after - 1];
        fast + (slow - fast) * (nodes - low) as f64 / (high - low) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_interpolated_and_grow_beyond_the_last() {
        let times = RepairTimes::measured(vec![(1, 10.0), (2, 16.0), (6, 40.0)]);
        let all: Vec<f64> = [1, 2, 3, 6, 12].map(|nodes| times.seconds(nodes)).to_vec();
        assert_eq!(all, [10.0, 16.0, 22.0, 40.0, 80.0]);
        assert_eq!(RepairTimes::serial(10.0).seconds(3), 30.0);
        assert_eq!(RepairTimes::parallel(10.0).seconds(3), 10.0);
    }
}
