//! `suture put`: files become objects.

use std::fs::{self, File};
use std::io::stdin;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::json;
use suture_code::{Code, layout};
use suture_drivers::control::client::Client;
use suture_drivers::object::write::{ObjectSource, PutOptions, Stored, put};
use suture_edge::error::bad_input;
use suture_edge::progress::Progress as Listener;
use suture_edge::units::{
    format_exact_size, format_rate, format_seconds, format_size, parse_nonzero_size,
};

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::outcome::Outcome;
use crate::output::{Format, counted, print_json};
use crate::progress::Progress;

/// Store a file, a folder, or standard input in the native store.
///
/// A folder becomes one object for each file in it, named FOLDER/PATH. An object is visible when
/// all of it is durable, and not before; names are never overwritten.
#[derive(clap::Args)]
pub struct Args {
    /// What to store; `-` is standard input
    #[arg(value_name = "FILE|DIR|-")]
    source: PathBuf,
    /// The object's name [default: that of the file or folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The code, for instance 'rs(6,3)': 6 data chunks, 3 parity chunks, any 3 may be lost
    #[arg(long, value_name = "CODE", default_value = "rs(6,3)")]
    code: Code,
    /// Bytes of a chunk; a last, short stripe has shorter chunks
    #[arg(long, value_name = "SIZE", value_parser = parse_nonzero_size, default_value = "8MiB")]
    chunk_size: u64,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
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
    daemon::block_on(store_all(args, items))
}

async fn store_all(args: Args, items: Vec<Item>) -> Result<Outcome> {
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
        let stored = stored.with_context(|| format!("cannot store '{}'", item.name))?;
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
        Format::Json => print_json(&json!({ "objects": objects, "seconds": seconds }))?,
        Format::Text => print(&items, &args.code, &all, seconds),
    }
    Ok(Outcome::Done)
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

fn items(args: &Args) -> Result<Vec<Item>> {
    if args.source == Path::new("-") {
        let name = args.name.clone();
        let name = name.ok_or_else(|| bad_input("standard input has no name: give it a --name"))?;
        return Ok(vec![Item { name, path: args.source.clone(), bytes: 0 }]);
    }
    let shown = args.source.display();
    let metadata = fs::metadata(&args.source)
        .map_err(|error| bad_input(format!("cannot read '{shown}': {error}")))?;
    let own_name = fs::canonicalize(&args.source).ok();
    let own_name = own_name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let name = args.name.clone().or(own_name.map(|name| name.into_owned()));
    let name = name.ok_or_else(|| bad_input(format!("'{shown}' has no name: give it a --name")))?;
    if metadata.is_file() {
        return Ok(vec![Item { name, path: args.source.clone(), bytes: metadata.len() }]);
    }
    if !metadata.is_dir() {
        return Err(bad_input(format!("'{shown}' is neither a file nor a folder")));
    }
    let mut items = Vec::new();
    walk(&args.source, &name, &mut items)?;
    if items.is_empty() {
        return Err(bad_input(format!("there are no files in '{shown}'")));
    }
    Ok(items)
}

/// All regular files below a folder, in the order of their names.
fn walk(folder: &Path, name: &str, items: &mut Vec<Item>) -> Result<()> {
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
        let metadata =
            entry.metadata().with_context(|| format!("cannot read '{}'", path.display()))?;
        if metadata.is_dir() {
            walk(&path, &name, items)?;
        } else if metadata.is_file() {
            items.push(Item { name, path, bytes: metadata.len() });
        } else {
            errln!("suture: skipped '{}': not a regular file", path.display());
        }
    }
    Ok(())
}
