//! A source of bytes, cut into stripes.
//!
//! Place: [source] -> encoded, every chunk durable -> object visible; before any failure.
//! A source that cannot be read at k places at once (stdin, or a file of which the system does not
//! report the length) is spooled to an unnamed file, a stripe at a time.
//! Invariant: of a source with any bytes exactly one stripe knows that it is the last, before
//! anything of it is stored.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use suture_code::Code;

use super::layout::{chunk_bytes_for, data_in_chunk};

/// Why a put fails when its input has changed.
pub const CHANGED: &str =
    "the input changed while it was stored; put it again when nobody writes to it";

/// What is to be stored.
pub enum ObjectSource {
    /// Can be read anywhere, and must not change meanwhile.
    File(Arc<File>, Metadata),
    /// Can be read once.
    Stream(Box<dyn Read + Send>),
    /// A file that has not the length that the system reports, as those of `/proc`, which are
    /// reported to be empty: it ends where reading ends, and is read once.
    Unmeasured(File, Metadata),
}

impl ObjectSource {
    /// A file to be read where needed.
    ///
    /// # Errors
    /// When the file's length cannot be asked for, or its end not be read.
    pub fn file(file: File) -> io::Result<ObjectSource> {
        let metadata = file.metadata()?;
        // One that just grows is refused at the end: it is reported to be longer then.
        let is_measured =
            ends_at(&file, metadata.len())? || file.metadata()?.len() != metadata.len();
        Ok(if is_measured {
            ObjectSource::File(Arc::new(file), metadata)
        } else {
            ObjectSource::Unmeasured(file, metadata)
        })
    }

    /// A file that changed meanwhile would give parity of bytes that were never together.
    ///
    /// # Errors
    /// When it has changed, or cannot be asked.
    pub fn ensure_unchanged(&self) -> Result<()> {
        let cannot = "cannot read the input";
        let same = match self {
            ObjectSource::Stream(_) => true,
            ObjectSource::Unmeasured(file, before) => {
                file.metadata().context(cannot)?.len() == before.len()
            }
            ObjectSource::File(file, before) => {
                let now = file.metadata().context(cannot)?;
                now.len() == before.len()
                    && now.modified().ok() == before.modified().ok()
                    && !has_byte(file, now.len()).context(cannot)?
            }
        };
        ensure!(same, CHANGED);
        Ok(())
    }
}

/// Whether a file is as long as the system reports. One that is reported to be empty is not tried:
/// it may be one that waits until it has something to give.
fn ends_at(file: &File, bytes: u64) -> io::Result<bool> {
    Ok(bytes > 0 && has_byte(file, bytes - 1)? && !has_byte(file, bytes)?)
}

fn has_byte(file: &File, offset: u64) -> io::Result<bool> {
    match file.read_exact_at(&mut [0], offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

/// Cuts a source into stripes.
pub struct Cutter {
    /// The source that is cut into stripes.
    pub source: ObjectSource,
    /// Data of a full stripe.
    stripe_bytes: u64,
    chunk_bytes: u64,
    code: Code,
    at: u64,
    /// A byte that was read of a stream to know whether it goes on.
    ahead: Option<u8>,
}

/// One stripe's data, wherever it is.
pub struct Cut {
    file: Arc<File>,
    offset: u64,
    /// How much of its data chunks is data.
    pub data_bytes: u64,
    /// The length of its chunks.
    pub chunk_bytes: u64,
    /// Whether no data come after it.
    pub is_last: bool,
}

impl Cut {
    /// Reads a part of a data chunk into `buffer`, which is zeros; gives what there is of it.
    ///
    /// # Errors
    /// When the source cannot be read, or has become shorter.
    pub fn read<'a>(&self, chunk: u64, offset: u64, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
        let chunk_data = data_in_chunk(chunk, self.chunk_bytes, self.data_bytes);
        let length = chunk_data.saturating_sub(offset).min(buffer.len() as u64);
        let piece = &mut buffer[..length as usize];
        let from = self.offset + chunk * self.chunk_bytes + offset;
        self.file.read_exact_at(piece, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => anyhow!("the input became shorter while it was stored"),
            _ => anyhow::Error::new(error).context("cannot read the input"),
        })?;
        Ok(piece)
    }
}

impl Cutter {
    /// A cutter that has cut nothing yet.
    pub fn new(source: ObjectSource, code: Code, chunk_bytes: u64) -> Cutter {
        let stripe_bytes = chunk_bytes * code.data_chunks() as u64;
        Cutter { source, stripe_bytes, chunk_bytes, code, at: 0, ahead: None }
    }

    /// The next stripe; none at the end. May wait for the source.
    ///
    /// # Errors
    /// When the source cannot be read, or a stream not be spooled.
    pub fn cut(&mut self) -> Result<Option<Cut>> {
        let mut spooled = |stream: &mut dyn Read| {
            let spooled = spool(stream, self.stripe_bytes, &mut self.ahead);
            let (spool, copied) = spooled.context("cannot read or spool the input")?;
            anyhow::Ok((Arc::new(spool), 0, copied, self.ahead.is_none()))
        };
        let (file, offset, data_bytes, is_last) = match &mut self.source {
            ObjectSource::File(file, metadata) => {
                let left = metadata.len() - self.at;
                let data_bytes = self.stripe_bytes.min(left);
                (file.clone(), self.at, data_bytes, data_bytes == left)
            }
            ObjectSource::Stream(stream) => spooled(stream)?,
            ObjectSource::Unmeasured(file, _) => spooled(file)?,
        };
        self.at += data_bytes;
        if data_bytes == 0 {
            return Ok(None);
        }
        let chunk_bytes = if data_bytes == self.stripe_bytes {
            self.chunk_bytes
        } else {
            chunk_bytes_for(&self.code, data_bytes)
        };
        Ok(Some(Cut { file, offset, data_bytes, chunk_bytes, is_last }))
    }

    /// How many stripes are still to come; of a stream that is not known.
    pub fn stripes_left(&self) -> Option<u64> {
        match &self.source {
            ObjectSource::File(_, metadata) => {
                Some((metadata.len() - self.at).div_ceil(self.stripe_bytes))
            }
            ObjectSource::Stream(_) | ObjectSource::Unmeasured(..) => None,
        }
    }
}

/// The next `bytes` of a stream in an unnamed file, as far as there are any, and the byte after
/// them.
fn spool(stream: &mut dyn Read, bytes: u64, ahead: &mut Option<u8>) -> io::Result<(File, u64)> {
    let mut spool = tempfile::tempfile()?;
    let begun: Vec<u8> = ahead.take().into_iter().collect();
    let copied = io::copy(&mut begun.chain(&mut *stream).take(bytes), &mut spool)?;
    let mut next = Vec::with_capacity(1);
    stream.take(1).read_to_end(&mut next)?;
    *ahead = next.pop();
    Ok((spool, copied))
}
