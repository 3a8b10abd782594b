//! Where NameNodes' plugins connect.
//!
//! Place: before [stripes affected], of the coordinator's start.
//! A plugin connects and the coordinator asks: the NameNode has no port of ours, and both NameNodes
//! of a pair can be connected while one is active. What each has to prove is in
//! `plugin_connection.rs`, which of them is asked in `connections.rs`.
//!
//! A peer has one deadline to identify itself, however its bytes come, and of connections that have
//! not done so only the newest stay: a NameNode does it at once.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::warn;

use super::connections::Connections;
use super::plugin_connection::PluginConnection;
use crate::identity::credentials::Kept;
use crate::net::refusals::RefusalLog;

/// Connections whose other end has not identified itself.
const UNKNOWN_MAX: usize = 16;

/// Connections that wait to be asked; a pair of NameNodes has two.
const WAITING_MAX: usize = 8;

/// The pause after the system gave no connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections in a thread of its own for as long as the process lives.
pub fn listen(listener: TcpListener, credentials: Option<Arc<Kept>>) -> Connections {
    let (sender, waiting) = sync_channel(WAITING_MAX);
    let pool = Arc::new(OnceLock::new());
    let welcome = PluginWelcome { credentials, pool: pool.clone(), taken: sender };
    let unknown = Arc::new(UnknownPlugins::default());
    let thread = thread::Builder::new().name("hdfs-listener".into());
    thread.spawn(move || accept(&listener, &welcome, &unknown)).expect("a thread can be started");
    Connections::new(waiting, pool)
}

/// What a plugin that connects is welcomed with.
#[derive(Clone)]
struct PluginWelcome {
    credentials: Option<Arc<Kept>>,
    /// The block pool that all of them have.
    pool: Arc<OnceLock<String>>,
    taken: SyncSender<PluginConnection>,
}

fn accept(listener: &TcpListener, welcome: &PluginWelcome, unknown: &Arc<UnknownPlugins>) {
    loop {
        let (stream, from) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!("no connection of a NameNode can be accepted: {error}");
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        let number = match unknown.enter(&stream) {
            Ok(number) => number,
            Err(error) => {
                unknown.refused.note(from, error);
                continue;
            }
        };
        let (welcome, among) = (welcome.clone(), unknown.clone());
        let welcome = move || {
            let PluginWelcome { credentials, pool, taken } = welcome;
            let welcomed = PluginConnection::welcome(stream, from, credentials, &pool);
            among.leave(number);
            match welcomed {
                Ok(connection) => drop(taken.try_send(connection)),
                Err(error) => among.refused.note(from, format_args!("as a NameNode: {error}")),
            }
        };
        let thread = thread::Builder::new().name("hdfs-welcome".into());
        if let Err(error) = thread.spawn(welcome) {
            unknown.leave(number);
            warn!("{from} cannot be welcomed: {error}");
        }
    }
}

/// Connections whose other end has not identified itself, the oldest first.
#[derive(Default)]
struct UnknownPlugins {
    waiting: Mutex<(u64, VecDeque<(u64, TcpStream)>)>,
    refused: RefusalLog,
}

impl UnknownPlugins {
    /// One more; the oldest gives way where there are too many.
    fn enter(&self, stream: &TcpStream) -> io::Result<u64> {
        let own = stream.try_clone()?;
        let (next, waiting) = &mut *self.waiting();
        *next += 1;
        waiting.push_back((*next, own));
        if waiting.len() > UNKNOWN_MAX
            && let Some((_, oldest)) = waiting.pop_front()
        {
            // It may be gone by itself.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        Ok(*next)
    }

    fn leave(&self, number: u64) {
        self.waiting().1.retain(|(of, _)| *of != number);
    }

    fn waiting(&self) -> MutexGuard<'_, (u64, VecDeque<(u64, TcpStream)>)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};

    use super::super::frame::{Frames, PROTOCOL};
    use super::super::namenode::{NameNode, Question};
    use super::super::plugin_connection::HANDSHAKE_TIMEOUT;
    use super::*;

    #[test]
    fn of_strangers_who_say_nothing_only_the_newest_stay() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = listen(listener, None);
        let connect = |_| TcpStream::connect(address).unwrap();
        let mut strangers: Vec<TcpStream> = (0..3 * UNKNOWN_MAX).map(connect).collect();
        // Those that gave way are at their end.
        for stranger in &mut strangers[..2 * UNKNOWN_MAX] {
            stranger.set_read_timeout(Some(HANDSHAKE_TIMEOUT / 2)).unwrap();
            assert!(
                !matches!(stranger.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
            );
        }
        let mut plugin = Frames::new(connect(0));
        plugin
            .send(&serde_json::json!({
                "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": "BP-1",
            }))
            .unwrap();
        let _: serde_json::Value = plugin.receive().unwrap();
        // A plugin that has identified itself is asked.
        let asks = thread::spawn(move || {
            while connections.ask_json(&Question::Nodes).is_err() {
                thread::sleep(ACCEPT_PAUSE);
            }
            connections
        });
        assert_eq!(plugin.receive::<Question>().unwrap(), Question::State);
        plugin.send(&serde_json::json!({ "active": true })).unwrap();
        assert_eq!(plugin.receive::<Question>().unwrap(), Question::Nodes);
        plugin.send(&serde_json::json!({ "nodes": [] })).unwrap();
        assert_eq!(asks.join().unwrap().pool().as_deref(), Some("BP-1"));
    }
}
