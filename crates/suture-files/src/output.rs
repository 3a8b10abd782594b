//! Where a command writes: what is there already, and a file that appears whole or not at all.
//!
//! Place: the last step of every job that writes files: [... -> proven -> published].
//! A new file has no name until it is published, so it goes with its process, however that ends
//! (`O_TMPFILE`, then a link). Linux has no link that replaces: over an existing file the new one
//! gets a temporary name, for the moment between link and rename. Where a file system has no
//! nameless files (NFS, FAT), or `/proc` is missing, it has a temporary name from the start. That
//! is removed when its value is dropped, when a signal ends the process ([`remove_temporaries`]),
//! and after a crash by the next process that makes one in the same folder. A lock distinguishes
//! files in use from those left behind.
//!
//! Invariant: nothing but a regular file is ever replaced.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use suture_edge::error::bad_input;

/// What temporary names begin with, and end in.
const TEMPORARY: (&str, &str) = (".suture-", ".tmp");

/// The mode of a new file, before the umask takes from it.
const MODE: u32 = 0o666;

/// What an output's name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A regular file that is replaced, or a name that is free. Links have been followed.
    File(PathBuf),
    /// A device, FIFO or socket: bytes can be written into it, but it is never replaced.
    Stream(PathBuf),
}

/// Finds out what an output's name stands for. A link to a file stays a link: what it points to is
/// the output.
///
/// # Errors
/// Bad input for a directory, a link to nothing, and a name that cannot be looked up.
pub fn place(output: &Path) -> Result<Place> {
    let shown = output.display();
    let cannot = |why: &dyn std::fmt::Display| bad_input(format!("cannot write {shown}: {why}"));
    match fs::metadata(output) {
        Ok(found) if found.is_dir() => {
            Err(bad_input(format!("{shown} is a directory; name a file in it")))
        }
        Ok(found) if !found.is_file() => Ok(Place::Stream(output.to_path_buf())),
        Ok(_) => fs::canonicalize(output).map(Place::File).map_err(|why| cannot(&why)),
        Err(_) if output.is_symlink() => Err(dangling(output)),
        Err(why) if why.kind() != io::ErrorKind::NotFound => Err(cannot(&why)),
        Err(_) => {
            let name =
                output.file_name().ok_or_else(|| bad_input(format!("{shown} names no file")))?;
            let folder = folder_of(output);
            if output.as_os_str().as_bytes().ends_with(b"/") {
                return Err(bad_input(format!(
                    "{shown} does not exist: create the directory first"
                )));
            }
            let missing = |_| cannot(&format_args!("there is no directory {}", folder.display()));
            Ok(Place::File(fs::canonicalize(folder).map_err(missing)?.join(name)))
        }
    }
}

/// The file that an output's name stands for, where only a file will do, as for what appears whole
/// or not at all.
///
/// # Errors
/// Bad input as by [`place`], and for a device, FIFO or socket.
pub fn file_place(output: &Path) -> Result<PathBuf> {
    match place(output)? {
        Place::File(path) => Ok(path),
        Place::Stream(path) => {
            let shown = path.display();
            Err(bad_input(format!("{shown} is not a regular file; name a file to write")))
        }
    }
}

/// A link to nothing is no output.
pub(super) fn dangling(output: &Path) -> anyhow::Error {
    let shown = output.display();
    bad_input(format!(
        "{shown} is a link to a file that is not there: remove it (rm {shown}), or create the file"
    ))
}

/// The folder that a file lies in, to be opened.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What becomes of a file that has the name of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The new one takes its place.
    Replace,
    /// It stays, and the new one is refused.
    Keep,
}

/// The refusal of a file that has the name of a new one and is to be kept.
pub fn taken(target: &Path) -> anyhow::Error {
    bad_input(format!("'{}' is there already, and is to be kept", target.display()))
}

/// A file that vanishes unless it is published.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    folder: PathBuf,
    /// Where the file system knows no files without names.
    name: Option<TemporaryName>,
}

