//! Rebuilding lost chunks in place: stripe by stripe, each proven before it takes its name.
//!
//! Place: failure -> [lost chunks -> helpers -> ranges flow -> proven -> published].
//! For each stripe:
//! * find what is lost: by reading everything, or only what the user names and what has no file;
//! * choose helpers and combine them range by range into temporaries; every block that is read is
//!   checked, and a helper that fails is lost too: the stripe starts over without it;
//! * where the good chunks do not determine the lost ones, all bytes of the file may be left all
//!   the same ([`content`]): then the stripe is encoded again;
//! * the checksum of each rebuilt chunk must be the manifest's; only then is it published;
//! * `.crc` files that are missing or stale beside good chunks are written anew.
//!
//! Several lost chunks of a stripe share one reading of the helpers. An interrupted rebuild has
//! published whole chunks; the next one goes on with the rest.
//!
//! Invariants: a chunk is replaced only by one that is proven; a stripe that cannot be repaired is
//! left as it is and stops no other.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use suture_code::layout::{Layout, PositionRange};
use suture_code::{ChunkIndex, CodeError, Dag};
use suture_edge::progress::{Progress, Step};
use suture_gf::bits;

use super::checksum::{BlockChecksums, ChecksumRecorder};
use super::chunk::{ChecksumFile, ChunkFault, vouched_by_file};
use super::combination::{self, Buffers, Combination};
use super::content::{self, DataPiece};
use super::directory::{TEMPORARY_SUFFIX, Temporary, publish_bytes, sync_directory};
use super::encode::remove_workshop;
use super::manifest::Manifest;
use super::method::{Method, MethodOptions, Repair};
use super::output::{NewFile, remove_left_behind};
use super::pool::{self, Spread};
use super::position_ranges::{all_pieces, placed, read_bytes};
use super::stripe::{ChunkState, Stripe};
use super::unrepairable::Unrepairable;

/// A rebuild of a directory.
pub struct Rebuild<'a> {
    /// Folder with `manifest.json` and the chunks.
    pub directory: &'a Path,
    /// The manifest of that folder, already checked.
    pub manifest: &'a Manifest,
    /// Chunks to treat as lost in every stripe; where none is named, everything is read to find
    /// out.
    pub named: &'a [ChunkIndex],
    /// The method, and trace schemes to choose from.
    pub options: MethodOptions<'a>,
    /// Called with the bytes that are read.
    pub progress: &'a Progress<'a>,
    /// The last repair that was prepared: most stripes have lost the same chunks.
    pub prepared: Mutex<Option<Arc<Prepared>>>,
}

/// A repair, ready to run on any stripe.
pub struct Prepared {
    repair: Repair,
    combination: Combination,
    helpers: Vec<HelperReport>,
}

/// What became of a stripe.
pub enum StripeResult {
    /// Every chunk was there and had its checksum.
    Healthy,
    /// Everything that was lost is rebuilt, proven and in its place.
    Repaired(StripeReport),
    /// The code cannot give the lost chunks back from what is left.
    Unrepairable(Unrepairable),
    /// The system did not let it happen, for instance a full disk.
    Failed(anyhow::Error),
}

impl StripeResult {
    /// What was done, if anything was.
    pub fn report(&self) -> Option<&StripeReport> {
        if let StripeResult::Repaired(report) = self { Some(report) } else { None }
    }

    /// Why nothing could be done, if that is so.
    pub fn unrepairable(&self) -> Option<&Unrepairable> {
        if let StripeResult::Unrepairable(unrepairable) = self { Some(unrepairable) } else { None }
    }

    /// What failed, if something did.
    pub fn failure(&self) -> Option<&anyhow::Error> {
        if let StripeResult::Failed(error) = self { Some(error) } else { None }
    }
}

/// A repaired stripe, as the JSON report shows it.
#[derive(Clone, Debug, Serialize)]
pub struct StripeReport {
    /// Number of the stripe in the file, counted from 0.
    pub stripe: u64,
    /// The chunks that were rebuilt.
    pub lost: Vec<u8>,
    /// How the stripe was repaired; k chunks where another method did not serve.
    pub method: Method,
    /// Why the method is not the one that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Whether the good chunks were too few for any repair, so that the stripe was encoded again
    /// from the bytes of the file, which were all left.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub encoded_again: bool,
    /// The chunks that supplied bytes, and how many.
    pub helpers: Vec<HelperReport>,
}

