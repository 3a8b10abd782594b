//! What C hands over, turned into slices after everything about it that can be checked has been.
//!
//! Place: the way in of every call of the C ABI, and the only part that relies on the caller's
//! contract.
//! The contract with the caller, without which nothing here is sound: a pointer that is not null
//! and is aligned points to as many elements as the count beside it says, and no thread writes to
//! them during the call.
//!
//! Invariant: a mutable slice overlaps no other slice that is alive; what would is refused.

use crate::status::{Fault, Status};
use suture_code::ChunkIndex;
use suture_code::chunk::CHUNK_COUNT_MAX;

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

    /// Adds equally long buffers to read, from an array of C's.
    ///
    /// # Errors
    /// [`Status::BadPointer`].
    ///
    /// # Safety
    /// The contract of this file.
    pub unsafe fn read_all(
        &mut self,
        what: &str,
        array: *const *const u8,
        count: usize,
        length: usize,
    ) -> Result<(), Fault> {
        check_pointer(what, array)?;
        // SAFETY: not null, aligned, and the caller's contract.
        self.read.extend((0..count).map(|index| (unsafe { array.add(index).read() }, length)));
        Ok(())
    }

    /// Adds equally long buffers to write, from an array of C's.
    ///
    /// # Errors
    /// [`Status::BadPointer`].
    ///
    /// # Safety
    /// The contract of this file.
    pub unsafe fn write_all(
        &mut self,
        what: &str,
        array: *const *mut u8,
        count: usize,
        length: usize,
    ) -> Result<(), Fault> {
        check_pointer(what, array)?;
        // SAFETY: not null, aligned, and the caller's contract.
        self.written.extend((0..count).map(|index| (unsafe { array.add(index).read() }, length)));
        Ok(())
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
        for &(bytes, length) in &self.read {
            check_buffer("to read", bytes, length)?;
        }
        for &(bytes, length) in &self.written {
            check_buffer("to write", bytes, length)?;
        }
        for (index, &output) in self.written.iter().enumerate() {
            if let Some(other) = self.read.iter().position(|&input| overlap(input, output)) {
                let message = format!("output {index} overlaps input {other}");
                return Err(Fault::new(Status::Overlap, message));
            }
            let before = &self.written[..index];
            if let Some(other) =
                before.iter().position(|&(at, length)| overlap((at, length), output))
            {
                let message = format!("output {index} overlaps output {other}");
                return Err(Fault::new(Status::Overlap, message));
            }
        }
        // SAFETY: not null, within the address space, and the caller's contract.
        let slice = |(bytes, length)| unsafe { std::slice::from_raw_parts(bytes, length) };
        // SAFETY: the same, and no other slice overlaps it.
        let slice_mut = |(bytes, length)| unsafe { std::slice::from_raw_parts_mut(bytes, length) };
        // Collected where the pointers were: small stripes notice every allocation.
        let read = self.read.into_iter().map(slice).collect();
        Ok((read, self.written.into_iter().map(slice_mut).collect()))
    }
}

fn check_buffer(what: &str, bytes: *const u8, length: usize) -> Result<(), Fault> {
    if bytes.is_null() {
        return Err(Fault::new(Status::BadPointer, format!("a buffer {what} is null")));
    }
    if isize::try_from(length).is_err() || bytes.addr().checked_add(length).is_none() {
        return Err(Fault::new(Status::BadLength, format!("no buffer has {length} bytes")));
    }
    Ok(())
}

/// Whether buffers that were checked share a byte.
fn overlap(one: (*const u8, usize), other: (*mut u8, usize)) -> bool {
    let (one_start, other_start) = (one.0.addr(), other.0.addr());
    one_start.max(other_start) < (one_start + one.1).min(other_start + other.1)
}
