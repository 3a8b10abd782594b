//! The interface itself: every function and type that C sees. `include/suture.h` is made of it.
//!
//! Place: `failure -> stripes -> [plan] -> dispatch -> [slices] -> durable -> commit`; see the
//! crate's head. Each function takes what C hands over through `borrow`, asks the handle for a job,
//! and runs it. The comments are written for readers of the header.
//!
//! Invariant: [`guard`] is around every body that does more than return a constant.

#![allow(clippy::missing_safety_doc, reason = "the header tells the contract once, at its head")]

use crate::borrow::{self, Buffers};
use crate::handle::Handle;
use crate::job::Filling;
use crate::status::{self, Fault, Status, guard};
use std::ffi::{CStr, c_char};
use suture_code::{ChunkIndex, Code, layout};

/// Changes whenever a program that was compiled with an older header would no longer work.
pub const SUTURE_ABI_VERSION: u32 = 1;

/// Flag of `suture_repair_reads`: helpers send sub-chunks as they are. Without it, the repair that
/// reads and combines least is chosen, even where helpers would have to send sums of their
/// sub-chunks to save traffic, and do not all read alike. The last parity of a Butterfly code is
/// such a chunk; with this flag, k whole chunks are read for it.
pub const SUTURE_PLAIN_READS: u32 = 1;

/// The sizes of a code.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Data chunks of a stripe: k.
    pub data_chunks: usize,
    /// Parity chunks of a stripe: m, all kinds together.
    pub parity_chunks: usize,
    /// Sub-chunks of a unit: alpha; 1 for codes that do not cut chunks.
    pub sub_chunk_count: usize,
    /// Units are multiples of this many bytes: 64 * alpha.
    pub alignment: usize,
    /// How many chunks may be lost, whichever they are, without losing data.
    pub loss_tolerance: usize,
}

/// Bytes of a chunk that are there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// Which chunk: 0 to k - 1 are data, k to k + m - 1 parity.
    pub chunk: u32,
    /// Where its bytes are.
    pub bytes: *const u8,
    /// How many bytes they are.
    pub length: usize,
}

/// Room for a chunk that is to be rebuilt.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Which chunk to rebuild.
    pub chunk: u32,
    /// Where its bytes go.
    pub bytes: *mut u8,
    /// How many: the whole chunk.
    pub length: usize,
}

/// Neighbouring sub-chunks to read, in every unit of a chunk. In unit u they are the bytes from
/// u * unit + first * (unit / alpha), count * (unit / alpha) of them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Read {
    /// The chunk to read from.
    pub chunk: u32,
    /// The first sub-chunk, counted from 0.
    pub first: u32,
    /// How many sub-chunks to read.
    pub count: u32,
}

/// The version of the library, to be compared with `SUTURE_ABI_VERSION` of the header.
#[unsafe(no_mangle)]
pub extern "C" fn suture_abi_version() -> u32 {
    SUTURE_ABI_VERSION
}

/// A few words for a status; "unknown status" for any other number. Never null, never freed.
#[unsafe(no_mangle)]
pub extern "C" fn suture_status_text(status: i32) -> *const c_char {
    Status::from_number(status).map_or(c"unknown status", Status::text).as_ptr()
}

/// What was wrong with this thread's last call that failed, in a sentence with the numbers. Never
/// null; empty when none has failed. Valid until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn suture_last_error() -> *const c_char {
    status::last_error()
}

/// Opens a code by its name, which ends with a zero byte: `rs(6,3)`, `rs-vandermonde(10,4)`,
/// `lrc(12,2,2)`, `butterfly(4)`, `clay(4,2,5)`. Cheap: what is dear is done when it is first
/// needed, and kept in the handle. Close it with `suture_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_open(name: *const c_char, code: *mut *mut Handle) -> Status {
    guard(|| {
        borrow::check_pointer("name", name)?;
        borrow::check_pointer("code", code)?;
        // SAFETY: not null, and the caller ends it with a zero byte.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_str().map_err(|_| {
            Fault::new(Status::BadName, format!("{name:?} is not a code: it is not UTF-8"))
        })?;
        let handle = Box::new(Handle::new(name.parse()?));
        // SAFETY: not null, aligned, and the caller's to be written.
        unsafe { code.write(Box::into_raw(handle)) };
        Ok(())
    })
}

/// Closes a code. No call may be using it. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_close(code: *mut Handle) {
    guard(|| {
        if !code.is_null() {
            // SAFETY: it comes from `suture_open`, and is closed once.
            drop(unsafe { Box::from_raw(code) });
        }
        Ok(())
    });
}

