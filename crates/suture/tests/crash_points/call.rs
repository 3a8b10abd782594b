//! System calls as the tracer sees them: which one it is, and which file it is about.
//!
//! Place: between registers and points. Only calls on files and folders are read, by the path that
//! they are given or that their descriptor has.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One call that is about to be made.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name, as manuals have it.
    pub name: &'static str,
    /// What it is about: a path as it was given, or that of the descriptor.
    pub path: PathBuf,
    /// Where the same file can be opened from here.
    pub here: PathBuf,
    /// As they are in the registers.
    pub arguments: [u64; 6],
    /// Whether it may make a file.
    pub creates: bool,
}

/// Where a call says which file it is about.
#[derive(Clone, Copy)]
enum About {
    /// A descriptor in this argument.
    Descriptor(usize),
    /// A path in this argument.
    Path(usize),
    /// A path in the second of these, beginning at the descriptor in the first.
    At(usize, usize),
}

use About::{At, Descriptor, Path as Named};

/// The calls of x86_64. Of two files, it is the one that changes.
const CALLS: [(u64, &str, About); 57] = [
    (0, "read", Descriptor(0)),
    (1, "write", Descriptor(0)),
    (2, "open", Named(0)),
    (4, "stat", Named(0)),
    (5, "fstat", Descriptor(0)),
    (6, "lstat", Named(0)),
    (9, "mmap", Descriptor(4)),
    (17, "pread", Descriptor(0)),
    (18, "pwrite", Descriptor(0)),
    (19, "readv", Descriptor(0)),
    (20, "writev", Descriptor(0)),
    (21, "access", Named(0)),
    (40, "sendfile", Descriptor(0)),
    (72, "fcntl", Descriptor(0)),
    (73, "flock", Descriptor(0)),
    (74, "fsync", Descriptor(0)),
    (75, "fdatasync", Descriptor(0)),
    (76, "truncate", Named(0)),
    (77, "ftruncate", Descriptor(0)),
    (82, "rename", Named(1)),
    (83, "mkdir", Named(0)),
    (84, "rmdir", Named(0)),
    (85, "creat", Named(0)),
    (86, "link", Named(1)),
    (87, "unlink", Named(0)),
    (88, "symlink", Named(1)),
    (90, "chmod", Named(0)),
    (91, "fchmod", Descriptor(0)),
    (92, "chown", Named(0)),
    (93, "fchown", Descriptor(0)),
    (137, "statfs", Named(0)),
    (138, "fstatfs", Descriptor(0)),
    (217, "getdents", Descriptor(0)),
    (257, "open", At(0, 1)),
    (258, "mkdir", At(0, 1)),
    (260, "chown", At(0, 1)),
    (262, "stat", At(0, 1)),
    (263, "unlink", At(0, 1)),
    (264, "rename", At(2, 3)),
    (265, "link", At(2, 3)),
    (266, "symlink", At(1, 2)),
    (268, "chmod", At(0, 1)),
    (269, "access", At(0, 1)),
    (275, "splice", Descriptor(2)),
    (277, "sync_file_range", Descriptor(0)),
    (280, "utimens", At(0, 1)),
    (285, "fallocate", Descriptor(0)),
    (295, "preadv", Descriptor(0)),
    (296, "pwritev", Descriptor(0)),
    (306, "syncfs", Descriptor(0)),
    (316, "rename", At(2, 3)),
    (326, "copy_file_range", Descriptor(2)),
    (327, "preadv", Descriptor(0)),
    (328, "pwritev", Descriptor(0)),
    (332, "statx", At(0, 1)),
    (437, "open", At(0, 1)),
    (439, "access", At(0, 1)),
];

/// What `fcntl` is asked for when it is about locks: F_GETLK, F_SETLK, F_SETLKW.
const LOCKS: [u64; 3] = [5, 6, 7];

/// O_CREAT; O_TMPFILE has a bit of its own.
const CREATE: u64 = 0o100;
const TMPFILE: u64 = 0o20_000_000;

