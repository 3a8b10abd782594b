//! Erasure-coded files in a directory, without any daemon.
//!
//! Place: the whole life of a repair on one machine: [chunks lost -> helpers -> ranges -> proven
//! -> published]. Reading order: [`geometry`] cuts a file into stripes and chunks; [`manifest`]
//! says what a directory should hold, [`checksum`] what each block should be; [`directory`] names,
//! and locks files, [`output`] publishes them; [`position_ranges`] defines which pieces of chunks
//! belong together, [`chunk`] reads one chunk checked, [`stripe`] knows which chunks of a stripe
//! can be used, [`method`] which chunks help and how ([`scheme`] reads searched trace schemes),
//! [`combination`] does it to a range, [`parity`] judges where checksums are gone, [`content`]
//! finds what a stripe still holds of the file; [`pool`] spreads the work. On them stand the four
//! jobs [`encode`], [`decode`], [`rebuild`] and [`verify`].
//!
//! Four lines of arithmetic: rs(6,3) moves 1 byte in and 1.5 out per byte encoded, so the page
//! cache (some 3 GB/s a core for reads and writes together) is the limit, before the kernels (10
//! GB/s and more) and CRC32C (30 GB/s). Hence ranges that stay in the second-level cache, no
//! copies beyond the two that the kernel makes, and no asynchronous machinery.
//!
//! Deliberately absent: knowledge of any particular code (repair DAGs say it all), nodes, and
//! networks.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use anyhow::Result;
use suture_code::ChunkIndex;
use suture_edge::error::bad_input;

use directory::StripeFiles;
use manifest::Manifest;

// How a file is cut, and what should be there.
mod checksum;
pub mod geometry;
pub mod manifest;
// Files are named, locked, opened and published.
pub mod directory;
mod opening;
pub mod output;
// Which pieces belong together, and which chunks can be used.
pub mod chunk;
mod position_ranges;
mod stripe;
pub mod unrepairable;
// Which chunks help, and how.
mod combination;
pub mod method;
pub mod scheme;
// What is left where checksums are gone, or more is lost than can be.
mod content;
mod parity;
// The work is spread, and the jobs are done.
pub mod decode;
pub mod encode;
pub mod pool;
pub mod rebuild;
pub mod verify;

/// Reads the manifest of a directory and refuses one that the files contradict.
///
/// # Errors
/// Bad input when there is no manifest, or one that is refused or contradicted.
pub fn open(root: &Path) -> Result<Manifest> {
    let manifest = directory::read_manifest(root)?;
    let claimed = manifest.geometry.chunk_bytes;
    let files = StripeFiles::new(root, 0, manifest.geometry.stripe_count());
    let length =
        |chunk: ChunkIndex| fs::metadata(files.chunk(chunk)).ok().map(|metadata| metadata.len());
    let lengths: Vec<u64> = manifest.geometry.code.chunks().filter_map(length).collect();
    // One chunk of another length is damaged. When all of them agree on it, it is the manifest that
    // lies, unless its own checksum is right.
    let unanimous = !manifest.is_proven
        && lengths.len() >= manifest.geometry.code.data_chunks()
        && lengths.iter().all(|length| *length == lengths[0]);
    if unanimous && lengths[0] != claimed {
        let (root, count, found) = (root.display(), lengths.len(), lengths[0]);
        return Err(bad_input(format!(
            "{root}: the manifest is wrong: by it chunks have {claimed} bytes, but all {count} chunk files have {found}"
        )));
    }
    Ok(manifest)
}

/// Reads the text of an encoded directory's `manifest.json` and writes it anew, in the order and
/// with the checksum that `suture encode` gives it. For tools that keep manifests, and for fuzzing.
///
/// # Errors
/// Why the manifest is refused: it is not one, it contradicts itself, or it was damaged.
pub fn rewrite_manifest(text: &str) -> Result<String, String> {
    Manifest::parse(text).map(|manifest| manifest.to_json())
}
