//! Decoding an encoded directory back into the file, also when chunks are missing or corrupt.
//!
//! Place: chunks -> [checked windows -> the file].
//! * Of each stripe only the data chunks that hold bytes of the file are read. Where one is lost,
//!   its helpers are read as well, and it is computed; nothing is written into the directory.
//! * A chunk that turns out corrupt in the middle is lost from then on, and its stripe starts over
//!   with other helpers: simple, and as rare as corruption.
//! * The output has no name until every stripe is complete; then it is put in place.
//!
//! Invariant: the output's name stands for the whole, checked file or for what it was before.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use suture_code::layout::{Layout, Window};
use suture_code::{ChunkIndex, CodeError};
use suture_edge::checksum::BLOCK_BYTES;
use suture_edge::progress::{Progress, Step};

use super::chunk::ChunkFault;
use super::combination::{self, Buffers, Combination};
use super::directory::sync_directory;
use super::manifest::Manifest;
use super::method::Method;
use super::output::{NewFile, folder_of};
use super::pool::{self, Spread};
use super::stripe::Stripe;
use super::unrepairable::Unrepairable;
use super::window::{Parts, placed};

/// What decoding found wrong and worked around, by stripe.
#[derive(Default)]
pub struct Decoded {
    /// Chunks that were needed and could not be used: (stripe, chunk, why).
    pub faults: Vec<(u64, ChunkIndex, ChunkFault)>,
    /// Stripes that are beyond repair. If there are any, nothing was published.
    pub unrepairable: Vec<Unrepairable>,
}

/// Decodes the file of `directory` into `output`.
///
/// # Errors
/// When the directory cannot be read or the output not be written. Stripes that cannot be decoded
/// are no error: they are listed, and nothing is written.
pub fn decode(
    directory: &Path,
    manifest: &Manifest,
    output: &Path,
    progress: &Progress<'_>,
) -> Result<Decoded> {
    let context = || format!("cannot write {}", output.display());
    let new = NewFile::beside(output).with_context(context)?;
    let decoded = decode_into(directory, manifest, new.file(), progress).with_context(context)?;
    if decoded.unrepairable.is_empty() {
        new.publish(output)?;
        sync_directory(folder_of(output))?;
    }
    Ok(decoded)
}

/// Decodes the file of `directory` into an open, empty one, in no order. What is in it is the file
/// if nothing is unrepairable.
///
/// # Errors
/// As [`decode`].
pub fn decode_into(
    directory: &Path,
    manifest: &Manifest,
    output: &File,
    progress: &Progress<'_>,
) -> Result<Decoded> {
    output.set_len(manifest.geometry.file_bytes)?;
    let spread = Spread::over(&manifest.geometry);
    let decoder = Decoder { directory, manifest, output, spread, progress };
    let stripes = pool::map(spread.stripe_threads, manifest.geometry.stripe_count(), |stripe| {
        decoder.decode_stripe(stripe)
    })?;
    let mut decoded = Decoded::default();
    for stripe in stripes {
        decoded.faults.extend(stripe.faults);
        decoded.unrepairable.extend(stripe.unrepairable);
    }
    Ok(decoded)
}

struct Decoder<'a> {
    directory: &'a Path,
    manifest: &'a Manifest,
    output: &'a File,
    spread: Spread,
    progress: &'a Progress<'a>,
}

/// Where the bytes of a stripe come from.
struct Recipe {
    layout: Layout,
    /// Data chunks that the file needs.
    wanted: Vec<ChunkIndex>,
    /// Everything that is read: the wanted ones that are ready, and helpers.
    inputs: Vec<Parts>,
    /// Computes the lost from the helpers; absent when nothing is lost.
    combination: Option<Combination>,
}

/// The way a window can fail.
enum DecodeError {
    Chunk(ChunkIndex, ChunkFault),
    Output(io::Error),
}

