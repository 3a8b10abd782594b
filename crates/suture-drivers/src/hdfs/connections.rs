//! The NameNodes' plugins that are connected, of which the active one's is asked.
//!
//! Place: under [stripes affected] ... [claim] ... [commit location].
//! Both NameNodes of a pair are connected. A plugin that is asked nothing for 30 s hangs up, so the
//! one that is not active is asked how it is now and then; one that is gone shows by that, and is
//! dropped with its socket. It must not hold up the lease: it has less time for an answer.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use suture_repair::keeper::KeeperError;
use tracing::{info, warn};

use super::namenode::{NameNode, Question, StateAnswer};
use super::plugin_connection::{ANSWER_TIMEOUT, PluginConnection};

/// Connections that are kept; a pair of NameNodes has two, and a third may be an observer.
const KNOWN_MAX: usize = 8;

/// The plugins that are connected, of which the active NameNode's is asked.
#[derive(Debug)]
pub struct Connections {
    waiting: Receiver<PluginConnection>,
    known: Vec<(PluginConnection, Standing)>,
    changes: u64,
    /// The first block pool that was announced: other NameNodes must have the same.
    pool: Arc<OnceLock<String>>,
    times: AskTimes,
}

/// How a NameNode has last answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Active,
    Other {
        /// When it was last asked, if it was.
        asked: Option<Instant>,
        /// It took itself for the active one when another one had become that.
        is_former: bool,
    },
}

/// How often NameNodes are asked whether they are active.
#[derive(Clone, Copy, Debug)]
struct AskTimes {
    /// Each of them, while none is.
    search: Duration,
    /// Those that are not, while one is: more often than they hang up.
    keep: Duration,
    /// How long the answer may take then.
    keep_timeout: Duration,
}

impl Default for AskTimes {
    fn default() -> AskTimes {
        AskTimes {
            search: Duration::from_secs(1),
            keep: Duration::from_secs(10),
            keep_timeout: Duration::from_secs(2),
        }
    }
}

impl Connections {
    /// Those that come from `waiting`, all of the pool that is there by then.
    pub(super) fn new(
        waiting: Receiver<PluginConnection>,
        pool: Arc<OnceLock<String>>,
    ) -> Connections {
        Connections { waiting, known: Vec::new(), changes: 0, pool, times: AskTimes::default() }
    }

    /// How often another NameNode, or another connection of one, has come to be asked.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many are connected, as far as is known.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// The active one, if any is.
    fn active(&mut self) -> Option<usize> {
        while let Ok(connection) = self.waiting.try_recv() {
            self.take(connection);
        }
        let now = Instant::now();
        if self.known_active().is_none() {
            return self.search(now);
        }
        self.keep_others(now);
        self.known_active()
    }

    fn known_active(&self) -> Option<usize> {
        self.known.iter().position(|(_, standing)| *standing == Standing::Active)
    }

    /// Asks all whether they are active, the newest first.
    fn search(&mut self, now: Instant) -> Option<usize> {
        for index in (0..self.known.len()).rev() {
            let (connection, standing) = &mut self.known[index];
            if standing.was_asked_within(self.times.search, now) {
                continue;
            }
            *standing = Standing::Other { asked: Some(now), is_former: false };
            match connection.state(ANSWER_TIMEOUT) {
                Ok(StateAnswer { active: true }) => {
                    *standing = Standing::Active;
                    self.changes += 1;
                    info!(at = %connection.from, "the active NameNode is connected");
                    return Some(index);
                }
                Ok(StateAnswer { active: false }) => {}
                Err(why) => {
                    warn!(at = %connection.from, %why, "a NameNode is lost");
                    self.known.remove(index);
                }
            }
        }
        None
    }

    /// Asks those that are not active how they are, and drops those that do not answer. One that
    /// has become active is the one to ask: the former one may not know yet that it is none any
    /// more.
    fn keep_others(&mut self, now: Instant) {
        let AskTimes { keep, keep_timeout, .. } = self.times;
        for index in (0..self.known.len()).rev() {
            let (connection, standing) = &mut self.known[index];
            let Standing::Other { is_former, .. } = *standing else { continue };
            if standing.was_asked_within(keep, now) {
                continue;
            }
            match connection.state(keep_timeout) {
                Ok(StateAnswer { active: true }) if !is_former => self.rise(index, now),
                Ok(StateAnswer { active }) => {
                    *standing = Standing::Other { asked: Some(now), is_former: active };
                }
                Err(why) => {
                    info!(at = %connection.from, %why, "a NameNode that was not active is gone");
                    self.known.remove(index);
                }
            }
        }
    }

