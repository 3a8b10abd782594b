//! `suture get --recursive`: the objects of a folder become files in a folder.
//!
//! Place: names -> [a path below the folder for each that can have one] -> get, several at a time.
//! Invariant: no name leads out of the folder, and nothing but a regular file is replaced in it.
//! Names of objects may have anything in them: those that are no paths, or lead through links that
//! are in the folder, are left out and named, and the others are written.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use suture_drivers::control::client::Client;
use suture_drivers::metadata::Object;
use suture_drivers::object::lookup::Lookup;
use suture_drivers::object::read::{Fetched, GetAgents};
use suture_edge::error::{bad_input, quoted};
use suture_edge::progress::Progress as Listener;
use suture_edge::units::format_size;
use suture_files::directory::sync_directory;
use suture_files::output::{Existing, folder_of};
use suture_terminal::output::{Format, already_there, counted, is_stdout, print_json};
use suture_terminal::progress::Progress;

use super::{Args, Output, read, summary};
use crate::daemon;
use crate::in_flight::InFlight;
use crate::listing::{folder_prefix, list_selected};
use crate::outcome::{Failures, Outcome};
use crate::same::{self, Content};

/// What to do about a name that is in the others' way.
const BY_ITSELF: &str = "get it by itself, and the others by longer names";

/// Reads all objects below a name into a folder; one that cannot be read does not keep the others.
///
/// # Errors
/// Bad input when there are none, names are no paths or the folder is none; a failure when the
/// coordinator goes away or the folder cannot be made.
pub fn run(args: &Args) -> Result<Outcome> {
    if is_stdout(&args.output) {
        return Err(bad_input(
            "standard output takes one object: name a folder with -o to get many",
        ));
    }
    daemon::block_on(fetch(args))
}

/// An object that became a file.
struct Got {
    index: usize,
    name: String,
    path: PathBuf,
    fetched: Fetched,
}

async fn fetch(args: &Args) -> Result<Outcome> {
    let started = Instant::now();
    let mut client = args.coordinator.connect().await?;
    let objects = list_selected(&mut client, &args.name).await?;
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    let paths = paths(&args.name, &names);
    if args.output.exists() && !args.output.is_dir() {
        return Err(bad_input(format!("'{}' is not a folder", args.output.display())));
    }
    let (mut failures, mut found) = (Failures::default(), Vec::new());
    for (object, path) in objects.into_iter().zip(paths) {
        match path {
            Ok(path) => found.push((object, args.output.join(path))),
            Err(error) => failures.add(object.name, error),
        }
    }
    if !found.is_empty() {
        make_folder(&args.output)?;
    }
    let (existing, left) =
        if args.skip_existing { compare(args.format, found).await } else { (Vec::new(), found) };
    let got = fetch_all(args, &client, left, &mut failures).await;
    print(args.format, &got, existing, &failures, started.elapsed().as_secs_f64())?;
    Ok(failures.outcome())
}

/// An object, and where its file is to be.
type ObjectFile = (Object, PathBuf);

/// The objects whose files are there with their bytes, and the others.
async fn compare(format: Format, found: Vec<ObjectFile>) -> (Vec<ObjectFile>, Vec<ObjectFile>) {
    let length = |path: &Path| {
        fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file).map(|found| found.len())
    };
    let (alike, mut others): (Vec<ObjectFile>, Vec<ObjectFile>) =
        found.into_iter().partition(|(object, path)| length(path) == Some(object.bytes));
    let files = alike.iter().map(|(object, path)| (path.clone(), Content::of(object))).collect();
    let same = same::have(format, files).await;
    let mut existing = Vec::new();
    for (planned, is_same) in alike.into_iter().zip(same) {
        if is_same { existing.push(planned) } else { others.push(planned) }
    }
    others.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    (existing, others)
}