/// What one helper contributed: read from its disk, and what it would send over a network.
#[derive(Clone, Debug, Serialize)]
pub struct HelperReport {
    /// Index of the helper chunk, counted from 0.
    pub chunk: u8,
    /// Bytes that were read of it.
    pub read_bytes: u64,
    /// Bytes that its node would put on the network.
    pub sent_bytes: u64,
}

/// The way a range can fail.
enum RebuildError {
    Helper(ChunkIndex, ChunkFault),
    Output(io::Error),
}

/// A lost chunk on its way back.
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

impl Rebuild<'_> {
    /// Repairs every stripe that can be repaired. No stripe stops another.
    pub fn run(&self) -> Vec<StripeResult> {
        let spread = Spread::over(&self.manifest.geometry);
        // An encode leaves it that died when it was done. It does no harm.
        let _ = remove_workshop(self.directory);
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
            refuse_unknown(stripe)?;
            let lost = stripe.lost();
            if lost.is_empty() {
                break;
            }
            let repair = match stripe.open_repair(self.options, &lost) {
                Ok(repair) => repair,
                Err(error) => {
                    refuse_unknown(stripe)?;
                    return match self.encode_again(stripe, &error)? {
                        Ok(report) => Ok(StripeResult::Repaired(report)),
                        Err(why) => Ok(StripeResult::Unrepairable(Unrepairable::new(stripe, why))),
                    };
                }
            };
            if stripe.lost() != lost {
                continue;
            }
            let prepared = self.prepare(repair)?;
            let rebuilt = match self.combine(stripe, &prepared)? {
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
            report = Some(report_on(stripe, &prepared));
            break;
        }
        mend_checksum_files(stripe)?;
        Ok(report.map_or(StripeResult::Healthy, StripeResult::Repaired))
    }

    /// Computes the lost chunks of a stripe whose good ones do not determine them: from what it
    /// holds of the file, if all of that is left, as it may be of a short file. Returns why not.
    fn encode_again(
        &self,
        stripe: &mut Stripe<'_>,
        too_few: &CodeError,
    ) -> Result<Result<StripeReport, String>> {
        let mut fresh = Stripe::new(self.directory, self.manifest, stripe.index, stripe.spread);
        self.named.iter().for_each(|chunk| fresh.lose(*chunk, ChunkFault::Named));
        if !content::is_left(&mut fresh) {
            return Ok(Err(too_few.to_string()));
        }
        let cannot = "cannot write what is left of the stripe";
        let spool = NewFile::beside(&stripe.files.chunk(ChunkIndex(0))).context(cannot)?;
        let geometry = &self.manifest.geometry;
        // What is not written reads as zeros, as the padding does.
        spool.file().set_len(geometry.stripe_data_bytes()).context(cannot)?;
        let write = |DataPiece { chunk, offset, bytes }: DataPiece<'_>| {
            spool.file().write_all_at(bytes, u64::from(chunk.0) * geometry.chunk_bytes + offset)
        };
        let Ok(recipe) = content::read(&mut fresh, write).context(cannot)? else {
            return Ok(Err(too_few.to_string()));
        };
        fresh.faults().for_each(|(chunk, fault)| stripe.lose(chunk, fault.clone()));
        let rebuilt = self.encode_lost(stripe, spool.file())?;
        if let Err(reason) = prove(stripe, &rebuilt) {
            return Ok(Err(reason));
        }
        let lost = rebuilt.iter().map(|rebuilt| rebuilt.chunk.0).collect();
        publish(stripe, rebuilt)?;
        mend_checksum_files(stripe)?;
        let helpers = recipe.read_bytes(stripe.spread.range_bytes).into_iter();
        let helpers = helpers.map(|(chunk, bytes)| HelperReport {
            chunk: chunk.0,
            read_bytes: bytes,
            sent_bytes: bytes,
        });
        Ok(Ok(StripeReport {
            stripe: stripe.index,
            lost,
            method: Method::Conventional,
            instead: None,
            encoded_again: true,
            helpers: helpers.collect(),
        }))
    }

    /// Encodes the data of a stripe again, into temporaries for the chunks that are lost.
    fn encode_lost(&self, stripe: &Stripe<'_>, data: &File) -> Result<Vec<Rebuilt>> {
        let geometry = &self.manifest.geometry;
        let (layout, chunk_bytes) = (geometry.layout(), geometry.chunk_bytes);
        let data_chunks = geometry.data_chunk_indices();
        let combination = Combination::of(&geometry.code.encode_dag(), &data_chunks)?;
        let rebuilding = begin(stripe, &stripe.lost())?;
        let work = |buffers: &mut Buffers, range: &PositionRange| {
            let whole = range.packed(layout.sub_chunk_count() as usize);
            buffers.inputs.resize(data_chunks.len(), Vec::new());
            for (chunk, buffer) in data_chunks.iter().zip(&mut buffers.inputs) {
                buffer.resize(whole.bytes(), 0);
                let mut rest = buffer.as_mut_slice();
                for piece in all_pieces(range) {
                    let (target, later) = rest.split_at_mut(piece.bytes);
                    rest = later;
                    data.read_exact_at(target, u64::from(chunk.0) * chunk_bytes + piece.offset)?;
                }
            }
            combination.run(range, &buffers.inputs, &mut buffers.outputs);
            let chunks: Vec<&Vec<u8>> = buffers.inputs.iter().chain(&buffers.outputs).collect();
            let lost = rebuilding.iter().map(|lost| chunks[usize::from(lost.chunk.0)]);
            write(&rebuilding, range, lost)
        };
        let done = stripe.spread.for_each_range(layout, chunk_bytes, Buffers::default, work);
        done.context("cannot write a rebuilt chunk")?;
        Ok(rebuilding.into_iter().map(Rebuilding::finish).collect())
    }

    fn find_lost(&self, stripe: &mut Stripe<'_>) {
        self.named.iter().for_each(|chunk| stripe.lose(*chunk, ChunkFault::Named));
        // Without checksums in the manifest, only the whole stripe can show which chunks are good.
        if self.named.is_empty() || self.manifest.chunk_checksums.is_none() {
            stripe.scan(|bytes| (self.progress)(Step::Done(bytes)));
        } else {
            stripe.probe();
        }
    }

    fn prepare(&self, repair: Repair) -> Result<Arc<Prepared>> {
        let last = self.prepared.lock().expect("no thread panics here").clone();
        if let Some(last) = last.filter(|last| last.repair == repair) {
            return Ok(last);
        }
        let geometry = &self.manifest.geometry;
        let dag = repair.dag(&geometry.code)?;
        let prepared = Arc::new(Prepared {
            helpers: helper_reports(&dag, &geometry.layout()),
            combination: Combination::of(&dag, &[])?,
            repair,
        });
        *self.prepared.lock().expect("no thread panics here") = Some(prepared.clone());
        Ok(prepared)
    }

    /// Computes the lost chunks into temporaries; or names the helper that turned out bad.
    fn combine(
        &self,
        stripe: &Stripe<'_>,
        prepared: &Prepared,
    ) -> Result<Result<Vec<Rebuilt>, (ChunkIndex, ChunkFault)>> {
        let combination = &prepared.combination;
        let rebuilding = begin(stripe, combination.outputs())?;
        let layout = self.manifest.geometry.layout();
        let parts: u64 =
            combination.inputs().iter().map(|input| input.sub_chunks.len() as u64).sum();
        (self.progress)(Step::Added(parts * layout.positions()));
        let work = |buffers: &mut Buffers, range: &PositionRange| {
            combination::read(stripe, combination.inputs(), range, &mut buffers.inputs)
                .map_err(|(helper, fault)| RebuildError::Helper(helper, fault))?;
            (self.progress)(Step::Done(
                buffers.inputs.iter().map(|buffer| buffer.len() as u64).sum(),
            ));
            combination.run(range, &buffers.inputs, &mut buffers.outputs);
            write(&rebuilding, range, &buffers.outputs).map_err(RebuildError::Output)
        };
        let spread = stripe.spread;
        match spread.for_each_range(layout, stripe.chunk_bytes(), Buffers::default, work) {
            Ok(()) => Ok(Ok(rebuilding.into_iter().map(Rebuilding::finish).collect())),
            Err(RebuildError::Helper(helper, fault)) => Ok(Err((helper, fault))),
            Err(RebuildError::Output(error)) => Err(error).context("cannot write a rebuilt chunk"),
        }
    }
}

