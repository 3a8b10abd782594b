//! A route: the nodes of a request and the edges between them, made by a balance and a shape.
//!
//! Place: `[plan]` by a published planner, between a balance and the plan of one lane. A balance
//! decides one of three things about the helpers: which may help, in order of preference; which
//! stands at which place of a tree that is known; or which receives how often. From there the shape
//! goes on. A balance that counts what it dispatches takes the loads from the route.
//!
//! Invariant: a route is complete; its lane is valid whatever the balance thought of.

pub mod balance;
pub(in crate::planner) mod request;
pub mod shape;

use crate::id::{ChunkIndex, NodeId};
use crate::plan::content::Contents;
use crate::plan::load::NodeLoad;
use crate::plan::{Carries, Edge, Lane, Mode, Plan};
use crate::planner::View;
use crate::planner::request::Holder;
use crate::planner::route::request::{RouteRequest, Topology};
use crate::planner::route::shape::pivot::{self, Pivot};
use crate::planner::route::shape::{chain, ppt, rack, tunable};
use crate::policy::Shape;

/// What a balance decides about a request's helpers.
#[derive(Clone, Debug)]
pub(in crate::planner) enum Choice {
    /// The possible helpers, best first; the shape takes and arranges as many as it needs.
    Offered(Vec<Holder>),
    /// Exactly the helpers, by place.
    Placed(Vec<Holder>),
    /// Exactly the helpers, and how often each of them receives; the destination receives the rest.
    Tuned {
        /// The helpers by place.
        helpers: Vec<Holder>,
        /// One number for each of them.
        receives: Vec<u32>,
    },
}

/// The nodes of a request, joined.
#[derive(Clone, Debug)]
pub(in crate::planner) struct Route {
    /// The helper in each place.
    pub helpers: Vec<Holder>,
    /// The parent of each helper's place, `helpers.len()` being the destination; `None` for a
    /// gather at the first destination.
    pub parents: Option<Vec<usize>>,
    /// The destinations, in the order of the lost chunks.
    pub destinations: Vec<NodeId>,
    /// What each helper of a gather sends.
    gathered_bytes: Vec<u64>,
}

/// Makes routes; keeps the buffers that it takes, and what repairs take of their helpers.
#[derive(Debug)]
pub(in crate::planner) struct Joiner<'a> {
    view: &'a View<'a>,
    pivot: Pivot,
    contents: Contents,
}

impl<'a> Joiner<'a> {
    pub fn new(view: &'a View<'a>) -> Joiner<'a> {
        Joiner { view, pivot: Pivot::default(), contents: Contents::default() }
    }

    /// The route of a request whose helpers and destinations have been decided about.
    pub fn join(
        &mut self,
        request: &RouteRequest<'_>,
        choice: Choice,
        destinations: Vec<NodeId>,
    ) -> Route {
        let (helpers, parents) = match choice {
            Choice::Offered(offered) => self.arrange(request, offered, destinations[0]),
            Choice::Placed(helpers) => match request.topology {
                Topology::Tree(parent) => on_the_tree(parent, helpers),
                Topology::Gather => (helpers, None),
                Topology::Grown | Topology::Tuned => {
                    unreachable!("{} has no places", request.shape)
                }
            },
            Choice::Tuned { helpers, receives } => (helpers, Some(tunable::parents(&receives))),
        };
        let gathered_bytes = match parents {
            Some(_) => Vec::new(),
            None => self.gathered_bytes(request, &helpers),
        };
        Route { helpers, parents, destinations, gathered_bytes }
    }

    /// What each helper sends to a decoder.
    pub fn gathered_bytes(&mut self, request: &RouteRequest<'_>, helpers: &[Holder]) -> Vec<u64> {
        let (code, chunk_bytes) = (request.job.code, request.job.chunk_bytes);
        let alpha = u64::from(code.sub_chunk_count());
        if alpha == 1 {
            return vec![chunk_bytes; helpers.len()];
        }
        let mut chunks: Vec<ChunkIndex> = helpers.iter().map(|(chunk, _)| *chunk).collect();
        chunks.sort_unstable();
        let content = self.contents.of_repair(code, request.lost, &chunks);
        let content = content.expect("the code chose these helpers");
        helpers.iter().map(|(chunk, _)| content.sent(*chunk) * chunk_bytes / alpha).collect()
    }

    /// Takes and arranges helpers of those that were offered.
    fn arrange(
        &mut self,
        request: &RouteRequest<'_>,
        offered: Vec<Holder>,
        destination: NodeId,
    ) -> (Vec<Holder>, Option<Vec<usize>>) {
        match (&request.topology, request.shape) {
            (Topology::Gather, _) => (request.choose_helpers(offered), None),
            (Topology::Tree(parent), Shape::Chain) => {
                on_the_tree(*parent, chain::best_path(request, offered, self.view))
            }
            (Topology::Tree(parent), _) => on_the_tree(*parent, request.choose_helpers(offered)),
            (Topology::Grown | Topology::Tuned, shape) => {
                let (helpers, parents) = self.grow(request, shape, offered, destination);
                (helpers, Some(parents))
            }
        }
    }

    fn grow(
        &mut self,
        request: &RouteRequest<'_>,
        shape: Shape,
        offered: Vec<Holder>,
        destination: NodeId,
    ) -> (Vec<Holder>, Vec<usize>) {
        let view = self.view;
        if shape == Shape::Rack {
            return rack::join(request, &offered, destination, view);
        }
        let offered = pivot::narrow(request, offered, view);
        let helper_count = request.helper_count(&offered);
        match shape {
            Shape::Ppt => ppt::join(&offered, helper_count, destination, view),
            Shape::Pivot => self.pivot.join(&offered, helper_count, destination, view),
            other => unreachable!("{other} grows no trees"),
        }
    }
}