/// Writes the sizes of a code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_get_sizes(code: *const Handle, sizes: *mut Sizes) -> Status {
    guard(|| {
        // SAFETY: the caller's contract.
        let code = unsafe { borrow::reference("code", code) }?.code();
        borrow::check_pointer("sizes", sizes)?;
        let found = Sizes {
            data_chunks: code.data_chunks(),
            parity_chunks: code.parity_chunks(),
            sub_chunk_count: code.sub_chunk_count() as usize,
            alignment: code.alignment(),
            loss_tolerance: code.loss_tolerance(),
        };
        // SAFETY: not null, aligned, and the caller's to be written.
        unsafe { sizes.write(found) };
        Ok(())
    })
}

/// Computes the m parity chunks of a stripe from its k data chunks, all `chunk_bytes` long.
///
/// A chunk is a sequence of units of `unit_bytes`, each a codeword of its own with those at the
/// same place in the other chunks; 0 says that the chunk is one unit. Calls that decode or repair
/// the stripe must name the same unit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_encode(
    code: *const Handle,
    data: *const *const u8,
    parity: *const *mut u8,
    chunk_bytes: usize,
    unit_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's contract.
        let handle = unsafe { borrow::reference("code", code) }?;
        let code = handle.code();
        let unit_bytes = check_unit(code, chunk_bytes, unit_bytes)?;
        let mut buffers = Buffers::default();
        // SAFETY: k pointers are the caller's contract.
        unsafe { buffers.read_all("data", data, code.data_chunks(), chunk_bytes) }?;
        // SAFETY: and so are m.
        unsafe { buffers.write_all("parity", parity, code.parity_chunks(), chunk_bytes) }?;
        // SAFETY: the caller's contract; the slices end with this call.
        let (data, mut parity) = unsafe { buffers.slices() }?;
        handle.encoding()?.run(Filling::Whole, &data, &mut parity, unit_bytes)
    })
}

/// Rebuilds lost chunks from whole chunks. Any of those that are available may be passed, in any
/// order; what is not needed is not looked at. All lengths are equal; for units see
/// `suture_encode`. Chunks that are neither passed nor asked for are simply not there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_decode(
    code: *const Handle,
    available: *const Input,
    available_count: usize,
    lost: *const Output,
    lost_count: usize,
    unit_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's contract.
        let handle = unsafe { borrow::reference("code", code) }?;
        // SAFETY: as above.
        let available = unsafe { borrow::array("available", available, available_count) }?;
        // SAFETY: as above.
        let lost = unsafe { borrow::array("lost", lost, lost_count) }?;
        let survivors = borrow::chunks(available.iter().map(|input| input.chunk))?;
        let rebuilt = borrow::chunks(lost.iter().map(|output| output.chunk))?;
        let job = handle.repair_from(&rebuilt, &survivors, false)?;
        let chunk_bytes = lost[0].length;
        if let Some(odd) = available.iter().find(|input| input.length != chunk_bytes) {
            let (chunk, found) = (odd.chunk, odd.length);
            let message = format!("chunk {chunk} comes with {found} bytes, not {chunk_bytes}");
            return Err(Fault::new(Status::BadLength, message));
        }
        // SAFETY: the caller's contract.
        unsafe { run(handle, &job, Filling::Whole, &available, lost, unit_bytes) }
    })
}

/// Says what a repair of the lost chunks reads: the sub-chunks of the helpers that together make
/// the least, when these chunks are available. Helpers that come early in `available` are
/// preferred. Chunks ascend in the answer, and so do the runs of each.
///
/// `read_count` says how many entries `reads` has room for, and is set to how many the answer has.
/// When there is not room enough, only the count is written, and the status is
/// `SUTURE_STATUS_TOO_SMALL`; so one may ask with 0 first (`reads` may then be null). The same
/// question always gets the same answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_repair_reads(
    code: *const Handle,
    lost: *const u32,
    lost_count: usize,
    available: *const u32,
    available_count: usize,
    flags: u32,
    reads: *mut Read,
    read_count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's contract.
        let handle = unsafe { borrow::reference("code", code) }?;
        // SAFETY: as above.
        let lost = unsafe { borrow::array("lost", lost, lost_count) }?;
        // SAFETY: as above.
        let available = unsafe { borrow::array("available", available, available_count) }?;
        // SAFETY: as above.
        let capacity = *unsafe { borrow::reference("read_count", read_count) }?;
        if capacity > 0 {
            borrow::check_pointer("reads", reads)?;
        }
        if flags & !SUTURE_PLAIN_READS != 0 {
            let message = format!("the flags {flags:#x} hold some that are unknown");
            return Err(Fault::new(Status::BadFlags, message));
        }
        let (lost, available) = (borrow::chunks(lost)?, borrow::chunks(available)?);
        let job = handle.repair_from(&lost, &available, flags & SUTURE_PLAIN_READS != 0)?;
        let answer: Vec<Read> = job.reads().iter().flat_map(runs).collect();
        // SAFETY: not null, aligned, and the caller's to be written.
        unsafe { read_count.write(answer.len()) };
        if answer.len() > capacity {
            let message = format!(
                "the answer has {} entries, but there is room for {capacity}",
                answer.len()
            );
            return Err(Fault::new(Status::TooSmall, message));
        }
        for (index, &read) in answer.iter().enumerate() {
            // SAFETY: there is room for it, says the caller; not null, aligned.
            unsafe { reads.add(index).write(read) };
        }
        Ok(())
    })
}