impl Call {
    /// What a process is about to do; nothing if it is about no file.
    ///
    /// # Panics
    /// When it is a call that would escape: what is then done is not seen.
    pub fn of(process: u32, number: u64, arguments: [u64; 6]) -> Option<Call> {
        const IO_URING_SETUP: u64 = 425;
        assert_ne!(number, IO_URING_SETUP, "what is done by io_uring is not seen");
        let (_, name, about) = CALLS.iter().find(|(known, ..)| *known == number).copied()?;
        if name == "fcntl" && !LOCKS.contains(&arguments[1]) {
            return None;
        }
        let (path, here) = match about {
            Descriptor(at) => of_descriptor(process, arguments[at])?,
            Named(at) => of_path(process, None, arguments[at])?,
            At(folder, at) => of_path(process, Some(arguments[folder]), arguments[at])?,
        };
        let flags = match number {
            2 => arguments[1],
            85 => CREATE,
            257 => arguments[2],
            _ => 0,
        };
        let creates = name == "creat" || name == "open" && flags & (CREATE | TMPFILE) != 0;
        Some(Call { name, path, here, arguments, creates })
    }

    /// Whether bytes come from, or go to, several places.
    pub fn is_vectored(&self) -> bool {
        matches!(self.name, "readv" | "writev" | "preadv" | "pwritev")
    }
}

fn of_descriptor(process: u32, number: u64) -> Option<(PathBuf, PathBuf)> {
    let number = number as u32 as i32;
    let link = PathBuf::from(match number {
        0.. => format!("/proc/{process}/fd/{number}"),
        _ => return None,
    });
    Some((fs::read_link(&link).ok()?, link))
}

fn of_path(process: u32, folder: Option<u64>, at: u64) -> Option<(PathBuf, PathBuf)> {
    const AT_FDCWD: i32 = -100;
    let path = text(&File::open(format!("/proc/{process}/mem")).ok()?, at)?;
    let folder = match folder.map(|number| number as u32 as i32) {
        None | Some(AT_FDCWD) => fs::read_link(format!("/proc/{process}/cwd")).ok()?,
        Some(number) => fs::read_link(format!("/proc/{process}/fd/{number}")).ok()?,
    };
    // An empty path stands for the descriptor itself.
    let path = if path.as_os_str().is_empty() { folder } else { folder.join(path) };
    Some((path.clone(), path))
}

fn text(memory: &File, at: u64) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    loop {
        let mut next = [0; 256];
        // Not beyond a page: what follows may not be there.
        let from = at + bytes.len() as u64;
        let step = (4096 - from % 4096).min(256) as usize;
        let read = memory.read_at(&mut next[..step], from).ok().filter(|read| *read > 0)?;
        if let Some(end) = next[..read].iter().position(|byte| *byte == 0) {
            bytes.extend(&next[..end]);
            return Some(PathBuf::from(String::from_utf8(bytes).ok()?));
        }
        bytes.extend(&next[..read]);
    }
}

/// Eight bytes of a process.
pub fn word(memory: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// What a file is to its folder: its path with everything that differs from run to run left out.
pub fn role(root: &Path, path: &Path) -> Option<String> {
    let inside = path.strip_prefix(root).ok()?;
    let parts = inside.iter().map(|part| role_of(&part.to_string_lossy()));
    let role = parts.collect::<Vec<_>>().join("/");
    Some(if role.is_empty() { ".".to_string() } else { role })
}

fn role_of(name: &str) -> String {
    let (name, gone) = match name.strip_suffix(" (deleted)") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    if name.starts_with('#') {
        return "nameless".to_string();
    }
    if name.split('.').all(is_number) {
        return if name.contains('.') { "CHUNK" } else { "N" }.to_string();
    }
    if name.starts_with(".tmp") || name.starts_with(".suture-") && name.ends_with(".tmp") {
        return "temporary".to_string();
    }
    if name.starts_with(".suture-rebuild-") {
        return ".suture-rebuild-R".to_string();
    }
    // Names that tempfile makes.
    let name = match name.split_once(".suture-backup-") {
        Some((_, random)) => match random.split_once('-') {
            Some((_, log)) => format!(".suture-backup-R-{log}"),
            None => ".suture-backup-R".to_string(),
        },
        None => name.to_string(),
    };
    if gone { format!("{name} gone") } else { name }
}