/// Small ones several at a time; what was read is in the order of names.
async fn fetch_all(
    args: &Args,
    client: &Client,
    objects: Vec<(Object, PathBuf)>,
    failures: &mut Failures,
) -> Vec<Got> {
    let total = objects.iter().map(|(object, _)| object.bytes).sum();
    let progress = Progress::bytes(args.format, "reading", total);
    let listener: Arc<Listener<'static>> = Arc::new(progress.listener());
    let agents: Arc<GetAgents> = Arc::default();
    let mut left = objects.into_iter().enumerate().peekable();
    let (mut in_flight, mut got) = (InFlight::new(), Vec::new());
    loop {
        if let Some((index, (object, path))) = left.next_if(|(_, (it, _))| in_flight.fits(it.bytes))
        {
            let (client, agents, listener) = (client.clone(), agents.clone(), listener.clone());
            let (existing, folder) = (args.existing(), args.output.clone());
            in_flight.begin(object.bytes, async move {
                let result = match check_inside(&folder, &path) {
                    Ok(()) => {
                        fetch_one(client, &agents, &object, &path, existing, &*listener).await
                    }
                    Err(error) => Err(error),
                };
                (
                    object.name.clone(),
                    result.map(|fetched| Got { index, name: object.name, path, fetched }),
                )
            });
            continue;
        }
        match in_flight.next().await {
            Some((_, Ok(done))) => {
                if args.format == Format::Text {
                    let bytes = format_size(done.fetched.bytes);
                    progress.line(format!("{} ({bytes})", done.name));
                }
                got.push(done);
            }
            Some((name, Err(error))) => progress.above(|| failures.add(&name, error)),
            None => break,
        }
    }
    got.sort_unstable_by_key(|got| got.index);
    got
}

async fn fetch_one(
    mut client: Client,
    agents: &Arc<GetAgents>,
    object: &Object,
    path: &Path,
    existing: Existing,
    listener: &Listener<'_>,
) -> Result<Fetched> {
    let lookup = Lookup::of(&mut client, &object.name).await?;
    make_folder(folder_of(path))?;
    read(&client, agents, lookup, Output::open(path, existing)?, listener).await
}

fn print(
    format: Format,
    got: &[Got],
    existing: Vec<(Object, PathBuf)>,
    failures: &Failures,
    seconds: f64,
) -> Result<()> {
    if format == Format::Json {
        let existing: Vec<String> = existing.into_iter().map(|(object, _)| object.name).collect();
        return print_json(&json!({
            "objects": got.iter().map(describe).collect::<Vec<_>>(),
            "existing": existing,
            "failed": failures.describe(),
            "seconds": seconds,
        }));
    }
    let all = got.iter().fold(Fetched::default(), |all, Got { fetched, .. }| Fetched {
        bytes: all.bytes + fetched.bytes,
        decoded_bytes: all.decoded_bytes + fetched.decoded_bytes,
        bad_copies: all.bad_copies + fetched.bad_copies,
    });
    if !got.is_empty() || existing.is_empty() {
        outln!("{}: {}", counted(got.len() as u64, "object"), summary(&all, seconds));
    }
    already_there(existing.len()).into_iter().for_each(|line| outln!("{line}"));
    Ok(())
}

fn describe(got: &Got) -> Value {
    let Got { name, path, fetched, .. } = got;
    json!({
        "name": name,
        "path": path.display().to_string(),
        "bytes": fetched.bytes,
        "decoded_bytes": fetched.decoded_bytes,
        "bad_copies": fetched.bad_copies,
    })
}

/// Refuses a path below a folder that leads elsewhere, or that something has which is neither a
/// file nor a folder.
fn check_inside(folder: &Path, path: &Path) -> Result<()> {
    let mut at = folder.to_path_buf();
    for part in path.strip_prefix(folder).unwrap_or(path).iter() {
        at.push(part);
        let found = match fs::symlink_metadata(&at) {
            Ok(found) => found.file_type(),
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
            Err(why) => {
                return Err(why).with_context(|| format!("cannot write '{}'", at.display()));
            }
        };
        let what = match () {
            () if found.is_symlink() => "a link, which leads elsewhere",
            () if !found.is_dir() && !found.is_file() => "neither a file nor a folder",
            () => continue,
        };
        return Err(bad_input(format!(
            "'{}' is {what}: remove it, or name another folder with -o",
            at.display()
        )));
    }
    Ok(())
}

