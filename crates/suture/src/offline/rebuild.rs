//! Rebuilding lost chunks in place: stripe by stripe, each proven before it takes its name.
//!
//! Place: failure -> [lost chunks -> helpers -> windows flow -> proven -> published].
//! For each stripe:
//! * find what is lost: by reading everything, or only what the user names and what has no file;
//! * choose helpers and combine them window by window into temporaries; every block that is read is
//!   checked, and a helper that fails is lost too: the stripe starts over without it;
//! * the checksum of each rebuilt chunk must be the manifest's; only then is it published;
//! * `.crc` files that are missing or stale beside good chunks are written anew.
//!
//! Several lost chunks of a stripe share one reading of the helpers. An interrupted rebuild has
//! published whole chunks and left temporaries; the next one removes those and goes on with the rest.
//!
//! Invariants: a chunk is replaced only by one that is proven; a stripe that cannot be repaired is left
//! as it is and stops no other.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use suture_code::{ChunkIndex, Program};

use super::checksum::{BlockChecksums, ChecksumRecorder};
use super::chunk::{ChecksumFile, ChunkFault, vouched_by_file};
use super::directory::{TEMPORARY_SUFFIX, Temporary, publish_bytes, sync_directory};
use super::manifest::Manifest;
use super::pool::{self, Spread, Window};
use super::stripe::{ChunkState, Stripe};
use super::unrepairable::Unrepairable;
use crate::progress::Progress;

/// A rebuild of a directory.
pub struct Rebuild<'a> {
    pub directory: &'a Path,
    pub manifest: &'a Manifest,
    /// Chunks to treat as lost in every stripe; where none is named, everything is read to find out.
    pub named: &'a [ChunkIndex],
    /// What the repair is called in the report.
    pub method: &'static str,
    pub progress: &'a Progress,
}

/// What became of a stripe.
pub enum StripeResult {
    Healthy,
    Repaired(StripeReport),
    /// The code cannot give the lost chunks back from what is left.
    Unrepairable(Unrepairable),
    /// The system did not let it happen, for instance a full disk.
    Failed(anyhow::Error),
}

impl StripeResult {
    pub fn report(&self) -> Option<&StripeReport> {
        if let StripeResult::Repaired(report) = self { Some(report) } else { None }
    }

    pub fn unrepairable(&self) -> Option<&Unrepairable> {
        if let StripeResult::Unrepairable(unrepairable) = self { Some(unrepairable) } else { None }
    }

    pub fn failure(&self) -> Option<&anyhow::Error> {
        if let StripeResult::Failed(error) = self { Some(error) } else { None }
    }
}

/// A repaired stripe, as the JSON report shows it.
#[derive(Clone, Debug, Serialize)]
pub struct StripeReport {
    pub stripe: u64,
    pub lost: Vec<u8>,
    pub method: &'static str,
    pub helpers: Vec<HelperReport>,
}

/// What one helper contributed: read from its disk, and what it would send over a network.
#[derive(Clone, Debug, Serialize)]
pub struct HelperReport {
    pub chunk: u8,
    pub read_bytes: u64,
    pub sent_bytes: u64,
}

/// The way a window can fail.
enum WindowError {
    Helper(ChunkIndex, ChunkFault),
    Output(io::Error),
}

/// Lost chunks on their way back.
struct Combination {
    helpers: Vec<ChunkIndex>,
    program: Program,
    rebuilding: Vec<Rebuilding>,
}

struct Rebuilding {
    chunk: ChunkIndex,
    temporary: Temporary,
    recorder: ChecksumRecorder,
}

/// A chunk that is complete, but not yet proven.
struct Rebuilt {
    chunk: ChunkIndex,
    temporary: Temporary,
    checksums: BlockChecksums,
}

