//! `suture codes search`: looks for trace schemes of a Reed-Solomon code, and proves what it finds.
//!
//! Place: before everything else, once for a code. A scheme rebuilds a chunk from parts of symbols;
//! how few bits it takes depends on the search, never whether it is right. All the same each is run
//! on random bytes and compared before it is printed or written.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Serialize, Serializer};
use suture_code::{ChunkIndex, Code, Scheme};
use suture_edge::error::bad_input;
use suture_edge::units::format_percent;
use suture_files::directory::write_output;
use suture_files::output::file_place;
use suture_files::{pool, scheme};
use suture_terminal::output::{Format, line, print_json, print_table, table};

use crate::outcome::Outcome;

/// Moves between two looks at the clock.
const MOVES_AT_A_TIME: u64 = 20;

/// Search for trace schemes: ways to rebuild one chunk of a Reed-Solomon code with less traffic
/// than k chunks.
///
/// With -o they are kept, for `suture rebuild --method trace --schemes FILE`.
///
/// The time is shared by all chunks of the stripe. Every scheme found is verified. The same seed
/// finds the same schemes when it is given the same number of moves; more time finds smaller ones.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The code, rs(k,m) or rs-vandermonde(k,m): both share their schemes
    #[arg(value_name = "CODE")]
    code: Code,
    /// How long to search, for all chunks together
    #[arg(long, value_name = "S", default_value_t = 60.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Seed of the search
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Write the schemes to this file, one in a line: k, m, bits, lost chunk, missing chunks,
    /// quotients
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to print: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct SearchReport {
    code: String,
    seconds: f64,
    /// What k whole chunks are.
    conventional_bits: usize,
    schemes: Vec<Found>,
}

/// A scheme, and the bits that it takes for each byte.
#[derive(Serialize)]
struct Found {
    lost: u8,
    bits: usize,
    /// What the scheme takes that this version knows already.
    known_bits: Option<usize>,
    #[serde(serialize_with = "as_text")]
    scheme: Scheme,
}

fn as_text<S: Serializer>(scheme: &Scheme, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(scheme)
}

pub(super) fn run(args: &Args) -> Result<Outcome> {
    let started = Instant::now();
    let code = args.code;
    // Refuses codes without traces, and what cannot be written, before any time is spent.
    code.scheme_search(ChunkIndex(0), &[], args.seed).map_err(bad_input)?;
    if let Some(output) = &args.output {
        file_place(output)?;
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunks = code.chunk_count();
    // Chunks are searched in rounds of one for each thread.
    let share = args.seconds / chunks.div_ceil(threads) as f64;
    let schemes = pool::map(threads, chunks as u64, |chunk| {
        search(&code, ChunkIndex(chunk as u8), args.seed, Duration::from_secs_f64(share))
    })?;
    let report = SearchReport {
        code: code.to_string(),
        seconds: started.elapsed().as_secs_f64(),
        conventional_bits: 8 * code.data_chunks(),
        schemes,
    };
    if let Some(output) = &args.output {
        write(&code, &report.schemes, output)?;
    }
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => report.print(args.output.as_deref()),
    }
    Ok(Outcome::Done)
}

fn search(code: &Code, lost: ChunkIndex, seed: u64, share: Duration) -> Result<Found> {
    let started = Instant::now();
    let mut search = code.scheme_search(lost, &[], seed)?;
    while started.elapsed() < share {
        search.step(MOVES_AT_A_TIME);
    }
    let found = search.best();
    scheme::verify(code, &found)
        .with_context(|| format!("the scheme found for chunk {lost} is wrong"))?;
    Ok(Found {
        lost: lost.0,
        bits: scheme::bits(code, &found),
        known_bits: code.trace_scheme(lost, &[]).map(|known| scheme::bits(code, known)),
        scheme: found,
    })
}

fn write(code: &Code, schemes: &[Found], output: &Path) -> Result<()> {
    let text = schemes.iter().map(|found| scheme::line_of(code, &found.scheme));
    write_output(output, text.collect::<String>().as_bytes())
}

impl SearchReport {
    fn print(&self, output: Option<&Path>) {
        let mut found = table(["lost", "bits", "known", "of k chunks"], &[0, 1, 2, 3]);
        for scheme in &self.schemes {
            found.add_row([
                scheme.lost.to_string(),
                scheme.bits.to_string(),
                scheme.known_bits.map_or("-".to_string(), |bits| bits.to_string()),
                format_percent(100.0 * scheme.bits as f64 / self.conventional_bits as f64),
            ]);
        }
        print_table(&found);
        let kept = output.map(|output| format!("; written to {}", output.display()));
        line(format_args!(
            "{}: bits sent for each rebuilt byte, {} with k whole chunks; every scheme verified{}",
            self.code,
            self.conventional_bits,
            kept.unwrap_or_default()
        ));
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.0..=1e7).contains(seconds));
    seconds.ok_or_else(|| format!("'{text}' is not a number of seconds"))
}
