//! Plugins of HDFS that live in this process: they speak the frames of `docs/hdfs-protocol.md` and
//! keep blocks in memory.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use serde::Serialize;
use serde_json::{Value, json};
use suture_drivers::hdfs::datanode::{BlockQuestion, NewBlock};
use suture_drivers::hdfs::frame::{Frames, PAYLOAD_BYTES_MAX, PROTOCOL};
use suture_drivers::hdfs::group::{Group, Unit, UnitState};
use suture_drivers::hdfs::namenode::{
    ChosenStorage, ClaimAnswer, DataNode, DataNodeState, GroupClaim, Question,
};
use suture_edge::checksum::crc32c;
use tempfile::TempDir;

pub const POOL: &str = "BP-1";

/// What a DataNode sums at a time.
const STEP: usize = 512;

/// What a NameNode knows.
#[derive(Debug, Default)]
pub struct Namespace {
    pub groups: BTreeMap<i64, Group>,
    pub nodes: Vec<DataNode>,
    pub claims: BTreeMap<u64, GroupClaim>,
    /// Why the next claims are refused, if they are.
    pub refuses: Option<String>,
    /// So many questions about claims fail as a whole.
    pub fails: usize,
    /// A DataNode's word of a block takes as many questions to come.
    pub delay: usize,
    pub left: Vec<i64>,
    pub lease_millis: u64,
    pub asked: Vec<Question>,
    told: BTreeMap<i64, Group>,
}

/// A NameNode with a plugin at the other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct FakeNameNode(Arc<Mutex<Namespace>>);

impl FakeNameNode {
    pub fn namespace(&self) -> MutexGuard<'_, Namespace> {
        self.0.lock().unwrap()
    }

    /// A session of its own, as after a restart of either end.
    pub fn connect(&self) -> Frames<UnixStream> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.serve(Frames::new(theirs));
        Frames::new(ours)
    }

    /// The same, of a coordinator that listens there. Shutting down what it gives ends it.
    pub fn join(&self, coordinator: SocketAddr) -> TcpStream {
        let tcp = TcpStream::connect(coordinator).unwrap();
        let mut frames = Frames::new(tcp.try_clone().unwrap());
        frames.send(&json!({ "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": POOL })).unwrap();
        let welcome: Value = frames.receive().unwrap();
        assert_eq!(welcome, json!({ "protocol": PROTOCOL }));
        self.serve(frames);
        tcp
    }

    fn serve<S: Read + Write + Send + 'static>(&self, mut frames: Frames<S>) {
        self.namespace().told.clear();
        let namespace = self.0.clone();
        thread::spawn(move || {
            while let Ok(question) = frames.receive::<Question>() {
                let answer = namespace.lock().unwrap().answer(question);
                if frames.send(&answer).is_err() {
                    return;
                }
            }
        });
    }

    /// DataNodes `dn0`, `dn1`, ...
    pub fn with_nodes(count: usize) -> FakeNameNode {
        let node = |index| DataNode {
            node: format!("dn{index}"),
            name: format!("host{index}:9866"),
            rack: "/default-rack".into(),
            state: DataNodeState::Up,
        };
        let fake = FakeNameNode::default();
        fake.namespace().nodes = (0..count).map(node).collect();
        fake
    }
}

/// A group of the codec `rs` with its blocks on `dn0`, `dn1`, ..., but those that are missing.
pub fn group(number: i64, bytes: u64, (data, parity): (u8, u8), missing: &[u8]) -> Group {
    let unit = |index: u8| Unit { index, node: format!("dn{index}"), state: UnitState::Live };
    Group {
        group: i64::MIN + 16 * number,
        stamp: 1001,
        bytes,
        cell: 1024,
        codec: "rs".into(),
        data,
        parity,
        path: "/file".into(),
        units: (0..data + parity).filter(|index| !missing.contains(index)).map(unit).collect(),
    }
}

