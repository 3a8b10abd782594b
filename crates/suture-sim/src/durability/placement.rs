//! Which stripes a node holds, and which losses of a stripe its code does not survive.
//!
//! Place: failure detected -> [stripes affected].
//! Lists in both directions, because runs ask by node millions of times. What is fatal the code
//! itself answers: for codes with local groups that depends on which chunks are lost.

use suture_code::Code;
use suture_code::chunk::ChunkIndex;
use suture_repair::id::NodeId;

/// All stripes of one code on nodes.
#[derive(Clone, Debug)]
pub struct Placement {
    code: Code,
    nodes: usize,
    /// The node of each chunk, stripe after stripe.
    on: Vec<NodeId>,
    /// The stripes of all nodes, node after node, ascending.
    stripes: Vec<u32>,
    /// Where each node's begin in `stripes`, and the end of the last.
    starts: Vec<usize>,
}

impl Placement {
    /// From the node of each chunk, stripe after stripe.
    ///
    /// # Panics
    /// Unless `on` holds whole stripes on nodes below `nodes`.
    pub fn new(code: Code, nodes: usize, on: Vec<NodeId>) -> Placement {
        let width = code.chunk_count();
        assert!(on.len().is_multiple_of(width), "whole stripes");
        let mut starts = vec![0; nodes + 1];
        on.iter().for_each(|node| starts[node.index() + 1] += 1);
        (0..nodes).for_each(|node| starts[node + 1] += starts[node]);
        let mut next = starts.clone();
        let mut stripes = vec![0; on.len()];
        for (chunk, node) in on.iter().enumerate() {
            stripes[next[node.index()]] = (chunk / width) as u32;
            next[node.index()] += 1;
        }
        Placement { code, nodes, on, stripes, starts }
    }

    /// The code of every stripe.
    pub fn code(&self) -> Code {
        self.code
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.nodes
    }

    /// How many stripes there are.
    pub fn stripe_count(&self) -> usize {
        self.on.len() / self.code.chunk_count()
    }

    /// Chunks of a node, on average.
    pub fn mean_chunks(&self) -> f64 {
        self.on.len() as f64 / self.nodes as f64
    }

    /// The stripes that have a chunk on this node, ascending.
    pub fn stripes_of(&self, node: NodeId) -> &[u32] {
        &self.stripes[self.starts[node.index()]..self.starts[node.index() + 1]]
    }

    /// The node of each chunk of a stripe.
    pub fn nodes_of(&self, stripe: u32) -> &[NodeId] {
        let width = self.code.chunk_count();
        &self.on[stripe as usize * width..][..width]
    }

    /// Whether a stripe is beyond repair without the chunks for which `is_lost` holds.
    pub fn is_fatal(&self, stripe: u32, is_lost: impl Fn(NodeId) -> bool) -> bool {
        let nodes = self.nodes_of(stripe);
        let lost = nodes.iter().filter(|node| is_lost(**node)).count();
        if lost <= self.code.loss_tolerance() {
            return false;
        }
        let chunks = self.code.chunks().zip(nodes);
        let left: Vec<ChunkIndex> =
            chunks.filter(|(_, node)| !is_lost(**node)).map(|(chunk, _)| chunk).collect();
        !is_decodable(self.code, &left)
    }
}

/// `Code::decodable`, at once for codes that any k chunks decode.
pub(super) fn is_decodable(code: Code, left: &[ChunkIndex]) -> bool {
    if left.len() < code.data_chunks() {
        return false;
    }
    let any_k_decode = code.loss_tolerance() == code.parity_chunks();
    any_k_decode || code.decodable(left)
}
