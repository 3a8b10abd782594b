//! The folder in which a daemon keeps what is entrusted to it: chunks, or the metadata.
//!
//! Place: the first step of every daemon's start. A user who can read the folder can read the data
//! of all clients, so the folder and all that is made in it belong to its owner alone. One that was
//! made otherwise is used as it is: its owner may have reasons, and is warned.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crc_fast::CrcAlgorithm;
use rustix::fs::{StatVfs, StatVfsMountFlags};
use tracing::warn;

/// The mode of files.
const FILE_MODE: u32 = 0o600;

/// The mode of folders.
const FOLDER_MODE: u32 = 0o700;

/// What groups and others may do.
const OTHERS: u32 = 0o077;

/// Makes the folder where there is none, durably: what is in it is no safer than its name. One that
/// others than its owner may enter is warned of.
///
/// # Errors
/// When it cannot be made, or is none.
pub fn open(dir: &Path) -> io::Result<()> {
    if dir.exists() && !dir.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"));
    }
    let above = dir.parent().unwrap_or(dir);
    if dir.exists() {
        // The process that made it may have ended before this; and may have been let into more
        // folders.
        let _ = sync(above);
    } else {
        create_folder(dir)?;
        sync(above)?;
    }
    let mode = fs::metadata(dir)?.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        let dir = dir.display();
        warn!("others than its owner may enter '{dir}' (mode {mode:o}): chmod -R go-rwx '{dir}'");
    }
    Ok(())
}

/// Makes a folder, and those above it, where there are none. The names of those above it are
/// durable then, and its own is once its folder was synced.
///
/// # Errors
/// When it cannot be made, or is none.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let create = || DirBuilder::new().mode(FOLDER_MODE).create(path);
    let created = match (create(), path.parent()) {
        (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound && !above.is_dir() => {
            create_folder(above)?;
            sync(above.parent().unwrap_or(above))?;
            create()
        }
        (created, _) => created,
    };
    created.or_else(|error| if path.is_dir() { Ok(()) } else { Err(error) })
}

/// The same, but what is there and is no folder stays, with a warning: what else the data_dir holds
/// is of use without it.
///
/// # Errors
/// As [`create_folder`].
pub fn create_folder_unless_taken(path: &Path) -> io::Result<()> {
    match create_folder(path) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {
            let path = path.display();
            warn!(
                "'{path}' is not a directory, and what belongs there cannot be kept: move it away, and start again"
            );
            Ok(())
        }
        created => created,
    }
}

/// Makes the names in a folder durable.
///
/// # Errors
/// When the system cannot.
pub fn sync(folder: &Path) -> io::Result<()> {
    let here = Path::new(".");
    File::open(if folder.as_os_str().is_empty() { here } else { folder })?.sync_all()
}

/// Opens a file to be written, empty; makes it where there is none.
///
/// # Errors
/// When it cannot be made or written.
pub fn create_file(path: &Path) -> io::Result<File> {
    new_file().truncate(true).create(true).open(path)
}

/// How files are made here: to be read and written, by their owner.
pub fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

/// Whether nothing can be written where that was asked for.
pub fn is_read_only(of: &StatVfs) -> bool {
    of.f_flag.contains(StatVfsMountFlags::RDONLY)
}

/// What another start of the machine has another of, and what another machine has, where the first
/// is hidden from a service.
const MACHINE_IDS: [&str; 2] = ["/proc/sys/kernel/random/boot_id", "/etc/machine-id"];

/// A number of the file system that the folder is on, among those of all machines: folders on one
/// have the same. It is of this start of the machine, which numbers its file systems anew at each.
/// None where the system does not report that.
pub fn file_system(folder: &Path) -> Option<u64> {
    let machine = first_of(&MACHINE_IDS.map(Path::new))?;
    Some(numbered(&machine, fs::metadata(folder).ok()?.dev()))
}

/// What the first of these files says that is there and says something.
fn first_of(files: &[&Path]) -> Option<String> {
    let said = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    said.map(|text| text.trim().to_string()).find(|text| !text.is_empty())
}

fn numbered(machine: &str, device: u64) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, format!("{machine} {device}").as_bytes())
}

/// Refuses a folder that holds anything: in a folder that no node owns, files are not Suture's to
/// remove.
///
/// # Errors
/// When it is not empty.
pub fn refuse_files_of_others(folder: &Path) -> io::Result<()> {
    let is_filled = fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some());
    let why = "it is not empty, and there is no agent data beside it (no file 'identity'): set \
               data_dir to another directory";
    if is_filled { Err(io::Error::other(why)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_on_one_file_system_have_its_number_and_others_another() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let number = file_system(folder.path());
        assert!(number.is_some());
        assert_eq!(file_system(&inner), number);
        assert_ne!(file_system(Path::new("/proc")), number);
        assert_eq!(file_system(&inner.join("nowhere")), None);
        let [hidden, empty, other] = ["hidden", "empty", "other"].map(|name| inner.join(name));
        fs::write(&empty, "\n").unwrap();
        fs::write(&other, "a machine\n").unwrap();
        let first = first_of(&[&hidden, &empty, &other]);
        assert_eq!(first.as_deref(), Some("a machine"), "where the boot is hidden from a service");
        assert_eq!(first_of(&[&hidden, &empty]), None);
        assert_eq!(numbered("boot", 1), numbered("boot", 1));
        assert_ne!(numbered("boot", 1), numbered("boot", 2));
        assert_ne!(numbered("boot", 1), numbered("another", 1), "devices of two machines");
    }
}