/// What may be good, and cannot be opened by this process, is not replaced.
fn refuse_unknown(stripe: &Stripe<'_>) -> Result<()> {
    match stripe.faults().find(|(_, fault)| fault.is_of_process()) {
        Some((chunk, fault)) => bail!("chunk {chunk} {fault}"),
        None => Ok(()),
    }
}

fn report_on(stripe: &Stripe<'_>, prepared: &Prepared) -> StripeReport {
    StripeReport {
        stripe: stripe.index,
        lost: prepared.repair.lost.iter().map(|chunk| chunk.0).collect(),
        method: prepared.repair.method,
        instead: prepared.repair.instead.clone(),
        encoded_again: false,
        helpers: prepared.helpers.clone(),
    }
}

/// What every helper of a repair reads and sends.
fn helper_reports(dag: &Dag, layout: &Layout) -> Vec<HelperReport> {
    let symbols = layout.positions() as usize;
    let row_bytes = |row| bits::buffer_bytes(dag.value(row).width, symbols) as u64;
    let sent = dag.sent_values();
    let sent_by = |chunk| {
        let rows = sent.iter().find(|(sender, _)| *sender == chunk);
        rows.map_or(0, |(_, rows)| rows.iter().map(|row| row_bytes(*row)).sum())
    };
    let reads = dag.reads().into_iter();
    let report = |(chunk, sub_chunks): (ChunkIndex, Vec<u32>)| HelperReport {
        chunk: chunk.0,
        read_bytes: read_bytes(layout, &sub_chunks),
        sent_bytes: sent_by(chunk),
    };
    reads.map(report).collect()
}

