//! `suture verify`: reads everything in an encoded directory and says what is good.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;
use suture_code::Code;
use suture_edge::units::{format_rate, format_seconds, format_size};
use suture_files::chunk::ChecksumFile;
use suture_files::manifest::Manifest;
use suture_files::verify::{StripeVerdict, extra_files, verify};
use suture_terminal::output::{Format, LINES_MAX, counted, line, print_json};
use suture_terminal::progress::Progress;

use crate::outcome::Outcome;

/// Read every chunk of an encoded directory and list what is missing or bad.
///
/// Chunks are checked against their checksums; where checksums are gone, against the parity of
/// their stripe. Nothing is written. A missing or stale .crc file beside a good chunk is noted, but
/// is not damage: rebuild writes it again.
///
/// Exit status: 0 all chunks are good, 1 some are not but rebuild can repair them (or verify
/// failed), 2 bad usage or input, 3 some stripe is beyond repair.
#[derive(clap::Args)]
pub struct Args {
    /// The encoded directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// What to print: text for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The report as JSON.
#[derive(Serialize)]
struct VerifyReport {
    code: String,
    file_bytes: u64,
    chunk_bytes: u64,
    stripe_count: u64,
    /// What the chunks were checked against: `checksums`, or `parity` where the manifest has none.
    proof: &'static str,
    seconds: f64,
    bad: Vec<BadChunk>,
    /// Stripes that are beyond repair.
    unrepairable: Vec<u64>,
    /// Good chunks whose `.crc` file is missing or stale.
    bad_checksum_files: Vec<BadChecksumFile>,
    extra_files: Vec<String>,
}

#[derive(Serialize)]
struct BadChunk {
    stripe: u64,
    chunk: u8,
    state: &'static str,
    detail: String,
}

#[derive(Serialize)]
struct BadChecksumFile {
    stripe: u64,
    chunk: u8,
    state: &'static str,
}

/// Reads every chunk of a directory against its checksums.
///
/// # Errors
/// Bad input for a directory without manifest; a failure when it cannot be read.
pub fn run(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    let manifest = suture_files::open(&args.directory)?;
    let shown = args.directory.display();
    let extra_files =
        extra_files(&args.directory, &manifest).with_context(|| format!("cannot list {shown}"))?;
    let progress = Progress::bytes(args.format, "verifying", manifest.geometry.stored_bytes());
    let verdicts = verify(&args.directory, &manifest, &progress.listener());
    drop(progress);
    let report =
        VerifyReport::of(&manifest, &verdicts, extra_files, started.elapsed().as_secs_f64());
    match args.format {
        Format::Json => print_json(&report)?,
        Format::Text => report.print(&manifest, &args),
    }
    let unknown = verdicts.iter().filter(|verdict| verdict.is_unknown()).count() as u64;
    if unknown > 0 {
        errln!(
            "suture: of {} it is not known what is left: this process may not open all chunks; allow it to, and verify again",
            counted(unknown, "stripe")
        );
        return Ok(Outcome::Missed);
    }
    Ok(match (report.bad.is_empty(), report.unrepairable.is_empty()) {
        (true, _) => Outcome::Done,
        (false, true) => Outcome::Damaged,
        (false, false) => Outcome::Unrepairable,
    })
}

impl VerifyReport {
    fn of(
        manifest: &Manifest,
        verdicts: &[StripeVerdict],
        extra_files: Vec<String>,
        seconds: f64,
    ) -> VerifyReport {
        let bad = verdicts.iter().flat_map(|verdict| {
            verdict.faults.iter().map(|(chunk, fault)| BadChunk {
                stripe: verdict.stripe,
                chunk: chunk.0,
                state: fault.word(),
                detail: fault.to_string(),
            })
        });
        let bad_checksum_files = verdicts.iter().flat_map(|verdict| {
            verdict.bad_checksum_files.iter().map(|(chunk, state)| BadChecksumFile {
                stripe: verdict.stripe,
                chunk: chunk.0,
                state: match state {
                    ChecksumFile::Missing => "missing",
                    ChecksumFile::NoFile => "not a regular file: remove it",
                    ChecksumFile::Fresh | ChecksumFile::Stale => "stale",
                },
            })
        });
        VerifyReport {
            code: manifest.geometry.code.to_string(),
            file_bytes: manifest.geometry.file_bytes,
            chunk_bytes: manifest.geometry.chunk_bytes,
            stripe_count: manifest.geometry.stripe_count(),
            proof: if manifest.chunk_checksums.is_some() { "checksums" } else { "parity" },
            seconds,
            bad: bad.collect(),
            unrepairable: verdicts
                .iter()
                .filter(|verdict| !verdict.repairable && !verdict.is_unknown())
                .map(|verdict| verdict.stripe)
                .collect(),
            bad_checksum_files: bad_checksum_files.collect(),
            extra_files,
        }
    }

    fn print(&self, manifest: &Manifest, args: &Args) {
        for bad in &self.bad {
            line(format_args!("stripe {} chunk {} {}", bad.stripe, bad.chunk, bad.detail));
        }
        for stripe in &self.unrepairable {
            line(format_args!(
                "stripe {stripe} is beyond repair: {}",
                too_few(&manifest.geometry.code)
            ));
        }
        for file in self.bad_checksum_files.iter().take(LINES_MAX) {
            line(format_args!(
                "note: stripe {} chunk {} is good, but its .crc file is {}",
                file.stripe, file.chunk, file.state
            ));
        }
        if self.bad_checksum_files.len() > LINES_MAX {
            let more = (self.bad_checksum_files.len() - LINES_MAX) as u64;
            line(format_args!("note: and {} more", counted(more, ".crc file")));
        }
        for name in &self.extra_files {
            line(format_args!("note: {name} does not belong to the encoded file"));
        }
        let stored = manifest.geometry.stored_bytes();
        let chunks = self.stripe_count * manifest.geometry.code.chunk_count() as u64;
        let directory = args.directory.display();
        let what = match (self.bad.len(), self.unrepairable.len()) {
            (0, _) => format!("all {} are good", counted(chunks, "chunk")),
            (bad, _) if self.bad.iter().any(|bad| bad.state == "denied") => {
                format!("{bad} of {} not known to be good", counted(chunks, "chunk"))
            }
            (bad, 0) => format!(
                "{bad} of {} bad; to repair them: suture rebuild {directory}",
                counted(chunks, "chunk")
            ),
            (bad, lost) => {
                let (chunks, stripes) =
                    (counted(chunks, "chunk"), counted(self.stripe_count, "stripe"));
                let is_repairable = |stripe: &u64| !self.unrepairable.contains(stripe);
                let hint = if self.bad.iter().any(|bad| is_repairable(&bad.stripe)) {
                    format!("; for the others: suture rebuild {directory}")
                } else {
                    String::new()
                };
                format!("{bad} of {chunks} bad, {lost} of {stripes} beyond repair{hint}")
            }
        };
        let (seconds, rate) =
            (format_seconds(self.seconds), format_rate(stored as f64 / self.seconds));
        line(format_args!(
            "{directory}: {}, {}, checked by {}; {what}; {seconds}, {rate}",
            self.code,
            format_size(stored),
            self.proof
        ));
    }
}

/// What the good chunks of such a stripe are not.
fn too_few(code: &Code) -> String {
    let needed = code.data_chunks();
    if code.loss_tolerance() == code.parity_chunks() {
        format!("{code} needs {needed} good chunks")
    } else {
        format!(
            "its good chunks do not determine the others ({code} needs {needed}, and not any {needed} do)"
        )
    }
}
