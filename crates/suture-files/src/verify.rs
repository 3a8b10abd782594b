//! Verifying an encoded directory: every chunk is read in whole, nothing is written.
//!
//! Place: [chunks -> what is good, what can be mended, what is beyond repair].
//! By checksum where there are any, by parity where there are none. Files that do not belong are
//! named, since they are often a chunk under a wrong name; they are no damage.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io;
use std::path::Path;

use suture_code::ChunkIndex;
use suture_edge::progress::{Progress, Step};

use super::chunk::{ChecksumFile, ChunkFault};
use super::content;
use super::directory::{checksums_name, chunk_name, stripe_name};
use super::manifest::{MANIFEST_NAME, Manifest};
use super::pool::{self, Spread};
use super::stripe::{ChunkState, Stripe};

/// What was found in a stripe.
pub struct StripeVerdict {
    /// Number of the stripe in the file, counted from 0.
    pub stripe: u64,
    /// The chunks that are not good, and why.
    pub faults: Vec<(ChunkIndex, ChunkFault)>,
    /// Good chunks whose `.crc` file is missing or stale.
    pub bad_checksum_files: Vec<(ChunkIndex, ChecksumFile)>,
    /// The lost chunks can be computed: from the others, or from what the stripe holds of the file.
    pub repairable: bool,
}

impl StripeVerdict {
    /// Whether chunks may be good that this process cannot open: then nothing is known of the
    /// others' use.
    pub fn is_unknown(&self) -> bool {
        self.faults.iter().any(|(_, fault)| fault.is_of_process())
    }
}

/// Reads every chunk of every stripe against its checksums, and parity where there are none.
pub fn verify(root: &Path, manifest: &Manifest, progress: &Progress<'_>) -> Vec<StripeVerdict> {
    let spread = Spread::over(&manifest.geometry);
    let verdict = |index| {
        let mut stripe = Stripe::new(root, manifest, index, spread);
        stripe.scan(|bytes| progress(Step::Done(bytes)));
        let fresh = Stripe::new(root, manifest, index, spread);
        Ok::<_, Infallible>(verdict_of(&stripe, fresh))
    };
    let Ok(verdicts) = pool::map(spread.stripe_threads, manifest.geometry.stripe_count(), verdict);
    verdicts
}

/// What was found by a scan. `fresh` is the same stripe, of which nothing is known yet.
fn verdict_of(stripe: &Stripe<'_>, mut fresh: Stripe<'_>) -> StripeVerdict {
    let available = stripe.available();
    let checksum_file = |chunk: &ChunkIndex| match stripe.state(*chunk) {
        ChunkState::Ready(reader) if reader.checksum_file() != ChecksumFile::Fresh => {
            Some((*chunk, reader.checksum_file()))
        }
        _ => None,
    };
    StripeVerdict {
        stripe: stripe.index,
        faults: stripe.faults().map(|(chunk, fault)| (chunk, fault.clone())).collect(),
        bad_checksum_files: available.iter().filter_map(checksum_file).collect(),
        repairable: stripe.can_prove(&stripe.lost())
            && (stripe.code().decodable(&available) || content::is_left(&mut fresh)),
    }
}

/// Names in the directory, relative to it, that the manifest does not account for.
///
/// # Errors
/// When the directory cannot be listed.
pub fn extra_files(root: &Path, manifest: &Manifest) -> io::Result<Vec<String>> {
    let stripe_count = manifest.geometry.stripe_count();
    let chunks = manifest
        .geometry
        .code
        .chunks()
        .flat_map(|chunk| [chunk_name(chunk), checksums_name(chunk)]);
    let chunks: BTreeSet<String> = chunks.collect();
    let mut extra = Vec::new();
    if stripe_count == 1 {
        let known = |name: &str| name == MANIFEST_NAME || chunks.contains(name);
        return Ok(names(root)?.into_iter().filter(|name| !known(name)).collect());
    }
    let stripes: BTreeSet<String> = (0..stripe_count).map(stripe_name).collect();
    for name in names(root)? {
        if stripes.contains(&name) && root.join(&name).is_dir() {
            let inside =
                names(&root.join(&name))?.into_iter().filter(|inner| !chunks.contains(inner));
            extra.extend(inside.map(|inner| format!("{name}/{inner}")));
        } else if name != MANIFEST_NAME {
            extra.push(name);
        }
    }
    Ok(extra)
}

fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory)?;
    let mut names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}
