//! Arithmetic of erasure codes: GF(2^8) over whole buffers, as fast as the memory allows.
//!
//! Place: under every byte that is encoded, combined or decoded.
//! Every byte that a repair produces is computed here, and nowhere else.
//!
//! The tour, in reading order:
//! * [`field`] is the definition: GF(2^8) modulo 0x11d, one byte at a time. It is the oracle of all
//!   that follows.
//! * [`kernel`] does the same to buffers: one file per instruction set, chosen once at run time.
//!   Its operations stand at the root of this crate: sums of products into one output or several
//!   ([`dot`], [`dot_many`], [`dot_rows`], [`mul_add`]) and exclusive ors ([`xor`], [`xor_sum`],
//!   [`xor_prefix_sums`]).
//! * [`matrix`] holds dense matrices over the field, for generators and decoding.
//! * [`bits`] holds GF(2) maps between values of 1 to 8 bits per symbol, for trace repair; sums of
//!   them run on the same kernels ([`map_sum`], [`map_sum_add`]).
//!
//! Invariants: every kernel gives the same bytes as `field`; lengths are asserted, nothing else can
//! fail; no dependencies; `unsafe` stays inside `kernel`, for vector loads and stores.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod bits;
pub mod field;
pub mod kernel;
pub mod matrix;

pub use bits::BitMatrix;
pub use kernel::{
    Coefficients, Kernel, Maps, Rows, dot, dot_add, dot_many, dot_many_add, dot_rows, map_sum,
    map_sum_add, mul_add, xor, xor_prefix_sums, xor_sum,
};
pub use matrix::Matrix;
