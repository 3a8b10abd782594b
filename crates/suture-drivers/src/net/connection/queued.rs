//! What has come over a connection and was not read yet, because a limit of repair holds it back.
//!
//! Place: ... result computed -> [on the wire] -> slice received by the parent ...
//! The interface has counted it and the port has not, so it would be taken for what others move,
//! and the limit fall by it. It is counted before each turn, and while one is waited for.

use std::sync::Arc;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tokio::time::timeout;

use super::{Connection, Traffic};
use crate::limit::Port;

/// How often it is counted while a turn is waited for: more often than agents report.
const COUNT_EVERY: Duration = Duration::from_millis(100);

/// What is counted of one connection, until this is dropped.
#[derive(Debug)]
pub(super) struct Queued {
    port: Arc<Port>,
    bytes: u64,
}

impl Queued {
    fn set(&mut self, bytes: u64) {
        self.port.requeue(std::mem::replace(&mut self.bytes, bytes), bytes);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Connection {
    /// The same, with what has come and waits to be read counted at the port that it is read
    /// through.
    pub fn queued_at(self, port: Arc<Port>) -> Connection {
        Connection { queued: Some(Queued { port, bytes: 0 }), ..self }
    }

    /// Waits for a turn, if none is left.
    pub(super) async fn take_turn(&mut self, traffic: Traffic<'_>) {
        if self.turn > 0 {
            return;
        }
        let turn = traffic.port.turn(traffic.purpose);
        if self.queued.is_none() || !traffic.port.limits_repair() {
            self.count_queued(false);
            self.turn = turn.await;
            return;
        }
        tokio::pin!(turn);
        self.turn = loop {
            self.count_queued(true);
            if let Ok(turn) = timeout(COUNT_EVERY, &mut turn).await {
                break turn;
            }
        };
    }

    fn count_queued(&mut self, waits: bool) {
        let Some(queued) = &mut self.queued else { return };
        // One that is broken has nothing any more.
        let bytes = if waits { ioctl_fionread(self.stream.tcp()).unwrap_or(0) } else { 0 };
        queued.set(bytes);
    }
}
