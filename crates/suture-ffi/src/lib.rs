//! The C ABI: the codes of Suture for storage systems that are not written in Rust.
//!
//! Place: `failure -> stripes -> plan -> dispatch -> [slices] -> durable -> commit`, inside another
//! storage system. It finds the failure, reads the bytes and keeps what is rebuilt; here it asks
//! which bytes to read, and what they make.
//!
//! **How to link.** `cargo build --release -p suture-ffi` leaves `libsuture_ffi.a` and
//! `libsuture_ffi.so` in `target/release`; the header is `crates/suture-ffi/include/suture.h`, and
//! `crates/suture-ffi/examples/repair.c` is what to read first. With the shared library:
//! `cc -I crates/suture-ffi/include repair.c -L target/release -lsuture_ffi`, and
//! `target/release` in the loader's path. With the static one, on Linux, name the file and what
//! Rust's standard library needs: `cc .. target/release/libsuture_ffi.a -lpthread -ldl -lm`. The
//! library is not called `libsuture`, because the command line's crate leaves a `libsuture.rlib`
//! in the same folder.
//!
//! Reading order: [`abi`] is the whole interface, and the source of the header; [`handle`] is what
//! an open code remembers; [`job`] runs a repair over the units of chunks; [`borrow`] turns what C
//! hands over into slices; [`status`] says what went wrong.
//!
//! Invariants: no panic crosses the border; whatever is refused is refused before a byte is
//! written; arithmetic, and all knowledge of codes, stays in suture-code.

pub mod abi;
pub mod borrow;
pub mod handle;
pub mod job;
pub mod status;
