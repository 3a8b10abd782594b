//! An input taken apart: numbers and pieces, in order, until there is nothing left.
//!
//! Place: under the targets whose input is a sequence of steps.
#![allow(dead_code, reason = "each target uses its part")]

/// What is left of an input.
pub struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next eight bytes, as a number.
    pub fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    /// A piece after its length in two bytes; what there is of it, where the input is shorter.
    pub fn piece(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (piece, rest) = rest.split_at(rest.len().min(u16::from_le_bytes(*length).into()));
        self.0 = rest;
        Some(piece)
    }
}

/// A piece as [`Cursor::piece`] takes it.
pub fn piece(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("pieces are short");
    [&length.to_le_bytes(), bytes].concat()
}
