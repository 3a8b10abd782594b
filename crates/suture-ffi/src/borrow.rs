//! What C hands over, turned into slices after everything about it that can be checked has been.
//!
//! Place: the way in of every call of the C ABI, and the only part of it that trusts anyone.
//! The contract with the caller, without which nothing here is sound: a pointer that is not null
//! and is aligned points to as many elements as the count beside it says, and nobody writes to them
//! during the call.
//!
//! Invariant: a mutable slice overlaps no other slice that is alive; what would is refused.

use crate::status::{Fault, Status};
use std::ops::Range;
use suture_code::ChunkIndex;
use suture_code::code::CHUNK_COUNT_MAX;

/// A reference to what C points at.
///
/// # Errors
/// [`Status::BadPointer`].
///
/// # Safety
/// The contract of this file.
pub unsafe fn reference<'a, T>(what: &str, pointer: *const T) -> Result<&'a T, Fault> {
    check_pointer(what, pointer)?;
    // SAFETY: not null, aligned, and the caller's contract.
    Ok(unsafe { &*pointer })
}

/// A copy of an array of C's. Copied, because outputs may be written over it.
///
/// # Errors
/// [`Status::BadPointer`], and [`Status::BadChunk`] when it is longer than any stripe.
///
/// # Safety
/// The contract of this file.
pub unsafe fn array<T: Copy>(what: &str, pointer: *const T, count: usize) -> Result<Vec<T>, Fault> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check_pointer(what, pointer)?;
    if count > CHUNK_COUNT_MAX {
        let message = format!("{what} has {count} entries; a stripe has at most {CHUNK_COUNT_MAX}");
        return Err(Fault::new(Status::BadChunk, message));
    }
    // SAFETY: not null, aligned, short, and the caller's contract.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec())
}

/// Refuses null, and what is not aligned.
///
/// # Errors
/// [`Status::BadPointer`].
pub fn check_pointer<T>(what: &str, pointer: *const T) -> Result<(), Fault> {
    let how = match pointer {
        _ if pointer.is_null() => "is null",
        _ if !pointer.is_aligned() => "is not aligned",
        _ => return Ok(()),
    };
    Err(Fault::new(Status::BadPointer, format!("the pointer {what} {how}")))
}

/// Chunk indices as C has them.
///
/// # Errors
/// [`Status::BadChunk`] for a number that no chunk of any stripe has.
pub fn chunks(numbers: impl IntoIterator<Item = u32>) -> Result<Vec<ChunkIndex>, Fault> {
    let chunk = |number: u32| {
        let index = u8::try_from(number).map(ChunkIndex).map_err(|_| number);
        index.map_err(|number| Fault::new(Status::BadChunk, format!("there is no chunk {number}")))
    };
    numbers.into_iter().map(chunk).collect()
}

/// Buffers to read, as C hands them over, and buffers to write.
#[derive(Debug, Default)]
pub struct Buffers {
    read: Vec<(*const u8, usize)>,
    written: Vec<(*mut u8, usize)>,
}

/// What is read, and what is written.
pub type Slices<'a> = (Vec<&'a [u8]>, Vec<&'a mut [u8]>);

impl Buffers {
    /// Adds a buffer to read.
    pub fn read(&mut self, bytes: *const u8, length: usize) {
        self.read.push((bytes, length));
    }

    /// Adds a buffer to write.
    pub fn write(&mut self, bytes: *mut u8, length: usize) {
        self.written.push((bytes, length));
    }

    /// All of them as slices, in the order in which they were added.
    ///
    /// # Errors
    /// [`Status::BadPointer`], [`Status::BadLength`] for what cannot be in memory, and
    /// [`Status::Overlap`].
    ///
    /// # Safety
    /// The contract of this file. The slices may not outlive the call.
    pub unsafe fn slices<'a>(self) -> Result<Slices<'a>, Fault> {
        let read = self.read.iter().map(|&(bytes, length)| range("to read", bytes, length));
        let read = read.collect::<Result<Vec<_>, _>>()?;
        let written = self.written.iter().map(|&(at, length)| range("to write", at, length));
        let written = written.collect::<Result<Vec<_>, _>>()?;
        for (index, output) in written.iter().enumerate() {
            if let Some(other) = read.iter().position(|input| overlap(input, output)) {
                let message = format!("output {index} overlaps input {other}");
                return Err(Fault::new(Status::Overlap, message));
            }
            if let Some(other) = written[..index].iter().position(|other| overlap(other, output)) {
                let message = format!("output {index} overlaps output {other}");
                return Err(Fault::new(Status::Overlap, message));
            }
        }
        // SAFETY: not null, within the address space, and the caller's contract.
        let read = self
            .read
            .iter()
            .map(|&(bytes, length)| unsafe { std::slice::from_raw_parts(bytes, length) });
        // SAFETY: the same, and no other slice overlaps it.
        let written = self
            .written
            .iter()
            .map(|&(bytes, length)| unsafe { std::slice::from_raw_parts_mut(bytes, length) });
        Ok((read.collect(), written.collect()))
    }
}

fn range(what: &str, bytes: *const u8, length: usize) -> Result<Range<usize>, Fault> {
    if bytes.is_null() {
        return Err(Fault::new(Status::BadPointer, format!("a buffer {what} is null")));
    }
    let start = bytes.addr();
    match start.checked_add(length).filter(|_| isize::try_from(length).is_ok()) {
        Some(end) => Ok(start..end),
        None => Err(Fault::new(Status::BadLength, format!("no buffer has {length} bytes"))),
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}
