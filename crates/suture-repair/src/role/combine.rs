//! What a role computes of one slice, in bytes.
//!
//! Place: ... dispatch -> [slices flow] -> chunk durable ...
//! Plain and complete: the sources of a slice go in, a result for each sink comes out. Drivers call
//! it wherever they like; those that care form sums in place instead, which gives the same bytes.

use suture_code::{CodeError, Program, Scratch};
use suture_gf::bits;

use super::{Computation, Own, Role, Rows};

impl Role {
    /// Computes the results of a slice from what was read and received. Sources have the lengths
    /// that `own_bytes` and `child_bytes` give, children in the order of the role's; each of
    /// `results` has `result_bytes` and is overwritten.
    ///
    /// # Errors
    /// [`CodeError`] when a buffer of a decoder has another length.
    ///
    /// # Panics
    /// When there are fewer sources or results than the role has.
    pub fn combine(
        &self,
        scratch: &mut Scratch,
        slice: u32,
        own: Option<&[u8]>,
        children: &[&[u8]],
        results: &mut [&mut [u8]],
    ) -> Result<(), CodeError> {
        let symbols = self.symbols(slice);
        let mut made = Vec::new();
        let own = match (&self.own, own) {
            (Some(part), Some(read)) => Some(part.rows(scratch, symbols, read, &mut made)?),
            _ => None,
        };
        match &self.computation {
            Computation::Sum { coefficient } => {
                let sum = &mut *results[0];
                sum.fill(0);
                own.into_iter().for_each(|own| suture_gf::mul_add(sum, *coefficient, own));
                children.iter().for_each(|child| suture_gf::xor(sum, child));
                Ok(())
            }
            Computation::Pass => {
                let only = own.or(children.first().copied()).expect("a role has a source");
                results[0].copy_from_slice(only);
                Ok(())
            }
            Computation::Decode { program, own_at } => {
                let rows = self.rows_of_all(symbols, own, *own_at, children);
                self.decode(program, scratch, symbols, &rows, results)
            }
        }
    }

    /// The rows of all helpers, chunk by chunk.
    fn rows_of_all<'a>(
        &self,
        symbols: usize,
        own: Option<&'a [u8]>,
        own_at: usize,
        children: &[&'a [u8]],
    ) -> Vec<&'a [u8]> {
        let mut parts: Vec<(&Rows, &[u8])> =
            self.children.iter().map(|child| &child.rows).zip(children.iter().copied()).collect();
        if let (Some(part), Some(own)) = (&self.own, own) {
            parts.insert(own_at, (&part.rows, own));
        }
        parts.into_iter().flat_map(|(rows, bytes)| rows.split(bytes, symbols)).collect()
    }

    fn decode(
        &self,
        program: &Program,
        scratch: &mut Scratch,
        symbols: usize,
        rows: &[&[u8]],
        results: &mut [&mut [u8]],
    ) -> Result<(), CodeError> {
        let chunk = Rows::bytes_wide(self.layout.sub_chunk_count() as usize);
        let outputs = results.iter_mut().flat_map(|result| chunk.split_mut(result, symbols));
        program.run_with(scratch, rows, &mut outputs.collect::<Vec<_>>())
    }
}

impl Own {
    /// The helper's rows: what it read, or what it makes of that, in `made`.
    fn rows<'a>(
        &self,
        scratch: &mut Scratch,
        symbols: usize,
        read: &'a [u8],
        made: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], CodeError> {
        let Some(program) = &self.part else { return Ok(read) };
        made.resize(self.rows.bytes(symbols), 0);
        let reads = Rows::bytes_wide(self.reads.len());
        let mut rows = self.rows.split_mut(made, symbols);
        program.run_with(scratch, &reads.split(read, symbols), &mut rows)?;
        Ok(made)
    }
}

impl Rows {
    fn split<'a>(&self, mut bytes: &'a [u8], symbols: usize) -> Vec<&'a [u8]> {
        let rows = self.0.iter().map(|&width| {
            let (row, rest) = bytes.split_at(bits::buffer_bytes(usize::from(width), symbols));
            bytes = rest;
            row
        });
        rows.collect()
    }

    fn split_mut<'a>(&self, mut bytes: &'a mut [u8], symbols: usize) -> Vec<&'a mut [u8]> {
        let rows = self.0.iter().map(|&width| {
            let all = std::mem::take(&mut bytes);
            let (row, rest) = all.split_at_mut(bits::buffer_bytes(usize::from(width), symbols));
            bytes = rest;
            row
        });
        rows.collect()
    }
}
