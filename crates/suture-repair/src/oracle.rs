//! The definition of what a plan means: executes any valid plan in memory, edge by edge.
//!
//! Place: beside `[plan -> ... -> slices]`; agents, simulators and planners are tested against it.
//! Slow and obvious on purpose. There are no slices and no network: a node that is asked for its
//! sum asks its children for theirs first. A lane without a decoder is one recursion over the tree;
//! a lane with one hands the helpers' bytes to the code's own naive executor, which forms their
//! traces or combinations on the way.
//!
//! Invariant: it uses nothing of a plan but what `suture-plan-1` says, and nothing of the helpers
//! but the chunks that they hold.

use std::collections::BTreeMap;

use suture_code::Dag;
use suture_code::execute::run_naively;
use suture_gf::field;

use crate::id::{ChunkIndex, NodeId};
use crate::plan::{Lane, Plan, Range, StripeFacts};

/// The bytes of the surviving chunks, in one unit each; short ones read as zeros past their end.
pub type Chunks = BTreeMap<ChunkIndex, Vec<u8>>;

/// Executes a valid plan and returns, for each lost chunk, the bytes of the plan's range that
/// arrive at its destination. With sub-chunks, the range of a chunk is the same range of each of
/// its sub-chunks, one after the other.
///
/// # Panics
/// When the plan is not valid, or a helper's chunk is missing from `chunks`.
pub fn execute(plan: &Plan, facts: &StripeFacts<'_>, chunks: &Chunks) -> Chunks {
    let range_bytes = plan.range.bytes() as usize;
    let chunks = &padded(chunks, facts.chunk_bytes);
    let mut rebuilt: Chunks = plan.lost.iter().map(|&lost| (lost, vec![0; range_bytes])).collect();
    for lane in &plan.lanes {
        if lane.copies(facts) {
            copy(plan, lane, chunks, facts, rebuilt.get_mut(&lane.lost[0]).expect("it is lost"));
            continue;
        }
        let dag = dag(lane, facts);
        let run = Run { facts, chunks, lane, dag: &dag };
        for piece in plan.pieces(lane) {
            let parts = match lane.decoder {
                None => vec![run.sum_at(plan.destinations[&lane.lost[0]], piece)],
                Some(_) => run.decode(piece),
            };
            for (lost, parts) in lane.lost.iter().zip(parts.chunks(run.alpha())) {
                let into = rebuilt.get_mut(lost).expect("a lane rebuilds chunks of its plan");
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                put(into, plan.range, piece, &parts);
            }
        }
    }
    rebuilt
}

/// What the holder of the chunk sends is the chunk.
fn copy(plan: &Plan, lane: &Lane, chunks: &Chunks, facts: &StripeFacts<'_>, into: &mut [u8]) {
    let alpha = facts.code.sub_chunk_count() as usize;
    for piece in plan.pieces(lane) {
        let part = |part| sub_chunk_bytes(&chunks[&lane.lost[0]], alpha, part, piece);
        put(into, plan.range, piece, &(0..alpha).map(part).collect::<Vec<_>>());
    }
}

/// The chunks with zeros past their end.
fn padded(chunks: &Chunks, chunk_bytes: u64) -> Chunks {
    let mut chunks = chunks.clone();
    let longest = chunks.values().map(Vec::len).fold(chunk_bytes as usize, usize::max);
    chunks.values_mut().for_each(|chunk| chunk.resize(longest, 0));
    chunks
}

/// What the lane computes: the repair from its helpers, or that of its trace scheme.
fn dag(lane: &Lane, facts: &StripeFacts<'_>) -> Dag {
    let dag = match lane.scheme {
        None => facts.code.repair_dag(&lane.lost, &lane.helpers(facts)),
        Some(id) => {
            let scheme = facts.code.scheme(id.0).expect("the plan is valid: the scheme is known");
            facts.code.trace_dag(scheme)
        }
    };
    dag.expect("the plan is valid")
}

/// Bytes `range` of each sub-chunk of `chunk`, one after the other: what [`execute`] should give.
pub fn expected(chunk: &[u8], facts: &StripeFacts<'_>, range: Range) -> Vec<u8> {
    let alpha = facts.code.sub_chunk_count() as usize;
    (0..alpha).flat_map(|part| sub_chunk_bytes(chunk, alpha, part, range)).copied().collect()
}

/// One lane being executed.
struct Run<'a> {
    facts: &'a StripeFacts<'a>,
    chunks: &'a Chunks,
    lane: &'a Lane,
    dag: &'a Dag,
}

impl Run<'_> {
    fn alpha(&self) -> usize {
        self.facts.code.sub_chunk_count() as usize
    }

    /// What `node` has once all its children have sent: its own part and theirs.
    fn sum_at(&self, node: NodeId, piece: Range) -> Vec<u8> {
        let mut sum = vec![0; piece.bytes() as usize];
        if let Some(chunk) = self.facts.chunk_on(node) {
            let coefficients = self.dag.partial_coefficients(self.lane.lost[0]);
            let coefficients = coefficients.expect("the plan is valid: this is one sum");
            let own = coefficients.iter().find(|(helper, _)| *helper == chunk);
            let (_, coefficient) = own.expect("the node's chunk is a helper");
            add(&mut sum, *coefficient, sub_chunk_bytes(&self.chunks[&chunk], 1, 0, piece));
        }
        for child in self.lane.children(node) {
            add(&mut sum, 1, &self.sum_at(child, piece));
        }
        sum
    }

    /// What the decoder has once all helpers have sent: the sub-chunks of each lost chunk.
    fn decode(&self, piece: Range) -> Vec<Vec<u8>> {
        let alpha = self.alpha();
        let source = |source: suture_code::Source| {
            sub_chunk_bytes(&self.chunks[&source.chunk], alpha, source.sub_chunk as usize, piece)
        };
        let sources: Vec<&[u8]> = self.dag.sources().map(|(_, at)| source(at)).collect();
        let outputs = run_naively(self.dag, &sources, piece.bytes() as usize / alpha);
        let names = self.dag.outputs().iter().map(|output| (output.chunk, output.sub_chunk));
        let mut named: BTreeMap<_, _> = names.zip(outputs).collect();
        let parts = |&lost: &ChunkIndex| (0..alpha as u32).map(move |part| (lost, part));
        let wanted = self.lane.lost.iter().flat_map(parts);
        wanted.map(|name| named.remove(&name).expect("the DAG gives every sub-chunk")).collect()
    }
}

fn add(sum: &mut [u8], coefficient: u8, bytes: &[u8]) {
    for (sum, &byte) in sum.iter_mut().zip(bytes) {
        *sum ^= field::mul(coefficient, byte);
    }
}

/// Bytes `[from/alpha, to/alpha)` of sub-chunk `part`.
fn sub_chunk_bytes(chunk: &[u8], alpha: usize, part: usize, range: Range) -> &[u8] {
    let sub_chunk = &chunk[part * (chunk.len() / alpha)..][..chunk.len() / alpha];
    &sub_chunk[range.from as usize / alpha..range.to as usize / alpha]
}

/// Writes a piece's sub-chunks to their places in the rebuilt range.
fn put(into: &mut [u8], range: Range, piece: Range, parts: &[&[u8]]) {
    let alpha = parts.len();
    let from = (piece.from - range.from) as usize / alpha;
    for (part, bytes) in parts.iter().enumerate() {
        let sub_chunk = &mut into[part * (range.bytes() as usize / alpha)..];
        sub_chunk[from..from + bytes.len()].copy_from_slice(bytes);
    }
}