/// Empty temporaries for the lost chunks.
fn begin(stripe: &Stripe<'_>, lost: &[ChunkIndex]) -> Result<Vec<Rebuilding>> {
    let bytes = stripe.chunk_bytes();
    let begin = |chunk: &ChunkIndex| -> Result<Rebuilding> {
        let temporary = Temporary::create(&stripe.files.chunk(*chunk), bytes)?;
        Ok(Rebuilding { chunk: *chunk, temporary, recorder: ChecksumRecorder::new(bytes) })
    };
    lost.iter().map(begin).collect()
}

fn write<'a>(
    rebuilding: &[Rebuilding],
    range: &PositionRange,
    buffers: impl IntoIterator<Item = &'a Vec<u8>>,
) -> io::Result<()> {
    for (rebuilding, buffer) in rebuilding.iter().zip(buffers) {
        for (piece, bytes) in placed(range, buffer) {
            rebuilding.recorder.record(piece.offset, bytes);
            rebuilding.temporary.file().write_all_at(bytes, piece.offset)?;
        }
    }
    Ok(())
}

impl Rebuilding {
    fn finish(self) -> Rebuilt {
        let Rebuilding { chunk, temporary, recorder } = self;
        Rebuilt { chunk, temporary, checksums: recorder.finish() }
    }
}

/// Whether the rebuilt chunks are those that were written, by whatever is left that can prove it.
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

/// Gives each rebuilt chunk its name. One that cannot have it does not keep the others.
fn publish(stripe: &Stripe<'_>, rebuilt: Vec<Rebuilt>) -> Result<()> {
    let publish = |Rebuilt { chunk, temporary, checksums }: Rebuilt| {
        temporary.publish()?;
        // After the chunk: should this be the last thing that happens, the old file is found to be
        // stale.
        publish_bytes(&stripe.files.checksums(chunk), &checksums.to_file())
    };
    let published: Vec<Result<()>> = rebuilt.into_iter().map(publish).collect();
    sync_directory(&stripe.files.directory)?;
    published.into_iter().collect()
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

/// Clears away what an interrupted rebuild left, of this build or of an older one.
fn remove_temporaries(directory: &Path) -> Result<()> {
    let context = || format!("cannot clear temporaries from {}", directory.display());
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.with_context(context)?,
    };
    remove_left_behind(directory).with_context(context)?;
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