    /// This one is active now, and whichever was before is not.
    fn rise(&mut self, index: usize, now: Instant) {
        for (_, standing) in self.known.iter_mut().filter(|(_, of)| *of == Standing::Active) {
            *standing = Standing::Other { asked: Some(now), is_former: true };
        }
        let (connection, standing) = &mut self.known[index];
        *standing = Standing::Active;
        self.changes += 1;
        info!(at = %connection.from, "another NameNode is the active one now");
    }

    fn take(&mut self, connection: PluginConnection) {
        info!(at = %connection.from, hadoop = connection.handshake.hadoop, "a NameNode connected");
        self.known.push((connection, Standing::Other { asked: None, is_former: false }));
        let is_other = |(_, standing): &(PluginConnection, Standing)| *standing != Standing::Active;
        if self.known.len() > KNOWN_MAX
            && let Some(oldest) = self.known.iter().position(is_other)
        {
            let (oldest, _) = self.known.remove(oldest);
            warn!(at = %oldest.from, "more NameNodes than there can be: the oldest is hung up on");
        }
    }
}

impl Standing {
    /// Whether one that is not active was asked less than this time ago.
    fn was_asked_within(self, time: Duration, now: Instant) -> bool {
        match self {
            Standing::Other { asked: Some(at), .. } => now < at + time,
            Standing::Other { asked: None, .. } | Standing::Active => false,
        }
    }
}

impl NameNode for Connections {
    fn ask_json(&mut self, question: &Question) -> Result<serde_json::Value, KeeperError> {
        let none = || KeeperError("no active NameNode is connected".into());
        let active = self.active().ok_or_else(none)?;
        let (connection, standing) = &mut self.known[active];
        match connection.ask_json(question) {
            Ok(answer) if answer.get("error").is_some_and(|error| error == "standby") => {
                *standing = Standing::Other { asked: Some(Instant::now()), is_former: false };
                Err(none())
            }
            Ok(answer) => Ok(answer),
            Err(why) => {
                warn!(at = %connection.from, %why, "the NameNode is lost");
                self.known.remove(active);
                Err(why)
            }
        }
    }

    fn condemns(&mut self) -> bool {
        self.active().is_some_and(|active| self.known[active].0.handshake.condemns)
    }

    /// That of all of them, once one has been there.
    fn pool(&self) -> Option<String> {
        self.pool.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread::{self, JoinHandle};

    use serde_json::{Value, json};

    use super::super::frame::{Frames, PROTOCOL};
    use super::super::listener::listen;
    use super::super::namenode::{NodesAnswer, ask};
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Where plugins connect, and those that are there; they are asked without any pause.
    fn listener() -> (SocketAddr, Connections) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = listen(listener, None);
        connections.times =
            AskTimes { search: Duration::ZERO, keep: Duration::ZERO, keep_timeout: TIMEOUT };
        (address, connections)
    }

    /// Joins as a plugin of that pool; gives the connection and the answer.
    fn handshake(address: SocketAddr, pool: &str) -> (Frames<TcpStream>, Value) {
        let mut frames = Frames::new(TcpStream::connect(address).unwrap());
        let handshake = json!({ "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": pool });
        frames.send(&handshake).unwrap();
        let answer = frames.receive().unwrap();
        (frames, answer)
    }

    /// A NameNode's plugin at the other end of a connection, until it is dropped.
    struct FakePlugin {
        is_active: Arc<AtomicBool>,
        /// Questions that it was asked.
        asked: Arc<AtomicUsize>,
        tcp: TcpStream,
        thread: JoinHandle<()>,
    }

    impl FakePlugin {
        fn connect(address: SocketAddr, is_active: bool) -> FakePlugin {
            let (mut frames, welcome) = handshake(address, "BP-1");
            assert_eq!(welcome, json!({ "protocol": PROTOCOL }));
            let tcp = frames.stream_mut().try_clone().unwrap();
            let is_active = Arc::new(AtomicBool::new(is_active));
            let asked = Arc::new(AtomicUsize::new(0));
            let (state, count) = (is_active.clone(), asked.clone());
            let serve = move || {
                while let Ok(question) = frames.receive::<Question>() {
                    count.fetch_add(1, Ordering::Relaxed);
                    let active = state.load(Ordering::Relaxed);
                    let answer = match question {
                        Question::State => json!({ "active": active }),
                        _ if active => json!({ "nodes": [] }),
                        _ => json!({ "error": "standby", "why": "another one is active" }),
                    };
                    if frames.send(&answer).is_err() {
                        return;
                    }
                }
            };
            FakePlugin { is_active, asked, tcp, thread: thread::spawn(serve) }
        }

        fn set(&self, is_active: bool) {
            self.is_active.store(is_active, Ordering::Relaxed);
        }
    }

    impl Drop for FakePlugin {
        fn drop(&mut self) {
            let _ = self.tcp.shutdown(Shutdown::Both);
        }
    }

