//! `suture put`: files become objects.

mod items;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, stdin};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Error, Result};
use items::{Item, Items, LeftOut, Sorted};
use serde_json::{Value, json};
use suture_code::Code;
use suture_drivers::control::client::Client;
use suture_drivers::metadata::Object;
use suture_drivers::object::cut::ObjectSource;
use suture_drivers::object::put_stream::PutOptions;
use suture_drivers::object::unanswered::NotKnown;
use suture_drivers::object::write::{PutAgents, Stored, put};
use suture_edge::error::{ErrorKind, bad_input, kind, quoted};
use suture_edge::progress::Progress as Listener;
use suture_edge::units::{
    format_exact_size, format_rate, format_seconds, format_size, parse_nonzero_size,
};
use suture_lab::input::{self, CHUNK_BYTES_MIN};
use suture_terminal::output::{Format, already_there, counted, print_json};
use suture_terminal::progress::Progress;
use suture_terminal::verbosity::Verbosity;

use crate::address::CoordinatorAddress;
use crate::daemon;
use crate::in_flight::InFlight;
use crate::listing::{find, folder_prefix, list};
use crate::outcome::usage::origin;
use crate::outcome::{Failures, Outcome};
use crate::same::Content;

/// Store a file, a folder, or standard input in the native store.
///
/// A folder becomes one object for each file in it, named FOLDER/PATH: a name and bytes. Links to
/// files count as files; other links, pipes, devices and empty folders are left out and reported.
/// Permissions and times are not kept. An archive has all of it: tar -cf - FOLDER | suture put -
/// --name FOLDER.tar, and suture get FOLDER.tar -o - | tar -xf -.
///
/// An object is visible once it is durable, and not before. Where nodes are silent, full or far
/// slower than the others, one chunk of each stripe more than its data needs is enough for that,
/// and repair brings the rest. Where a name is taken nothing is stored, unless --overwrite or
/// --skip-existing is given. If one file of a folder cannot be stored, the others are; after three
/// failures in a row the rest is not tried.
///
/// Exit status 1: something failed, was left out, or is not known to be stored; 2: a name is taken
/// or not valid.
#[derive(clap::Args)]
pub struct Args {
    /// What to store; `-` is standard input
    #[arg(value_name = "FILE|DIR|-", required = true)]
    sources: Vec<PathBuf>,
    /// The object's name; of a folder, what the names of its objects begin with, where a slash at
    /// the end is left out [default: the name of the file or folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Leave out files whose names are taken by objects of the same bytes, as after a put that was
    /// interrupted; files of the same length are read and compared by a checksum
    #[arg(long)]
    skip_existing: bool,
    /// Put objects in the place of those that have their names: whoever reads gets the old one or
    /// the new one, whole
    #[arg(long, conflicts_with = "skip_existing")]
    overwrite: bool,
    /// The code, for instance 'rs(6,3)': 6 data chunks, 3 parity chunks, any 3 may be lost
    #[arg(long, value_name = "CODE", env = "SUTURE_CODE", default_value = "rs(6,3)")]
    code: Code,
    /// Bytes of a chunk, at least 4KiB for objects of several stripes; a last, short stripe has
    /// shorter chunks
    #[arg(
        long,
        value_name = "SIZE",
        env = CHUNK_SIZE_VARIABLE,
        value_parser = parse_nonzero_size,
        default_value = "8MiB",
        allow_negative_numbers = true
    )]
    chunk_size: u64,
    #[command(flatten)]
    coordinator: CoordinatorAddress,
    /// What to print: lines for people, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What `--chunk-size` is where it is not given.
const CHUNK_SIZE_VARIABLE: &str = "SUTURE_CHUNK_SIZE";

/// Stripes of one object: 12 TiB with the default code and chunks.
const STRIPES_MAX: u64 = 1 << 18;

/// Where so many objects in a row cannot be stored, it is not for the files.
const FAILURES_IN_A_ROW_MAX: u64 = 3;

/// Stores files as objects.
///
/// # Errors
/// Bad input for sources that cannot be read and names that are taken; a failure when no
/// coordinator answers. Of what fails later nothing keeps the other files.
pub fn run(args: Args) -> Result<Outcome> {
    let from = origin("--chunk-size", CHUNK_SIZE_VARIABLE);
    input::check_stored_chunk_size(&args.code, args.chunk_size, from)?;
    let items = items::gather(&args.sources, args.name.as_deref())?;
    if args.skip_existing && items.objects.iter().any(Item::is_stdin) {
        return Err(bad_input(
            "standard input (-) cannot be compared before it is stored: --skip-existing goes with files",
        ));
    }
    items.objects.iter().try_for_each(|item| check_stripes(&args, item))?;
    if items.objects.is_empty() {
        Put::of(items).finish(&args)
    } else {
        daemon::block_on(store_all(args, items))
    }
}

