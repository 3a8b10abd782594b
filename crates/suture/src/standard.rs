//! Standard streams: whether the parent process left them open.
//!
//! Place: before bytes are taken from standard input. Of standard output it cannot be found out:
//! some programs give `/dev/null` to be read and written where they want no output.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::OFlags;

/// Whether a stream was closed at the start. Its number was then given to `/dev/null`, to be read
/// and written; a redirection in a shell opens it for one of both.
pub fn is_closed(stream: impl AsFd) -> bool {
    let null = fs::metadata("/dev/null").map(|null| null.rdev());
    let is_null = rustix::fs::fstat(&stream).is_ok_and(|found| Some(found.st_rdev) == null.ok());
    let flags = rustix::fs::fcntl_getfl(stream);
    is_null && flags.is_ok_and(|flags| flags.contains(OFlags::RDWR))
}
