//! Which coordinator a command talks to.
//!
//! Place: arguments and environment -> [which coordinator] -> a connection made.

use anyhow::{Context, Result};
use suture_drivers::address::parse_address;
use suture_drivers::config::COORDINATOR_ADDRESS;
use suture_drivers::control::client::{Client, connect};

/// Which coordinator a command talks to.
#[derive(clap::Args, Clone, Debug)]
pub struct CoordinatorAddress {
    /// Where the coordinator listens: HOST or HOST:PORT
    #[arg(
        long = "coordinator",
        value_name = "ADDR",
        env = "SUTURE_COORDINATOR",
        value_parser = parse_address,
        default_value = COORDINATOR_ADDRESS
    )]
    pub address: String,
}

impl CoordinatorAddress {
    /// Connects to the coordinator.
    ///
    /// # Errors
    /// When the address is none, or no coordinator answers there.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.address).await.context(
            "cannot connect: start a coordinator (suture coordinator), or name another one (--coordinator)",
        )
    }
}
