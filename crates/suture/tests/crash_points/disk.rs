//! What a folder would hold after the machine lost power: only what was synced.
//!
//! Place: behind every call of an attacked process. A file's bytes are durable as they were when
//! it was last synced, a name when its folder was. Real file systems keep more; a program may rely
//! on no more than this.
//!
//! Everything that is known is held open, so that no inode number is given out again.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// What goes with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// Nothing: only the process ends.
    Nothing,
    /// Names and bytes that were not synced.
    All,
    /// Bytes that were not synced; all names are there.
    Bytes,
    /// Names that were not synced; the bytes are there.
    Names,
    /// Every other sector that was not synced; all names are there.
    Sectors,
}

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

type Key = (u64, u64);

/// What is durable of a file or folder.
#[derive(Clone, Debug)]
pub enum Durable {
    /// Its bytes.
    File(Vec<u8>),
    /// Its names.
    Folder(BTreeMap<OsString, Key>),
}

/// What is durable in a folder, and below it.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    top: Key,
    durable: HashMap<Key, Durable>,
    held: HashMap<Key, File>,
}

impl Disk {
    /// A folder in which everything is durable as it is.
    pub fn of(root: &Path) -> Disk {
        let (durable, held) = (HashMap::new(), HashMap::new());
        let mut disk = Disk { root: root.to_path_buf(), top: (0, 0), durable, held };
        disk.settle();
        disk
    }

    /// From now on everything is durable as it is.
    pub fn settle(&mut self) {
        self.top = key(&self.root).unwrap();
        self.held.clear();
        self.durable = self.look_at_all().into_iter().collect();
    }

    /// What a sync of the whole file system that begins now will have made durable.
    pub fn look_at_all(&mut self) -> Vec<(Key, Durable)> {
        let (mut paths, mut all) = (vec![self.root.clone()], Vec::new());
        while let Some(path) = paths.pop() {
            // Gone meanwhile: daemons may be at work.
            let Ok(found) = self.look(&path) else { continue };
            if let Durable::Folder(names) = &found.1 {
                paths.extend(names.keys().map(|name| path.join(name)));
            }
            all.push(found);
        }
        all
    }

    /// What a sync that begins now will have made durable.
    pub fn look(&mut self, path: &Path) -> io::Result<(Key, Durable)> {
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        let key = (meta.dev(), meta.ino());
        let found = if meta.is_dir() {
            let mut names = BTreeMap::new();
            for entry in fs::read_dir(path)?.flatten() {
                let Ok(file) = File::open(entry.path()) else { continue };
                let meta = file.metadata()?;
                let key = (meta.dev(), meta.ino());
                self.held.entry(key).or_insert(file);
                names.insert(entry.file_name(), key);
            }
            Durable::Folder(names)
        } else {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Durable::File(bytes)
        };
        self.held.entry(key).or_insert(file);
        Ok((key, found))
    }

    /// A sync has ended well.
    pub fn synced(&mut self, (key, found): (Key, Durable)) {
        self.durable.insert(key, found);
    }

    /// Leaves in the folder what would be there after the loss. No process may be using it.
    pub fn lose(&mut self, loss: Loss) {
        let tree = match loss {
            Loss::Nothing => return,
            Loss::All => self.tree(self.top, &|disk, key| disk.durable_bytes(key)),
            Loss::Names => self.tree(self.top, &|disk, key| disk.bytes(key)),
            Loss::Bytes => self.now(&self.root, &|disk, key, _| disk.durable_bytes(key)),
            Loss::Sectors => self.now(&self.root, &|disk, key, path| {
                torn(&disk.durable_bytes(key), fs::read(path).unwrap())
            }),
        };
        for entry in fs::read_dir(&self.root).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        tree.write_into(&self.root);
    }

    fn tree(&self, key: Key, bytes: &dyn Fn(&Disk, Key) -> Vec<u8>) -> Tree {
        if !self.held[&key].metadata().unwrap().is_dir() {
            return Tree::File(key, bytes(self, key));
        }
        let Some(Durable::Folder(names)) = self.durable.get(&key) else {
            return Tree::Folder(BTreeMap::new());
        };
        let inside = names.iter().map(|(name, key)| (name.clone(), self.tree(*key, bytes)));
        Tree::Folder(inside.collect())
    }

    /// The names as they are.
    fn now(&self, path: &Path, bytes: &dyn Fn(&Disk, Key, &Path) -> Vec<u8>) -> Tree {
        if !path.is_dir() {
            let key = key(path).unwrap();
            return Tree::File(key, bytes(self, key, path));
        }
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let inside = entries.map(|entry| (entry.file_name(), self.now(&entry.path(), bytes)));
        Tree::Folder(inside.collect())
    }

