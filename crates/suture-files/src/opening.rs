//! Reads and opens the chunks of a stripe, until it is known which of them can be used.
//!
//! Place: geometry -> [the chunks of a stripe] -> which chunks help which.

use std::sync::Mutex;

use suture_code::{ChunkIndex, CodeError};

use super::chunk::{ChunkFault, ChunkReader, Scanned};
use super::method::{MethodOptions, Repair};
use super::parity;
use super::pool;
use super::stripe::{ChunkState, Stripe};

impl Stripe<'_> {
    /// Reads every chunk in whole. Where checksums are gone, parity decides.
    pub fn scan(&mut self, progress: impl Fn(u64) + Sync) {
        let todo: Vec<ChunkIndex> =
            self.indices_where(|state| !matches!(state, ChunkState::Lost(_)));
        let scanned = Mutex::new(Vec::new());
        let scan = |(): &mut (), index: u64| {
            let chunk = todo[index as usize];
            let result = ChunkReader::scan(&self.files, self.expected(chunk), &progress);
            scanned.lock().expect("no thread panics here").push((chunk, result));
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = pool::for_each(self.spread.range_threads, todo.len() as u64, || (), scan);
        for (chunk, result) in scanned.into_inner().expect("no thread panics here") {
            self.chunks[usize::from(chunk.0)] = match result {
                Ok(Scanned::Good(reader)) => ChunkState::Ready(reader),
                Ok(Scanned::Unproven(reader)) => ChunkState::Unproven(reader),
                Err(fault) => ChunkState::Lost(fault),
            };
        }
        if self.manifest.chunk_checksums.is_none() {
            parity::settle(self);
        }
    }

    /// Opens chunks; those that cannot be used are lost from then on. Returns whether all are
    /// ready.
    pub fn open(&mut self, chunks: &[ChunkIndex]) -> bool {
        let is_unopened = |chunk: &ChunkIndex| matches!(self.state(*chunk), ChunkState::Unopened);
        // Where only parity can show which chunks are of this stripe, all of them have to be read.
        if self.manifest.chunk_checksums.is_none() && chunks.iter().any(is_unopened) {
            self.scan(|_| ());
        }
        for &chunk in chunks {
            if !matches!(self.state(chunk), ChunkState::Unopened) {
                continue;
            }
            match ChunkReader::open(&self.files, self.expected(chunk)) {
                Ok(Scanned::Good(reader)) => {
                    self.chunks[usize::from(chunk.0)] = ChunkState::Ready(reader)
                }
                Ok(Scanned::Unproven(_)) => self.lose(chunk, ChunkFault::Unproven),
                Err(fault) => self.lose(chunk, fault),
            }
        }
        chunks.iter().all(|chunk| matches!(self.state(*chunk), ChunkState::Ready(_)))
    }

    /// Chooses a repair of lost chunks and opens its helpers, until all of them can be used.
    ///
    /// # Errors
    /// When the chunks that can be used do not determine the lost ones.
    pub fn open_repair(
        &mut self,
        options: MethodOptions<'_>,
        lost: &[ChunkIndex],
    ) -> Result<Repair, CodeError> {
        loop {
            let repair = Repair::choose(options, &self.code(), lost, &self.available())?;
            if self.open(&repair.helpers) {
                return Ok(repair);
            }
        }
    }
}
