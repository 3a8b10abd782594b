//! The way to a coordinator for commands and agents, and its refusals as errors for people.
//!
//! Place: [a connection made] -> put, get or an operator's command.

use std::error::Error;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use suture_edge::error::bad_input;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::proto::coordinator_client::CoordinatorClient;
use super::{KEEPALIVE_EVERY, KEEPALIVE_TIMEOUT, REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::address::parse_address;

/// A coordinator that is there answers at once.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to a coordinator.
pub type Client = CoordinatorClient<Channel>;

/// Connects to the coordinator at `address`, such as `127.0.0.1:7400`.
///
/// # Errors
/// Bad input when `address` is none; a failure when nobody answers there.
pub async fn connect(address: &str) -> Result<Client> {
    let address = parse_address(address).map_err(bad_input)?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| bad_input(format!("'{address}' is not an address like 127.0.0.1:7400")))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_EVERY)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    let channel = endpoint.connect().await.map_err(|error| anyhow!("{}", root_cause(&error)));
    let channel = channel.with_context(|| format!("no coordinator answers at {address}"))?;
    Ok(CoordinatorClient::new(channel)
        .max_decoding_message_size(REPLY_BYTES_MAX)
        .max_encoding_message_size(REQUEST_BYTES_MAX))
}

/// What the coordinator said no to, as an error that blames whom it should.
pub fn refusal(status: Status) -> anyhow::Error {
    match status.code() {
        Code::InvalidArgument | Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition => {
            bad_input(status.message())
        }
        _ if status.source().is_some() => anyhow!(broken(&root_cause(&status))),
        // It understands, and cannot do it now.
        Code::ResourceExhausted => anyhow!("{}", status.message()),
        Code::Unavailable | Code::Cancelled | Code::Unknown => {
            anyhow!("the coordinator went away: {}", status.message())
        }
        _ => anyhow!("the coordinator: {}", status.message()),
    }
}

/// What a connection ended with, in words: it may never have been one to a coordinator.
fn broken(cause: &str) -> String {
    if cause.contains("timed out") {
        return "what listens there does not answer: the coordinator hangs, or it is none".into();
    }
    if cause.contains("frame with invalid size") || cause.contains("PROTOCOL_ERROR") {
        return "what listens there is no coordinator: is it the address of an agent?".into();
    }
    format!("the coordinator went away, or what listens there is no coordinator: {cause}")
}

fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
