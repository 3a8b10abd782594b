//! Which coordinator a command talks to.
//!
//! Place: arguments and environment -> [which coordinator] -> a connection made.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Result;
use suture_drivers::address::parse_address;
use suture_drivers::config::COORDINATOR_ADDRESS;
use suture_drivers::control::client::{Client, connect};
use suture_drivers::identity::credentials::Kept;
use suture_edge::error::{ErrorKind, kind};

use crate::daemon;

/// Which coordinator a command talks to.
#[derive(clap::Args, Clone, Debug)]
pub struct CoordinatorAddress {
    /// Address of the coordinator: HOST or HOST:PORT
    #[arg(
        long = "coordinator",
        value_name = "ADDR",
        env = "SUTURE_COORDINATOR",
        value_parser = parse_address,
        default_value = COORDINATOR_ADDRESS
    )]
    pub address: String,
    /// Directory with your certificate, its key and the authorities that you trust (`suture cert`)
    #[arg(long, value_name = "DIR", env = "SUTURE_CREDENTIALS")]
    pub credentials: Option<PathBuf>,
}

impl CoordinatorAddress {
    /// Connects to the coordinator.
    ///
    /// # Errors
    /// When the address is none, the credentials cannot be used, or no coordinator answers there.
    pub async fn connect(&self) -> Result<Client> {
        let credentials = self.credentials.as_deref().map(|dir| {
            daemon::keep_memory_private();
            let kept = Arc::new(Kept::open(dir, SystemTime::now())?);
            for warning in kept.current().warnings(SystemTime::now()) {
                errln!("warning: {warning}");
            }
            daemon::keep_current(&kept);
            anyhow::Ok(kept)
        });
        connect(&self.address, credentials.transpose()?).await.map_err(|error| match kind(&error) {
            ErrorKind::BadInput | ErrorKind::Unreadable => error,
            ErrorKind::Failure => error.context(
                "cannot connect: start a coordinator (suture coordinator), or name another one (--coordinator)",
            ),
        })
    }
}
