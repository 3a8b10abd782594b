//! What clients take of each node's links and disk, as a monitor sees it.
//!
//! Place: beside [slices flow]: what planners leave out of links, where they are notified of it.
//! ChameleonEC (HPCA'25, section III-A) dispatches by the bandwidth that applications leave, and
//! monitors it; the repair algorithms that it is compared with do not. What clients move counts
//! here, and nothing of what repairs move beside them.
//! Does not know what is notified, nor how often.

use std::collections::BTreeMap;

use suture_repair::id::NodeId;

/// What clients have moved through a node's ports, in bytes, or what they take of them a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taken {
    /// Of what the node sends.
    pub up: f64,
    /// Of what the node receives.
    pub down: f64,
    /// Of what its disk reads.
    pub disk_read: f64,
    /// Of what its disk writes.
    pub disk_write: f64,
}

/// Mean rates between one question and the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Monitor {
    /// What had moved at the last question, and when that was.
    moved: BTreeMap<NodeId, Taken>,
    since: f64,
}

/// Two questions at one moment are as if so many seconds lay between them.
const SECONDS_MIN: f64 = 1e-9;

impl Monitor {
    /// What clients have taken of each of so many nodes since the last question, in bytes per
    /// second; `moved` is all that they had moved by `now`.
    pub fn rates(
        &mut self,
        now: f64,
        moved: &BTreeMap<NodeId, Taken>,
        node_count: usize,
    ) -> Vec<Taken> {
        let before = std::mem::replace(&mut self.moved, moved.clone());
        let seconds = (now - std::mem::replace(&mut self.since, now)).max(SECONDS_MIN);
        let of =
            |all: &BTreeMap<NodeId, Taken>, id: NodeId| all.get(&id).copied().unwrap_or_default();
        let ids = (0..node_count as u32).map(NodeId);
        ids.map(|id| of(moved, id).rate_since(of(&before, id), seconds)).collect()
    }
}

impl Taken {
    /// A rate, where `before` had been moved so many seconds earlier.
    fn rate_since(self, before: Taken, seconds: f64) -> Taken {
        Taken {
            up: (self.up - before.up) / seconds,
            down: (self.down - before.down) / seconds,
            disk_read: (self.disk_read - before.disk_read) / seconds,
            disk_write: (self.disk_write - before.disk_write) / seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_last_question_of_every_node() {
        let mut monitor = Monitor::default();
        let mut moved = BTreeMap::new();
        let of = |up: f64, down: f64| Taken { up, down, disk_read: up, disk_write: down };
        moved.insert(NodeId(1), of(30.0, 0.0));
        let idle = Taken::default();
        assert_eq!(monitor.rates(2.0, &moved, 3), [idle, of(15.0, 0.0), idle]);
        moved.insert(NodeId(1), of(40.0, 5.0));
        moved.insert(NodeId(2), of(1.0, 1.0));
        assert_eq!(monitor.rates(3.0, &moved, 3), [idle, of(10.0, 5.0), of(1.0, 1.0)]);
        assert_eq!(monitor.rates(3.0, &moved, 3), [idle, idle, idle]);
    }
}