/// A thread's buffers: of the helpers, and of the lost.
struct Buffers {
    sources: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Rebuild<'_> {
    /// Repairs every stripe that can be repaired. No stripe stops another.
    pub fn run(&self) -> Vec<StripeResult> {
        let spread = Spread::over(&self.manifest.geometry);
        let rebuild = |index| {
            let mut stripe = Stripe::new(self.directory, self.manifest, index, spread);
            let result = self.rebuild_stripe(&mut stripe);
            let result = result.with_context(|| format!("cannot rebuild stripe {index}"));
            Ok::<_, Infallible>(result.unwrap_or_else(StripeResult::Failed))
        };
        let stripe_count = self.manifest.geometry.stripe_count();
        let Ok(results) = pool::map(spread.stripe_threads, stripe_count, rebuild);
        results
    }

    fn rebuild_stripe(&self, stripe: &mut Stripe<'_>) -> Result<StripeResult> {
        remove_temporaries(&stripe.files.directory)?;
        self.find_lost(stripe);
        let mut report = None;
        loop {
            let lost = stripe.lost();
            if lost.is_empty() {
                break;
            }
            let helpers = match stripe.open_helpers(&lost) {
                Ok(helpers) => helpers,
                Err(error) => {
                    return Ok(StripeResult::Unrepairable(Unrepairable::new(stripe, error)));
                }
            };
            if stripe.lost() != lost {
                continue;
            }
            let rebuilt = match self.combine(stripe, &lost, &helpers)? {
                Ok(rebuilt) => rebuilt,
                Err((helper, fault)) => {
                    stripe.lose(helper, fault);
                    continue;
                }
            };
            if let Err(reason) = prove(stripe, &rebuilt) {
                return Ok(StripeResult::Unrepairable(Unrepairable::new(stripe, reason)));
            }
            publish(stripe, rebuilt)?;
            report = Some(self.report(stripe, &lost, &helpers));
            break;
        }
        mend_checksum_files(stripe)?;
        Ok(report.map_or(StripeResult::Healthy, StripeResult::Repaired))
    }

    fn find_lost(&self, stripe: &mut Stripe<'_>) {
        self.named.iter().for_each(|chunk| stripe.lose(*chunk, ChunkFault::Named));
        // Without checksums in the manifest, only the whole stripe can tell which chunks are good.
        if self.named.is_empty() || self.manifest.chunk_checksums.is_none() {
            stripe.scan(|bytes| self.progress.add(bytes));
        } else {
            stripe.probe();
        }
    }

    /// Computes the lost chunks into temporaries; or names the helper that turned out bad.
    fn combine(
        &self,
        stripe: &Stripe<'_>,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Result<Vec<Rebuilt>, (ChunkIndex, ChunkFault)>> {
        let combination = Combination::begin(stripe, lost, helpers)?;
        self.progress.extend(stripe.chunk_bytes() * helpers.len() as u64);
        let scratch = || Buffers {
            sources: vec![Vec::new(); helpers.len()],
            outputs: vec![Vec::new(); lost.len()],
        };
        let work = |buffers: &mut Buffers, window: Window| {
            self.progress.add((window.bytes * helpers.len()) as u64);
            combination.run_window(stripe, window, buffers)
        };
        match stripe.spread.for_each_window(stripe.chunk_bytes(), scratch, work) {
            Ok(()) => Ok(Ok(combination.finish())),
            Err(WindowError::Helper(helper, fault)) => Ok(Err((helper, fault))),
            Err(WindowError::Output(error)) => Err(error).context("cannot write a rebuilt chunk"),
        }
    }

    fn report(
        &self,
        stripe: &Stripe<'_>,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> StripeReport {
        let bytes = stripe.chunk_bytes();
        let helper = |chunk: &ChunkIndex| HelperReport {
            chunk: chunk.0,
            read_bytes: bytes,
            sent_bytes: bytes,
        };
        StripeReport {
            stripe: stripe.index,
            lost: lost.iter().map(|chunk| chunk.0).collect(),
            method: self.method,
            helpers: helpers.iter().map(helper).collect(),
        }
    }
}

impl Combination {
    fn begin(
        stripe: &Stripe<'_>,
        lost: &[ChunkIndex],
        helpers: &[ChunkIndex],
    ) -> Result<Combination> {
        let program = Program::compile(&stripe.code().repair_dag(lost, helpers)?)?;
        let bytes = stripe.chunk_bytes();
        let begin = |chunk: &ChunkIndex| -> Result<Rebuilding> {
            let temporary = Temporary::create(&stripe.files.chunk(*chunk), bytes)?;
            Ok(Rebuilding { chunk: *chunk, temporary, recorder: ChecksumRecorder::new(bytes) })
        };
        let rebuilding = lost.iter().map(begin).collect::<Result<_>>()?;
        Ok(Combination { helpers: helpers.to_vec(), program, rebuilding })
    }

