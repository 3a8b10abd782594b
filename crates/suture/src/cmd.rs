//! The commands, one file each: `Args` for the command line, `run` for the deed.

pub mod codes;
pub mod decode;
pub mod encode;
pub mod plan;
pub mod rebuild;
pub mod swarm;
pub mod verify;