/// Rebuilds lost chunks from exactly what `suture_repair_reads` asked for, whatever its flags: one
/// input for each helper, with all its runs packed, unit after unit and ascending in each unit;
/// and one output for each chunk that was lost in that question. A helper's length is the number of
/// sub-chunks that were asked of it times the bytes of a sub-chunk, for all units together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suture_repair(
    code: *const Handle,
    helpers: *const Input,
    helper_count: usize,
    lost: *const Output,
    lost_count: usize,
    unit_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller's contract.
        let handle = unsafe { borrow::reference("code", code) }?;
        // SAFETY: as above.
        let helpers = unsafe { borrow::array("helpers", helpers, helper_count) }?;
        // SAFETY: as above.
        let lost = unsafe { borrow::array("lost", lost, lost_count) }?;
        let senders = borrow::chunks(helpers.iter().map(|input| input.chunk))?;
        let rebuilt = borrow::chunks(lost.iter().map(|output| output.chunk))?;
        let job = handle.repair(&rebuilt, &senders)?;
        // SAFETY: the caller's contract.
        unsafe { run(handle, &job, Filling::Packed, &helpers, lost, unit_bytes) }
    })
}

/// Runs a repair: inputs in the order of the job's helpers, outputs ascending.
///
/// # Safety
/// Inputs and outputs are as the caller of the ABI must pass them.
unsafe fn run(
    handle: &Handle,
    job: &crate::job::Job,
    filling: Filling,
    inputs: &[Input],
    mut lost: Vec<Output>,
    unit_bytes: usize,
) -> Result<(), Fault> {
    lost.sort_unstable_by_key(|output| output.chunk);
    let chunk_bytes = lost[0].length;
    let unit_bytes = check_unit(handle.code(), chunk_bytes, unit_bytes)?;
    let mut buffers = Buffers::default();
    for (chunk, _) in job.reads() {
        let input = inputs.iter().find(|input| input.chunk == u32::from(chunk.0));
        let input = input.expect("helpers are chosen among the inputs");
        buffers.read(input.bytes, input.length);
    }
    for output in &lost {
        if output.length != chunk_bytes {
            let (chunk, found) = (output.chunk, output.length);
            let message = format!("lost chunk {chunk} has {found} bytes, not {chunk_bytes}");
            return Err(Fault::new(Status::BadLength, message));
        }
        buffers.write(output.bytes, output.length);
    }
    // SAFETY: the caller's contract.
    let (helpers, mut outputs) = unsafe { buffers.slices() }?;
    job.run(filling, &helpers, &mut outputs, unit_bytes)
}

/// The unit that is meant, if the code can work with it.
fn check_unit(code: &Code, chunk_bytes: usize, unit_bytes: usize) -> Result<usize, Fault> {
    let (what, unit) = if unit_bytes == 0 { ("chunk", chunk_bytes) } else { ("unit", unit_bytes) };
    if let Err(error) = layout::check_unit(code, unit as u64) {
        let nearest: Vec<String> = error.nearest().map(|near| near.to_string()).collect();
        let (alignment, nearest) = (error.step, nearest.join(" or "));
        let message = format!(
            "a {what} of {code} is a multiple of {alignment} bytes, but has {unit}; try {nearest}"
        );
        return Err(Fault::new(Status::BadLength, message));
    }
    if layout::check_chunk(chunk_bytes as u64, unit as u64).is_err() {
        let message = format!("a chunk of {chunk_bytes} bytes is not made of units of {unit}");
        return Err(Fault::new(Status::BadLength, message));
    }
    Ok(unit)
}

/// Sub-chunks in ascending order as runs of neighbours.
fn runs((chunk, sub_chunks): &(ChunkIndex, Vec<u32>)) -> impl Iterator<Item = Read> {
    let neighbours = sub_chunks.chunk_by(|one, next| one + 1 == *next);
    neighbours.map(|run| Read { chunk: chunk.0.into(), first: run[0], count: run.len() as u32 })
}