    fn run_window(
        &self,
        stripe: &Stripe<'_>,
        window: Window,
        buffers: &mut Buffers,
    ) -> Result<(), WindowError> {
        let Buffers { sources, outputs } = buffers;
        sources
            .iter_mut()
            .chain(outputs.iter_mut())
            .for_each(|buffer| buffer.resize(window.bytes, 0));
        for (&helper, buffer) in self.helpers.iter().zip(sources.iter_mut()) {
            stripe
                .reader(helper)
                .read(window, buffer)
                .map_err(|fault| WindowError::Helper(helper, fault))?;
        }
        let read: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let mut written: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        self.program.run(&read, &mut written).expect("buffers have the window's length");
        for (rebuilding, buffer) in self.rebuilding.iter().zip(outputs) {
            rebuilding.recorder.record(window.offset, buffer);
            rebuilding
                .temporary
                .file()
                .write_all_at(buffer, window.offset)
                .map_err(WindowError::Output)?;
        }
        Ok(())
    }

    fn finish(self) -> Vec<Rebuilt> {
        let finish = |Rebuilding { chunk, temporary, recorder }| Rebuilt {
            chunk,
            temporary,
            checksums: recorder.finish(),
        };
        self.rebuilding.into_iter().map(finish).collect()
    }
}

/// Whether the rebuilt chunks are those that were written, by whatever is left that can tell.
fn prove(stripe: &Stripe<'_>, rebuilt: &[Rebuilt]) -> Result<(), String> {
    for Rebuilt { chunk, checksums, .. } in rebuilt {
        let expected = stripe.expected(*chunk);
        match expected.checksum {
            Some(checksum) if checksums.of_chunk() == checksum => (),
            Some(checksum) => {
                let found = checksums.of_chunk();
                return Err(format!(
                    "chunk {chunk} was rebuilt from good helpers, but its checksum is {found:08x} and the manifest has {checksum:08x}"
                ));
            }
            None if stripe.parity_agrees => (),
            None if vouched_by_file(&stripe.files, expected).as_ref() == Some(checksums) => (),
            None => {
                return Err(format!(
                    "nothing is left that could prove a rebuilt chunk {chunk}: no checksum, and no chunk to spare"
                ));
            }
        }
    }
    Ok(())
}

fn publish(stripe: &Stripe<'_>, rebuilt: Vec<Rebuilt>) -> Result<()> {
    for Rebuilt { chunk, temporary, checksums } in rebuilt {
        temporary.publish()?;
        // After the chunk: should this be the last thing that happens, the old file is found to be stale.
        publish_bytes(&stripe.files.checksums(chunk), &checksums.to_file())?;
    }
    sync_directory(&stripe.files.directory)
}

/// Writes `.crc` files that are missing or stale beside chunks that have been found good.
fn mend_checksum_files(stripe: &Stripe<'_>) -> Result<()> {
    let mut mended = false;
    for chunk in stripe.available() {
        if let ChunkState::Ready(reader) = stripe.state(chunk)
            && reader.checksum_file() != ChecksumFile::Fresh
        {
            publish_bytes(&stripe.files.checksums(chunk), &reader.checksums().to_file())?;
            mended = true;
        }
    }
    if mended { sync_directory(&stripe.files.directory) } else { Ok(()) }
}

/// Clears away what an interrupted rebuild left.
fn remove_temporaries(directory: &Path) -> Result<()> {
    let context = || format!("cannot clear temporaries from {}", directory.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.with_context(context)?,
    };
    for entry in entries {
        let entry = entry.with_context(context)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("chunk.") && name.ends_with(TEMPORARY_SUFFIX) {
            fs::remove_file(entry.path()).with_context(context)?;
        }
    }
    Ok(())
}
