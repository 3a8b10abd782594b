//! What `suture put` is to store: the files of its sources, under which names, and which of them
//! are there already.
//!
//! Place: sources -> [an object to be for each file] -> stored, one by one. A source that cannot be
//! is refused before anything is stored; a file in a folder that cannot be does not keep the
//! others. An object is a name and bytes: what else a folder has is counted, so that nobody takes
//! for kept what is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io::stdin;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use suture_drivers::control::object_name::check_name;
use suture_edge::error::{bad_input, quoted};
use suture_terminal::output::{Format, counted};

use crate::outcome::Failures;
use crate::same::{self, Content};
use crate::standard::is_closed;

/// What is to be stored, and what in it cannot be.
#[derive(Default)]
pub struct Items {
    pub objects: Vec<Item>,
    /// The names of the sources that are folders.
    pub folders: Vec<String>,
    pub left_out: LeftOut,
    pub failures: Failures,
}

/// What folders have beside the names and bytes of files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Links that lead to no file, pipes, devices and sockets, by their paths.
    pub skipped: Vec<String>,
    /// Folders with nothing in them, by their paths.
    pub empty_folders: Vec<String>,
    /// Links that are stored as the files that they lead to.
    pub followed_links: u64,
    /// Files that somebody may execute.
    pub executables: u64,
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
        // As where it is read: the slash is between the folder's name and what is in it.
        let name = name.strip_suffix('/').unwrap_or(name);
        check_name(name).map_err(bad_input)?;
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
        if entries.is_empty() {
            self.left_out.empty_folders.push(folder.display().to_string());
        }
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
        let why = match fs::metadata(&path) {
            Ok(_) if own.is_dir() => {
                self.add_folder(&path, &name);
                return Ok(());
            }
            Ok(found) if found.is_file() => {
                check_name(&name).map_err(bad_input)?;
                self.left_out.followed_links += u64::from(own.is_symlink());
                self.left_out.executables += u64::from(found.permissions().mode() & 0o111 != 0);
                self.objects.push(Item { name, path, bytes: found.len(), is_in_folder: true });
                return Ok(());
            }
            // It may lead round in a circle.
            Ok(found) if found.is_dir() => "a link to a folder",
            Err(_) if own.is_symlink() => "a link to nothing",
            _ => "not a regular file",
        };
        errln!("suture: skipped '{}': {why}", path.display());
        self.left_out.skipped.push(path.display().to_string());
        Ok(())
    }
}

impl LeftOut {
    /// Whether nothing is missing where the objects become a folder again.
    pub fn is_nothing(&self) -> bool {
        self.skipped.is_empty() && self.empty_folders.is_empty()
    }

    /// What is missing then, beside what was named already.
    pub fn describe_missing(&self) -> Option<String> {
        let (first, count) = (self.empty_folders.first()?, self.empty_folders.len() as u64);
        Some(match count {
            1 => format!("left out: '{first}', an empty folder"),
            _ => format!("left out: {}, '{first}' first", counted(count, "empty folder")),
        })
    }

    /// What is there and not as it was.
    pub fn describe_changed(&self) -> Option<String> {
        let links = match self.followed_links {
            0 => None,
            1 => Some("1 link is stored as the file that it leads to".to_owned()),
            count => Some(format!("{count} links are stored as the files that they lead to")),
        };
        let executables = match self.executables {
            0 => None,
            1 => Some("that 1 file may be executed is not kept".to_owned()),
            count => Some(format!("that {count} files may be executed is not kept")),
        };
        let changed: Vec<String> = links.into_iter().chain(executables).collect();
        (!changed.is_empty()).then(|| changed.join("; "))
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
    /// Nothing is stored under the name.
    pub new: Vec<Item>,
    /// An object of the same bytes, or of as many where they were not compared.
    pub existing: Vec<Item>,
    /// An object of other bytes.
    pub other: Vec<(Item, Content)>,
}

/// Sorts items by the lengths of the objects that have their names.
pub fn sort(items: Vec<Item>, taken: &BTreeMap<String, Content>) -> Sorted {
    let mut sorted = Sorted::default();
    for item in items {
        match taken.get(&item.name) {
            None => sorted.new.push(item),
            Some(found) if found.bytes == item.bytes => sorted.existing.push(item),
            Some(&found) => sorted.other.push((item, found)),
        }
    }
    sorted
}

impl Sorted {
    /// Compares the bytes of those that have the length of the objects with their names.
    pub async fn compare(&mut self, taken: &BTreeMap<String, Content>, format: Format) {
        let found = |item: &Item| taken[&item.name];
        let alike = std::mem::take(&mut self.existing);
        let files = alike.iter().map(|item| (item.path.clone(), found(item))).collect();
        for (item, is_same) in alike.into_iter().zip(same::have(format, files).await) {
            if is_same {
                self.existing.push(item);
            } else {
                let found = found(&item);
                self.other.push((item, found));
            }
        }
    }

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
             --skip-existing leaves out what is there with the same bytes, --overwrite puts these \
             in its place",
            quoted(first)
        )))
    }
}

