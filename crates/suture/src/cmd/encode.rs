//! `suture encode`: a file becomes a directory of chunks.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use serde_json::json;
use suture_code::Code;
use suture_edge::error::bad_input;
use suture_edge::units::{
    format_exact_size, format_rate, format_seconds, format_size, parse_nonzero_size,
};
use suture_files::encode::{Encode, Source};
use suture_files::geometry::Geometry;
use suture_files::manifest::{MANIFEST_BYTES_MAX, estimated_bytes};
use suture_terminal::output::{Format, counted, line, print_json};
use suture_terminal::progress::Progress;

use crate::outcome::Outcome;

/// Encode a file into a directory of data and parity chunks.
///
/// The directory gets manifest.json (written last: with it, the directory is complete), chunk.NN
/// (data first, then parity) and chunk.NN.crc; a file longer than one stripe gets a directory
/// stripe.NNNNN for each stripe.
#[derive(clap::Args)]
pub struct Args {
    /// The file to encode
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The code, for instance 'rs(6,3)': 6 data chunks, 3 parity chunks, any 3 may be lost
    #[arg(long, value_name = "CODE")]
    code: Code,
    /// Bytes of a chunk, for instance 64MiB. The last stripe is padded with zeros to full chunks
    #[arg(long, value_name = "SIZE", value_parser = parse_nonzero_size, allow_negative_numbers = true)]
    chunk_size: u64,
    /// Bytes of one codeword's piece of a chunk [default: the whole chunk]
    #[arg(long, value_name = "SIZE", value_parser = parse_nonzero_size)]
    unit: Option<u64>,
    /// The directory to write: new or empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Cuts a file into chunks with parity.
///
/// # Errors
/// Bad input for a file, sizes or a directory that cannot be used; a failure when the chunks cannot
/// be written.
pub fn run(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    if args.file == Path::new("-") {
        return Err(bad_input("standard input cannot be encoded: write it to a file first"));
    }
    let source = Source::open(&args.file)?;
    let geometry = Geometry {
        code: args.code,
        file_bytes: source.bytes(),
        chunk_bytes: args.chunk_size,
        unit_bytes: args.unit.unwrap_or(args.chunk_size),
    };
    let geometry = geometry.check().map_err(bad_input)?;
    let stripes = geometry.stripe_count();
    if estimated_bytes(&geometry) > MANIFEST_BYTES_MAX {
        let size = format_exact_size(args.chunk_size);
        return Err(bad_input(format!(
            "{stripes} stripes are too many for one manifest; take chunks larger than {size}"
        )));
    }
    let progress = Progress::bytes(args.format, "encoding", geometry.file_bytes);
    Encode { source: &source, geometry, directory: &args.output, progress: &progress.listener() }
        .run()?;
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    match args.format {
        Format::Json => print_json(&json!({
            "file": args.file.display().to_string(),
            "file_bytes": geometry.file_bytes,
            "directory": args.output.display().to_string(),
            "code": geometry.code.to_string(),
            "chunk_bytes": geometry.chunk_bytes,
            "unit_bytes": geometry.unit_bytes,
            "stripe_count": stripes,
            "stored_bytes": geometry.stored_bytes(),
            "seconds": seconds,
        }))?,
        Format::Text => print(&args, &geometry, seconds),
    }
    Ok(Outcome::Done)
}

fn print(args: &Args, geometry: &Geometry, seconds: f64) {
    let stripes = geometry.stripe_count();
    line(format_args!(
        "{} ({}) is in {} as {}: {} of {} chunks of {}, {} in all; {}, {}",
        args.file.display(),
        format_size(geometry.file_bytes),
        args.output.display(),
        geometry.code,
        counted(stripes, "stripe"),
        geometry.code.chunk_count(),
        format_size(geometry.chunk_bytes),
        format_size(geometry.stored_bytes()),
        format_seconds(seconds),
        format_rate(geometry.file_bytes as f64 / seconds),
    ));
    let padding = stripes * geometry.stripe_data_bytes() - geometry.file_bytes;
    if padding > geometry.file_bytes && geometry.chunk_bytes > SMALL_CHUNK_BYTES {
        let zeros = format_size(padding);
        line(format_args!(
            "note: {zeros} of zeros fill the last stripe; a smaller --chunk-size stores fewer"
        ));
    }
}

/// Chunks of which a whole stripe costs little: nothing is said of their padding.
const SMALL_CHUNK_BYTES: u64 = 64 << 10;
