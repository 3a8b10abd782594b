//! What systemd is notified of by a daemon: that it is ready, that it lives, that it ends.
//!
//! Place: the first and the last moments of coordinator and agents, and now and then between.
//! Without one (no `NOTIFY_SOCKET`), nothing is sent. A daemon whose loop does not answer
//! sends nothing either, and systemd starts it anew.

use std::env;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// How often a start that takes long asks for more time, and for how much.
const STARTING_EVERY: Duration = Duration::from_secs(20);
const STARTING_FOR: Duration = Duration::from_secs(120);

/// A socket of ours, and where the service manager reads.
type NotifySocket = (UnixDatagram, SocketAddr);

/// The service manager that started the daemon, if it wants notifications.
#[derive(Debug)]
pub struct ServiceManager {
    socket: Option<NotifySocket>,
    /// How often it is to be notified that the daemon lives.
    pub alive_every: Option<Duration>,
}

impl ServiceManager {
    /// As the environment says.
    pub fn from_environment() -> ServiceManager {
        let socket = env::var_os("NOTIFY_SOCKET").and_then(address);
        let socket = socket.and_then(|address| {
            let socket = UnixDatagram::unbound().ok()?;
            // A service manager that does not read is not waited for.
            socket.set_nonblocking(true).ok()?;
            Some((socket, address))
        });
        let is_ours = match env::var("WATCHDOG_PID") {
            Ok(pid) => pid == std::process::id().to_string(),
            Err(_) => true,
        };
        let micros = env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        // Twice as often, so that one late word is no silence.
        let alive_every = micros.filter(|micros| is_ours && *micros > 0);
        let alive_every = alive_every.map(|micros: u64| Duration::from_micros(micros.div_ceil(2)));
        ServiceManager { socket, alive_every }
    }

    /// It begins with something that may take long, as reading metadata of many gigabytes: until
    /// the result is dropped the service manager goes on waiting for the daemon to be ready.
    pub fn starting(&self, with: &str) -> Starting {
        let (ends, ended) = mpsc::channel();
        let socket = self.socket.as_ref();
        let socket = socket.and_then(|(socket, to)| Some((socket.try_clone().ok()?, to.clone())));
        if let Some(socket) = socket {
            let micros = STARTING_FOR.as_micros();
            let text = format!("EXTEND_TIMEOUT_USEC={micros}\nSTATUS={with}\n");
            // It ends once the other end of the channel is dropped.
            thread::spawn(move || {
                loop {
                    send(&socket, &text);
                    match ended.recv_timeout(STARTING_EVERY) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            });
        }
        Starting { _ends: ends }
    }

    /// It serves, and where.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\n"));
    }

    /// Notifies it that the daemon is alive.
    pub fn alive(&self) {
        self.send("WATCHDOG=1\n");
    }

    /// It is about to end.
    pub fn stopping(&self) {
        self.send("STOPPING=1\n");
    }

    /// Notifies systemd that the daemon lives each time that `answers` does, for as long as it is
    /// polled.
    pub async fn keep_alive<F: Future<Output = bool>>(&self, answers: impl Fn() -> F) {
        let Some(every) = self.alive_every.filter(|_| self.socket.is_some()) else {
            return std::future::pending().await;
        };
        loop {
            if answers().await {
                self.alive();
            }
            tokio::time::sleep(every).await;
        }
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            send(socket, text);
        }
    }
}

/// A part of the start that lasts.
#[derive(Debug)]
pub struct Starting {
    _ends: mpsc::Sender<()>,
}

fn send(to: &NotifySocket, text: &str) {
    let (socket, to) = to;
    // A send error means systemd no longer reads the socket; it is ignored.
    let _ = socket.send_to_addr(text.as_bytes(), to);
}

/// A path, or a name that is in no file system, which begins with `@`.
fn address(text: OsString) -> Option<SocketAddr> {
    match text.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(&text).ok(),
    }
}
