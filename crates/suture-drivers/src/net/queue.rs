//! Bytes that wait, in a buffer that grows as needed.
//!
//! Place: between a socket and the records of TLS.

/// Bytes that wait, the first first.
#[derive(Debug, Default)]
pub struct Queue {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl Queue {
    /// How many bytes wait.
    pub fn len(&self) -> usize {
        self.to - self.from
    }

    /// Whether no bytes wait.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// The bytes that wait.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Those that wait, to be changed where they lie.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.from..self.to]
    }

    /// So many wait no more.
    pub fn consume(&mut self, bytes: usize) {
        self.from += bytes;
        assert!(self.from <= self.to, "only what is there can be consumed");
    }

    /// Space behind those that wait, so that there are `size` in all.
    pub fn spare(&mut self, size: usize) -> &mut [u8] {
        self.more(size.saturating_sub(self.len()))
    }

    /// Space for so many bytes more.
    pub fn more(&mut self, bytes: usize) -> &mut [u8] {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.len());
        self.reach(self.to + bytes);
        &mut self.buffer[self.to..self.to + bytes]
    }

    /// So many bytes were put into the space.
    pub fn fill(&mut self, bytes: usize) {
        self.to += bytes;
        assert!(self.to <= self.buffer.len(), "only space can be filled");
    }

    /// Adds bytes at the end.
    pub fn append(&mut self, bytes: &[u8]) {
        self.more(bytes.len()).copy_from_slice(bytes);
        self.fill(bytes.len());
    }

    /// Space for so many bytes, with so many before it that [`Queue::put_before`] may fill. What
    /// waits has been taken elsewhere, and may be overwritten.
    pub fn behind(&mut self, before: usize, bytes: usize) -> &mut [u8] {
        self.reach(before + bytes);
        &mut self.buffer[before..before + bytes]
    }

    /// Only these wait now, and behind them so many that were put into the space.
    pub fn put_before(&mut self, first: &[u8], before: usize, filled: usize) {
        (self.from, self.to) = (before - first.len(), before + filled);
        self.buffer[self.from..before].copy_from_slice(first);
    }

    fn reach(&mut self, length: usize) {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
    }
}
