//! Cutting a repair DAG at its helpers: what each of them runs and sends, and what is left for the
//! decoder.
//!
//! Place: ... dispatch -> [which rows each helper sends, from the DAG] -> its role ...
//! A helper sends sub-chunks as they are, or sums of its own sub-chunks that the code marks as
//! [`Join::AtHelper`]: it may then read more than it sends. Whatever it sends is a *row*; rows are
//! numbered from 0 in the order in which the DAG defines them, and both ends count alike.
//!
//! Invariant: running the helpers' parts and then the decoder's is running the whole.

use super::{Dag, Join, Origin, Source, ValueId};
use crate::chunk::ChunkIndex;
use std::collections::BTreeMap;

/// A repair DAG in parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// What each helper runs: its sub-chunks are the sources, and the rows that it sends are the
    /// outputs, row `i` as sub-chunk `i` of the helper's own chunk. Chunks in ascending order.
    pub helpers: Vec<(ChunkIndex, Dag)>,
    /// What the decoder runs: rows are the sources, row `i` of a helper as sub-chunk `i` of its
    /// chunk, in the order of [`Split::helpers`]; the outputs are those of the whole.
    pub decoder: Dag,
}

impl Dag {
    /// The values that each helper sends, in order of definition, chunks in ascending order:
    /// sub-chunks and sums of its own that another node needs.
    #[must_use]
    pub fn sent_values(&self) -> Vec<(ChunkIndex, Vec<ValueId>)> {
        let mut is_sent = vec![false; self.values.len()];
        self.outputs.iter().for_each(|output| is_sent[output.value.index()] = true);
        let is_live = self.live_values();
        for (id, value) in self.values() {
            if let Origin::Sum { join: Join::Anywhere | Join::AtDecoder, terms } = &value.origin
                && is_live[id.index()]
            {
                terms.iter().for_each(|term| is_sent[term.value.index()] = true);
            }
        }
        let mut sent: BTreeMap<ChunkIndex, Vec<ValueId>> = BTreeMap::new();
        for (id, _) in self.values().filter(|(id, _)| is_sent[id.index()]) {
            if let Some(owner) = self.owner(id) {
                sent.entry(owner).or_default().push(id);
            }
        }
        sent.into_iter().collect()
    }

    /// How many rows each helper sends, chunks in ascending order. Never more than it reads.
    #[must_use]
    pub fn sends(&self) -> Vec<(ChunkIndex, u32)> {
        let sent = self.sent_values().into_iter();
        sent.map(|(chunk, rows)| (chunk, rows.len() as u32)).collect()
    }

    /// The parts that the helpers and the decoder run.
    ///
    /// # Panics
    /// When the DAG is not valid.
    #[must_use]
    pub fn split_at_helpers(&self) -> Split {
        let sent = self.sent_values();
        let helpers = sent.iter().map(|(chunk, rows)| (*chunk, self.helper_part(*chunk, rows)));
        Split { helpers: helpers.collect(), decoder: self.decoder_part(&sent) }
    }

    /// The chunk whose sub-chunks alone a value is made of, at its helper: a source's, or that of a
    /// sum [`Join::AtHelper`].
    pub(super) fn owner(&self, id: ValueId) -> Option<ChunkIndex> {
        match &self.value(id).origin {
            Origin::Source(source) => Some(source.chunk),
            Origin::Sum { join: Join::AtHelper, terms } => {
                let mut owners = terms.iter().map(|term| self.owner(term.value));
                let first = owners.next()??;
                owners.all(|owner| owner == Some(first)).then_some(first)
            }
            Origin::Sum { .. } => None,
        }
    }

    /// Whether each value leads to an output.
    pub(crate) fn live_values(&self) -> Vec<bool> {
        let mut is_live = vec![false; self.values.len()];
        self.outputs.iter().for_each(|output| is_live[output.value.index()] = true);
        for (id, value) in self.values().rev() {
            if let Origin::Sum { terms, .. } = &value.origin
                && is_live[id.index()]
            {
                terms.iter().for_each(|term| is_live[term.value.index()] = true);
            }
        }
        is_live
    }

    fn helper_part(&self, chunk: ChunkIndex, rows: &[ValueId]) -> Dag {
        let mut part = SubDag::new(self);
        let own = self.values().filter(|(id, _)| self.owner(*id) == Some(chunk));
        own.for_each(|(id, _)| part.copy(id));
        for (row, &id) in rows.iter().enumerate() {
            part.dag.add_output(chunk, row as u32, part.new_id(id));
        }
        part.dag
    }

    fn decoder_part(&self, sent: &[(ChunkIndex, Vec<ValueId>)]) -> Dag {
        let mut part = SubDag::new(self);
        for (chunk, rows) in sent {
            for (row, &id) in rows.iter().enumerate() {
                let source = Source { chunk: *chunk, sub_chunk: row as u32 };
                part.ids[id.index()] = Some(part.dag.add_source(source, self.value(id).width));
            }
        }
        let is_live = self.live_values();
        let rest = self.values().filter(|(id, _)| is_live[id.index()] && self.owner(*id).is_none());
        rest.for_each(|(id, _)| part.copy(id));
        for output in &self.outputs {
            part.dag.add_output(output.chunk, output.sub_chunk, part.new_id(output.value));
        }
        part.dag
    }
}

/// A part of a DAG in the making, with names of its own.
struct SubDag<'a> {
    whole: &'a Dag,
    dag: Dag,
    /// What the values of the whole are called here.
    ids: Vec<Option<ValueId>>,
}

impl SubDag<'_> {
    fn new(whole: &Dag) -> SubDag<'_> {
        let dag = Dag::new(whole.sub_chunk_count);
        SubDag { whole, dag, ids: vec![None; whole.values.len()] }
    }

    fn copy(&mut self, id: ValueId) {
        let mut value = self.whole.value(id).clone();
        if let Origin::Sum { terms, .. } = &mut value.origin {
            terms.iter_mut().for_each(|term| term.value = self.new_id(term.value));
        }
        self.ids[id.index()] = Some(self.dag.define(value));
    }

    fn new_id(&self, id: ValueId) -> ValueId {
        self.ids[id.index()].expect("a part is closed under the terms of its sums")
    }
}
