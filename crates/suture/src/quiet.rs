//! Panics that are caught and shown in another way do not print themselves as well.
//!
//! Place: around replays and shrinking, whose failures are findings and not accidents.

use std::panic::{set_hook, take_hook};

/// Runs `work` without printing the panics that it catches. For one thread at a time: the printing
/// of panics is the process's.
pub fn without_panic_messages<T>(work: impl FnOnce() -> T) -> T {
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let result = work();
    set_hook(hook);
    result
}
