//! Geometry: which byte of the file lies in which chunk of which stripe.
//!
//! Place: [the file <-> stripes <-> chunks], pure arithmetic under all offline commands.
//! A stripe holds k chunks of the file one after the other, so data is contiguous within a chunk;
//! the last stripe is padded with zeros to full chunks. An empty file is one stripe of padding: it
//! has chunks, so it can be lost and rebuilt like any other.
//!
//! Invariant: a `Geometry` that exists is possible; every refusal names the nearest valid sizes.

use suture_code::layout::{self, Layout, SizeError};
use suture_code::{ChunkIndex, Code};
use suture_edge::units::format_exact_size;

/// An open chunk keeps one thousandth of its size in memory as checksums; larger files take more
/// stripes.
const CHUNK_BYTES_MAX: u64 = 4 << 30;

/// How a file is cut into stripes and chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The code that cuts units into sub-chunks.
    pub code: Code,
    /// The length of the file.
    pub file_bytes: u64,
    /// The length of every chunk, padding included.
    pub chunk_bytes: u64,
    /// The length of one codeword's piece of a chunk.
    pub unit_bytes: u64,
}

/// A piece of the file, within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// Where in the file it begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: usize,
}

impl Geometry {
    /// Refuses sizes that the code cannot work with.
    ///
    /// # Errors
    /// Names the size that does not fit, and the nearest ones that do.
    pub fn check(self) -> Result<Geometry, String> {
        let Geometry { code, chunk_bytes, unit_bytes, file_bytes } = self;
        layout::check_unit(&code, unit_bytes).map_err(|error| {
            let what = if unit_bytes == chunk_bytes { "chunk size" } else { "unit" };
            let alignment = format_exact_size(error.step);
            refuse_size(what, error, &format!("a {what} of {code} is a multiple of {alignment}"))
        })?;
        layout::check_chunk(chunk_bytes, unit_bytes).map_err(|error| {
            let why = format!("it is a multiple of the unit, {}", format_exact_size(unit_bytes));
            refuse_size("chunk size", error, &why)
        })?;
        if chunk_bytes > CHUNK_BYTES_MAX {
            let (size, max) = (format_exact_size(chunk_bytes), format_exact_size(CHUNK_BYTES_MAX));
            return Err(format!(
                "chunk size {size} is above the largest, {max}: longer files take more stripes"
            ));
        }
        if file_bytes > i64::MAX as u64 - self.stripe_data_bytes() {
            return Err(format!("no file is {file_bytes} bytes long"));
        }
        Ok(self)
    }

    /// The chunks that hold data.
    pub fn data_chunk_indices(&self) -> Vec<ChunkIndex> {
        self.code.chunks().take(self.code.data_chunks()).collect()
    }

    /// How chunks are cut.
    pub fn layout(&self) -> Layout {
        Layout::of(&self.code, self.chunk_bytes).in_units(self.unit_bytes)
    }

    /// Bytes of the file in a full stripe.
    pub fn stripe_data_bytes(&self) -> u64 {
        self.code.data_chunks() as u64 * self.chunk_bytes
    }

    /// Stripes of the file: at least one.
    pub fn stripe_count(&self) -> u64 {
        self.file_bytes.div_ceil(self.stripe_data_bytes()).max(1)
    }

    /// Bytes of all chunks of all stripes.
    pub fn stored_bytes(&self) -> u64 {
        self.stripe_count() * self.code.chunk_count() as u64 * self.chunk_bytes
    }

    /// The data chunks of a stripe that hold any byte of the file; behind them is only padding.
    pub fn filled_chunks(&self, stripe: u64) -> impl Iterator<Item = ChunkIndex> + use<> {
        let left = self.file_bytes.saturating_sub(stripe * self.stripe_data_bytes());
        let filled = left.div_ceil(self.chunk_bytes).min(self.code.data_chunks() as u64);
        (0..filled).map(|chunk| ChunkIndex(chunk as u8))
    }

    /// The bytes of the file that stand at `[offset, offset + bytes)` of a data chunk; fewer where
    /// padding begins.
    pub fn file_piece(
        &self,
        stripe: u64,
        chunk: ChunkIndex,
        offset: u64,
        bytes: usize,
    ) -> FilePiece {
        let start =
            stripe * self.stripe_data_bytes() + u64::from(chunk.0) * self.chunk_bytes + offset;
        let left = self.file_bytes.saturating_sub(start);
        FilePiece { offset: start, bytes: left.min(bytes as u64) as usize }
    }
}

fn refuse_size(what: &str, error: SizeError, why: &str) -> String {
    let near: Vec<String> = error.nearest().map(format_exact_size).collect();
    format!(
        "{what} {} does not fit: {why}; the nearest valid: {}",
        format_exact_size(error.bytes),
        near.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(file_bytes: u64, chunk_bytes: u64, unit_bytes: u64) -> Result<Geometry, String> {
        Geometry { code: "rs(4,2)".parse().unwrap(), file_bytes, chunk_bytes, unit_bytes }.check()
    }

    #[test]
    fn every_byte_of_the_file_has_one_place() {
        for file_bytes in [0, 1, 127, 128, 511, 512, 513, 1024, 5000] {
            let geometry = geometry(file_bytes, 128, 64).unwrap();
            let mut next = 0;
            for stripe in 0..geometry.stripe_count() {
                let filled: Vec<ChunkIndex> = geometry.filled_chunks(stripe).collect();
                for chunk in (0..4).map(ChunkIndex) {
                    let piece = geometry.file_piece(stripe, chunk, 0, 128);
                    assert_eq!(piece.bytes > 0, filled.contains(&chunk));
                    if piece.bytes > 0 {
                        assert_eq!(piece.offset, next);
                        next += piece.bytes as u64;
                    }
                }
            }
            assert_eq!(next, file_bytes);
        }
        assert_eq!(geometry(0, 128, 128).unwrap().stripe_count(), 1);
        assert_eq!(geometry(512, 128, 128).unwrap().stripe_count(), 1);
        assert_eq!(geometry(513, 128, 128).unwrap().stripe_count(), 2);
    }

    #[test]
    fn a_size_that_does_not_fit_is_refused_with_its_neighbours() {
        let error = geometry(1, 4100, 4100).unwrap_err();
        assert!(error.contains("chunk size 4100B") && error.contains("4KiB or 4160B"), "{error}");
        let error = geometry(1, 4096, 100).unwrap_err();
        assert!(error.contains("unit 100B") && error.contains("64B or 128B"), "{error}");
        let error = geometry(1, 4096, 192).unwrap_err();
        assert!(error.contains("chunk size 4KiB") && error.contains("4032B or 4224B"), "{error}");
        let error = geometry(1, 1, 1).unwrap_err();
        assert!(error.contains("nearest valid: 64B"), "{error}");
        assert!(geometry(1, 0, 0).is_err());
        assert!(geometry(1, 1 << 33, 1 << 33).unwrap_err().contains("4GiB"));
        assert!(geometry(u64::MAX, 64, 64).is_err());
    }
}
