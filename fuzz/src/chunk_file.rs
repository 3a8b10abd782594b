//! Chunk files: whatever lies under a chunk's name is read as what was written, or refused by name.
//!
//! Place: the disk of an agent, which may give back anything. An input is a byte of what is made
//! right before it is read, and the file. With every checksum made right, what is left to find are
//! lengths that do not fit; with none, that damage is noticed.

use suture_drivers::store::chunk::{ChunkFile, Damage};
use suture_drivers::store::layout::{FOOTER_BYTES, Footer, LabelDigest};
use suture_edge::checksum::{BLOCK_BYTES, crc32c};
use suture_repair::id::{ChunkCopy, ChunkIndex, Stamp, StripeId};
use suture_repair::label::LABEL_BYTES_MAX;

use crate::scratch;

const FOOTER: usize = FOOTER_BYTES as usize;
const COPY: ChunkCopy =
    ChunkCopy { stripe: StripeId(1 << 40), chunk: ChunkIndex(200), stamp: Stamp(7) };

/// What is made right: the footer's checksum, those of blocks, label and data, and the name.
const SEAL_FOOTER: u8 = 1;
const SEAL_CONTENT: u8 = 2;
const SEAL_NAME: u8 = 4;

/// Inputs to begin with: chunks of both versions, short and of several blocks, with labels and
/// without, as they were written and to be made right.
pub fn valid() -> Vec<Vec<u8>> {
    let sizes = [(0, 0), (1, 0), (1, 9), (100, 40), (4096, 3), (4097, 0), (9000, 200), (12288, 1)];
    let file = |&(bytes, label): &(usize, usize)| {
        let data: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect();
        written(&data, &vec![7; label])
    };
    let mut inputs = Vec::new();
    for file in sizes.iter().map(file) {
        inputs.extend([0, SEAL_FOOTER, 7].map(|seal| [&[seal][..], &file].concat()));
    }
    let mut first = inputs[3].clone();
    let version_at = first.len() - FOOTER + 8;
    first[version_at] = 1;
    first[0] = SEAL_FOOTER;
    inputs.push(first);
    inputs
}

/// A chunk file as the store writes it.
fn written(data: &[u8], label: &[u8]) -> Vec<u8> {
    let table = data.chunks(BLOCK_BYTES as usize).flat_map(|block| crc32c(block).to_le_bytes());
    let mut file: Vec<u8> = data.iter().copied().chain(table).collect();
    file.extend_from_slice(label);
    let (bytes, crc) = (data.len() as u64, crc32c(data));
    let footer = Footer { copy: COPY, bytes, crc, label: LabelDigest::of(label) };
    file.extend_from_slice(&footer.encode());
    file
}

/// Gives whether the file is a whole chunk.
///
/// # Panics
/// When a file is read as what it does not hold, or damage is not noticed.
pub fn check(input: &[u8]) -> bool {
    let Some((&seal, file)) = input.split_first() else { return false };
    let mut file = file.to_vec();
    if seal & SEAL_CONTENT != 0 {
        seal_content(&mut file);
    }
    if seal & (SEAL_FOOTER | SEAL_NAME) != 0 {
        seal_footer(&mut file, seal & SEAL_NAME != 0);
    }
    let chunk = match ChunkFile::open(&scratch::file("chunk", &file), COPY) {
        Ok(chunk) => chunk,
        Err(damage) => {
            assert!(!damage.to_string().is_empty());
            assert!(!matches!(damage, Damage::Io(_) | Damage::Missing), "{damage}");
            return false;
        }
    };
    let footer = *chunk.footer();
    assert_eq!((footer.copy, footer.file_bytes()), (COPY, file.len() as u64), "{footer:?}");
    assert!(footer.label.bytes as usize <= LABEL_BYTES_MAX, "{footer:?}");
    let again: &[u8; FOOTER] = &footer.encode();
    assert_eq!(Footer::decode(again), Ok(footer));
    check_content(&chunk, &file)
}

/// Every read gives what the file holds or says why not; all of it agrees with the full check.
fn check_content(chunk: &ChunkFile, file: &[u8]) -> bool {
    let footer = chunk.footer();
    let data = &file[..footer.bytes as usize];
    let is_whole_block = |(index, block): (usize, &[u8])| {
        let at = footer.table_at(index as u64) as usize;
        file[at..at + 4] == crc32c(block).to_le_bytes()
    };
    let whole_blocks: Vec<bool> =
        data.chunks(BLOCK_BYTES as usize).enumerate().map(is_whole_block).collect();
    for (block, is_whole) in whole_blocks.iter().enumerate() {
        let start = block * BLOCK_BYTES as usize;
        let end = data.len().min(start + BLOCK_BYTES as usize);
        for (from, to) in [(start, end), (start, start + 1), (end - 1, end)] {
            let mut into = vec![0; to - from];
            let read = chunk.read(from as u64, &mut into);
            assert_eq!(read.is_ok(), *is_whole, "block {block}: {read:?}");
            assert!(read.is_err() || into == data[from..to]);
        }
    }
    let past = chunk.read(footer.bytes, &mut [0]);
    assert!(matches!(past, Err(Damage::OutOfRange { .. })), "{past:?}");
    let label = &file[footer.label_at() as usize..footer.footer_at() as usize];
    let is_whole_label = LabelDigest::of(label) == footer.label;
    let read = chunk.label();
    assert_eq!(read.is_ok(), is_whole_label, "{read:?}");
    assert!(read.is_err() || read.is_ok_and(|read| read.bytes() == label));
    let is_whole =
        whole_blocks.iter().all(|whole| *whole) && is_whole_label && crc32c(data) == footer.crc;
    let checked = chunk.check();
    assert_eq!(checked.is_ok(), is_whole, "{checked:?}");
    is_whole
}

/// Gives the footer the checksum of its bytes, and the name that is asked for where that is wanted.
fn seal_footer(file: &mut [u8], is_named: bool) {
    let Some(footer) = file.last_chunk_mut::<FOOTER>() else { return };
    if is_named {
        footer[16..36].copy_from_slice(&Footer { copy: COPY, ..EMPTY }.encode()[16..36]);
    }
    let check = crc32c(&footer[..FOOTER - 4]);
    footer[FOOTER - 4..].copy_from_slice(&check.to_le_bytes());
}

const EMPTY: Footer =
    Footer { copy: COPY, bytes: 0, crc: 0, label: LabelDigest { bytes: 0, crc: 0 } };

/// Gives blocks, label and data the checksums of their bytes, where the lengths that the footer
/// says fit the file.
fn seal_content(file: &mut [u8]) {
    let Some(footer) = file.last_chunk::<FOOTER>() else { return };
    let (bytes, label_bytes) = (number(footer, 36, 8), number(footer, 44, 4));
    let blocks = bytes.div_ceil(BLOCK_BYTES);
    let label_at = u128::from(bytes) + 4 * u128::from(blocks);
    if label_at + u128::from(label_bytes) + u128::from(FOOTER_BYTES) != file.len() as u128 {
        return;
    }
    let (data, rest) = file.split_at_mut(bytes as usize);
    let (table, rest) = rest.split_at_mut(4 * blocks as usize);
    let (label, footer) = rest.split_at_mut(label_bytes as usize);
    for (entry, block) in table.chunks_mut(4).zip(data.chunks(BLOCK_BYTES as usize)) {
        entry.copy_from_slice(&crc32c(block).to_le_bytes());
    }
    footer[12..16].copy_from_slice(&crc32c(data).to_le_bytes());
    footer[48..52].copy_from_slice(&crc32c(label).to_le_bytes());
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
