//! `suture rebuild`: lost chunks of an encoded directory are computed anew and put in their place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use serde::Serialize;
use suture_code::{ChunkIndex, Scheme};
use suture_edge::error::bad_input;
use suture_edge::units::{format_rate, format_seconds, format_size};
use suture_files::directory::DirectoryLock;
use suture_files::manifest::Manifest;
use suture_files::method::{self, MethodOptions};
use suture_files::rebuild::{Rebuild, StripeReport, StripeResult};
use suture_files::scheme;
use suture_files::unrepairable::Unrepairable;
use suture_terminal::output::{Format, LINES_MAX, counted, line, print_json};
use suture_terminal::progress::Progress;

use crate::outcome::Outcome;

/// Rebuild missing and corrupt chunks of an encoded directory in place.
///
/// Without --lost, every chunk is read to find out which are lost. Each rebuilt chunk is proven
/// against the manifest before it takes its name; stripes that cannot be repaired are listed and
/// left as they are. An interrupted rebuild is resumed by running it again.
///
/// Exit status: 0 done, 1 failed, 2 bad usage or input, 3 done but for stripes that cannot be
/// repaired.
#[derive(clap::Args)]
pub struct Args {
    /// The encoded directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Treat these chunks as lost in every stripe, by their numbers, from 0. Beside them, only
    /// missing chunks and helpers that turn out corrupt are rebuilt: what is not needed is not read
    #[arg(long, value_name = "I[,I..]", value_delimiter = ',', value_parser = parse_chunk)]
    lost: Vec<u8>,
    /// How to repair
    #[arg(long, value_enum, default_value_t)]
    method: Method,
    /// Trace schemes to use beside the known ones, as `suture codes search` writes them; each is
    /// verified first
    #[arg(long, value_name = "FILE")]
    schemes: Option<PathBuf>,
    /// What to print: text for people, or one JSON object
    #[arg(long, visible_alias = "format", value_enum, default_value_t, value_name = "FORMAT")]
    report: Format,
}

/// How lost chunks are repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Method {
    /// From whole chunks, as many as there are data chunks
    Conventional,
    /// The least traffic that the code offers from whole survivors: lrc asks the local group,
    /// butterfly and clay ask for parts of chunks; for rs and rs-vandermonde it is the same
    #[default]
    Optimal,
    /// From traces, parts of symbols of all survivors. Where several chunks are lost, or there is
    /// no trace scheme (--schemes may have one), the repair is conventional, and the report says so
    Trace,
}

/// The report as JSON, for `--report json`.
#[derive(Serialize)]
struct RebuildReport {
    method: method::Method,
    seconds: f64,
    read_bytes: u64,
    sent_bytes: u64,
    stripes: Vec<StripeReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unrepairable: Vec<UnrepairableReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailureReport>,
}

#[derive(Serialize)]
struct UnrepairableReport {
    stripe: u64,
    lost: Vec<u8>,
    reason: String,
}

#[derive(Serialize)]
struct FailureReport {
    stripe: u64,
    error: String,
}

/// Rebuilds the lost chunks of a directory.
///
/// # Errors
/// Bad input for a directory without manifest, chunks that it does not have and schemes that cannot
/// be used; a failure when another process rebuilds there or a stripe cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    let manifest = suture_files::open(&args.directory)?;
    let method = match args.method {
        Method::Conventional => method::Method::Conventional,
        Method::Optimal => method::Method::Optimal,
        Method::Trace => method::Method::Trace,
    };
    let named = named_chunks(&args.lost, &manifest)?;
    let schemes = searched_schemes(&args, &manifest)?;
    let _lock = DirectoryLock::take(&args.directory)?;
    let scanned_bytes = if named.is_empty() { manifest.geometry.stored_bytes() } else { 0 };
    let progress = Progress::bytes(args.report, "rebuilding", scanned_bytes);
    let rebuild = Rebuild {
        directory: &args.directory,
        manifest: &manifest,
        named: &named,
        options: MethodOptions { method, schemes: &schemes },
        progress: &progress.listener(),
        prepared: Mutex::default(),
    };
    let results = rebuild.run();
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    let unrepairable: Vec<&Unrepairable> =
        results.iter().filter_map(StripeResult::unrepairable).collect();
    for stripe in &unrepairable {
        errln!("suture: {stripe}");
    }
    let report = RebuildReport::of(method, seconds, &results, &unrepairable);
    report.note_fallbacks();
    match args.report {
        Format::Json => print_json(&report)?,
        Format::Text => report.print(&manifest),
    }
    for failure in report.failed.iter().take(LINES_MAX) {
        errln!("suture: {}", failure.error);
    }
    ensure!(
        report.failed.is_empty(),
        "{} not rebuilt; run it again when the cause is removed",
        counted(report.failed.len() as u64, "stripe")
    );
    Ok(if unrepairable.is_empty() { Outcome::Done } else { Outcome::Unrepairable })
}

