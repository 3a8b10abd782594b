//! PivotRepair's requestor: the node with the most downlink bandwidth.
//!
//! Place: `[plan]`, inside of the balance `random`, for the shape `pivot`. Source: PivotRepair
//! (ICDCS'22), section IV-E: for each stripe "the node that has the most downlink bandwidth"
//! becomes the requestor, "so all requestors are often distributed".
//!
//! Where we had to decide: the paper looks at what is available when a repair starts, and what runs
//! by then takes its share. A batch is planned before anything of it starts, so the node is taken
//! that would be the first to have received one chunk more, on top of what runs and of the chunks
//! that it is given in this batch. Of an idle cluster that is the fastest downlink; on equal links
//! requestors take turns. Relays are not counted: which of them run at a time is not known. Other
//! balances choose destinations by rules of their own.

use crate::id::NodeId;
use crate::plan::load::NodeLoad;
use crate::planner::View;
use crate::planner::route::balance::destination::Destinations;
use crate::planner::route::balance::tally::Tally;
use crate::planner::route::request::RouteRequest;

/// All nodes by what is left of their downlinks.
pub(super) struct Requestors<'a> {
    tally: Tally,
    ranked: Destinations<'a>,
    /// Nodes are ranked as if each had to receive so much: the longest chunk so far.
    usual_bytes: u64,
}

impl<'a> Requestors<'a> {
    /// Ranks the nodes with what already runs.
    pub fn new(view: &'a View<'a>) -> Requestors<'a> {
        let (tally, usual_bytes) = (Tally::new(view), 1);
        let ranked = Destinations::new(view, |node| tally.down(node).seconds_with(1));
        Requestors { tally, ranked, usual_bytes }
    }

    /// Chooses as many nodes as the request rebuilds chunks, the one with the most downlink first,
    /// and counts their chunks.
    pub fn choose(&mut self, request: &RouteRequest<'_>) -> Vec<NodeId> {
        if request.job.chunk_bytes > self.usual_bytes {
            self.usual_bytes = request.job.chunk_bytes;
            (0..self.tally.node_count() as u32).for_each(|node| self.rank(NodeId(node)));
        }
        let chosen = self.ranked.choose(request);
        for &node in &chosen {
            let down_bytes = request.job.chunk_bytes;
            self.tally.add(node, &NodeLoad { down_bytes, ..NodeLoad::default() });
            self.rank(node);
        }
        chosen
    }

    fn rank(&mut self, node: NodeId) {
        let seconds = self.tally.down(node).seconds_with(self.usual_bytes);
        self.ranked.set(node, seconds);
    }
}
