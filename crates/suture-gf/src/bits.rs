//! GF(2) maps between values of 1 to 8 bits per symbol, and their bit-plane layout.
//!
//! Place: ... slice read -> [its traces extracted] -> sent -> [summed at the decoder] ...
//! Trace repair sends fewer than 8 bits of each byte: linear functions of it over GF(2).
//! Multiplication by a constant of GF(2^8) is the 8x8 special case, and has its own fast kernels.
//!
//! Layout of a value of width w: for w = 8 plain bytes, one per symbol. For w < 8 bit planes: every
//! 8 symbols take w bytes, byte j holds bit j of the 8 symbols, symbol s at bit s (least
//! significant first). The last symbols are padded with zeros to 64, because that is what a vector
//! of bytes holds; so n symbols take w * 8 * ceil(n / 64) bytes.
//!
//! Invariants: padding is written as zeros (maps are linear, so zero padding stays zero); masks
//! never reach outside the matrix, so two equal maps are equal values.

/// Symbols whose planes stand together, padding included.
pub const SYMBOLS_PER_PLANE_GROUP: usize = 64;

/// A linear map over GF(2): from symbols of `column_count` bits to symbols of `row_count` bits,
/// each 1 to 8.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitMatrix {
    /// Row i says which input bits are summed into output bit i; bit j of it stands for input bit
    /// j.
    rows: [u8; 8],
    row_count: u8,
    column_count: u8,
}

impl BitMatrix {
    /// The map whose output bit i is the parity of the input bits in `rows[i]`.
    ///
    /// # Panics
    /// When there are not 1 to 8 rows and columns, or a row has bits past the columns.
    #[must_use]
    pub fn new(rows: &[u8], column_count: usize) -> BitMatrix {
        assert!((1..=8).contains(&rows.len()), "{} rows, but a bit matrix has 1 to 8", rows.len());
        assert!(
            (1..=8).contains(&column_count),
            "{column_count} columns, but a bit matrix has 1 to 8"
        );
        for &row in rows {
            assert_eq!(
                row & !mask(column_count),
                0,
                "row {row:#010b} has bits past {column_count} columns"
            );
        }
        let mut masks = [0; 8];
        masks[..rows.len()].copy_from_slice(rows);
        BitMatrix { rows: masks, row_count: rows.len() as u8, column_count: column_count as u8 }
    }

    /// The map that changes nothing.
    ///
    /// # Panics
    /// When the width is not 1 to 8.
    #[must_use]
    pub fn identity(width: usize) -> BitMatrix {
        BitMatrix::new(&[1, 2, 4, 8, 16, 32, 64, 128][..width], width)
    }

    /// Multiplication by a constant of GF(2^8), as an 8x8 map.
    #[must_use]
    pub const fn of_coefficient(coefficient: u8) -> BitMatrix {
        let mut rows = [0; 8];
        let mut column = 0;
        while column < 8 {
            // Column j is the image of bit j, that is coefficient * 2^j.
            let image = crate::field::mul(coefficient, 1 << column);
            let mut row = 0;
            while row < 8 {
                rows[row] |= (image >> row & 1) << column;
                row += 1;
            }
            column += 1;
        }
        BitMatrix { rows, row_count: 8, column_count: 8 }
    }

