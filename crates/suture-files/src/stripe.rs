//! One stripe on disk: which of its chunks can be used, determined lazily; a chunk found bad stays
//! bad.
//!
//! Place: geometry -> [the chunks of a stripe] -> which chunks help which.
//! Encode aside, every command asks the same: which chunks are good, which are lost, and which help
//! to compute the lost ones. A chunk starts unopened; opening, scanning or reading it may turn it
//! into lost, with the reason. Nothing turns a lost chunk back, so every loop "choose helpers, try"
//! ends.

use std::path::Path;

use suture_code::{ChunkIndex, Code};

use super::chunk::{ChunkFault, ChunkReader, Expected, probe, vouched_by_file};
use super::directory::StripeFiles;
use super::manifest::Manifest;
use super::pool::Spread;

/// What is known of a chunk.
pub enum ChunkState {
    /// Not looked into yet.
    Unopened,
    /// Checksums vouch for it.
    Ready(ChunkReader),
    /// Read in whole, but no checksum is left.
    Unproven(ChunkReader),
    /// Not to be used.
    Lost(ChunkFault),
}

/// The chunks of one stripe.
pub struct Stripe<'a> {
    pub index: u64,
    pub files: StripeFiles,
    pub manifest: &'a Manifest,
    pub spread: Spread,
    /// A scan found all chunks that are not lost to agree, with at least one to spare.
    pub parity_agrees: bool,
    pub(super) chunks: Vec<ChunkState>,
}

impl<'a> Stripe<'a> {
    pub fn new(root: &Path, manifest: &'a Manifest, index: u64, spread: Spread) -> Stripe<'a> {
        let files = StripeFiles::new(root, index, manifest.geometry.stripe_count());
        let chunks = manifest.geometry.code.chunks().map(|_| ChunkState::Unopened).collect();
        Stripe { index, files, manifest, spread, parity_agrees: false, chunks }
    }

    pub fn code(&self) -> Code {
        self.manifest.geometry.code
    }

    pub fn chunk_bytes(&self) -> u64 {
        self.manifest.geometry.chunk_bytes
    }

    pub fn expected(&self, chunk: ChunkIndex) -> Expected {
        let checksum = self.manifest.chunk_checksum(self.index, chunk);
        Expected { chunk, chunk_bytes: self.chunk_bytes(), checksum }
    }

    /// Marks a chunk as lost. The first reason stays.
    pub fn lose(&mut self, chunk: ChunkIndex, fault: ChunkFault) {
        let state = &mut self.chunks[usize::from(chunk.0)];
        if !matches!(state, ChunkState::Lost(_)) {
            *state = ChunkState::Lost(fault);
        }
    }

    /// Marks chunks as lost whose files are missing or have the wrong length, without opening any.
    pub fn probe(&mut self) {
        for chunk in self.code().chunks() {
            if let Err(fault) = probe(&self.files, self.expected(chunk)) {
                self.lose(chunk, fault);
            }
        }
    }

    /// A chunk that is ready.
    pub fn reader(&self, chunk: ChunkIndex) -> &ChunkReader {
        match self.state(chunk) {
            ChunkState::Ready(reader) | ChunkState::Unproven(reader) => reader,
            ChunkState::Unopened | ChunkState::Lost(_) => {
                panic!("chunk {chunk} is read before it is ready")
            }
        }
    }

    pub fn state(&self, chunk: ChunkIndex) -> &ChunkState {
        &self.chunks[usize::from(chunk.0)]
    }

    /// Accepts a chunk without a checksum as good: parity vouches for it.
    pub fn trust(&mut self, chunk: ChunkIndex) {
        let state = &mut self.chunks[usize::from(chunk.0)];
        *state = match std::mem::replace(state, ChunkState::Unopened) {
            ChunkState::Unproven(reader) => ChunkState::Ready(reader),
            other => other,
        };
    }

    /// Whether anything is left by which these chunks, rebuilt, can be proven to be those that were
    /// written.
    pub fn can_prove(&self, chunks: &[ChunkIndex]) -> bool {
        let is_recorded = |chunk: &ChunkIndex| {
            let expected = self.expected(*chunk);
            expected.checksum.is_some() || vouched_by_file(&self.files, expected).is_some()
        };
        self.parity_agrees || chunks.iter().all(is_recorded)
    }

    pub fn lost(&self) -> Vec<ChunkIndex> {
        self.indices_where(|state| matches!(state, ChunkState::Lost(_)))
    }

    /// Chunks that are not known to be lost.
    pub fn available(&self) -> Vec<ChunkIndex> {
        self.indices_where(|state| !matches!(state, ChunkState::Lost(_)))
    }

    /// The lost chunks, with the reasons.
    pub fn faults(&self) -> impl Iterator<Item = (ChunkIndex, &ChunkFault)> {
        self.code().chunks().zip(&self.chunks).filter_map(|(chunk, state)| match state {
            ChunkState::Lost(fault) => Some((chunk, fault)),
            _ => None,
        })
    }

    pub fn indices_where(&self, wanted: impl Fn(&ChunkState) -> bool) -> Vec<ChunkIndex> {
        let all = self.code().chunks().zip(&self.chunks);
        all.filter(|(_, state)| wanted(state)).map(|(chunk, _)| chunk).collect()
    }
}
