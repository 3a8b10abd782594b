//! `suture decode`: a directory of chunks becomes the file again.

use std::fs;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use suture_edge::error::bad_input;
use suture_edge::progress::Progress as Listener;
use suture_edge::units::{format_rate, format_seconds, format_size};
use suture_files::decode::{Decoded, FoundFault, decode, decode_into};
use suture_files::manifest::{MANIFEST_NAME, Manifest};
use suture_files::output::{Place, place};
use suture_files::unrepairable::Unrepairable;
use suture_terminal::output::{Format, LINES_MAX, counted, is_stdout, line, print_json};
use suture_terminal::progress::Progress;

use crate::outcome::Outcome;

/// Decode the file from an encoded directory, even when chunks are missing or corrupt.
///
/// Every block is checked before it is used; lost chunks are computed from others. The directory is
/// only read, and the output appears when it is complete.
///
/// Exit status: 0 done, 1 failed, 2 bad usage or input, 3 too many chunks of a stripe are lost
/// (nothing is written).
#[derive(clap::Args)]
pub struct Args {
    /// The encoded directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The file to write; a regular file is replaced if it exists. `-` is standard output, which
    /// gets the file when all of it was decoded, in the directory for temporary files (TMPDIR)
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Gives the file back from its chunks.
///
/// # Errors
/// Bad input for a directory without manifest and an output that cannot be made; a failure when the
/// output cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    if is_stdout(&args.output) && args.format == Format::Json {
        return Err(bad_input("standard output cannot hold both the file and a JSON object"));
    }
    let manifest = suture_files::open(&args.directory)?;
    let output = Target::of(&args)?;
    let file_bytes = manifest.geometry.file_bytes;
    let progress = Progress::bytes(args.format, "decoding", file_bytes);
    let decoded = output.decode(&args.directory, &manifest, &progress.listener())?;
    drop(progress);
    let shown = match output {
        Target::Stdout => "standard output".into(),
        Target::File(_) => args.output.display().to_string(),
    };
    if !decoded.unrepairable.is_empty() {
        for stripe in &decoded.unrepairable {
            errln!("suture: {stripe}");
        }
        let (bad, all) = (decoded.unrepairable.len(), manifest.geometry.stripe_count());
        errln!(
            "suture: {bad} of {} cannot be decoded, so {shown} was not written",
            counted(all, "stripe")
        );
        if args.format == Format::Json {
            let seconds = started.elapsed().as_secs_f64();
            print_json(&describe(&args, &manifest, &decoded, seconds))?;
        }
        let is_unknown = decoded.unrepairable.iter().any(Unrepairable::is_unknown);
        return Ok(if is_unknown { Outcome::Missed } else { Outcome::Unrepairable });
    }
    for FoundFault { stripe, chunk, fault } in decoded.faults.iter().take(LINES_MAX) {
        errln!("suture: stripe {stripe} chunk {chunk} {fault}; computed from others");
    }
    if decoded.faults.len() > LINES_MAX {
        let more = (decoded.faults.len() - LINES_MAX) as u64;
        errln!("suture: and {} more", counted(more, "chunk"));
    }
    if !decoded.faults.is_empty() {
        errln!("suture: to repair the directory: suture rebuild {}", args.directory.display());
    }
    let seconds = started.elapsed().as_secs_f64();
    if args.format == Format::Json {
        print_json(&describe(&args, &manifest, &decoded, seconds))?;
        return Ok(Outcome::Done);
    }
    let (size, rate) = (format_size(file_bytes), format_rate(file_bytes as f64 / seconds));
    let done = format!(
        "{shown} ({size}) is complete and every byte is checked; {}, {rate}",
        format_seconds(seconds)
    );
    match output {
        Target::Stdout => errln!("{done}"),
        Target::File(_) => line(done),
    }
    Ok(Outcome::Done)
}

/// What was decoded, or could not be, for scripts.
fn describe(args: &Args, manifest: &Manifest, decoded: &Decoded, seconds: f64) -> Value {
    let computed = decoded.faults.iter().map(|found| {
        json!({ "stripe": found.stripe, "chunk": found.chunk.0, "state": found.fault.word() })
    });
    let unrepairable = decoded.unrepairable.iter().map(|stripe| {
        let lost = stripe.lost.iter().map(|(chunk, _)| chunk.0).collect::<Vec<_>>();
        json!({ "stripe": stripe.stripe, "lost": lost, "reason": stripe.reason })
    });
    json!({
        "directory": args.directory.display().to_string(),
        "file": args.output.display().to_string(),
        "file_bytes": manifest.geometry.file_bytes,
        "is_written": decoded.unrepairable.is_empty(),
        "bad": computed.collect::<Vec<_>>(),
        "unrepairable": unrepairable.collect::<Vec<_>>(),
        "seconds": seconds,
    })
}

/// Where the file goes.
enum Target {
    Stdout,
    File(PathBuf),
}

impl Target {
    fn of(args: &Args) -> Result<Target> {
        if is_stdout(&args.output) {
            Ok(Target::Stdout)
        } else {
            resolve_output(&args.directory, &args.output).map(Target::File)
        }
    }

    /// Bytes are decoded in no order, so what goes to standard output is decoded elsewhere first.
    fn decode(
        &self,
        directory: &Path,
        manifest: &Manifest,
        progress: &Listener<'_>,
    ) -> Result<Decoded> {
        let Target::File(path) = self else {
            let mut file = tempfile::tempfile().context("cannot make a temporary file")?;
            let decoded = decode_into(directory, manifest, &file, progress)
                .context("cannot write a temporary file")?;
            if decoded.unrepairable.is_empty() {
                file.rewind().context("cannot read a temporary file")?;
                let copied = io::copy(&mut file, &mut io::stdout());
                copied
                    .and_then(|_| io::stdout().flush())
                    .context("cannot write standard output")?;
            }
            return Ok(decoded);
        };
        decode(directory, manifest, path, progress)
    }
}

/// Where the output really goes; refused when that would harm.
fn resolve_output(directory: &Path, output: &Path) -> Result<PathBuf> {
    let shown = output.display();
    let resolved = match place(output)? {
        Place::File(path) => path,
        Place::Stream(_) => {
            return Err(bad_input(format!(
                "{shown} is not a regular file, and bytes are decoded in no order: decode into a file, and copy that (cp FILE {shown})"
            )));
        }
    };
    let inside = fs::canonicalize(directory)
        .ok()
        .and_then(|directory| resolved.strip_prefix(directory).ok());
    let first = inside.and_then(|inside| inside.iter().next()).map(|name| name.to_string_lossy());
    if first.is_some_and(|name| {
        name == MANIFEST_NAME || name.starts_with("chunk.") || name.starts_with("stripe.")
    }) {
        return Err(bad_input(format!(
            "{shown} belongs to the encoded directory; write the file elsewhere"
        )));
    }
    Ok(resolved)
}
