//! A request with what is known of its tree, before the tree has nodes.
//!
//! Place: the first step of `[plan]` by a published planner, on top of `planner/request.rs`. One
//! lost chunk of a code that sums whole chunks flows along the shape's tree; everything else
//! (several lost chunks, codes with sub-chunks) is gathered at one decoder, the first destination,
//! which sends finished chunks to the others. How many help is known of codes that any k chunks
//! decode; the others are asked for every choice, and take more or fewer with the order in which
//! helpers are preferred. The shape makes these requests (`Shape::request`).

use std::ops::Deref;

use suture_code::{Code, Shortened};

use crate::id::ChunkIndex;
use crate::planner::request::{Holder, Request};
use crate::policy::Shape;

/// A request with what is known of its tree.
#[derive(Debug)]
pub(in crate::planner) struct RouteRequest<'a> {
    pub request: Request<'a>,
    pub shape: Shape,
    /// How many of the candidates it takes as a rule: exactly where any will do, otherwise when the
    /// code is asked in their order. What is built goes by the helpers that were chosen, not by
    /// this.
    pub usual_count: usize,
    pub topology: Topology,
}

/// What flows, and what is known of the edges.
#[derive(Debug)]
pub(in crate::planner) enum Topology {
    /// Sums along a tree that is known before its nodes: the parent of a place among so many
    /// helpers, where the number of helpers is the destination.
    Tree(fn(usize, usize) -> usize),
    /// Sums along a tree that the shape grows from the links of its nodes.
    Grown,
    /// Sums along a tree that follows from how often each node receives.
    Tuned,
    /// Combinations from all helpers to the first destination.
    Gather,
}

impl<'a> Deref for RouteRequest<'a> {
    type Target = Request<'a>;

    fn deref(&self) -> &Request<'a> {
        &self.request
    }
}

impl RouteRequest<'_> {
    /// How many of `sources` help: k where any will do, all of them where the code chose them.
    pub fn helper_count(&self, sources: &[Holder]) -> usize {
        if self.takes_any() { self.usual_count } else { sources.len() }
    }

    /// How often each place of a flow of so many helpers receives what a helper sends, as far as
    /// that is known before the nodes are; the last place is the (first) destination.
    pub fn receives(&self, helper_count: usize) -> Vec<u64> {
        let mut receives = vec![0; helper_count + 1];
        match &self.topology {
            Topology::Tree(parent) => {
                (0..helper_count).for_each(|place| receives[parent(place, helper_count)] += 1);
            }
            Topology::Gather => receives[helper_count] = helper_count as u64,
            Topology::Grown | Topology::Tuned => receives[helper_count] = 1,
        }
        receives
    }

    /// Whether any `usual_count` of the candidates will do.
    pub fn takes_any(&self) -> bool {
        takes_any(self.job.code)
    }

    /// The helpers that the code takes when it prefers those that come early in `preferred`, in
    /// that order.
    pub fn choose_helpers(&self, mut preferred: Vec<Holder>) -> Vec<Holder> {
        if self.takes_any() {
            preferred.truncate(self.usual_count);
            return preferred;
        }
        let chunks: Vec<ChunkIndex> = preferred.iter().map(|(chunk, _)| *chunk).collect();
        let chosen = self.job.code.helpers_for(self.lost, &chunks);
        let chosen = chosen.expect("the candidates were enough when the request was made");
        preferred.retain(|(chunk, _)| chosen.contains(chunk));
        preferred
    }

    /// What a gather from so many helpers brings to the decoder, if they send as little as they
    /// can.
    pub fn gathered_total(&self, helper_count: usize) -> u64 {
        let code = self.job.code;
        let alpha = u64::from(code.sub_chunk_count());
        let sub_chunks = match self.lost {
            [lost] => u64::from(code.least_helper_sub_chunks(*lost)),
            _ => helper_count as u64 * alpha,
        };
        sub_chunks * self.job.chunk_bytes / alpha
    }

    /// What the decoder of several chunks sends on to the other destinations.
    pub fn forwarded_bytes(&self) -> u64 {
        (self.lost.len() as u64 - 1) * self.job.chunk_bytes
    }
}

/// Whether any k chunks rebuild any others, known zeros counted among them.
pub(in crate::planner) fn takes_any(code: Shortened) -> bool {
    match code.code() {
        Code::Rs(_) | Code::RsVandermonde(_) => true,
        // These send less from helpers of their choice.
        Code::Lrc(_) | Code::Butterfly(_) | Code::Clay(_) => false,
    }
}

/// How many of `helpers` it takes to rebuild `lost`; `None` when they are not enough.
pub(in crate::planner) fn usual_count(
    code: Shortened,
    lost: &[ChunkIndex],
    helpers: &[Holder],
) -> Option<usize> {
    if takes_any(code) {
        let needed = code.data_chunks();
        return (1..=helpers.len()).contains(&needed).then_some(needed);
    }
    let chunks: Vec<ChunkIndex> = helpers.iter().map(|(chunk, _)| *chunk).collect();
    code.helpers_for(lost, &chunks).ok().map(|helpers| helpers.len())
}