    fn durable_bytes(&self, key: Key) -> Vec<u8> {
        match self.durable.get(&key) {
            Some(Durable::File(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }
    }

    fn bytes(&self, key: Key) -> Vec<u8> {
        let (mut file, mut bytes) = (&self.held[&key], Vec::new());
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }
}

/// The bytes as they are, but for every other sector.
fn torn(durable: &[u8], mut bytes: Vec<u8>) -> Vec<u8> {
    for (number, sector) in bytes.chunks_mut(SECTOR).enumerate().filter(|(n, _)| n % 2 == 1) {
        let before = durable.iter().skip(number * SECTOR).copied().chain(std::iter::repeat(0));
        sector.iter_mut().zip(before).for_each(|(byte, before)| *byte = before);
    }
    bytes
}

fn key(path: &Path) -> io::Result<Key> {
    fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

/// A file or folder as it is to be written again.
#[derive(Debug)]
enum Tree {
    /// Which it was, for it may have several names; and its bytes.
    File(Key, Vec<u8>),
    Folder(BTreeMap<OsString, Tree>),
}

impl Tree {
    /// Writes what is in it into a folder that is there, and empty.
    fn write_into(&self, folder: &Path) {
        let Tree::Folder(names) = self else { unreachable!("it is a folder") };
        let mut written = HashMap::new();
        names.iter().for_each(|(name, tree)| tree.write(&folder.join(name), &mut written));
    }

    fn write(&self, path: &Path, written: &mut HashMap<Key, PathBuf>) {
        match self {
            Tree::File(key, bytes) => match written.get(key) {
                Some(other) => fs::hard_link(other, path).unwrap(),
                None => {
                    let mut options = OpenOptions::new();
                    let file = options.write(true).create_new(true).mode(0o600).open(path);
                    file.unwrap().write_all(bytes).unwrap();
                    written.insert(*key, path.to_path_buf());
                }
            },
            Tree::Folder(names) => {
                DirBuilder::new().mode(0o700).create(path).unwrap();
                names.iter().for_each(|(name, tree)| tree.write(&path.join(name), written));
            }
        }
    }
}

/// A folder in memory where there is one: what is durable is not for the disk to say here.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Copies a folder.
pub fn copy(from: &Path, to: &Path) {
    let disk = Disk::of(from);
    disk.tree(disk.top, &|disk, key| disk.durable_bytes(key)).write_into(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_synced_outlives_the_power() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["changed", "removed", "renamed"] {
            fs::write(at(name), "old").unwrap();
        }
        let made = |loss| {
            let mut disk = Disk::of(folder.path());
            fs::write(at("changed"), "new").unwrap();
            fs::remove_file(at("removed")).unwrap();
            fs::rename(at("renamed"), at("name")).unwrap();
            fs::write(at("synced"), "new").unwrap();
            let found = disk.look(&at("synced")).unwrap();
            disk.synced(found);
            let names = disk.look(folder.path()).unwrap();
            fs::write(at("unsynced"), "new").unwrap();
            if loss == Loss::Bytes {
                disk.synced(names);
            }
            disk.lose(loss);
            let read = |name: &str| fs::read_to_string(at(name)).ok();
            let found = ["changed", "removed", "renamed", "name", "synced", "unsynced"].map(read);
            for name in ["changed", "removed", "renamed"] {
                fs::write(at(name), "old").unwrap();
            }
            for name in ["name", "synced", "unsynced"] {
                let _ = fs::remove_file(at(name));
            }
            found
        };
        let some = |text: &str| Some(text.to_string());
        let (old, new) = (some("old"), some("new"));
        let all = [old.clone(), old.clone(), old.clone(), None, None, None];
        assert_eq!(made(Loss::All), all);
        let names = [new.clone(), old.clone(), old.clone(), None, None, None];
        assert_eq!(made(Loss::Names), names);
        let bytes = [old.clone(), None, None, old.clone(), new, some("")];
        assert_eq!(made(Loss::Bytes), bytes);
        let torn = torn(&[1; 1000], vec![2; 1600]);
        let sector = |number: usize| torn.iter().skip(number * SECTOR).take(SECTOR);
        assert!(sector(0).chain(sector(2)).all(|byte| *byte == 2));
        assert!(sector(1).take(488).all(|byte| *byte == 1), "it was longer");
        assert!(sector(1).skip(488).chain(sector(3)).all(|byte| *byte == 0), "it was shorter");
    }
}