/// Why a file is not left out that an object of other bytes has the name of.
pub fn other_object(item: &Item, found: Content) -> Error {
    let what = if found.bytes == item.bytes {
        "with other bytes".to_owned()
    } else {
        format!("of {} and not {}", counted(found.bytes, "byte"), item.bytes)
    };
    bad_input(format!(
        "there is an object {} already, {what}: --overwrite puts this one in its place, or choose \
         another --name",
        quoted(&item.name)
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
        let of = |bytes| Content { bytes, checksum: 7 };
        let taken =
            BTreeMap::from([("d/b".into(), of(2)), ("d/c".into(), of(3)), ("d/x".into(), of(1))]);
        let items = vec![item("d/a", 1), item("d/b", 2), item("d/c", 4)];
        let sorted = sort(items, &taken);
        assert_eq!(sorted.new, [item("d/a", 1)]);
        assert_eq!(sorted.existing, [item("d/b", 2)]);
        assert_eq!(sorted.other, [(item("d/c", 4), of(3))]);
        let refused = sorted.ensure_free().unwrap_err().to_string();
        assert!(refused.contains("'d/b' already: 2 of 3 names are taken"), "{refused}");
        assert!(sort(vec![item("d/a", 1)], &taken).ensure_free().is_ok());
    }

    #[test]
    fn what_is_no_name_and_no_bytes_of_a_file_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("sub/none")).unwrap();
        fs::create_dir(at("empty")).unwrap();
        fs::write(at("plain"), "1").unwrap();
        fs::write(at("sub/run"), "22").unwrap();
        fs::set_permissions(at("sub/run"), fs::Permissions::from_mode(0o755)).unwrap();
        for (link, to) in [("link", "plain"), ("again", "sub"), ("to-nothing", "nowhere")] {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        let items = gather(&[folder.path().to_path_buf()], Some("d")).unwrap();
        let names: Vec<&str> = items.objects.iter().map(|item| &*item.name).collect();
        assert_eq!(names, ["d/link", "d/plain", "d/sub/run"]);
        let paths = |names: [&str; 2]| names.map(|name| at(name).display().to_string()).to_vec();
        let expected = LeftOut {
            skipped: paths(["again", "to-nothing"]),
            empty_folders: paths(["empty", "sub/none"]),
            followed_links: 1,
            executables: 1,
        };
        assert_eq!(items.left_out, expected);
        let missing = items.left_out.describe_missing().unwrap();
        assert!(missing.starts_with("left out: 2 empty folders, '"), "{missing}");
        assert_eq!(
            items.left_out.describe_changed().unwrap(),
            "1 link is stored as the file that it leads to; that 1 file may be executed is not kept"
        );
        assert!(!items.left_out.is_nothing());
        let plain = LeftOut { executables: 2, ..LeftOut::default() };
        assert!(plain.is_nothing() && plain.describe_missing().is_none());
        assert_eq!(plain.describe_changed().unwrap(), "that 2 files may be executed is not kept");
        assert_eq!(LeftOut::default().describe_changed(), None);
    }

    #[test]
    fn a_last_slash_of_a_folders_name_is_the_one_behind_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("x"), "1").unwrap();
        let named = |name| {
            let items = gather(&[folder.path().to_path_buf()], Some(name)).unwrap();
            (items.objects[0].name.clone(), items.folders)
        };
        assert_eq!(named("u"), ("u/x".to_owned(), vec!["u".to_owned()]));
        assert_eq!(named("u/"), named("u"));
        assert_eq!(named("a/b/"), named("a/b"));
        let refused = gather(&[folder.path().to_path_buf()], Some("/")).err().unwrap();
        assert!(refused.to_string().contains("'' is not a valid object name"), "{refused}");
        let file = gather(&[folder.path().join("x")], Some("u/")).unwrap();
        assert_eq!(file.objects[0].name, "u/", "of a file it is part of the name");
    }

    #[test]
    fn two_sources_of_one_name_are_refused() {
        assert!(ensure_distinct(&[item("a", 1), item("b", 1)]).is_ok());
        let refused = ensure_distinct(&[item("a", 1), item("b", 1), item("a", 2)]).unwrap_err();
        assert!(refused.to_string().contains("would be 'a'"), "{refused}");
    }
}