    /// Bits per output symbol.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.row_count as usize
    }

    /// Bits per input symbol.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.column_count as usize
    }

    /// The input bits that are summed into each output bit; rows past the last are zero.
    #[must_use]
    pub const fn row_masks(&self) -> [u8; 8] {
        self.rows
    }

    /// The rows, one mask of input bits per output bit.
    #[must_use]
    pub fn rows(&self) -> &[u8] {
        &self.rows[..self.row_count()]
    }

    /// The image of one symbol.
    ///
    /// # Panics
    /// When the symbol has bits past the columns.
    #[must_use]
    pub fn apply(&self, symbol: u8) -> u8 {
        assert_eq!(
            symbol & !mask(self.column_count()),
            0,
            "symbol {symbol:#010b} is wider than the map takes"
        );
        self.rows()
            .iter()
            .enumerate()
            .fold(0, |image, (bit, row)| image | parity(row & symbol) << bit)
    }

    /// The map that applies `right` first, then `self`.
    ///
    /// # Panics
    /// When `right` gives symbols of another width than `self` takes.
    #[must_use]
    pub fn mul(&self, right: &BitMatrix) -> BitMatrix {
        assert_eq!(self.column_count, right.row_count, "inner widths of a product of bit matrices");
        let mut product =
            BitMatrix { rows: [0; 8], row_count: self.row_count, column_count: right.column_count };
        for (row, &selected) in self.rows().iter().enumerate() {
            product.rows[row] = sum_of_selected(selected, &right.rows);
        }
        product
    }

    /// The rank: how many bits of information pass through.
    #[must_use]
    pub fn rank(&self) -> usize {
        let mut rows = self.rows;
        reduce(&mut rows, self.row_count(), self.column_count(), |_, _| ())
    }

    /// The inverse, or `None` when the map is singular.
    ///
    /// # Panics
    /// When the matrix is not square.
    #[must_use]
    pub fn invert(&self) -> Option<BitMatrix> {
        assert_eq!(self.row_count, self.column_count, "only a square bit matrix can be inverted");
        let width = self.row_count();
        let mut inverse = BitMatrix::identity(width);
        let mut rows = self.rows;
        let rank = reduce(&mut rows, width, width, |row, change| match change {
            RowChange::Swap(other) => inverse.rows.swap(row, other),
            RowChange::Add(other) => inverse.rows[row] ^= inverse.rows[other],
        });
        (rank == width).then_some(inverse)
    }
}

/// Bytes that `symbols` symbols of this width take in a buffer.
///
/// # Panics
/// When the width is not 1 to 8.
#[must_use]
pub fn buffer_bytes(width: usize, symbols: usize) -> usize {
    assert!((1..=8).contains(&width), "a width of {width} bits per symbol");
    if width == 8 { symbols } else { width * 8 * symbols.div_ceil(SYMBOLS_PER_PLANE_GROUP) }
}

/// One symbol of a buffer in the layout of its width: the layout's definition, and the oracle of
/// the rest.
///
/// # Panics
/// When the buffer ends before the symbol.
#[must_use]
pub fn symbol_at(buffer: &[u8], width: usize, index: usize) -> u8 {
    if width == 8 {
        return buffer[index];
    }
    let planes = &buffer[width * (index / 8)..][..width];
    planes
        .iter()
        .enumerate()
        .fold(0, |symbol, (bit, plane)| symbol | (plane >> (index % 8) & 1) << bit)
}

/// Adds to one symbol of a buffer, as slowly and obviously as [`symbol_at`] reads it.
///
/// # Panics
/// When the buffer ends before the symbol, or the symbol is wider than `width` bits.
pub fn add_symbol_at(buffer: &mut [u8], width: usize, index: usize, symbol: u8) {
    assert_eq!(symbol & !mask(width), 0, "symbol {symbol:#010b} is wider than {width} bits");
    if width == 8 {
        buffer[index] ^= symbol;
        return;
    }
    let planes = &mut buffer[width * (index / 8)..][..width];
    planes
        .iter_mut()
        .enumerate()
        .for_each(|(bit, plane)| *plane ^= (symbol >> bit & 1) << (index % 8));
}

/// What elimination did to a row, so that the same can be done to another matrix.
enum RowChange {
    Swap(usize),
    Add(usize),
}

/// Gauss-Jordan elimination; calls `record` with every change of a row and returns the rank.
fn reduce(
    rows: &mut [u8; 8],
    row_count: usize,
    column_count: usize,
    mut record: impl FnMut(usize, RowChange),
) -> usize {
    let mut rank = 0;
    for column in 0..column_count {
        let Some(pivot) = (rank..row_count).find(|&row| rows[row] >> column & 1 == 1) else {
            continue;
        };
        rows.swap(rank, pivot);
        record(rank, RowChange::Swap(pivot));
        for row in (0..row_count).filter(|&row| row != rank) {
            if rows[row] >> column & 1 == 1 {
                rows[row] ^= rows[rank];
                record(row, RowChange::Add(rank));
            }
        }
        rank += 1;
    }
    rank
}

fn sum_of_selected(selected: u8, bytes: &[u8; 8]) -> u8 {
    (0..8).filter(|bit| selected >> bit & 1 == 1).fold(0, |sum, bit| sum ^ bytes[bit])
}

fn mask(width: usize) -> u8 {
    (0xff_u16 >> (8 - width)) as u8
}

fn parity(byte: u8) -> u8 {
    (byte.count_ones() & 1) as u8
}
