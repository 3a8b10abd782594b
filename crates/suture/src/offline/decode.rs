//! Decoding an encoded directory back into the file, also when chunks are missing or corrupt.
//!
//! Place: chunks -> [checked windows -> the file].
//! * Of each stripe only the data chunks that hold bytes of the file are read. Where one is lost, its
//!   helpers are read as well, and it is computed; nothing is written into the directory.
//! * A chunk that turns out corrupt in the middle is lost from then on, and its stripe starts over with
//!   other helpers: simple, and as rare as corruption.
//! * The output is a temporary until every stripe is complete; then it is put in place.
//!
//! Invariant: the output's name stands for the whole, checked file or for what it was before.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use suture_code::{ChunkIndex, CodeError, Program};

use super::checksum::BLOCK_BYTES;
use super::chunk::ChunkFault;
use super::directory::sync_directory;
use super::manifest::Manifest;
use super::pool::{self, Spread, Window};
use super::stripe::Stripe;
use super::unrepairable::Unrepairable;
use crate::progress::Progress;

/// What decoding found.
#[derive(Default)]
pub struct Decoded {
    /// Chunks that were needed and could not be used: (stripe, chunk, why).
    pub faults: Vec<(u64, ChunkIndex, ChunkFault)>,
    /// Stripes that are beyond repair. If there are any, nothing was published.
    pub unrepairable: Vec<Unrepairable>,
}

/// Decodes the file of `directory` into `output`.
pub fn decode(
    directory: &Path,
    manifest: &Manifest,
    output: &Path,
    progress: &Progress,
) -> Result<Decoded> {
    let shown = output.display();
    let context = || format!("cannot write {shown}");
    let folder =
        output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    // The mode of any new file; the umask takes from it.
    builder
        .prefix(".suture.")
        .suffix(".tmp")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let temporary = builder.tempfile_in(folder).with_context(context)?;
    temporary.as_file().set_len(manifest.geometry.file_bytes).with_context(context)?;
    let spread = Spread::over(&manifest.geometry);
    let decoder = Decoder { directory, manifest, output: temporary.as_file(), spread, progress };
    let stripes = pool::map(spread.stripe_threads, manifest.geometry.stripe_count(), |stripe| {
        decoder.decode_stripe(stripe)
    })?;
    let mut decoded = Decoded::default();
    for stripe in stripes {
        decoded.faults.extend(stripe.faults);
        decoded.unrepairable.extend(stripe.unrepairable);
    }
    if decoded.unrepairable.is_empty() {
        temporary.as_file().sync_all().with_context(context)?;
        temporary.persist(output).map_err(|error| error.error).with_context(context)?;
        sync_directory(folder)?;
    }
    Ok(decoded)
}

struct Decoder<'a> {
    directory: &'a Path,
    manifest: &'a Manifest,
    output: &'a File,
    spread: Spread,
    progress: &'a Progress,
}

/// Where the bytes of a stripe come from.
struct Recipe {
    /// Data chunks that the file needs.
    wanted: Vec<ChunkIndex>,
    /// All chunks that are read: the wanted ones that are ready, and helpers.
    read: Vec<ChunkIndex>,
    helpers: Vec<ChunkIndex>,
    lost: Vec<ChunkIndex>,
    /// Computes the lost from the helpers; absent when nothing is lost.
    program: Option<Program>,
}

/// The way a window can fail.
enum WindowError {
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
            let scratch = || vec![Vec::new(); stripe.code().chunk_count()];
            let work = |buffers: &mut Vec<Vec<u8>>, window| {
                self.decode_window(&stripe, &recipe, window, buffers)
            };
            match self.spread.for_each_window(self.filled_bytes(&stripe), scratch, work) {
                Ok(()) => break None,
                Err(WindowError::Chunk(chunk, fault)) => stripe.lose(chunk, fault),
                Err(WindowError::Output(error)) => {
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
        (first.bytes as u64).next_multiple_of(BLOCK_BYTES as u64).min(chunk_bytes)
    }

    fn recipe(&self, stripe: &mut Stripe<'_>) -> Result<Recipe, CodeError> {
        let wanted: Vec<ChunkIndex> = self.manifest.geometry.filled_chunks(stripe.index).collect();
        stripe.open(&wanted);
        loop {
            let (lost, ready) = split_lost(&wanted, stripe);
            if lost.is_empty() {
                return Ok(Recipe {
                    read: ready,
                    wanted,
                    helpers: Vec::new(),
                    lost,
                    program: None,
                });
            }
            let helpers = stripe.open_helpers(&lost)?;
            // Opening a helper may have found out a wanted chunk.
            if split_lost(&wanted, stripe).0 == lost {
                let program = Some(Program::compile(&stripe.code().repair_dag(&lost, &helpers)?)?);
                let read: BTreeSet<ChunkIndex> =
                    ready.into_iter().chain(helpers.iter().copied()).collect();
                return Ok(Recipe {
                    wanted,
                    read: read.into_iter().collect(),
                    helpers,
                    lost,
                    program,
                });
            }
        }
    }

    fn decode_window(
        &self,
        stripe: &Stripe<'_>,
        recipe: &Recipe,
        window: Window,
        buffers: &mut [Vec<u8>],
    ) -> Result<(), WindowError> {
        let place = |chunk: ChunkIndex| usize::from(chunk.0);
        for &chunk in recipe.read.iter().chain(&recipe.lost) {
            buffers[place(chunk)].resize(window.bytes, 0);
        }
        for &chunk in &recipe.read {
            let read = stripe.reader(chunk).read(window, &mut buffers[place(chunk)]);
            read.map_err(|fault| WindowError::Chunk(chunk, fault))?;
        }
        if let Some(program) = &recipe.program {
            let mut computed: Vec<Vec<u8>> = recipe
                .lost
                .iter()
                .map(|chunk| std::mem::take(&mut buffers[place(*chunk)]))
                .collect();
            let sources: Vec<&[u8]> =
                recipe.helpers.iter().map(|chunk| buffers[place(*chunk)].as_slice()).collect();
            let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(Vec::as_mut_slice).collect();
            program.run(&sources, &mut outputs).expect("buffers have the window's length");
            for (chunk, buffer) in recipe.lost.iter().zip(computed) {
                buffers[place(*chunk)] = buffer;
            }
        }
        for &chunk in &recipe.wanted {
            let piece =
                self.manifest.geometry.file_piece(stripe.index, chunk, window.offset, window.bytes);
            let content = &buffers[place(chunk)][..piece.bytes];
            self.output.write_all_at(content, piece.offset).map_err(WindowError::Output)?;
            self.progress.add(piece.bytes as u64);
        }
        Ok(())
    }
}

/// The lost ones among `wanted`, and the others.
fn split_lost(wanted: &[ChunkIndex], stripe: &Stripe<'_>) -> (Vec<ChunkIndex>, Vec<ChunkIndex>) {
    let lost = stripe.lost();
    wanted.iter().partition(|chunk| lost.contains(chunk))
}
