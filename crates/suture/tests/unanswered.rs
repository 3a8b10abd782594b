//! A put whose commit is not answered says what is so: stored, not stored, or not known.
//!
//! Place: every chunk durable -> object visible, with a connection that loses what is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemons::{Cluster, Finished, TIMEOUT, noise, suture};
use rustix::process::{Pid, Signal, kill_process};

/// What stands between a put and its coordinator.
#[derive(Clone)]
struct Between {
    address: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    connections: Vec<TcpStream>,
    loses_questions: bool,
    loses_answers: bool,
    refuses: bool,
}

impl Between {
    fn start(coordinator: &str) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let between = Between { address, state: Arc::default() };
        let (us, coordinator) = (between.clone(), coordinator.to_string());
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let mut state = us.state.lock().unwrap();
                if state.refuses {
                    continue;
                }
                let far = TcpStream::connect(&coordinator).unwrap();
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                state.connections.extend([clone(&near), clone(&far)]);
                us.carry(clone(&near), clone(&far), |state| state.loses_questions);
                us.carry(far, near, |state| state.loses_answers);
            }
        });
        between
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, loses: fn(&State) -> bool) {
        let state = self.state.clone();
        thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                let is_lost = loses(&state.lock().unwrap());
                if !is_lost && to.write_all(&buffer[..bytes]).is_err() {
                    break;
                }
            }
        });
    }

    fn set(&self, change: impl Fn(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Ends all connections; new ones lose nothing.
    fn cut(&self) {
        self.set(|state| {
            (state.loses_questions, state.loses_answers) = (false, false);
            for connection in state.connections.drain(..) {
                let _ = connection.shutdown(Shutdown::Both);
            }
        });
    }
}

/// A put of 200,000 bytes that has stored a stripe and waits for the end of its input.
fn begun(cluster: &Cluster, coordinator: &str) -> Child {
    begun_with(cluster, coordinator, &[])
}

fn begun_with(cluster: &Cluster, coordinator: &str, more: &[&str]) -> Child {
    let before = [0, 1, 2].map(|agent| cluster.chunks(agent).len());
    let mut put = suture();
    put.args(["put", "-", "--name", "it", "--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    let mut put = piped(put.args(more).env("SUTURE_COORDINATOR", coordinator));
    put.stdin.as_mut().unwrap().write_all(&noise(200_000)).unwrap();
    wait(|| (0..3).all(|agent| cluster.chunks(agent).len() > before[agent]));
    put
}

fn piped(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The end of its input has come.
fn ended(mut put: Child) -> Finished {
    drop(put.stdin.take());
    let output = put.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap();
    Finished { status, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// The same while the coordinator sleeps, which wakes after a while.
fn ended_while_asleep(cluster: &Cluster, put: Child) -> Finished {
    let coordinator = Pid::from_child(&cluster.coordinator.0);
    kill_process(coordinator, Signal::STOP).unwrap();
    let ending = thread::spawn(move || ended(put));
    // Longer than a connection takes to be given up.
    thread::sleep(Duration::from_secs(9));
    kill_process(coordinator, Signal::CONT).unwrap();
    ending.join().unwrap()
}

fn wait(is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < TIMEOUT, "not within a minute");
        thread::sleep(Duration::from_millis(10));
    }
}

fn is_stored(cluster: &Cluster) -> bool {
    cluster.run(&["stat", "it"]).status == 0
}

#[test]
fn a_put_whose_answer_was_lost_finds_the_object_and_says_that_it_is_stored() {
    let cluster = Cluster::of(3);
    let between = Between::start(&cluster.address);
    let mut put = begun(&cluster, &between.address);
    between.set(|state| state.loses_answers = true);
    drop(put.stdin.take());
    wait(|| is_stored(&cluster));
    assert!(put.try_wait().unwrap().is_none(), "it was not answered");
    between.cut();
    let put = ended(put);
    assert_eq!(put.status, 0, "{}", put.stderr);
    assert!(put.stdout.starts_with("it: 195 KiB as rs(2,1), 2 stripes"), "{}", put.stdout);
    assert_eq!(put.stderr, "");
    cluster.assert_reads("it", &noise(200_000));
}

#[test]
fn a_put_whose_commit_was_lost_says_that_nothing_is_stored_when_that_is_sure() {
    let cluster = Cluster::of(3);
    let between = Between::start(&cluster.address);
    let mut put = begun(&cluster, &between.address);
    between.set(|state| state.loses_questions = true);
    drop(put.stdin.take());
    thread::sleep(Duration::from_millis(300));
    between.cut();
    let put = ended(put);
    assert_eq!((put.status, put.stdout.as_str()), (1, ""), "{}", put.stderr);
    assert!(put.stderr.starts_with("suture: cannot store 'it': "), "{}", put.stderr);
    assert!(!put.stderr.contains("another protocol"), "it had answered: {}", put.stderr);
    assert!(!is_stored(&cluster));
    // The name is free.
    cluster.put("it", 1000, &["--code", "rs(2,1)"]);
}

#[test]
fn a_put_that_nobody_tells_what_became_of_it_says_that_it_is_not_known() {
    let cluster = Cluster::of(3);
    let between = Between::start(&cluster.address);
    let mut put = begun(&cluster, &between.address);
    between.set(|state| (state.loses_answers, state.refuses) = (true, true));
    drop(put.stdin.take());
    wait(|| is_stored(&cluster));
    between.cut();
    let put = ended(put);
    assert_eq!((put.status, put.stdout.as_str()), (1, ""), "{}", put.stderr);
    let told = &put.stderr;
    assert!(told.starts_with("suture: it is not known whether 'it' is stored: "), "{told}");
    assert!(told.contains("suture stat 'it'") && !told.contains("cannot store"), "{told}");
}

#[test]
fn a_put_whose_coordinator_sleeps_at_the_commit_says_what_is_so_when_it_wakes() {
    let cluster = Cluster::of(3);
    let put = begun(&cluster, &cluster.address);
    let put = ended_while_asleep(&cluster, put);
    match put.status {
        0 => assert!(is_stored(&cluster), "{}", put.stdout),
        _ => {
            assert!(put.stderr.starts_with("suture: cannot store 'it': "), "{}", put.stderr);
            assert!(!is_stored(&cluster), "{}", put.stderr);
            thread::sleep(Duration::from_secs(2));
            assert!(!is_stored(&cluster), "it came later: {}", put.stderr);
        }
    }
}

#[test]
fn an_overwriting_put_whose_commit_was_lost_leaves_the_object_and_says_so() {
    let cluster = Cluster::of(3);
    let old = cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    let between = Between::start(&cluster.address);
    let mut put = begun_with(&cluster, &between.address, &["--overwrite"]);
    between.set(|state| state.loses_questions = true);
    drop(put.stdin.take());
    thread::sleep(Duration::from_millis(300));
    between.cut();
    let put = ended(put);
    assert!(put.stderr.starts_with("suture: cannot store 'it': "), "{}", put.stderr);
    cluster.assert_reads("it", &old);
}

#[test]
fn an_overwriting_put_whose_coordinator_sleeps_at_the_commit_says_what_is_so_when_it_wakes() {
    let cluster = Cluster::of(3);
    cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    let put = begun_with(&cluster, &cluster.address, &["--overwrite"]);
    let put = ended_while_asleep(&cluster, put);
    let is_replaced = || match cluster.json(&["stat", "it"])["bytes"].as_u64().unwrap() {
        100_000 => false,
        200_000 => true,
        other => panic!("{other} bytes"),
    };
    match put.status {
        0 => assert!(is_replaced(), "{}", put.stdout),
        _ => {
            assert!(put.stderr.starts_with("suture: cannot store 'it': "), "{}", put.stderr);
            thread::sleep(Duration::from_secs(2));
            assert!(!is_replaced(), "it came all the same: {}", put.stderr);
        }
    }
}
