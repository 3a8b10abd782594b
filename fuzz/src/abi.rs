//! The C ABI: any name, any lists of chunks and any flags are answered or refused, and what is
//! answered can be acted on.
//!
//! Place: the border to programs that no compiler of ours has checked. An input is a name, a zero
//! byte, flags, the number of lost chunks, those chunks, and the available ones.

use std::ffi::CStr;
use std::ptr::{null, null_mut};
use suture_ffi::abi::{
    Input, Output, Read, SUTURE_PLAIN_READS, Sizes, suture_close, suture_decode, suture_encode,
    suture_get_sizes, suture_last_error, suture_open, suture_repair, suture_repair_reads,
};
use suture_ffi::handle::Handle;
use suture_ffi::status::Status;

/// Sub-chunks of a stripe up to which a code is asked for more than its sizes: larger ones take
/// seconds.
const SUB_CHUNKS_MAX: usize = 512;
const UNITS: usize = 2;

/// Inputs to begin with.
pub fn valid() -> Vec<Vec<u8>> {
    let input = |name: &str, numbers: &[u8]| [name.as_bytes(), b"\0", numbers].concat();
    vec![
        input("rs(4,2)", &[0, 1, 0, 5, 4, 3, 2, 1]),
        input("rs-vandermonde(3,2)", &[1, 2, 0, 4, 1, 2, 3]),
        input("lrc(6,2,2)", &[0, 2, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8]),
        input("butterfly(4)", &[1, 1, 5, 0, 1, 2, 3, 4]),
        input("butterfly(4)", &[0, 1, 5, 0, 1, 2, 3, 4]),
        input("clay(4,2,5)", &[1, 1, 2, 0, 1, 3, 4, 5]),
        input("clay(4,2,5)", &[1, 3, 0, 1, 2, 3, 4, 5]),
        input("clay(6,3,7)", &[0, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
    ]
}

/// Gives whether the input was accepted.
///
/// # Panics
/// When an answer breaks a promise of the header.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(name) = CStr::from_bytes_until_nul(bytes) else { return false };
    let numbers = &bytes[name.to_bytes_with_nul().len()..];
    let mut handle = null_mut();
    // SAFETY: a text that ends, and a place to write to.
    match unsafe { suture_open(name.as_ptr(), &mut handle) } {
        Status::Ok => (),
        status => {
            assert!(status == Status::BadName && handle.is_null(), "{status:?}");
            // SAFETY: the text stays until the next failure.
            assert!(!unsafe { CStr::from_ptr(suture_last_error()) }.is_empty());
            return false;
        }
    }
    let (mut sizes, mut is_answered) = (Sizes::default(), false);
    // SAFETY: an open code, and a place to write to.
    assert_eq!(unsafe { suture_get_sizes(handle, &mut sizes) }, Status::Ok);
    let chunk_count = sizes.data_chunks + sizes.parity_chunks;
    if let [flags, lost_count, rest @ ..] = numbers
        && chunk_count * sizes.sub_chunk_count <= SUB_CHUNKS_MAX
    {
        let (lost, available) = rest.split_at(rest.len().min(usize::from(*lost_count)));
        // The last number of a byte stands for the last of all.
        let chunks = |numbers: &[u8]| -> Vec<u32> {
            numbers.iter().map(|&n| if n == 255 { u32::MAX } else { n.into() }).collect()
        };
        is_answered =
            check_repair(handle, sizes, u32::from(*flags), &chunks(lost), &chunks(available));
    }
    // SAFETY: opened above, and not used any more.
    unsafe { suture_close(handle) };
    is_answered
}

fn check_repair(
    handle: *mut Handle,
    sizes: Sizes,
    flags: u32,
    lost: &[u32],
    available: &[u32],
) -> bool {
    let ask = |reads: *mut Read, count: &mut usize| {
        let (lost_at, available_at) = (pointer(lost), pointer(available));
        let (lost, available) = (lost.len(), available.len());
        // SAFETY: arrays of that many entries, and room for as many as `count` says.
        unsafe {
            suture_repair_reads(handle, lost_at, lost, available_at, available, flags, reads, count)
        }
    };
    let mut count = 0;
    match ask(null_mut(), &mut count) {
        Status::TooSmall => assert!(count > 0, "an answer of nothing fits everywhere"),
        Status::BadChunk | Status::BadFlags | Status::TooFewChunks => {
            assert_eq!(count, 0);
            return false;
        }
        other => panic!("{other:?}"),
    }
    let mut reads = vec![Read::default(); count];
    let mut room = count - 1;
    assert_eq!(ask(reads.as_mut_ptr(), &mut room), Status::TooSmall);
    assert_eq!((room, reads[0]), (count, Read::default()));
    assert_eq!(ask(reads.as_mut_ptr(), &mut room), Status::Ok);
    for pair in reads.windows(2) {
        let in_order = pair[0].chunk < pair[1].chunk
            || pair[0].chunk == pair[1].chunk && pair[0].first + pair[0].count < pair[1].first;
        assert!(in_order, "runs ascend and do not touch: {pair:?}");
    }
    for read in &reads {
        assert!(available.contains(&read.chunk) && read.count > 0, "{read:?}");
        assert!((read.first + read.count) as usize <= sizes.sub_chunk_count, "{read:?}");
    }
    let stripe = encode(handle, sizes);
    let helpers = packed(&reads, &stripe, sizes);
    let same =
        flags & SUTURE_PLAIN_READS == 0 || helpers.windows(2).all(|h| h[0].1.len() == h[1].1.len());
    assert!(same, "plain reads are of equal lengths");
    let whole: Vec<(u32, Vec<u8>)> =
        available.iter().map(|&chunk| (chunk, stripe[chunk as usize].clone())).collect();
    assert!(rebuild(handle, sizes, &helpers, lost, false) == chunks_of(&stripe, lost));
    assert!(rebuild(handle, sizes, &whole, lost, true) == chunks_of(&stripe, lost));
    true
}

fn pointer(numbers: &[u32]) -> *const u32 {
    if numbers.is_empty() { null() } else { numbers.as_ptr() }
}

fn chunks_of(stripe: &[Vec<u8>], chunks: &[u32]) -> Vec<Vec<u8>> {
    chunks.iter().map(|&chunk| stripe[chunk as usize].clone()).collect()
}

fn encode(handle: *mut Handle, sizes: Sizes) -> Vec<Vec<u8>> {
    let bytes = UNITS * sizes.alignment;
    let byte = |chunk: usize, at: usize| (at * 31 + chunk * 17 + at / 251 * (chunk + 1)) as u8;
    let chunk = |chunk| (0..bytes).map(|at| byte(chunk, at)).collect();
    let data: Vec<Vec<u8>> = (0..sizes.data_chunks).map(chunk).collect();
    let mut parity = vec![vec![0; bytes]; sizes.parity_chunks];
    let inputs: Vec<*const u8> = data.iter().map(|chunk| chunk.as_ptr()).collect();
    let outputs: Vec<*mut u8> = parity.iter_mut().map(|chunk| chunk.as_mut_ptr()).collect();
    // SAFETY: k and m buffers of that length.
    let status =
        unsafe { suture_encode(handle, inputs.as_ptr(), outputs.as_ptr(), bytes, sizes.alignment) };
    assert_eq!(status, Status::Ok);
    data.into_iter().chain(parity).collect()
}

/// What the reads bring: for each helper, for each unit, each run.
fn packed(reads: &[Read], stripe: &[Vec<u8>], sizes: Sizes) -> Vec<(u32, Vec<u8>)> {
    let sub_chunk = sizes.alignment / sizes.sub_chunk_count;
    let mut helpers: Vec<(u32, Vec<u8>)> = Vec::new();
    for runs in reads.chunk_by(|one, next| one.chunk == next.chunk) {
        let mut bytes = Vec::new();
        for unit in stripe[runs[0].chunk as usize].chunks(sizes.alignment) {
            for run in runs {
                let start = run.first as usize * sub_chunk;
                bytes.extend_from_slice(&unit[start..][..run.count as usize * sub_chunk]);
            }
        }
        helpers.push((runs[0].chunk, bytes));
    }
    helpers
}

fn rebuild(
    handle: *mut Handle,
    sizes: Sizes,
    inputs: &[(u32, Vec<u8>)],
    lost: &[u32],
    whole: bool,
) -> Vec<Vec<u8>> {
    let bytes = UNITS * sizes.alignment;
    let mut rebuilt = vec![vec![0; bytes]; lost.len()];
    let input = |(chunk, bytes): &(u32, Vec<u8>)| Input {
        chunk: *chunk,
        bytes: bytes.as_ptr(),
        length: bytes.len(),
    };
    let inputs: Vec<Input> = inputs.iter().map(input).collect();
    let outputs = lost.iter().zip(&mut rebuilt);
    let outputs: Vec<Output> = outputs
        .map(|(&chunk, room)| Output { chunk, bytes: room.as_mut_ptr(), length: bytes })
        .collect();
    let call = if whole { suture_decode } else { suture_repair };
    // SAFETY: buffers of those lengths, none of which overlap.
    let status = unsafe {
        call(
            handle,
            inputs.as_ptr(),
            inputs.len(),
            outputs.as_ptr(),
            outputs.len(),
            sizes.alignment,
        )
    };
    assert_eq!(status, Status::Ok);
    rebuilt
}
