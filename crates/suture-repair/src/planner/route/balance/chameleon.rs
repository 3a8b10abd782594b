//! Chameleon balance: uploads and downloads are dispatched one by one to the node that is done
//! first.
//!
//! Place: `[plan]`, a balance of a published planner, which also decides which node receives how
//! often. A lost chunk is k uploads and k downloads. The destination is the node whose downlink
//! would be done first with one more; it takes the first download. Each of the other k - 1 goes to
//! the survivor or destination that would be done first with it, in both directions: a survivor
//! that receives also has to send, once. The uploads that are then left go to survivors that do not
//! receive, by their uplinks. The shape `tunable` makes a tree of the result. Source: ChameleonEC
//! (HPCA'25), section III-A; "Extensions" in section III-D for other codes and for storage.
//!
//! Where we had to decide: all chunks are dispatched in one go; the paper's phases are a schedule.
//! Times count what running repairs already put on the links. Of equals the survivor with the lower
//! chunk comes first and the destination last. Codes that choose their own helpers (LRC) are asked
//! first, with the least uploading survivors in front; codes that cannot be summed (Butterfly,
//! Clay) and several losses leave all downloads with the destination, as in the paper's
//! experiments.
//!
//! `chameleon:io` is for storage as the bottleneck. The paper watches disks *instead of* links. We
//! take whichever is slower, which is the same where disks are the bottleneck and is not blind
//! where they are not. An upload reads one chunk, a destination writes one, and relays keep sums in
//! memory.

use crate::id::NodeId;
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::balance::destination::Destinations;
use crate::planner::route::balance::tally::{Backlog, Tally};
use crate::planner::route::request::{RouteRequest, Topology};
use crate::planner::route::{Choice, Joiner, Route};

/// What a node's time is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::planner) enum CountedPorts {
    /// Its links, not its disk.
    Links,
    /// Its links and its disk.
    LinksAndDisks,
}

/// A route for each request.
pub(in crate::planner) fn place(
    requests: &[RouteRequest<'_>],
    counted: CountedPorts,
    view: &View<'_>,
    joiner: &mut Joiner<'_>,
) -> Vec<Route> {
    let tally = Tally::new(view);
    let usual_bytes = requests.first().map_or(0, |request| request.job.chunk_bytes);
    let key = |node| counted.keeping(&tally, node, usual_bytes);
    let destinations = Destinations::new(view, key);
    let mut dispatch =
        Dispatch { counted, usual_bytes, destinations, tally, receivers: Vec::new() };
    let route = |request| {
        let (choice, destinations) = dispatch.choose(request);
        let route = joiner.join(request, choice, destinations);
        dispatch.charge(request, &route);
        route
    };
    requests.iter().map(route).collect()
}

impl CountedPorts {
    /// What a survivor would need to send so much more.
    fn sending(self, tally: &Tally, node: NodeId, more_bytes: u64) -> f64 {
        let up = tally.up(node).seconds_with(more_bytes);
        match self {
            CountedPorts::Links => up,
            CountedPorts::LinksAndDisks => up.max(tally.read(node).seconds_with(more_bytes)),
        }
    }

    /// What a destination would need to receive and keep so much more.
    fn keeping(self, tally: &Tally, node: NodeId, more_bytes: u64) -> f64 {
        let down = tally.down(node).seconds_with(more_bytes);
        match self {
            CountedPorts::Links => down,
            CountedPorts::LinksAndDisks => down.max(tally.write(node).seconds_with(more_bytes)),
        }
    }

    /// What a destination needs apart from its downlink, when it keeps so much more.
    fn besides(self, tally: &Tally, node: NodeId, more_bytes: u64) -> f64 {
        let up = tally.up(node).seconds_with(0);
        match self {
            CountedPorts::Links => up,
            CountedPorts::LinksAndDisks => up.max(tally.write(node).seconds_with(more_bytes)),
        }
    }
}

/// What was dispatched so far.
struct Dispatch<'a> {
    counted: CountedPorts,
    /// Destinations are ranked as if each had to receive so much.
    usual_bytes: u64,
    destinations: Destinations<'a>,
    tally: Tally,
    /// The survivors of the request in hand, and the destination as the last.
    receivers: Vec<Receiver>,
}