/// Makes a folder and those that it lies in, whose names are durable then.
fn make_folder(folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let outer = folder_of(folder);
    make_folder(outer)?;
    match fs::create_dir(folder) {
        // An object beside this one has just made it.
        Err(why) if why.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made.with_context(|| format!("cannot make the folder '{}'", folder.display()))?,
    }
    sync_directory(outer)
}

/// Where each of the objects goes below the folder, in their order, if it can go there beside the
/// others.
fn paths(prefix: &str, names: &[&str]) -> Vec<Result<PathBuf>> {
    let paths: Vec<Result<PathBuf>> = names.iter().map(|name| path_of(prefix, name)).collect();
    let known = paths.iter().flatten();
    let folders = known.flat_map(|path| path.ancestors().skip(1).map(Path::to_path_buf));
    let (folders, mut files): (BTreeSet<PathBuf>, _) = (folders.collect(), BTreeSet::new());
    let beside = |(name, path): (&&str, Result<PathBuf>)| {
        let path = path?;
        let (shown, path_shown) = (quoted(name), path.display());
        let fault = if folders.contains(&path) {
            format!("{shown} would be a file where others need a folder '{path_shown}'")
        } else if !files.insert(path.clone()) {
            format!("{shown} and another would both be '{path_shown}'")
        } else {
            return Ok(path);
        };
        Err(bad_input(format!("{fault}: {BY_ITSELF}")))
    };
    names.iter().zip(paths).map(beside).collect()
}

/// What follows the prefix is the path; the object that the prefix names has its last part.
fn path_of(prefix: &str, name: &str) -> Result<PathBuf> {
    let rest = name.strip_prefix(&folder_prefix(prefix)).filter(|rest| !rest.is_empty());
    let rest = rest.unwrap_or_else(|| name.rsplit('/').next().unwrap_or(name));
    let path = PathBuf::from(rest);
    // What a path leaves out as it is taken apart, as `.` and `//`, was no path of a file.
    let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let parts = path.components().count();
    if is_plain && parts == rest.split('/').count() {
        return Ok(path);
    }
    Err(bad_input(format!("{} would not be a file in the folder: {BY_ITSELF}", quoted(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_name_is_the_path() {
        let path = |prefix, name| path_of(prefix, name).unwrap();
        assert_eq!(path("a", "a/b"), Path::new("b"));
        assert_eq!(path("a/", "a/b/c"), Path::new("b/c"));
        assert_eq!(path("x/a", "x/a"), Path::new("a"), "the object itself");
        assert_eq!(path("/", "/etc"), Path::new("etc"));
        assert_eq!(path("..", "../..."), Path::new("..."));
        assert_eq!(path("a", "a/b*\\ c"), Path::new("b*\\ c"));
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in [
            "a/../b",
            "a/..",
            "a/b/../../../c",
            "a/.",
            "a/./b",
            "a/b/.",
            "a//b",
            "a//",
            "a/b/",
            "a/b//c",
            "a///etc/passwd",
            "a/",
        ] {
            let refused = path_of("a", name).map_err(|error| error.to_string());
            let error = refused.expect_err(name);
            assert!(error.contains(&quoted(name)), "{error}");
        }
        for name in ["..", "x/.."] {
            assert!(path_of(name, name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_would_be_a_file_and_a_folder_is_refused_and_nothing_else() {
        let refused = |prefix, names: &[&str]| {
            let faults = paths(prefix, names).into_iter().filter(Result::is_err).count();
            assert!(faults <= 1, "{faults} of {names:?}");
            faults == 1
        };
        assert!(!refused("a", &["a", "a/b", "a/c/d", "a/c/e", "a/cc"]));
        assert!(refused("a", &["a/b", "a/b/c"]));
        assert!(refused("a", &["a/b", "a/b-c", "a/b/c/d"]), "others sort between them");
        assert!(refused("a", &["a", "a/a"]), "the object itself and one below it");
        assert!(refused("x/a", &["x/a", "x/a/a/b"]));
    }
}
