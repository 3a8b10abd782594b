//! Decoding an encoded directory back into the file, also when chunks are missing or corrupt.
//!
//! Place: chunks -> [checked ranges -> the file].
//! What a stripe holds of the file, [`content`] gives, from whatever of its chunks is good; nothing
//! is written into the directory. The output has no name until every stripe is complete; then it is
//! put in place.
//!
//! Invariant: the output's name stands for the whole, checked file or for what it was before.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use suture_code::ChunkIndex;
use suture_edge::progress::{Progress, Step};

use super::chunk::ChunkFault;
use super::content::{self, DataPiece};
use super::directory::sync_directory;
use super::manifest::Manifest;
use super::output::{NewFile, folder_of};
use super::pool::{self, Spread};
use super::stripe::Stripe;
use super::unrepairable::Unrepairable;

/// What decoding found wrong and worked around, by stripe.
#[derive(Default)]
pub struct Decoded {
    /// Chunks that were needed and could not be used.
    pub faults: Vec<FoundFault>,
    /// Stripes that are beyond repair. If there are any, nothing was published.
    pub unrepairable: Vec<Unrepairable>,
}

/// A chunk that was needed and could not be used.
pub struct FoundFault {
    /// Its stripe, counted from 0.
    pub stripe: u64,
    /// Which chunk of the stripe it is.
    pub chunk: ChunkIndex,
    /// Why it could not be used.
    pub fault: ChunkFault,
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

impl Decoder<'_> {
    fn decode_stripe(&self, index: u64) -> Result<Decoded> {
        let mut stripe = Stripe::new(self.directory, self.manifest, index, self.spread);
        let geometry = &self.manifest.geometry;
        let write = |DataPiece { chunk, offset, bytes }: DataPiece<'_>| {
            let filled = geometry.file_piece(index, chunk, offset, bytes.len());
            self.output.write_all_at(&bytes[..filled.bytes], filled.offset)?;
            (self.progress)(Step::Done(filled.bytes as u64));
            Ok(())
        };
        let cannot = "cannot write the decoded file";
        let mut read = content::read(&mut stripe, write).context(cannot)?;
        if read.is_err() {
            // Of those that could not help by themselves nothing is known yet, and none of them is
            // to count as good for that.
            let all: Vec<ChunkIndex> = stripe.code().chunks().collect();
            stripe.open(&all);
            read = content::read(&mut stripe, write).context(cannot)?;
        }
        let unrepairable = read.err().map(|error| Unrepairable::new(&stripe, error));
        let found = |(chunk, fault): (ChunkIndex, &ChunkFault)| FoundFault {
            stripe: index,
            chunk,
            fault: fault.clone(),
        };
        let faults = stripe.faults().map(found).collect();
        Ok(Decoded { faults, unrepairable: unrepairable.into_iter().collect() })
    }
}
