//! What `suture put` is to store: the files of its sources, under which names, and which of them
//! are there already.
//!
//! Place: sources -> [an object to be for each file] -> stored, one by one. A source that cannot be
//! is refused before anything is stored; a file in a folder that cannot be does not keep the
//! others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io::stdin;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use suture_drivers::control::object_name::check_name;
use suture_edge::error::{bad_input, quoted};

use crate::outcome::Failures;
use crate::output::counted;
use crate::standard::is_closed;

/// What is to be stored, and what in it cannot be.
#[derive(Default)]
pub struct Items {
    pub objects: Vec<Item>,
    /// The names of the sources that are folders.
    pub folders: Vec<String>,
    pub skipped: Vec<String>,
    pub failures: Failures,
}

/// One object to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    /// Whether it comes from a folder, and not from a source of its own.
    pub is_in_folder: bool,
}

impl Item {
    /// Whether its bytes come from standard input.
    pub fn is_stdin(&self) -> bool {
        is_stdin(&self.path)
    }
}

fn is_stdin(source: &Path) -> bool {
    source == Path::new("-")
}

/// What the sources hold, under a name that is not theirs if one is given.
///
/// # Errors
/// Bad input for sources that cannot be read, hold nothing, or would have names that no object can
/// have or that another of them has.
pub fn gather(sources: &[PathBuf], name: Option<&str>) -> Result<Items> {
    if sources.len() > 1 && (name.is_some() || sources.iter().any(|source| is_stdin(source))) {
        return Err(bad_input("--name and standard input (-) go with one source"));
    }
    let mut items = Items::default();
    for source in sources {
        if is_stdin(source) {
            items.objects.push(stdin_item(name)?)
        } else {
            items.add_source(source, name)?
        }
    }
    ensure_distinct(&items.objects)?;
    Ok(items)
}

fn stdin_item(name: Option<&str>) -> Result<Item> {
    let name = name.ok_or_else(|| bad_input("standard input has no name: give it a --name"))?;
    check_name(name).map_err(bad_input)?;
    if is_closed(stdin()) {
        return Err(bad_input(
            "standard input is closed: there is nothing to store (an empty object: < /dev/null)",
        ));
    }
    Ok(Item { name: name.into(), path: "-".into(), bytes: 0, is_in_folder: false })
}

impl Items {
    fn add_source(&mut self, source: &Path, name: Option<&str>) -> Result<()> {
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
        check_name(name).map_err(bad_input)?;
        if metadata.is_file() {
            let (name, path, bytes) = (name.to_string(), source.to_path_buf(), metadata.len());
            self.objects.push(Item { name, path, bytes, is_in_folder: false });
            return Ok(());
        }
        if !metadata.is_dir() {
            return Err(bad_input(format!("'{shown}' is neither a file nor a folder")));
        }
        let before = self.objects.len();
        self.add_folder(source, name);
        if self.objects.len() == before && self.failures.is_empty() {
            return Err(bad_input(format!("there are no files in '{shown}'")));
        }
        self.folders.push(name.to_string());
        Ok(())
    }

    /// All files below a folder, in the order of their names.
    fn add_folder(&mut self, folder: &Path, name: &str) {
        let mut entries = match entries(folder) {
            Ok(entries) => entries,
            Err(error) => return self.failures.add(folder.display().to_string(), error),
        };
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            if let Err(error) = self.add_entry(&entry, name) {
                self.failures.add(entry.path().display().to_string(), error);
            }
        }
    }

    fn add_entry(&mut self, entry: &DirEntry, folder: &str) -> Result<()> {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_str().ok_or_else(|| {
            bad_input(format!("the name of '{}' is not UTF-8: rename it", path.display()))
        })?;
        let name = format!("{folder}/{name}");
        let own = entry.file_type().with_context(|| format!("cannot read '{}'", path.display()))?;
        // A link to a folder may lead round in a circle.
        match fs::metadata(&path) {
            Ok(_) if own.is_dir() => self.add_folder(&path, &name),
            Ok(found) if found.is_file() => {
                check_name(&name).map_err(bad_input)?;
                self.objects.push(Item { name, path, bytes: found.len(), is_in_folder: true });
            }
            _ => {
                errln!("suture: skipped '{}': not a regular file", path.display());
                self.skipped.push(path.display().to_string());
            }
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect);
    entries.with_context(|| format!("cannot read '{}'", folder.display()))
}

