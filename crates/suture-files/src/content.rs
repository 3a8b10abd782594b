//! What a stripe holds of the file, from whatever of its chunks is good.
//!
//! Place: [chunks -> checked ranges] -> the file; or, where whole chunks are too few, -> encoded
//! again -> proven.
//! * Of a stripe only the data chunks are read that hold bytes of the file, and of these only the
//!   blocks that do: behind them there are zeros, which need not be read. Where one is lost, its
//!   helpers are read as well, and it is computed.
//! * A chunk that turns out corrupt in the middle is lost from then on, and everything starts over
//!   with other helpers: simple, and as rare as corruption.
//!
//! So a stripe may have more bad chunks than its code survives, and its content all the same.
//!
//! Invariant: this is the one definition of what is left of a stripe. `decode` writes it, `rebuild`
//! encodes it again where the good chunks do not determine the others, `verify` calls repairable
//! what has it.

use std::io;

use suture_code::layout::{Layout, PositionRange};
use suture_code::{ChunkIndex, CodeError};
use suture_edge::checksum::BLOCK_BYTES;

use super::chunk::ChunkFault;
use super::combination::{self, Buffers, Combination};
use super::method::Method;
use super::position_ranges::{ChunkInput, PositionRanges, placed};
use super::stripe::Stripe;

/// A piece of a data chunk that holds bytes of the file; padding may follow them.
#[derive(Clone, Copy, Debug)]
pub struct DataPiece<'a> {
    pub chunk: ChunkIndex,
    /// Where in the chunk it begins.
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// Where the bytes of a stripe come from.
pub struct Recipe {
    layout: Layout,
    /// How far into the chunks there are bytes of the file, in whole blocks.
    filled_bytes: u64,
    /// Data chunks that the file needs.
    wanted: Vec<ChunkIndex>,
    /// Everything that is read: the wanted ones that are ready, and helpers.
    inputs: Vec<ChunkInput>,
    /// Computes the lost from the helpers; absent when nothing is lost.
    combination: Option<Combination>,
}

/// The way a range can fail.
enum ReadError {
    Chunk(ChunkIndex, ChunkFault),
    Output(io::Error),
}

/// Gives all that a stripe holds of the file to `write`, in no order, from several threads. Some of
/// it may be given more than once: the last time it is right. Chunks that cannot be used are lost
/// to the stripe afterwards. The returned recipe names the chunks that were read.
///
/// # Errors
/// What `write` reports; and, inside, when the chunks that can be used do not determine it.
pub fn read(
    stripe: &mut Stripe<'_>,
    write: impl Fn(DataPiece<'_>) -> io::Result<()> + Sync,
) -> io::Result<Result<Recipe, CodeError>> {
    loop {
        let recipe = match Recipe::choose(stripe) {
            Ok(recipe) => recipe,
            Err(error) => return Ok(Err(error)),
        };
        let spread = stripe.spread;
        let work = |buffers: &mut Buffers, range: &PositionRange| {
            recipe.run(stripe, range, buffers, &write)
        };
        let extent = recipe.filled_bytes;
        match spread.for_each_range(recipe.layout, extent, Buffers::default, work) {
            Ok(()) => return Ok(Ok(recipe)),
            Err(ReadError::Chunk(chunk, fault)) => stripe.lose(chunk, fault),
            Err(ReadError::Output(error)) => return Err(error),
        }
    }
}

/// Whether all of it can be read or computed, so that the stripe can be encoded again. Without
/// checksums in the manifest nothing would prove a chunk that is made so: then the answer is no.
pub fn is_left(stripe: &mut Stripe<'_>) -> bool {
    stripe.manifest.chunk_checksums.is_some()
        && read(stripe, |_| Ok(())).is_ok_and(|read| read.is_ok())
}

impl Recipe {
    fn choose(stripe: &mut Stripe<'_>) -> Result<Recipe, CodeError> {
        let geometry = &stripe.manifest.geometry;
        let (chunk_bytes, sub_layout) = (geometry.chunk_bytes, geometry.layout());
        let wanted: Vec<ChunkIndex> = geometry.filled_chunks(stripe.index).collect();
        let first = geometry.file_piece(stripe.index, ChunkIndex(0), 0, chunk_bytes as usize);
        let filled_bytes = (first.bytes as u64).next_multiple_of(BLOCK_BYTES).min(chunk_bytes);
        stripe.open(&wanted);
        loop {
            let (lost, ready) = split_lost(&wanted, stripe);
            if lost.is_empty() {
                let inputs = ready.iter().map(|chunk| ChunkInput::whole(*chunk, 1)).collect();
                let layout = Layout::plain(chunk_bytes);
                return Ok(Recipe { layout, filled_bytes, inputs, wanted, combination: None });
            }
            let repair = stripe.open_repair(Method::Optimal.into(), &lost)?;
            // Opening a helper may have found out a wanted chunk.
            if split_lost(&wanted, stripe).0 == lost {
                let combination = Combination::of(&repair.dag(&stripe.code())?, &ready)?;
                return Ok(Recipe {
                    layout: sub_layout,
                    filled_bytes,
                    wanted,
                    inputs: combination.inputs().to_vec(),
                    combination: Some(combination),
                });
            }
        }
    }

    fn run(
        &self,
        stripe: &Stripe<'_>,
        range: &PositionRange,
        buffers: &mut Buffers,
        write: impl Fn(DataPiece<'_>) -> io::Result<()>,
    ) -> Result<(), ReadError> {
        combination::read(stripe, &self.inputs, range, &mut buffers.inputs)
            .map_err(|(chunk, fault)| ReadError::Chunk(chunk, fault))?;
        let mut lost = &[][..];
        if let Some(combination) = &self.combination {
            combination.run(range, &buffers.inputs, &mut buffers.outputs);
            lost = combination.outputs();
        }
        let read = self.inputs.iter().map(|input| input.chunk).zip(&buffers.inputs);
        let computed = lost.iter().copied().zip(&buffers.outputs);
        for (chunk, buffer) in read.chain(computed) {
            if !self.wanted.contains(&chunk) {
                continue;
            }
            for (piece, bytes) in placed(range, buffer) {
                write(DataPiece { chunk, offset: piece.offset, bytes })
                    .map_err(ReadError::Output)?;
            }
        }
        Ok(())
    }

    /// The chunks that were read, and how many bytes of each.
    pub fn read_bytes(&self, range_bytes: usize) -> Vec<(ChunkIndex, u64)> {
        let ranges = PositionRanges::over(self.layout, self.filled_bytes, range_bytes);
        let ranges: Vec<PositionRange> =
            (0..ranges.count()).map(|index| ranges.get(index)).collect();
        let bytes =
            |input: &ChunkInput| ranges.iter().map(|w| input.packed(w).bytes() as u64).sum();
        self.inputs.iter().map(|input| (input.chunk, bytes(input))).collect()
    }
}

/// The lost ones among `wanted`, and the others.
fn split_lost(wanted: &[ChunkIndex], stripe: &Stripe<'_>) -> (Vec<ChunkIndex>, Vec<ChunkIndex>) {
    let lost = stripe.lost();
    wanted.iter().partition(|chunk| lost.contains(chunk))
}