fn searched_schemes(args: &Args, manifest: &Manifest) -> Result<Vec<Scheme>> {
    match &args.schemes {
        None => Ok(Vec::new()),
        Some(_) if args.method != Method::Trace => {
            Err(bad_input("--schemes is for traces; add --method trace"))
        }
        Some(path) => scheme::read(path, &manifest.geometry.code),
    }
}

fn parse_chunk(text: &str) -> Result<u8, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a chunk: write numbers like --lost 0,7"))
}

fn named_chunks(lost: &[u8], manifest: &Manifest) -> Result<Vec<ChunkIndex>> {
    let code = manifest.geometry.code;
    if let Some(chunk) = lost.iter().find(|chunk| usize::from(**chunk) >= code.chunk_count()) {
        let last = code.chunk_count() - 1;
        return Err(bad_input(format!(
            "--lost {chunk}: there is no such chunk; {code} has chunks 0 to {last}"
        )));
    }
    Ok(lost.iter().copied().map(ChunkIndex).collect())
}

impl RebuildReport {
    fn of(
        method: method::Method,
        seconds: f64,
        results: &[StripeResult],
        unrepairable: &[&Unrepairable],
    ) -> RebuildReport {
        let stripes: Vec<StripeReport> =
            results.iter().filter_map(StripeResult::report).cloned().collect();
        let helpers = || stripes.iter().flat_map(|stripe| &stripe.helpers);
        let unrepairable = unrepairable.iter().map(|stripe| UnrepairableReport {
            stripe: stripe.stripe,
            lost: stripe.lost.iter().map(|(chunk, _)| chunk.0).collect(),
            reason: stripe.reason.clone(),
        });
        let failed = (0..).zip(results).filter_map(|(stripe, result)| {
            let error = format!("{:#}", result.failure()?);
            Some(FailureReport { stripe, error })
        });
        RebuildReport {
            method,
            seconds,
            read_bytes: helpers().map(|helper| helper.read_bytes).sum(),
            sent_bytes: helpers().map(|helper| helper.sent_bytes).sum(),
            unrepairable: unrepairable.collect(),
            failed: failed.collect(),
            stripes,
        }
    }

    /// Says where another method was used than the one asked for, each reason once, and where none
    /// served.
    fn note_fallbacks(&self) {
        let mut reasons: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for stripe in &self.stripes {
            if let Some(why) = &stripe.instead {
                reasons.entry(why).or_default().push(stripe.stripe);
            }
        }
        for (why, stripes) in reasons {
            let count = counted(stripes.len() as u64, "stripe");
            errln!("suture: {count} repaired from whole chunks instead, since {why}");
        }
        let again = self.stripes.iter().filter(|stripe| stripe.encoded_again).count();
        if again > 0 {
            let count = counted(again as u64, "stripe");
            errln!(
                "suture: {count} with too few good chunks encoded again from the bytes of the file, which are all left"
            );
        }
    }

    fn print(&self, manifest: &Manifest) {
        let geometry = manifest.geometry;
        let all = counted(geometry.stripe_count(), "stripe");
        for stripe in self.stripes.iter().take(LINES_MAX) {
            let lost = list(stripe.lost.iter().copied());
            let helpers = list(stripe.helpers.iter().map(|helper| helper.chunk));
            let chunks = if stripe.lost.len() == 1 { "chunk" } else { "chunks" };
            if helpers.is_empty() {
                line(format_args!("stripe {}: {chunks} {lost}: all zeros", stripe.stripe))
            } else {
                line(format_args!(
                    "stripe {}: {chunks} {lost} from chunks {helpers}",
                    stripe.stripe
                ))
            }
        }
        if self.stripes.len() > LINES_MAX {
            line(format_args!(
                "and {} more",
                counted((self.stripes.len() - LINES_MAX) as u64, "stripe")
            ));
        }
        let chunks: usize = self.stripes.iter().map(|stripe| stripe.lost.len()).sum();
        let rebuilt_bytes = chunks as u64 * geometry.chunk_bytes;
        match chunks {
            // Of a stripe that failed, some chunks may be in their place.
            0 if !self.failed.is_empty() => line(format_args!("0 of {all} rebuilt in full")),
            0 if self.unrepairable.is_empty() => {
                line(format_args!("nothing to rebuild: every chunk of {all} is good"))
            }
            0 => line("nothing was rebuilt"),
            _ => line(format_args!(
                "rebuilt and proved {} ({}) in {} of {all}; read {} from helpers, who would send {}; {}, {}",
                counted(chunks as u64, "chunk"),
                format_size(rebuilt_bytes),
                self.stripes.len(),
                format_size(self.read_bytes),
                format_size(self.sent_bytes),
                format_seconds(self.seconds),
                format_rate(rebuilt_bytes as f64 / self.seconds),
            )),
        }
    }
}

/// Chunk indices as `0, 3, 8`.
fn list(chunks: impl Iterator<Item = u8>) -> String {
    chunks.map(|chunk| chunk.to_string()).collect::<Vec<_>>().join(", ")
}
