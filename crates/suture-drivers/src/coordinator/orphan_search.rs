//! Which agents are asked to list what they hold because a put ended without its object.
//!
//! Place: put begun -> chunks durable -> [the put ends, nothing is visible]; what it wrote goes.
//! Such chunks are orphans, which are ordered away when an agent lists them: by itself it does so
//! every few minutes only, and until then they take space that cannot be freed. So it is asked to
//! at once, and once more: what it was about to make durable when the put ended shows only later. A
//! client whose puts fail again and again must not keep disks busy with listings, so there is a
//! pause for each agent between two of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use suture_repair::id::NodeId;
use tokio::time::Instant;

/// So many listings are asked for after a put.
const LISTINGS: u8 = 2;

/// The time between two listings of one agent, at least: longer than a good disk takes to make a
/// chunk durable.
const REST: Duration = Duration::from_secs(10);

/// Of what an agent lists so many a second: a listing is read from its disk, and compared with all
/// that is known of it.
const LISTED_PER_SECOND: f64 = 10_000.0;

/// How long an agent is left alone that lists so many chunks.
pub fn rest(chunks: usize) -> Duration {
    REST.max(Duration::from_secs_f64(chunks as f64 / LISTED_PER_SECOND))
}

/// Agents that may hold chunks of puts that ended.
#[derive(Debug, Default)]
pub struct OrphanSearch(BTreeMap<NodeId, Search>);

/// What is asked of one agent.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// When it is asked next, if anything is left to ask, and forgotten otherwise.
    at: Instant,
    /// How often it is to be asked.
    left: u8,
}

impl OrphanSearch {
    /// A put that had places on these nodes ended, and stored nothing.
    pub fn begin(&mut self, now: Instant, nodes: &BTreeSet<NodeId>) {
        for node in nodes {
            self.0.entry(*node).or_insert(Search { at: now, left: 0 }).left = LISTINGS;
        }
    }

    /// When something is to be done.
    pub fn due(&self) -> Option<Instant> {
        self.0.values().map(|search| search.at).min()
    }

    /// The nodes that are asked now. Each is left alone then for its `rest`.
    pub fn take_due(&mut self, now: Instant, rest: impl Fn(NodeId) -> Duration) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        self.0.retain(|node, search| {
            if now < search.at {
                return true;
            }
            if search.left == 0 {
                return false;
            }
            nodes.push(*node);
            *search = Search { at: now + rest(*node), left: search.left - 1 };
            true
        });
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_asked_at_once_and_once_more_and_has_its_rest() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (one, both) = (BTreeSet::from([NodeId(1)]), BTreeSet::from([NodeId(1), NodeId(2)]));
        let take = |search: &mut OrphanSearch, now| search.take_due(now, |_| rest(7));
        let mut search = OrphanSearch::default();
        assert_eq!((search.due(), take(&mut search, at(0))), (None, vec![]));
        search.begin(at(0), &one);
        assert_eq!((search.due(), take(&mut search, at(0))), (Some(at(0)), vec![NodeId(1)]));
        assert_eq!((search.due(), take(&mut search, at(9))), (Some(at(10)), vec![]));
        // Another put: a node that was asked a moment ago is not asked again.
        search.begin(at(9), &both);
        assert_eq!(take(&mut search, at(9)), [NodeId(2)]);
        assert_eq!(take(&mut search, at(10)), [NodeId(1)]);
        assert_eq!(take(&mut search, at(20)), [NodeId(1), NodeId(2)]);
        assert_eq!((take(&mut search, at(30)), search.due()), (vec![], None));
        // A node that holds more is asked less often in proportion.
        search.begin(at(30), &one);
        assert_eq!(search.take_due(at(30), |_| rest(1_000_000)), [NodeId(1)]);
        assert_eq!((search.due(), take(&mut search, at(129))), (Some(at(130)), vec![]));
        assert_eq!(take(&mut search, at(130)), [NodeId(1)]);
    }
}
