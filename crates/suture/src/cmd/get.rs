//! `suture get`: an object becomes a file again.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{Write, stdout};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use suture_drivers::object::read::{Fetched, Lookup, Sink, get};
use suture_edge::error::bad_input;
use suture_edge::units::{format_rate, format_seconds, format_size};
use tempfile::NamedTempFile;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, counted, print_json};
use crate::progress::Progress;

/// Read an object into a file; chunks that are missing or corrupt are decoded from the others.
///
/// The file appears whole and checked, or not at all.
#[derive(clap::Args)]
pub struct Args {
    /// The object
    #[arg(value_name = "NAME")]
    name: String,
    /// The file to write, or the folder to write it into; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Reads an object into a file or to standard output.
///
/// # Errors
/// Bad input when there is no such object or no file can be made there; a failure when a stripe
/// cannot be read, the bytes differ from what was put, or the output cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    if args.output == Path::new("-") && args.format == Format::Json {
        return Err(bad_input("standard output cannot hold both the object and a JSON object"));
    }
    daemon::block_on(fetch(args))
}

async fn fetch(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    let mut client = args.coordinator.connect().await?;
    let lookup = Lookup::of(&mut client, &args.name).await?;
    let progress = Progress::bytes(args.format, "reading", lookup.object.bytes);
    let result = match args.output == Path::new("-") {
        true => get(&client, lookup, &mut Stdout, &progress.listener()).await,
        false => {
            let path = target(&args.output, &args.name)?;
            let mut file = NewFile::beside(&path)?;
            let result = get(&client, lookup, &mut file, &progress.listener()).await;
            result.and_then(|fetched| file.publish(&path).map(|()| fetched))
        }
    };
    drop(progress);
    let fetched = result.with_context(|| format!("cannot read '{}'", args.name))?;
    let seconds = started.elapsed().as_secs_f64();
    match args.format {
        Format::Json => print_json(&json!({
            "name": args.name,
            "bytes": fetched.bytes,
            "decoded_bytes": fetched.decoded_bytes,
            "bad_copies": fetched.bad_copies,
            "seconds": seconds,
        }))?,
        Format::Text => print(&args, &fetched, seconds),
    }
    Ok(Outcome::Done)
}

fn print(args: &Args, fetched: &Fetched, seconds: f64) {
    let mut line = format!(
        "{}: {} read and checked; {}, {}",
        args.name,
        format_size(fetched.bytes),
        format_seconds(seconds),
        format_rate(fetched.bytes as f64 / seconds),
    );
    if fetched.decoded_bytes > 0 {
        line += &format!("; {} decoded from other chunks", format_size(fetched.decoded_bytes));
    }
    if fetched.bad_copies > 0 {
        line += &format!("; {} reported for repair", counted(fetched.bad_copies, "bad chunk"));
    }
    if args.output == Path::new("-") {
        errln!("{line}");
    } else {
        outln!("{line}");
    }
}

/// A folder takes the object under the last part of its name.
fn target(output: &Path, name: &str) -> Result<PathBuf> {
    if !output.is_dir() {
        return Ok(output.to_path_buf());
    }
    let last = Path::new(name).file_name().map(OsString::from);
    let last =
        last.ok_or_else(|| bad_input(format!("'{name}' is no file name: name a file with -o")))?;
    Ok(output.join(last))
}

/// Standard output takes bytes in their order only.
struct Stdout;

impl Sink for Stdout {
    fn takes_any_order(&self) -> bool {
        false
    }

    fn write(&mut self, _: u64, bytes: &[u8]) -> Result<()> {
        stdout().write_all(bytes).context("cannot write to standard output")
    }
}

/// A file that has no name yet.
struct NewFile {
    file: NamedTempFile,
    folder: PathBuf,
}

impl NewFile {
    fn beside(path: &Path) -> Result<NewFile> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_path_buf();
        let mut builder = tempfile::Builder::new();
        // What any other program would create; the default is for secrets.
        let builder = builder.prefix(".suture-get.").permissions(Permissions::from_mode(0o666));
        let file = builder.tempfile_in(&folder).map_err(|error| {
            bad_input(format!("cannot create a file in '{}': {error}", folder.display()))
        })?;
        Ok(NewFile { file, folder })
    }

    fn publish(self, path: &Path) -> Result<()> {
        let cannot = || format!("cannot write '{}'", path.display());
        self.file.as_file().sync_all().with_context(cannot)?;
        self.file.persist(path).with_context(cannot)?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).with_context(cannot)
    }
}

impl Sink for NewFile {
    fn takes_any_order(&self) -> bool {
        true
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.as_file().write_all_at(bytes, offset).context("cannot write the file")
    }
}