/// What became of the files.
#[derive(Default)]
struct Put {
    objects: Vec<Value>,
    existing: Vec<Item>,
    left_out: LeftOut,
    failures: Failures,
    /// The names of those that were not tried, since too many before them failed.
    not_tried: Vec<String>,
    /// The name of the object that was stored last.
    last: String,
    all: Stored,
    seconds: f64,
}

async fn store_all(args: Args, mut items: Items) -> Result<Outcome> {
    let mut client = args.coordinator.connect().await?;
    let objects = std::mem::take(&mut items.objects);
    let taken = taken(&mut client, &args, &objects, &items.folders).await?;
    let mut sorted = items::sort(objects, &taken);
    if args.skip_existing {
        sorted.compare(&taken, args.format).await;
    } else {
        sorted.ensure_free()?;
    }
    let mut put = Put::of(items);
    let Sorted { new, existing, other } = sorted;
    put.existing = existing;
    for (item, found) in other {
        let error = items::other_object(&item, found);
        put.failures.add(item.name, error);
    }
    let args = Arc::new(args);
    put.store(&client, &args, new).await;
    put.finish(&args)
}

/// What the objects are that have these names already. One name alone is left to the
/// coordinator, which refuses it in the same moment in which it would begin it.
async fn taken(
    client: &mut Client,
    args: &Args,
    items: &[Item],
    folders: &[String],
) -> Result<BTreeMap<String, Content>> {
    let known = |object: Object| {
        let content = Content::of(&object);
        (object.name, content)
    };
    let mut taken = BTreeMap::new();
    if args.overwrite || items.len() < 2 && !args.skip_existing {
        return Ok(taken);
    }
    for folder in folders {
        let objects = list(client, &folder_prefix(folder)).await?;
        taken.extend(objects.into_iter().map(known));
    }
    for item in items.iter().filter(|item| !item.is_in_folder) {
        let object = find(client, &item.name).await?;
        taken.extend(object.map(known));
    }
    Ok(taken)
}

impl Put {
    /// Nothing is stored yet.
    fn of(items: Items) -> Put {
        Put { left_out: items.left_out, failures: items.failures, ..Put::default() }
    }

    /// Stores the files, small ones several at a time: what makes one durable makes others durable
    /// with it.
    async fn store(&mut self, client: &Client, args: &Arc<Args>, items: Vec<Item>) {
        let started = Instant::now();
        let progress =
            Progress::bytes(args.format, "storing", items.iter().map(|item| item.bytes).sum());
        let (count, mut items) = (items.len(), items.into_iter().enumerate().peekable());
        let mut in_flight = InFlight::new();
        let (mut failed_in_a_row, mut stored) = (0, Vec::new());
        let storing = Storing {
            client: client.clone(),
            args: args.clone(),
            agents: Arc::default(),
            listener: Arc::new(progress.listener()),
        };
        loop {
            // One by one while nothing shows yet that any can be stored.
            let fits = |item: &Item| {
                let more =
                    in_flight.is_empty() || (!stored.is_empty() && in_flight.fits(item.bytes));
                failed_in_a_row < FAILURES_IN_A_ROW_MAX && more
            };
            if let Some((index, item)) = items.next_if(|(_, item)| fits(item)) {
                in_flight.begin(item.bytes, storing.clone().store(index, item));
                continue;
            }
            let Some((index, item, result)) = in_flight.next().await else { break };
            let named = |error: Error| {
                if error.is::<NotKnown>() {
                    error
                } else {
                    error.context(format!("cannot store {}", quoted(&item.name)))
                }
            };
            match result.map_err(named) {
                Ok(done) => {
                    failed_in_a_row = 0;
                    if args.format == Format::Text && count > 1 {
                        progress.line(format!("{} ({})", item.name, format_size(done.bytes)));
                    }
                    stored.push((index, item, done));
                }
                Err(error) => {
                    // That a file cannot be opened says nothing about the next one.
                    let is_of_the_file = error.chain().any(|cause| cause.is::<io::Error>());
                    if kind(&error) == ErrorKind::Failure && !is_of_the_file {
                        failed_in_a_row += 1;
                    }
                    progress.above(|| self.failures.add(&item.name, error));
                }
            }
        }
        self.not_tried = items.map(|(_, item)| item.name).collect();
        let untried = untried(args, &self.not_tried, stored.len());
        untried.into_iter().for_each(|line| progress.above(|| errln!("suture: {line}")));
        stored.sort_unstable_by_key(|(index, ..)| *index);
        stored.iter().for_each(|(_, item, stored)| self.add(args, item, stored));
        self.seconds = started.elapsed().as_secs_f64();
    }

    fn add(&mut self, args: &Args, item: &Item, stored: &Stored) {
        self.objects.push(json!({
            "name": item.name,
            "bytes": stored.bytes,
            "code": args.code.to_string(),
            "chunk_bytes": args.chunk_size,
            "stripes": stored.stripes,
            "stored_bytes": stored.stored_bytes,
            "missing_chunks": stored.missing_chunks,
        }));
        self.last.clone_from(&item.name);
        self.all.bytes += stored.bytes;
        self.all.stripes += stored.stripes;
        self.all.stored_bytes += stored.stored_bytes;
        self.all.missing_chunks += stored.missing_chunks;
    }

