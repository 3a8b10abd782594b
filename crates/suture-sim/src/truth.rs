//! The durable truth of the simulated cluster: the stripe map, generations, and the real bytes.
//!
//! Place: ... chunk proven and durable -> [commit location] -> stripe healthy.
//! It stands for the SQLite metadata of production: a commit is a compare-and-set on the stripe's
//! generation. It also remembers every chunk's original bytes, which no state machine ever sees.

use std::collections::BTreeMap;

use suture_code::Code;
use suture_code::execute::Program;
use suture_repair::event::Commit;
use suture_repair::id::{ChunkIndex, Generation, NodeId, Stamp, StripeId};
use suture_repair::random::Random;
use suture_repair::stripe::{ChunkRecord, Stripe};

use crate::disk::{Nets, checksum};

/// What survives everything.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// Visible stripes.
    pub stripes: BTreeMap<StripeId, Stripe>,
    /// The bytes of every chunk of every stripe there ever was.
    originals: BTreeMap<(StripeId, ChunkIndex), Vec<u8>>,
    /// The next stripe's id.
    pub next_stripe: u64,
    /// The last coordinator's epoch.
    pub epoch: u32,
}

impl Truth {
    /// Makes a stripe of random bytes for the given nodes; it is not visible yet.
    pub fn write(&mut self, random: &mut Random, code: Code, bytes: u64, on: &[NodeId]) -> Stripe {
        let id = StripeId(self.next_stripe);
        self.next_stripe += 1;
        let mut chunks = vec![vec![0; bytes as usize]; code.chunk_count()];
        let (data, parity) = chunks.split_at_mut(code.data_chunks());
        data.iter_mut().for_each(|chunk| random.fill(chunk));
        let sub_chunk_bytes = bytes as usize / code.sub_chunk_count() as usize;
        let sources: Vec<&[u8]> = data.iter().flat_map(|c| c.chunks(sub_chunk_bytes)).collect();
        let outputs = parity.iter_mut().flat_map(|chunk| chunk.chunks_mut(sub_chunk_bytes));
        let mut outputs: Vec<&mut [u8]> = outputs.collect();
        let program = Program::compile(&code.encode_dag()).expect("encoding always compiles");
        program.run(&sources, &mut outputs).expect("chunks are of equal length");
        let record = |(node, bytes): (&NodeId, &Vec<u8>)| ChunkRecord {
            node: Some(*node),
            stamp: Stamp(0),
            crc: checksum(bytes),
        };
        let records = on.iter().zip(&chunks).map(record).collect();
        for (index, bytes) in chunks.into_iter().enumerate() {
            self.originals.insert((id, ChunkIndex(index as u8)), bytes);
        }
        Stripe { id, code, chunk_bytes: bytes, generation: Generation(1), chunks: records }
    }

    /// What the chunk must contain.
    pub fn original(&self, stripe: StripeId, chunk: ChunkIndex) -> &[u8] {
        &self.originals[&(stripe, chunk)]
    }

    /// Compare-and-set of one location. `Ok` is the stripe as it is now, `Err` as it was.
    pub fn commit(&mut self, commit: &Commit, nets: Nets) -> Result<Stripe, Option<Stripe>> {
        let Some(stripe) = self.stripes.get_mut(&commit.copy.stripe) else { return Err(None) };
        if commit.repair.epoch() < self.epoch {
            // Its coordinator has been superseded, and the new one has read the map already.
            return Err(Some(stripe.clone()));
        }
        if nets.compare_and_set && stripe.generation != commit.generation {
            return Err(Some(stripe.clone()));
        }
        let record = &mut stripe.chunks[usize::from(commit.copy.chunk.0)];
        (record.node, record.stamp) = (Some(commit.node), commit.copy.stamp);
        stripe.generation.0 += 1;
        Ok(stripe.clone())
    }
}