impl Namespace {
    fn answer(&mut self, question: Question) -> Value {
        self.asked.push(question.clone());
        match question {
            Question::State => json!({ "active": true }),
            Question::Lease { millis, leave } => {
                (self.lease_millis, self.left) =
                    (millis, leave.iter().map(|left| left.group).collect());
                json!({})
            }
            Question::Nodes => json!({ "nodes": self.nodes }),
            Question::Groups => self.changes(),
            Question::Claim { .. } if self.fails > 0 => {
                self.fails -= 1;
                json!({ "error": "failed", "why": "a mistake in it" })
            }
            Question::Claim { claims } => {
                let answers: Vec<ClaimAnswer> =
                    claims.into_iter().map(|claim| self.claim(claim)).collect();
                json!({ "claims": answers })
            }
            Question::Release { repair } => {
                self.claims.remove(&repair);
                json!({})
            }
            Question::Confirm { group, index, node, .. } => self.confirm(group, index, node),
            Question::Condemn { group, index, .. } => {
                let Some(group) = self.groups.get_mut(&group) else { return json!({}) };
                group.units.retain(|unit| unit.index != index);
                json!({ "group": group })
            }
        }
    }

    fn changes(&mut self) -> Value {
        let is_new = |(id, group): &(&i64, &Group)| self.told.get(id) != Some(group);
        let changed: Vec<Group> =
            self.groups.iter().filter(is_new).map(|(_, group)| group.clone()).collect();
        let is_gone = |id: &&i64| !self.groups.contains_key(id);
        let gone: Vec<i64> = self.told.keys().filter(is_gone).copied().collect();
        self.told = self.groups.clone();
        json!({ "groups": changed, "gone": gone, "more": false })
    }

    fn claim(&mut self, claim: GroupClaim) -> ClaimAnswer {
        let group = self.groups.get(&claim.group).cloned();
        let taken = self
            .claims
            .values()
            .find(|other| other.group == claim.group && other.repair != claim.repair);
        let why = taken.map(|_| "another repair has it".to_owned());
        if let Some(why) = self.refuses.clone().or(why) {
            return ClaimAnswer { why: Some(why), group, targets: Vec::new() };
        }
        let storage = |target: &suture_drivers::hdfs::namenode::ClaimedBlock| ChosenStorage {
            index: target.index,
            storage: format!("DS-{}", target.node),
            kind: "DISK".into(),
        };
        let targets = claim.targets.iter().map(storage).collect();
        self.claims.insert(claim.repair, claim);
        ClaimAnswer { targets, why: None, group: None }
    }

    /// The DataNode's word of the block has come by now, or comes later.
    fn confirm(&mut self, id: i64, index: u8, node: String) -> Value {
        let Some(group) = self.groups.get_mut(&id) else { return json!({ "live": false }) };
        if self.delay > 0 {
            self.delay -= 1;
            return json!({ "live": false, "group": group });
        }
        group.units.retain(|unit| unit.index != index);
        group.units.push(Unit { index, node, state: UnitState::Live });
        json!({ "live": true, "group": group })
    }
}

/// A block that a DataNode has: its generation stamp, its bytes, the sums of each step, and room.
#[derive(Clone, Debug)]
pub struct Stored {
    pub stamp: u64,
    pub bytes: Vec<u8>,
    sums: Vec<u32>,
}

/// A DataNode with a plugin behind a socket of its own.
#[derive(Clone, Debug)]
pub struct FakeDataNode {
    pub blocks: Arc<Mutex<BTreeMap<i64, Stored>>>,
    pub socket: PathBuf,
    _dir: Arc<TempDir>,
}

impl FakeDataNode {
    pub fn start() -> FakeDataNode {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("datanode.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let fake = FakeDataNode { blocks: Arc::default(), socket, _dir: Arc::new(dir) };
        let blocks = fake.blocks.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, blocks) = (stream.unwrap(), blocks.clone());
                thread::spawn(move || Serving { frames: Frames::new(stream), blocks }.serve());
            }
        });
        fake
    }
}

struct Serving {
    frames: Frames<UnixStream>,
    blocks: Arc<Mutex<BTreeMap<i64, Stored>>>,
}

