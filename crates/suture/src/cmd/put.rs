//! `suture put`: files become objects.

use std::fs::{self, File};
use std::io::stdin;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use serde_json::json;
use suture_code::{Code, layout};
use suture_drivers::control::client::Client;
use suture_drivers::control::put::check_name;
use suture_drivers::object::cut::ObjectSource;
use suture_drivers::object::write::{PutOptions, Stored, put};
use suture_edge::error::{bad_input, quoted};
use suture_edge::progress::Progress as Listener;
use suture_edge::units::{
    format_exact_size, format_rate, format_seconds, format_size, parse_nonzero_size,
};
use suture_repair::wire::CHUNK_BYTES_MAX;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, counted, print_json};
use crate::progress::Progress;

/// Store a file, a folder, or standard input in the native store.
///
/// A folder becomes one object for each file in it, named FOLDER/PATH; links to files count as
/// files, and what else is no file is skipped. An object is visible when all of it is durable, and
/// not before; names are never overwritten. Exit status 1: something failed, or was skipped.
#[derive(clap::Args)]
pub struct Args {
    /// What to store; `-` is standard input
    #[arg(value_name = "FILE|DIR|-", required = true)]
    sources: Vec<PathBuf>,
    /// The object's name [default: that of the file or folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The code, for instance 'rs(6,3)': 6 data chunks, 3 parity chunks, any 3 may be lost
    #[arg(long, value_name = "CODE", default_value = "rs(6,3)")]
    code: Code,
    /// Bytes of a chunk; a last, short stripe has shorter chunks
    #[arg(long, value_name = "SIZE", value_parser = parse_nonzero_size, default_value = "8MiB", allow_negative_numbers = true)]
    chunk_size: u64,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Chunks of long objects are no shorter: each is a file that is made durable.
const CHUNK_BYTES_MIN: u64 = 4 << 10;

/// Stripes of one object: 12 TiB with the default code and chunks.
const STRIPES_MAX: u64 = 1 << 18;

/// What is to be stored, and what in it cannot be.
#[derive(Default)]
struct Items {
    objects: Vec<Item>,
    skipped: Vec<String>,
}

/// One object to be.
struct Item {
    name: String,
    path: PathBuf,
    bytes: u64,
}

/// Stores files as objects.
///
/// # Errors
/// Bad input for files that cannot be read and names that are taken; a failure when too few chunks
/// become durable.
pub fn run(args: Args) -> Result<Outcome> {
    check_chunk_size(&args)?;
    let items = items(&args)?;
    items.objects.iter().try_for_each(|item| check_item(&args, item))?;
    daemon::block_on(store_all(args, items))
}

async fn store_all(args: Args, items: Items) -> Result<Outcome> {
    let Items { objects: items, skipped } = items;
    let started = Instant::now();
    let mut client = args.coordinator.connect().await?;
    let total = items.iter().map(|item| item.bytes).sum();
    let progress = Progress::bytes(args.format, "storing", total);
    let listener: Arc<Listener<'static>> = Arc::new(progress.listener());
    let mut objects = Vec::new();
    let mut all = Stored::default();
    for item in &items {
        let options =
            PutOptions { name: item.name.clone(), code: args.code, chunk_bytes: args.chunk_size };
        let stored = store(&mut client, &options, &item.path, &listener).await;
        let stored = stored.with_context(|| format!("cannot store {}", quoted(&item.name)))?;
        if args.format == Format::Text && items.len() > 1 {
            progress.line(format!("{} ({})", item.name, format_size(stored.bytes)));
        }
        objects.push(json!({
            "name": item.name,
            "bytes": stored.bytes,
            "code": args.code.to_string(),
            "chunk_bytes": args.chunk_size,
            "stripes": stored.stripes,
            "stored_bytes": stored.stored_bytes,
            "missing_chunks": stored.missing_chunks,
        }));
        all.bytes += stored.bytes;
        all.stripes += stored.stripes;
        all.stored_bytes += stored.stored_bytes;
        all.missing_chunks += stored.missing_chunks;
    }
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    match args.format {
        Format::Json => {
            print_json(&json!({ "objects": objects, "skipped": skipped, "seconds": seconds }))?;
        }
        Format::Text => print(&items, &args.code, &all, seconds),
    }
    Ok(if skipped.is_empty() { Outcome::Done } else { Outcome::Missed })
}

async fn store(
    client: &mut Client,
    options: &PutOptions,
    path: &Path,
    progress: &Arc<Listener<'static>>,
) -> Result<Stored> {
    let source = match path == Path::new("-") {
        true => ObjectSource::Stream(Box::new(stdin())),
        false => {
            let cannot = || format!("cannot read '{}'", path.display());
            ObjectSource::file(File::open(path).with_context(cannot)?).with_context(cannot)?
        }
    };
    put(client, options, source, progress).await
}

fn print(items: &[Item], code: &Code, all: &Stored, seconds: f64) {
    let what = match items {
        [item] => item.name.clone(),
        items => counted(items.len() as u64, "object"),
    };
    outln!(
        "{what}: {} as {code}, {} of {} chunks, {} stored; {}, {}",
        format_size(all.bytes),
        counted(all.stripes, "stripe"),
        code.chunk_count(),
        format_size(all.stored_bytes),
        format_seconds(seconds),
        format_rate(all.bytes as f64 / seconds),
    );
    if all.missing_chunks > 0 {
        let chunks = counted(all.missing_chunks, "chunk");
        outln!("{chunks} could not be stored and will be rebuilt by repair (see suture status)");
    }
}

fn check_chunk_size(args: &Args) -> Result<()> {
    if args.chunk_size > CHUNK_BYTES_MAX {
        let (size, max) = (format_exact_size(args.chunk_size), format_exact_size(CHUNK_BYTES_MAX));
        return Err(bad_input(format!(
            "--chunk-size {size} is too large: chunks have at most {max}"
        )));
    }
    layout::check_unit(&args.code, args.chunk_size).map_err(|error| {
        let nearest: Vec<String> = error.nearest().map(format_exact_size).collect();
        bad_input(format!(
            "chunks of {} are multiples of {}, --chunk-size {} is not: take {}",
            args.code,
            format_exact_size(error.step),
            format_exact_size(error.bytes),
            nearest.join(" or "),
        ))
    })
}

/// Refuses what the coordinator would refuse, before anything is stored, and stripes without end.
fn check_item(args: &Args, item: &Item) -> Result<()> {
    check_name(&item.name).map_err(bad_input)?;
    let stripes_of = |chunk: u64| item.bytes.div_ceil(chunk * args.code.data_chunks() as u64);
    // Of a stream nobody knows the length.
    let is_long = item.path == Path::new("-") || stripes_of(args.chunk_size) > 1;
    let is_short = is_long && args.chunk_size < CHUNK_BYTES_MIN;
    if !is_short && stripes_of(args.chunk_size) <= STRIPES_MAX {
        return Ok(());
    }
    let mut enough = CHUNK_BYTES_MIN.next_multiple_of(args.code.alignment() as u64);
    while stripes_of(enough) > STRIPES_MAX {
        enough *= 2;
    }
    Err(bad_input(format!(
        "--chunk-size {} would cut {} into {} of {} chunks: take --chunk-size {} or more",
        format_exact_size(args.chunk_size),
        quoted(&item.name),
        match item.bytes {
            0 => "stripes without number".into(),
            _ => counted(stripes_of(args.chunk_size), "stripe"),
        },
        args.code.chunk_count(),
        format_exact_size(enough),
    )))
}

fn items(args: &Args) -> Result<Items> {
    let is_stdin = |source: &PathBuf| source == Path::new("-");
    if args.sources.len() > 1 && (args.name.is_some() || args.sources.iter().any(is_stdin)) {
        return Err(bad_input("--name and standard input (-) go with one source"));
    }
    let mut items = Items::default();
    for source in &args.sources {
        match is_stdin(source) {
            true => items.objects.push(stdin_item(args)?),
            false => add_source(source, args.name.as_deref(), &mut items)?,
        }
    }
    Ok(items)
}

fn stdin_item(args: &Args) -> Result<Item> {
    let name = args.name.clone();
    let name = name.ok_or_else(|| bad_input("standard input has no name: give it a --name"))?;
    if is_stdin_closed() {
        return Err(bad_input(
            "standard input is closed: there is nothing to store (an empty object: < /dev/null)",
        ));
    }
    Ok(Item { name, path: "-".into(), bytes: 0 })
}

/// Where standard input was closed, the system gave its number to `/dev/null`, to be read and
/// written; who redirects it from there gives it to be read.
fn is_stdin_closed() -> bool {
    let null = fs::metadata("/dev/null").map(|null| null.rdev());
    let is_null = rustix::fs::fstat(stdin()).is_ok_and(|found| Some(found.st_rdev) == null.ok());
    let flags = rustix::fs::fcntl_getfl(stdin());
    is_null && flags.is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

fn add_source(source: &Path, name: Option<&str>, items: &mut Items) -> Result<()> {
    let shown = source.display();
    let metadata = fs::metadata(source)
        .map_err(|error| bad_input(format!("cannot read '{shown}': {error}")))?;
    // Of a link its own name; of `.` and `..` that of the folder.
    let whole = fs::canonicalize(source).ok();
    let own_name = source.file_name().or(whole.as_deref().and_then(Path::file_name));
    let own_name = own_name.and_then(|name| name.to_str());
    let name = name.or(own_name);
    let name = name.ok_or_else(|| {
        bad_input(format!("'{shown}' has no name that is UTF-8: give it a --name"))
    })?;
    if metadata.is_file() {
        let (name, path) = (name.to_string(), source.to_path_buf());
        items.objects.push(Item { name, path, bytes: metadata.len() });
        return Ok(());
    }
    if !metadata.is_dir() {
        return Err(bad_input(format!("'{shown}' is neither a file nor a folder")));
    }
    check_name(name).map_err(bad_input)?;
    let before = items.objects.len();
    walk(source, name, items)?;
    match items.objects.len() > before {
        true => Ok(()),
        false => Err(bad_input(format!("there are no files in '{shown}'"))),
    }
}

/// All files below a folder, in the order of their names.
fn walk(folder: &Path, name: &str, items: &mut Items) -> Result<()> {
    let cannot = || format!("cannot read '{}'", folder.display());
    let entries = fs::read_dir(folder).with_context(cannot)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().with_context(cannot)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let path = entry.path();
        let entry_name = entry.file_name();
        let entry_name = entry_name.to_str().ok_or_else(|| {
            bad_input(format!("the name of '{}' is not UTF-8: rename it", path.display()))
        })?;
        let name = format!("{name}/{entry_name}");
        let own = entry.file_type().with_context(|| format!("cannot read '{}'", path.display()))?;
        // A link to a folder may lead round in a circle.
        match fs::metadata(&path) {
            Ok(_) if own.is_dir() => walk(&path, &name, items)?,
            Ok(found) if found.is_file() => {
                items.objects.push(Item { name, path, bytes: found.len() });
            }
            _ => {
                errln!("suture: skipped '{}': not a regular file", path.display());
                items.skipped.push(path.display().to_string());
            }
        }
    }
    Ok(())
}