impl NewFile {
    /// An empty file on the file system of `target`, in the same folder.
    ///
    /// # Errors
    /// When no file can be made there.
    pub fn beside(target: &Path) -> io::Result<NewFile> {
        let folder = folder_of(target).to_path_buf();
        match nameless(&folder)? {
            Some(file) => Ok(NewFile { file, folder, name: None }),
            None => NewFile::named(folder),
        }
    }

    fn named(folder: PathBuf) -> io::Result<NewFile> {
        remove_left_behind(&folder)?;
        loop {
            let name = TemporaryName::in_folder(&folder);
            let mut options = OpenOptions::new();
            let opened =
                options.read(true).write(true).create_new(true).mode(MODE).open(&name.path);
            let file = match opened {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    name.forget();
                    continue;
                }
                opened => opened?,
            };
            // Another process may have taken it for one that was left behind, a moment ago.
            if !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
                && file.metadata()?.nlink() > 0
            {
                return Ok(NewFile { file, folder, name: Some(name) });
            }
        }
    }

    /// The open file, to be written.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the content durable and puts it in the target's place; a file that is replaced hands
    /// on its permissions. The name is durable after its folder is synced.
    ///
    /// # Errors
    /// When the content cannot be made durable, the name not be changed, or what has that name is
    /// no regular file.
    pub fn publish(self, target: &Path) -> Result<()> {
        self.publish_as(target, Existing::Replace)
    }

    /// As [`NewFile::publish`], and does with a file that has the name already what is said.
    ///
    /// # Errors
    /// As there, and bad input where a file has the name that is to be kept.
    pub fn publish_as(mut self, target: &Path, existing: Existing) -> Result<()> {
        let cannot = || format!("cannot write {}", target.display());
        match fs::symlink_metadata(target) {
            Ok(old) if !old.is_file() => {
                bail!("{} is not a regular file, so it is not replaced", target.display())
            }
            Ok(_) if existing == Existing::Keep => return Err(taken(target)),
            Ok(old) => {
                let mode = Permissions::from_mode(old.permissions().mode() & 0o777);
                self.file.set_permissions(mode).with_context(cannot)?;
            }
            Err(_) => {}
        }
        self.file.sync_all().with_context(cannot)?;
        match self.put_in_place(target, existing) {
            Err(error)
                if existing == Existing::Keep && error.kind() == io::ErrorKind::AlreadyExists =>
            {
                Err(taken(target))
            }
            result => result.with_context(cannot),
        }
    }

    fn put_in_place(&mut self, target: &Path, existing: Existing) -> io::Result<()> {
        let name = match self.name.take() {
            Some(name) => name,
            None => match link(&self.file, target) {
                Err(Errno::EXIST) if existing == Existing::Replace => self.link_temporarily()?,
                result => return Ok(result?),
            },
        };
        match existing {
            Existing::Replace => fs::rename(&name.path, target)?,
            // The name that it has now goes with its value.
            Existing::Keep => return fs::hard_link(&name.path, target),
        }
        name.forget();
        Ok(())
    }

    fn link_temporarily(&self) -> io::Result<TemporaryName> {
        // What cannot be removed now is left to the next one.
        let _ = remove_left_behind(&self.folder);
        // The name is to be seen with its lock only.
        let _ = self.file.try_lock();
        loop {
            let name = TemporaryName::in_folder(&self.folder);
            match link(&self.file, &name.path) {
                Err(Errno::EXIST) => name.forget(),
                result => return result.map(|()| name).map_err(io::Error::from),
            }
        }
    }
}