impl Serving {
    fn serve(mut self) {
        let mut making: Option<(NewBlock, Vec<u8>)> = None;
        while let Ok(question) = self.frames.receive::<BlockQuestion>() {
            match question {
                BlockQuestion::Hello { protocol } => {
                    assert_eq!(protocol, PROTOCOL);
                    let hello = json!({
                        "protocol": PROTOCOL, "node": "dn0", "name": "host0:9866", "pools": [POOL],
                    });
                    self.answer(&hello);
                }
                BlockQuestion::List { .. } => self.list(),
                BlockQuestion::Free => self.answer(&json!({ "bytes": 1 << 30 })),
                BlockQuestion::Locate { block, .. } => {
                    let found = self.blocks.lock().unwrap().get(&block).cloned();
                    self.answer(&match found {
                        Some(of) => json!({ "stamp": of.stamp, "bytes": of.bytes.len() }),
                        None => json!({ "error": "missing", "why": "no such replica" }),
                    });
                }
                BlockQuestion::Read { block, from, count, .. } => self.read(block, from, count),
                BlockQuestion::Begin(new) => {
                    making = Some((new, Vec::new()));
                    self.answer(&json!({}));
                }
                BlockQuestion::Data => {
                    let (_, bytes) = making.as_mut().expect("it was begun");
                    bytes.extend(self.frames.payload());
                }
                BlockQuestion::Finish { crc } => {
                    let (new, bytes) = making.take().expect("it was begun");
                    let published = self.finish(&new, bytes, crc);
                    self.answer(&published);
                }
            }
        }
    }

    fn answer(&mut self, answer: &impl Serialize) {
        self.frames.send(answer).unwrap();
    }

    fn list(&mut self) {
        let blocks = self.blocks.lock().unwrap().clone();
        let entry = |(block, of): (&i64, &Stored)| {
            let fields = [block.cast_unsigned(), of.stamp, of.bytes.len() as u64];
            fields.map(u64::to_be_bytes).concat()
        };
        let entries: Vec<Vec<u8>> = blocks.iter().map(entry).collect();
        // In parts, as long lists come.
        for entry in &entries {
            self.frames.send_with(&json!({ "more": true }), entry).unwrap();
        }
        self.answer(&json!({ "more": false }));
    }

    fn read(&mut self, block: i64, from: u64, count: u64) {
        assert!(count as usize <= PAYLOAD_BYTES_MAX);
        let Some(of) = self.blocks.lock().unwrap().get(&block).cloned() else {
            return self.answer(&json!({ "error": "missing", "why": "no such replica" }));
        };
        let (from, to) = (from as usize, (from + count) as usize);
        let steps = of.bytes.chunks(STEP).zip(&of.sums).enumerate();
        let mut touched = steps.filter(|(step, _)| step * STEP < to && (step + 1) * STEP > from);
        if touched.any(|(_, (bytes, sum))| crc32c(bytes) != *sum) {
            return self.answer(&json!({ "error": "corrupt", "why": "other bytes" }));
        }
        self.frames.send_with(&json!({}), &of.bytes[from..to]).unwrap();
    }

    fn finish(&mut self, new: &NewBlock, bytes: Vec<u8>, crc: u32) -> Value {
        if bytes.len() as u64 != new.bytes || crc32c(&bytes) != crc {
            return json!({ "error": "failed", "why": "other bytes came than were proven" });
        }
        let mut blocks = self.blocks.lock().unwrap();
        let sums = bytes.chunks(STEP).map(crc32c).collect();
        let made = Stored { stamp: new.stamp, bytes, sums };
        let there = blocks.entry(new.block).or_insert_with(|| made.clone());
        let is_same = (there.stamp, &there.bytes) == (made.stamp, &made.bytes);
        json!({ "published": if is_same { "named" } else { "taken" } })
    }
}

/// Nothing that a peer sends may stop a plugin; this one is to notice what should not come.
pub fn raw(stream: &mut (impl Read + Write), bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}