/// A survivor or the destination, while downloads are given away.
#[derive(Clone, Copy, Debug)]
struct Receiver {
    /// What it needs whatever it receives: a survivor for sending its own, once.
    floor: f64,
    down: Backlog,
    receives: u32,
    /// When it would be done with one more download.
    done: f64,
}

impl Receiver {
    fn new(floor: f64, down: Backlog, receives: u32, chunk_bytes: u64) -> Receiver {
        let mut receiver = Receiver { floor, down, receives, done: 0.0 };
        receiver.update(chunk_bytes);
        receiver
    }

    fn update(&mut self, chunk_bytes: u64) {
        let received = u64::from(self.receives + 1) * chunk_bytes;
        self.done = self.floor.max(self.down.seconds_with(received));
    }
}

impl Dispatch<'_> {
    fn choose(&mut self, request: &RouteRequest<'_>) -> (Choice, Vec<NodeId>) {
        let destinations = self.destinations.choose(request);
        let choice = match (&request.topology, request.takes_any()) {
            (Topology::Gather, _) => Choice::Offered(self.by_sending(request)),
            (_, true) => self.dispatch(request, &request.candidates, destinations[0]),
            (_, false) => {
                let sources = request.choose_helpers(self.by_sending(request));
                self.dispatch(request, &sources, destinations[0])
            }
        };
        (choice, destinations)
    }

    /// Those that would have sent first come first.
    fn by_sending(&self, request: &RouteRequest<'_>) -> Vec<Holder> {
        let bytes = request.job.chunk_bytes;
        let seconds = |(_, node): &Holder| self.counted.sending(&self.tally, *node, bytes);
        let mut sources = request.candidates.to_vec();
        sources.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        sources
    }

    fn dispatch(
        &mut self,
        request: &RouteRequest<'_>,
        sources: &[Holder],
        destination: NodeId,
    ) -> Choice {
        self.dispatch_downloads(request, sources, destination);
        let receivers = &self.receivers[..sources.len()];
        // Relays by chunk, then the others by when they would have sent.
        let is_leaf = |at: &usize| receivers[*at].receives == 0;
        let mut order: Vec<usize> = (0..sources.len()).filter(|at| !is_leaf(at)).collect();
        let relay_count = order.len();
        order.extend((0..sources.len()).filter(is_leaf));
        order[relay_count..].sort_by(|&a, &b| receivers[a].floor.total_cmp(&receivers[b].floor));
        order.truncate(request.helper_count(sources));
        Choice::Tuned {
            helpers: order.iter().map(|&at| sources[at]).collect(),
            receives: order.iter().map(|&at| receivers[at].receives).collect(),
        }
    }

    /// Gives the downloads away, and counts in `receivers` to which node.
    fn dispatch_downloads(
        &mut self,
        request: &RouteRequest<'_>,
        sources: &[Holder],
        destination: NodeId,
    ) {
        let chunk_bytes = request.job.chunk_bytes;
        self.receivers.clear();
        for &(_, node) in sources {
            let floor = self.counted.sending(&self.tally, node, chunk_bytes);
            self.receivers.push(Receiver::new(floor, self.tally.down(node), 0, chunk_bytes));
        }
        let floor = self.counted.besides(&self.tally, destination, chunk_bytes);
        self.receivers.push(Receiver::new(floor, self.tally.down(destination), 1, chunk_bytes));
        for _ in 1..request.helper_count(sources) {
            let first = first_done(&mut self.receivers);
            first.receives += 1;
            first.update(chunk_bytes);
        }
    }

    fn charge(&mut self, request: &RouteRequest<'_>, route: &Route) {
        route.each_load(request, |node, load| {
            self.tally.add(node, &load);
            if load.down_bytes > 0 {
                let key = self.counted.keeping(&self.tally, node, self.usual_bytes);
                self.destinations.set(node, key);
            }
        });
    }
}

/// The receiver that is done first; of equals the first.
fn first_done(receivers: &mut [Receiver]) -> &mut Receiver {
    let mut first = 0;
    for at in 1..receivers.len() {
        if receivers[at].done < receivers[first].done {
            first = at;
        }
    }
    &mut receivers[first]
}