/// A file without a name in this folder; none where there is no such thing.
fn nameless(folder: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::from_raw_mode(MODE)) {
        Ok(file) => {
            let file = File::from(file);
            Ok(Path::new(&own_link(&file)).exists().then_some(file))
        }
        // The second is what kernels and file systems return that do not know the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A way to an open file that has no name.
fn own_link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn link(file: &File, path: &Path) -> rustix::io::Result<()> {
    rustix::fs::linkat(CWD, own_link(file), CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// A name that is removed unless it is forgotten.
#[derive(Debug)]
struct TemporaryName {
    path: PathBuf,
}

/// Temporary names of this process.
static TEMPORARY_NAMES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// What is to happen before the first of them.
static BEFORE_FIRST: OnceLock<fn()> = OnceLock::new();

fn temporary_names() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TEMPORARY_NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has `prepare` called before this process makes its first temporary name. It is to see to it
/// that signals no longer end the process before [`remove_temporaries`].
pub fn before_first_temporary(prepare: fn()) {
    // The first word counts.
    let _ = BEFORE_FIRST.set(prepare);
}

/// Removes every file of this process that has a temporary name, because the process is about to
/// end. It must: from now on none can be made.
pub fn remove_temporaries() {
    let names = temporary_names();
    for path in names.iter() {
        // What cannot be removed is left to the next process.
        let _ = fs::remove_file(path);
    }
    std::mem::forget(names);
}

impl TemporaryName {
    fn in_folder(folder: &Path) -> TemporaryName {
        static PREPARED: OnceLock<()> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        PREPARED.get_or_init(|| BEFORE_FIRST.get().map_or((), |prepare| prepare()));
        let (begin, end) = TEMPORARY;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{begin}{}-{number}{end}", std::process::id()));
        temporary_names().insert(path.clone());
        TemporaryName { path }
    }

    /// Another file has the name, or none has.
    fn forget(mut self) {
        let path = std::mem::take(&mut self.path);
        temporary_names().remove(&path);
        std::mem::forget(self);
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        // Nothing more can be done about a file that will not go; the next process tries again.
        let _ = fs::remove_file(&self.path);
        temporary_names().remove(&self.path);
    }
}

/// Removes the temporary files of processes that have ended.
///
/// # Errors
/// When the folder cannot be read. A file that will not go is left to the next process.
pub fn remove_left_behind(folder: &Path) -> io::Result<()> {
    let (begin, end) = TEMPORARY;
    let is_ours = |name: &OsStr| {
        name.to_str().is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
    };
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || !is_ours(&entry.file_name()) {
            continue;
        }
        // What is locked is in use; what cannot be locked may be.
        if let Ok(file) = OpenOptions::new().write(true).open(&path)
            && file.try_lock().is_ok()
        {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().flatten();
        let mut names: Vec<_> =
            names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_no_regular_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let _socket = UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("null")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        for stream in [Path::new("/dev/null"), &at("socket"), &at("null")] {
            assert_eq!(place(stream).unwrap(), Place::Stream(stream.to_path_buf()));
        }
        for refused in ["dangling", "folder", "nowhere/file", "nowhere/", ".."] {
            let refused = at(refused);
            assert!(place(&refused).is_err(), "{}", refused.display());
        }
        for stays in ["socket", "null", "dangling", "folder"] {
            let new = NewFile::beside(&at(stays)).unwrap();
            assert!(new.publish(&at(stays)).is_err(), "{stays}");
        }
        assert_eq!(names(folder.path()), ["dangling", "folder", "null", "socket"]);
    }

    #[test]
    fn a_link_to_a_file_stays_a_link_and_the_file_hands_on_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (file, to_file) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &to_file).unwrap();
        let Place::File(target) = place(&to_file).unwrap() else { panic!("a file") };
        let new = NewFile::beside(&target).unwrap();
        new.file().write_all_at(b"new", 0).unwrap();
        assert_eq!(names(folder.path()), ["file", "link"], "no name before it is published");
        new.publish(&target).unwrap();
        assert!(to_file.symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        assert_eq!(names(folder.path()), ["file", "link"]);
    }

    #[test]
    fn a_named_file_goes_when_it_is_dropped_or_was_left_behind_and_not_while_in_use() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".suture-1-1.tmp"), "left behind").unwrap();
        fs::write(folder.path().join(".suture-1-1.txt"), "of someone else").unwrap();
        let one = NewFile::named(folder.path().to_path_buf()).unwrap();
        let other = NewFile::named(folder.path().to_path_buf()).unwrap();
        assert_eq!(names(folder.path()).len(), 3);
        one.file().write_all_at(b"one", 0).unwrap();
        one.publish(&folder.path().join("one")).unwrap();
        drop(other);
        assert_eq!(names(folder.path()), [".suture-1-1.txt", "one"]);
        assert_eq!(fs::read(folder.path().join("one")).unwrap(), b"one");
    }
}
