//! The commands, one file each: `Args` for the command line, `run` to carry it out.

pub mod agent;
pub mod calibrate;
pub mod cert;
pub mod codes;
pub mod coordinator;
pub mod decode;
pub mod demo;
pub mod durability;
pub mod encode;
mod evaluate;
pub mod get;
pub mod ls;
pub mod metadata;
pub mod node;
pub mod plan;
pub mod put;
pub mod rebuild;
pub mod repair;
pub mod replay;
pub mod rm;
pub mod scrub;
pub mod simulate;
pub mod stat;
pub mod status;
pub mod swarm;
pub mod testbed;
pub mod verify;
