//! Standard streams: whether whoever started the command left them open.
//!
//! Place: before bytes are taken from standard input, or given to standard output.
//! A stream that was closed at the start is `/dev/null` by now, so what is read from it is nothing
//! and what is written to it is gone, without an error. Programs that want no output of another one
//! sometimes give it the same; they can name `/dev/null` as its output.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Result;
use rustix::fs::OFlags;
use suture_edge::error::bad_input;

/// What standard output is called where a file is to be named.
const STDOUT_NAMES: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Whether a stream was closed at the start. Its number was then given to `/dev/null`, to be read
/// and written; who redirects it there in a shell opens it for one of both.
pub fn is_closed(stream: impl AsFd) -> bool {
    let null = fs::metadata("/dev/null").map(|null| null.rdev());
    let is_null = rustix::fs::fstat(&stream).is_ok_and(|found| Some(found.st_rdev) == null.ok());
    let flags = rustix::fs::fcntl_getfl(stream);
    is_null && flags.is_ok_and(|flags| flags.contains(OFlags::RDWR))
}

/// Refuses to give bytes to a standard output that is closed.
///
/// # Errors
/// Bad input where the output is standard output and nobody has it open.
pub fn ensure_open(output: &Path) -> Result<()> {
    let is_stdout = STDOUT_NAMES.iter().any(|name| output == Path::new(name));
    if is_stdout && is_closed(io::stdout()) {
        return Err(bad_input(
            "standard output is closed: name a file with -o (-o /dev/null keeps nothing)",
        ));
    }
    Ok(())
}