/// Refuses sources that would have the same name.
fn ensure_distinct(items: &[Item]) -> Result<()> {
    let mut names = BTreeSet::new();
    match items.iter().find(|item| !names.insert(&item.name)) {
        None => Ok(()),
        Some(item) => Err(bad_input(format!(
            "more than one of the sources would be {}: put them one by one, each with a --name",
            quoted(&item.name)
        ))),
    }
}

/// Items by what is stored under their names already.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// Nothing.
    pub new: Vec<Item>,
    /// An object of the same length.
    pub existing: Vec<Item>,
    /// An object of this other length.
    pub other: Vec<(Item, u64)>,
}

/// Sorts items by the lengths of the objects that have their names.
pub fn sort(items: Vec<Item>, taken: &BTreeMap<String, u64>) -> Sorted {
    let mut sorted = Sorted::default();
    for item in items {
        match taken.get(&item.name) {
            None => sorted.new.push(item),
            Some(&bytes) if bytes == item.bytes => sorted.existing.push(item),
            Some(&bytes) => sorted.other.push((item, bytes)),
        }
    }
    sorted
}

impl Sorted {
    /// Refuses names that are taken, before anything is stored.
    ///
    /// # Errors
    /// Bad input with the first of them and their number.
    pub fn ensure_free(&self) -> Result<()> {
        let taken = self.existing.iter().chain(self.other.iter().map(|(item, _)| item));
        let names = taken.map(|item| &item.name);
        let Some(first) = names.clone().min() else { return Ok(()) };
        let (taken, all) = (names.count(), self.new.len() + self.existing.len() + self.other.len());
        Err(bad_input(format!(
            "there is an object {} already: {taken} of {all} names are taken, so nothing was stored; \
             --skip-existing leaves out what is there with the same length, --overwrite puts these \
             in its place",
            quoted(first)
        )))
    }
}

/// Why a file is not left out that an object of another length has the name of.
pub fn other_length(item: &Item, bytes: u64) -> Error {
    bad_input(format!(
        "there is an object {} already, of {} and not {}: --overwrite puts this one in its place, or choose another --name",
        quoted(&item.name),
        counted(bytes, "byte"),
        item.bytes
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, bytes: u64) -> Item {
        Item { name: name.into(), path: name.into(), bytes, is_in_folder: true }
    }

    #[test]
    fn what_is_there_is_told_by_name_and_length() {
        let taken = BTreeMap::from([("d/b".into(), 2), ("d/c".into(), 3), ("d/x".into(), 1)]);
        let items = vec![item("d/a", 1), item("d/b", 2), item("d/c", 4)];
        let sorted = sort(items, &taken);
        assert_eq!(sorted.new, [item("d/a", 1)]);
        assert_eq!(sorted.existing, [item("d/b", 2)]);
        assert_eq!(sorted.other, [(item("d/c", 4), 3)]);
        let refused = sorted.ensure_free().unwrap_err().to_string();
        assert!(refused.contains("'d/b' already: 2 of 3 names are taken"), "{refused}");
        assert!(sort(vec![item("d/a", 1)], &taken).ensure_free().is_ok());
    }

    #[test]
    fn two_sources_of_one_name_are_refused() {
        assert!(ensure_distinct(&[item("a", 1), item("b", 1)]).is_ok());
        let refused = ensure_distinct(&[item("a", 1), item("b", 1), item("a", 2)]).unwrap_err();
        assert!(refused.to_string().contains("would be 'a'"), "{refused}");
    }
}