    /// Asks the active one again and again, until it answers and this is so.
    #[track_caller]
    fn ask_until(connections: &mut Connections, is_so: impl Fn(&Connections) -> bool) {
        let began = Instant::now();
        loop {
            let answer: Result<NodesAnswer, _> = ask(connections, &Question::Nodes);
            if answer.is_ok() && is_so(connections) {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "{answer:?}, {connections:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn a_standby_is_asked_how_it_is_and_one_that_is_gone_leaves_nothing() {
        let (address, mut connections) = listener();
        assert!(ask::<NodesAnswer>(&mut connections, &Question::Nodes).is_err(), "there is none");
        let _active = FakePlugin::connect(address, true);
        ask_until(&mut connections, |of| of.count() == 1);
        for _ in 0..20 {
            let standby = FakePlugin::connect(address, false);
            let asked = standby.asked.clone();
            ask_until(&mut connections, |of| of.count() == 2 && asked.load(Ordering::Relaxed) > 1);
            drop(standby);
            ask_until(&mut connections, |of| of.count() == 1);
        }
        assert_eq!(connections.changes(), 1, "it was the active one all the time");
        assert_eq!(connections.pool().as_deref(), Some("BP-1"));
    }

    #[test]
    fn the_one_that_became_active_is_asked_and_counts_as_a_change() {
        let (address, mut connections) = listener();
        let first = FakePlugin::connect(address, true);
        ask_until(&mut connections, |of| of.count() == 1);
        let second = FakePlugin::connect(address, false);
        ask_until(&mut connections, |of| of.count() == 2);
        assert_eq!(connections.changes(), 1);
        first.set(false);
        second.set(true);
        ask_until(&mut connections, |of| of.changes() == 2);
        assert_eq!(connections.count(), 2, "the former one is connected still");
        // And now the other way round, because its process ends.
        first.set(true);
        drop(second);
        ask_until(&mut connections, |of| of.changes() == 3 && of.count() == 1);
        first.set(false);
        let none = ask::<NodesAnswer>(&mut connections, &Question::Nodes).unwrap_err();
        assert!(none.to_string().contains("no active NameNode"), "{none}");
    }

    #[test]
    fn one_that_has_become_active_is_asked_though_the_former_one_takes_itself_for_that() {
        let (address, mut connections) = listener();
        let first = FakePlugin::connect(address, true);
        ask_until(&mut connections, |of| of.count() == 1);
        let second = FakePlugin::connect(address, false);
        ask_until(&mut connections, |of| of.count() == 2);
        second.set(true);
        ask_until(&mut connections, |of| of.changes() == 2);
        // They do not take turns.
        for _ in 0..20 {
            ask::<NodesAnswer>(&mut connections, &Question::Nodes).expect("it answers");
        }
        assert_eq!((connections.changes(), connections.count()), (2, 2));
        // Once it knows that it stands by, it may be active again.
        first.set(false);
        let asked = first.asked.load(Ordering::Relaxed);
        let is_known = || first.asked.load(Ordering::Relaxed) > asked + 1;
        ask_until(&mut connections, |_| is_known());
        first.set(true);
        ask_until(&mut connections, |of| of.changes() == 3);
    }

    #[test]
    fn a_standby_that_does_not_answer_holds_nobody_up_for_long() {
        let (address, mut connections) = listener();
        connections.times.keep_timeout = Duration::from_millis(200);
        let _active = FakePlugin::connect(address, true);
        ask_until(&mut connections, |of| of.count() == 1);
        let (mut hung, _) = handshake(address, "BP-1");
        // It reads what it is asked, until it is hung up on.
        let reads = thread::spawn(move || while hung.receive::<Question>().is_ok() {});
        ask_until(&mut connections, |of| of.count() == 1 && reads.is_finished());
    }

    #[test]
    fn of_many_connections_the_oldest_gives_way_and_never_the_active_one() {
        let (address, mut connections) = listener();
        let active = FakePlugin::connect(address, true);
        ask_until(&mut connections, |of| of.count() == 1);
        let mut standbys = Vec::new();
        for count in 1..=2 * KNOWN_MAX {
            standbys.push(FakePlugin::connect(address, false));
            ask_until(&mut connections, |of| of.count() == (count + 1).min(KNOWN_MAX));
        }
        ask_until(&mut connections, |_| standbys[0].thread.is_finished());
        assert!(!active.thread.is_finished());
        assert_eq!(connections.changes(), 1);
    }

    #[test]
    fn a_namenode_of_another_block_pool_is_told_why_it_is_not_asked() {
        let (address, mut connections) = listener();
        let _ours = FakePlugin::connect(address, true);
        let (_, answer) = handshake(address, "BP-2");
        assert_eq!(answer["error"], "refused");
        let why = answer["why"].as_str().unwrap();
        assert!(why.starts_with("this coordinator serves BP-1, not BP-2"), "{why}");
        ask_until(&mut connections, |of| of.count() == 1);
    }
}