/// Helpers by place on the tree that there is for so many.
fn on_the_tree(
    parent: fn(usize, usize) -> usize,
    helpers: Vec<Holder>,
) -> (Vec<Holder>, Option<Vec<usize>>) {
    let parents = (0..helpers.len()).map(|place| parent(place, helpers.len())).collect();
    (helpers, Some(parents))
}

impl Route {
    /// The plan that this is.
    pub fn plan(&self, request: &RouteRequest<'_>) -> Plan {
        let (decoder, edges) = match &self.parents {
            Some(parents) => (None, self.tree_edges(request, parents)),
            None => (Some(self.destinations[0]), self.gather_edges(request)),
        };
        let lane = Lane {
            range: request.range(),
            lost: request.lost.to_vec(),
            mode: Mode::Streamed,
            decoder,
            scheme: None,
            edges,
        };
        request.plan(&self.destinations, vec![lane])
    }

    fn tree_edges(&self, request: &RouteRequest<'_>, parents: &[usize]) -> Vec<Edge> {
        let node = |at: usize| self.helpers.get(at).map_or(self.destinations[0], |(_, node)| *node);
        let edge = |(child, &parent): (usize, &usize)| Edge {
            child: node(child),
            parent: node(parent),
            bytes: request.job.chunk_bytes,
            carries: Carries::Partial,
        };
        parents.iter().enumerate().map(edge).collect()
    }

    fn gather_edges(&self, request: &RouteRequest<'_>) -> Vec<Edge> {
        let decoder = self.destinations[0];
        let combined = self.helpers.iter().zip(&self.gathered_bytes);
        let combined = combined.map(|(&(_, child), &bytes)| Edge {
            child,
            parent: decoder,
            bytes,
            carries: Carries::Combined,
        });
        let finished = self.destinations[1..].iter().map(|&parent| Edge {
            child: decoder,
            parent,
            bytes: request.job.chunk_bytes,
            carries: Carries::Finished,
        });
        combined.chain(finished).collect()
    }

    /// What it puts on each of its nodes. A helper reads what it sends; that is exact but for codes
    /// whose helpers combine before they send, where the load of the plan is.
    pub fn each_load(&self, request: &RouteRequest<'_>, mut charge: impl FnMut(NodeId, NodeLoad)) {
        let (chunk_bytes, helper_count) = (request.job.chunk_bytes, self.helpers.len());
        let mut received_bytes = vec![0; helper_count + 1];
        match &self.parents {
            Some(parents) => {
                parents.iter().for_each(|&parent| received_bytes[parent] += chunk_bytes);
            }
            None => received_bytes[helper_count] = self.gathered_bytes.iter().sum(),
        }
        for (at, (_, node)) in self.helpers.iter().enumerate() {
            let up_bytes = self.gathered_bytes.get(at).copied().unwrap_or(chunk_bytes);
            let down_bytes = received_bytes[at];
            charge(
                *node,
                NodeLoad { up_bytes, down_bytes, disk_read_bytes: up_bytes, ..NodeLoad::default() },
            );
        }
        for (at, node) in self.destinations.iter().enumerate() {
            let load = NodeLoad {
                up_bytes: if at == 0 { request.forwarded_bytes() } else { 0 },
                down_bytes: if at == 0 { received_bytes[helper_count] } else { chunk_bytes },
                disk_write_bytes: chunk_bytes,
                ..NodeLoad::default()
            };
            charge(*node, load);
        }
    }
}
