//! How the chunks of a simulated stripe are cut: their lengths and their unit.
//!
//! Place: before the life of a repair; `metadata.rs` makes stripes by it.
//! Most stripes are plain: all chunks of one length, in one unit. Odd ones are like those that
//! others store: data chunks end early, some are absent and known to be zero, parity is as long as
//! the data that it is made of.

use suture_code::execute::Program;
use suture_code::{ChunkIndex, Code};
use suture_repair::random::Random;

/// The lengths of a stripe's chunks, and its unit.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    chunk_bytes: Vec<u64>,
    pub unit_bytes: u64,
}

impl Cut {
    /// All chunks are equally long.
    pub fn plain(code: Code, bytes: u64) -> Cut {
        Cut { chunk_bytes: vec![bytes; code.chunk_count()], unit_bytes: bytes }
    }

    /// Chunks of any lengths that the code takes, the longest of `bytes`.
    pub fn odd(random: &mut Random, code: Code, bytes: u64) -> Cut {
        let alignment = code.alignment() as u64;
        let unit_bytes = alignment * random.between(1, bytes / alignment);
        let is_plain = code.sub_chunk_count() == 1;
        let longest = random.index(code.data_chunks());
        let mut data = |chunk: usize| match random.below(4) {
            _ if chunk == longest => bytes,
            0 if is_plain => 0,
            1 | 2 => random.between(1, bytes),
            _ => bytes,
        };
        let mut chunk_bytes: Vec<u64> = (0..code.data_chunks()).map(&mut data).collect();
        for chunk in code.chunks().skip(code.data_chunks()) {
            let of_data = |(data, _): &(ChunkIndex, &u64)| match code {
                Code::Lrc(lrc) => lrc.group(chunk).is_none_or(|g| lrc.group(*data) == Some(g)),
                _ => true,
            };
            let data = code.chunks().zip(&chunk_bytes).take(code.data_chunks());
            let longest = data.filter(of_data).map(|(_, bytes)| *bytes).max();
            chunk_bytes.push(longest.unwrap_or(0));
        }
        Cut { chunk_bytes, unit_bytes }
    }

    /// Cuts the data chunks, computes the parity of what is left, unit by unit, and cuts that.
    pub fn encode(&self, code: Code, chunks: &mut [Vec<u8>]) {
        for (chunk, bytes) in chunks.iter_mut().zip(&self.chunk_bytes) {
            chunk[*bytes as usize..].fill(0);
        }
        let program = Program::compile(&code.encode_dag()).expect("encoding always compiles");
        let (data, parity) = chunks.split_at_mut(code.data_chunks());
        let (bytes, alpha) = (data[0].len(), code.sub_chunk_count() as usize);
        for from in (0..bytes).step_by(self.unit_bytes as usize) {
            let unit = from..bytes.min(from + self.unit_bytes as usize);
            let sub_chunk_bytes = unit.len() / alpha;
            let sources = data.iter().flat_map(|c| c[unit.clone()].chunks(sub_chunk_bytes));
            let outputs = parity.iter_mut();
            let outputs = outputs.flat_map(|c| c[unit.clone()].chunks_mut(sub_chunk_bytes));
            let mut outputs: Vec<&mut [u8]> = outputs.collect();
            program
                .run(&sources.collect::<Vec<_>>(), &mut outputs)
                .expect("units are equally long");
        }
        for (chunk, bytes) in chunks.iter_mut().zip(&self.chunk_bytes) {
            let past_end = chunk.split_off(*bytes as usize);
            assert!(past_end.iter().all(|byte| *byte == 0), "past its end a chunk is zeros");
        }
    }
}
