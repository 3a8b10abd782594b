//! `suture get`: an object becomes a file again, and a folder's objects a folder.

mod recursive;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Write, stdout};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Error, Result, anyhow};
use serde_json::json;
use suture_drivers::control::client::Client;
use suture_drivers::metadata::Object;
use suture_drivers::object::lookup::Lookup;
use suture_drivers::object::read::{Fetched, GetAgents, Sink, get};
use suture_edge::error::{ErrorKind, bad_input, kind, quoted};
use suture_edge::progress::Progress as Listener;
use suture_edge::units::{format_rate, format_seconds, format_size};
use suture_files::directory::sync_directory;
use suture_files::output::{Existing, NewFile, Place, folder_of, place, taken};
use suture_terminal::output::{Format, counted, is_stdout, print_json};
use suture_terminal::progress::Progress;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::listing::explain_missing;
use crate::outcome::Outcome;

/// Read an object into a file; missing or corrupt chunks are decoded from the others.
///
/// The file appears whole and checked, or not at all. One that exists is replaced (unless
/// --no-clobber) by one with its permissions; a link to a file is followed. A new file has the
/// usual permissions and the time of now: objects have neither. A device or FIFO is written into,
/// as standard output is, and never replaced; only the exit status says whether what was written is
/// whole.
///
/// With --recursive, links in the folder are not followed, and nothing but files is replaced. If
/// one object cannot be read, the others are. Exit status 3: too few good chunks of something are
/// left or in reach; 1: something may be read another time; 2: there is no object, or its name
/// cannot be a file's.
#[derive(clap::Args)]
pub struct Args {
    /// The object
    #[arg(value_name = "NAME")]
    name: String,
    /// Read every object that is named NAME or begins with NAME/ into a file in the folder -o,
    /// which is made if need be; what follows NAME/ is the path in it
    #[arg(short, long)]
    recursive: bool,
    /// With --recursive: leave out objects whose files are there with the same bytes, as after a
    /// get that was interrupted; files of the same length are read and compared by a checksum
    #[arg(long, requires = "recursive")]
    skip_existing: bool,
    /// Keep files that exist: an object whose file is there is refused
    #[arg(short, long)]
    no_clobber: bool,
    /// The file to write, or the folder to write it into; a device or FIFO is written into, `-` is
    /// standard output. Where it is no regular file, the summary goes to stderr
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: a line for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Args {
    fn existing(&self) -> Existing {
        if self.no_clobber { Existing::Keep } else { Existing::Replace }
    }
}

/// Reads an object into a file or to standard output, or many into a folder.
///
/// # Errors
/// Bad input when there is no such object or no file can be made there; a failure when a stripe
/// cannot be read, the bytes differ from what was put, or the output cannot be written.
pub fn run(args: Args) -> Result<Outcome> {
    if args.recursive {
        return recursive::run(&args);
    }
    if is_stdout(&args.output) && args.format == Format::Json {
        return Err(bad_input("standard output cannot hold both the object and a JSON object"));
    }
    daemon::block_on(fetch(args))
}

async fn fetch(args: Args) -> Result<Outcome> {
    let started = Instant::now();
    let mut client = args.coordinator.connect().await?;
    let lookup = match Lookup::of(&mut client, &args.name).await {
        Ok(lookup) => lookup,
        Err(error) => return Err(explain_missing(&mut client, &args.name, error).await),
    };
    let progress = Progress::bytes(args.format, "reading", lookup.object.bytes);
    let output = if is_stdout(&args.output) {
        Output::Stream(Box::new(stdout()))
    } else {
        Output::open(&named_in(&args.output, &args.name)?, args.existing())?
    };
    let is_file = matches!(output, Output::File(..));
    let result = read(&client, &Arc::default(), lookup, output, &progress.listener()).await;
    drop(progress);
    let fetched = result?;
    let seconds = started.elapsed().as_secs_f64();
    match args.format {
        Format::Json => print_json(&json!({
            "name": args.name,
            "bytes": fetched.bytes,
            "decoded_bytes": fetched.decoded_bytes,
            "bad_copies": fetched.bad_copies,
            "seconds": seconds,
        }))?,
        Format::Text => {
            let line = format!("{}: {}", args.name, summary(&fetched, seconds));
            // Where the output is a device or a FIFO, its bytes may go where stdout goes: the
            // summary goes to stderr.
            if is_file { outln!("{line}") } else { errln!("{line}") }
        }
    }
    Ok(Outcome::Done)
}

/// Reads an object from its first byte to its last.
async fn read(
    client: &Client,
    agents: &Arc<GetAgents>,
    lookup: Lookup,
    mut output: Output,
    listener: &Listener<'_>,
) -> Result<Fetched> {
    let object = lookup.object.clone();
    let result = match get(client, agents, lookup, &mut output, listener).await {
        Ok(fetched) => output.finish().map(|()| fetched),
        Err(why) => Err(changed(client, &object).await.unwrap_or(why)),
    };
    result.with_context(|| format!("cannot get {}", quoted(&object.name)))
}

/// That the object is not what it was when its read began, if so: then nothing else is wrong.
async fn changed(client: &Client, object: &Object) -> Option<Error> {
    match Lookup::of(&mut client.clone(), &object.name).await {
        Ok(now) if now.object == *object => None,
        Ok(_) => Some(anyhow!("another object has got this name while it was read: get it again")),
        Err(error) if kind(&error) == ErrorKind::BadInput => {
            Some(bad_input("it was removed while it was read"))
        }
        Err(_) => None,
    }
}

/// What was read, how fast, and what was wrong with it.
fn summary(fetched: &Fetched, seconds: f64) -> String {
    let mut line = format!(
        "{} read and checked; {}, {}",
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
    line
}

/// Where the bytes go.
enum Output {
    /// In their order only: to standard output, a device of characters or a FIFO.
    Stream(Box<dyn Write + Send>),
    /// In their order too: to a disk, which has them in its cache first.
    Disk(File),
    /// To a file that has no name yet, the one that it is to have, and what becomes of one that
    /// has it.
    File(NewFile, PathBuf, Existing),
}

impl Output {
    fn open(path: &Path, existing: Existing) -> Result<Output> {
        let cannot = |path: &Path, why: &dyn std::fmt::Display| {
            bad_input(format!("cannot write '{}': {why}", path.display()))
        };
        match place(path)? {
            Place::Stream(path) => {
                // Neither created nor cut: it is there, and has no length.
                let opened = OpenOptions::new().write(true).open(&path);
                let opened = opened.map_err(|why| cannot(&path, &why))?;
                let found = opened.metadata().map_err(|why| cannot(&path, &why))?;
                Ok(if found.file_type().is_block_device() {
                    Output::Disk(opened)
                } else {
                    Output::Stream(Box::new(opened))
                })
            }
            Place::File(path) => {
                let new = NewFile::beside(&path).map_err(|why| cannot(&path, &why))?;
                if existing == Existing::Keep && path.exists() {
                    return Err(taken(&path));
                }
                Ok(Output::File(new, path, existing))
            }
        }
    }

    /// After the last byte.
    fn finish(self) -> Result<()> {
        match self {
            Output::Stream(mut stream) => stream.flush().context("cannot write the output"),
            Output::Disk(disk) => disk.sync_all().context("cannot make the output durable"),
            Output::File(new, path, existing) => {
                new.publish_as(&path, existing)?;
                sync_directory(folder_of(&path))
            }
        }
    }
}

impl Sink for Output {
    fn takes_any_order(&self) -> bool {
        matches!(self, Output::File(..))
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Output::Stream(stream) => stream.write_all(bytes),
            Output::Disk(disk) => disk.write_all(bytes),
            Output::File(new, ..) => new.file().write_all_at(bytes, offset),
        }
        .context("cannot write the output")
    }
}

/// A folder takes the object under the last part of its name.
fn named_in(output: &Path, name: &str) -> Result<PathBuf> {
    if !output.is_dir() {
        return Ok(output.to_path_buf());
    }
    let last = Path::new(name).file_name().map(OsString::from);
    let last =
        last.ok_or_else(|| bad_input(format!("'{name}' is not a file name: name a file with -o")))?;
    Ok(output.join(last))
}
