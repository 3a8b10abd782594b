//! What the fuzz targets do with their bytes.
//!
//! Place: in front of everything that reads what Suture did not write. Each body is also run by an
//! ordinary test of the crate that it examines, over random and mutated inputs, so that it fails
//! without a fuzzer too; [`mutation`] makes those.

pub mod abi;
pub mod code_name;
pub mod control;
pub mod frame;
pub mod manifest;
pub mod mutation;
pub mod transcript;