    fn finish(&self, args: &Args) -> Result<Outcome> {
        match args.format {
            Format::Json => print_json(&json!({
                "objects": self.objects,
                "existing": self.existing.iter().map(|item| &item.name).collect::<Vec<_>>(),
                "skipped": self.left_out.skipped,
                "empty_folders": self.left_out.empty_folders,
                "followed_links": self.left_out.followed_links,
                "executables": self.left_out.executables,
                "failed": self.failures.describe(),
                "not_tried": self.not_tried,
                "seconds": self.seconds,
            }))?,
            Format::Text => self.print(&args.code),
        }
        self.left_out.describe_missing().into_iter().for_each(|line| errln!("suture: {line}"));
        if Verbosity::current() > Verbosity::Quiet {
            let changed = self.left_out.describe_changed();
            changed.into_iter().for_each(|line| errln!("suture: note: {line}"));
        }
        let outcome = self.failures.outcome();
        Ok(if self.left_out.is_nothing() { outcome } else { outcome.or_missed() })
    }

    fn print(&self, code: &Code) {
        let all = &self.all;
        let what = match self.objects.len() {
            0 => None,
            1 => Some(self.last.clone()),
            count => Some(counted(count as u64, "object")),
        };
        if let Some(what) = what {
            outln!(
                "{what}: {} as {code}, {} of {} chunks, {} stored; {}, {}",
                format_size(all.bytes),
                counted(all.stripes, "stripe"),
                code.chunk_count(),
                format_size(all.stored_bytes),
                format_seconds(self.seconds),
                format_rate(all.bytes as f64 / self.seconds),
            );
        }
        if all.missing_chunks > 0 {
            let chunks = counted(all.missing_chunks, "chunk");
            outln!(
                "{chunks} left to repair, because nodes are silent, full or slow (see suture status)"
            );
        }
        already_there(self.existing.len()).into_iter().for_each(|line| outln!("{line}"));
    }
}

/// What was not tried because too many failed, how much is stored, and what goes on from there.
fn untried(args: &Args, names: &[String], stored: usize) -> Option<String> {
    let (first, left) = (quoted(names.first()?), counted(names.len() as u64, "object"));
    let stored = match stored {
        0 => "nothing".to_owned(),
        stored => counted(stored as u64, "object"),
    };
    let next = match (args.overwrite, args.skip_existing) {
        (true, _) => "the same command puts all of them again",
        (false, true) => "the same command goes on from there",
        (false, false) => "the same command with --skip-existing goes on from there",
    };
    Some(format!(
        "{left}, from {first} on, not tried: {FAILURES_IN_A_ROW_MAX} in a row could not be stored; \
         {stored} stored before; once that is mended, {next}"
    ))
}

/// What all objects of one command are stored with.
#[derive(Clone)]
struct Storing {
    client: Client,
    args: Arc<Args>,
    agents: Arc<PutAgents>,
    listener: Arc<Listener<'static>>,
}

impl Storing {
    /// Stores one; gives it back with what became of it.
    async fn store(mut self, index: usize, item: Item) -> (usize, Item, Result<Stored>) {
        let stored = self.put(&item).await;
        (index, item, stored)
    }

    async fn put(&mut self, item: &Item) -> Result<Stored> {
        let source = if item.is_stdin() {
            ObjectSource::Stream(Box::new(stdin()))
        } else {
            let cannot = || format!("cannot read '{}'", item.path.display());
            let file = File::open(&item.path).with_context(cannot)?;
            ObjectSource::file(file).with_context(cannot)?
        };
        let (code, chunk_bytes) = (self.args.code, self.args.chunk_size);
        let (name, overwrite) = (item.name.clone(), self.args.overwrite);
        let waits_for_all = false;
        let options = PutOptions { name, code, chunk_bytes, overwrite, waits_for_all };
        put(&mut self.client, &self.agents, &options, source, &self.listener).await
    }
}

/// Refuses stripes without end before anything is stored.
fn check_stripes(args: &Args, item: &Item) -> Result<()> {
    let stripes_of = |chunk: u64| item.bytes.div_ceil(chunk * args.code.data_chunks() as u64);
    // The length of a stream is unknown.
    let is_long = item.is_stdin() || stripes_of(args.chunk_size) > 1;
    let is_short = is_long && args.chunk_size < CHUNK_BYTES_MIN;
    if !is_short && stripes_of(args.chunk_size) <= STRIPES_MAX {
        return Ok(());
    }
    let mut enough = CHUNK_BYTES_MIN.next_multiple_of(args.code.alignment() as u64);
    while stripes_of(enough) > STRIPES_MAX {
        enough *= 2;
    }
    Err(bad_input(format!(
        "{} {} would cut {} into {} of {} chunks: take --chunk-size {} or more",
        origin("--chunk-size", CHUNK_SIZE_VARIABLE),
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