impl Decoder<'_> {
    fn decode_stripe(&self, index: u64) -> Result<Decoded> {
        let mut stripe = Stripe::new(self.directory, self.manifest, index, self.spread);
        let unrepairable = loop {
            let recipe = match self.recipe(&mut stripe) {
                Ok(recipe) => recipe,
                Err(error) => break Some(Unrepairable::new(&stripe, error)),
            };
            let work = |buffers: &mut Buffers, window: &Window| {
                self.decode_window(&stripe, &recipe, window, buffers)
            };
            let filled_bytes = self.filled_bytes(&stripe);
            match self.spread.for_each_window(recipe.layout, filled_bytes, Buffers::default, work) {
                Ok(()) => break None,
                Err(DecodeError::Chunk(chunk, fault)) => stripe.lose(chunk, fault),
                Err(DecodeError::Output(error)) => {
                    return Err(error).context("cannot write the decoded file");
                }
            }
        };
        let faults = stripe.faults().map(|(chunk, fault)| (index, chunk, fault.clone())).collect();
        Ok(Decoded { faults, unrepairable: unrepairable.into_iter().collect() })
    }

    /// How far into its chunks a stripe holds bytes of the file, in whole blocks.
    fn filled_bytes(&self, stripe: &Stripe<'_>) -> u64 {
        let chunk_bytes = stripe.chunk_bytes();
        let first =
            self.manifest.geometry.file_piece(stripe.index, ChunkIndex(0), 0, chunk_bytes as usize);
        (first.bytes as u64).next_multiple_of(BLOCK_BYTES).min(chunk_bytes)
    }

    fn recipe(&self, stripe: &mut Stripe<'_>) -> Result<Recipe, CodeError> {
        let wanted: Vec<ChunkIndex> = self.manifest.geometry.filled_chunks(stripe.index).collect();
        stripe.open(&wanted);
        loop {
            let (lost, ready) = split_lost(&wanted, stripe);
            if lost.is_empty() {
                return Ok(Recipe {
                    layout: Layout::plain(stripe.chunk_bytes()),
                    inputs: ready.iter().map(|chunk| Parts::whole(*chunk, 1)).collect(),
                    wanted,
                    combination: None,
                });
            }
            let repair = stripe.open_repair(Method::Optimal.into(), &lost)?;
            // Opening a helper may have found out a wanted chunk.
            if split_lost(&wanted, stripe).0 == lost {
                let combination = Combination::of(&repair.dag(&stripe.code())?, &ready)?;
                return Ok(Recipe {
                    layout: self.manifest.geometry.layout(),
                    wanted,
                    inputs: combination.inputs().to_vec(),
                    combination: Some(combination),
                });
            }
        }
    }

    fn decode_window(
        &self,
        stripe: &Stripe<'_>,
        recipe: &Recipe,
        window: &Window,
        buffers: &mut Buffers,
    ) -> Result<(), DecodeError> {
        combination::read(stripe, &recipe.inputs, window, &mut buffers.inputs)
            .map_err(|(chunk, fault)| DecodeError::Chunk(chunk, fault))?;
        let mut lost = &[][..];
        if let Some(combination) = &recipe.combination {
            combination.run(window, &buffers.inputs, &mut buffers.outputs);
            lost = combination.outputs();
        }
        let read = recipe.inputs.iter().map(|input| input.chunk).zip(&buffers.inputs);
        let computed = lost.iter().copied().zip(&buffers.outputs);
        for (chunk, buffer) in read.chain(computed) {
            if !recipe.wanted.contains(&chunk) {
                continue;
            }
            for (piece, bytes) in placed(window, buffer) {
                let filled = self.manifest.geometry.file_piece(
                    stripe.index,
                    chunk,
                    piece.offset,
                    piece.bytes,
                );
                self.output
                    .write_all_at(&bytes[..filled.bytes], filled.offset)
                    .map_err(DecodeError::Output)?;
                (self.progress)(Step::Done(filled.bytes as u64));
            }
        }
        Ok(())
    }
}

/// The lost ones among `wanted`, and the others.
fn split_lost(wanted: &[ChunkIndex], stripe: &Stripe<'_>) -> (Vec<ChunkIndex>, Vec<ChunkIndex>) {
    let lost = stripe.lost();
    wanted.iter().partition(|chunk| lost.contains(chunk))
}
