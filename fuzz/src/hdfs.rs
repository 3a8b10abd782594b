//! What HDFS's plugins say: any bytes are frames or refused, and any answers leave a keeper whose
//! stripes there can be.
//!
//! Place: the NameNode as keeper of the truth, asked over a socket. An input is what the NameNode's
//! end sends, frame after frame; when it ends, so does the connection.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Cursor, Read, Write};

use suture_drivers::hdfs::frame::Frames;
use suture_drivers::hdfs::keeper::HdfsKeeper;
use suture_repair::event::{Claim, Commit, Input};
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId};
use suture_repair::keeper::Keeper;
use suture_repair::stripe::Stripe;
use suture_repair::time::Time;

const NODES: &str = r#"{"nodes":[{"node":"a","name":"h1:9866","rack":"/r1","state":"up"},
    {"node":"b","name":"h2:9866","rack":"/r1","state":"leaving"},
    {"node":"c","name":"h3:9866","rack":"/r2","state":"dead"},
    {"node":"d","name":"h4:9866","rack":"/r2","state":"up"}]}"#;

/// The other end, which has said all that it will.
#[derive(Debug)]
struct Said(Cursor<Vec<u8>>);

impl Read for Said {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn frame(json: &str) -> Vec<u8> {
    let lengths = [json.len() as u32, 0, 0].map(u32::to_be_bytes).concat();
    [lengths, json.as_bytes().to_vec()].concat()
}

fn group(missing: &str) -> String {
    format!(
        r#"{{"group":-9223372036854775792,"stamp":1001,"bytes":5000,"cell":1024,"codec":"rs",
        "data":2,"parity":1,"path":"/f","units":[{{"index":0,"node":"a","state":"live"}},
        {{"index":{missing},"node":"d","state":"live"}}]}}"#
    )
}

/// Inputs to begin with: a session in which a block is claimed and arrives, and one of refusals.
pub fn valid() -> Vec<Vec<u8>> {
    let groups = |more| {
        format!(r#"{{"groups":[{}],"gone":[-9223372036854775776],"more":{more}}}"#, group("2"))
    };
    let granted = r#"{"claims":[{"targets":[{"index":1,"storage":"DS-1","type":"DISK"}]}]}"#;
    let refused = format!(r#"{{"claims":[{{"why":"no","group":{}}}]}}"#, group("1"));
    let live = format!(r#"{{"live":true,"group":{}}}"#, group("2"));
    let sessions: [&[&str]; 3] = [
        &[NODES, &groups(false), granted, &live, "{}"],
        &[NODES, &groups(true), &groups(false), &refused],
        &[NODES, r#"{"error":"standby","why":"not active"}"#],
    ];
    sessions.map(|said| said.iter().flat_map(|json| frame(json)).collect()).to_vec()
}

/// Gives whether any stripe came of it.
///
/// # Panics
/// When a stripe is told that there cannot be, or an answer to what was not asked.
pub fn check(bytes: &[u8]) -> bool {
    let said = Frames::new(Said(Cursor::new(bytes.to_vec())));
    let mut keeper = HdfsKeeper::new(said, false);
    let _ = keeper.refresh();
    let unknown: VecDeque<String> = keeper.unknown_nodes().map(|node| node.node.clone()).collect();
    for (id, uuid) in (0..).zip(&unknown) {
        keeper.know_node(uuid, NodeId(id));
    }
    let _ = keeper.refresh_groups();
    let stripes = keeper.stripes().expect("it is not asked anything");
    stripes.iter().for_each(assert_possible);
    keeper.changes();
    let Some(stripe) = stripes.first() else { return false };
    let (repair, chunk) = (RepairId::new(1, 1), ChunkIndex(1));
    let node = NodeId(1);
    let destinations = [(chunk, node)].into();
    let claim = Claim { repair, stripe: stripe.id, generation: stripe.generation, destinations };
    keeper.claim(Time::ZERO, &claim).expect("it is gathered");
    let copy = ChunkCopy { stripe: stripe.id, chunk, stamp: repair.into() };
    let (generation, clears) = (stripe.generation, None);
    keeper.commit(&Commit { repair, copy, node, generation, clears }).expect("gathered");
    for input in keeper.changes() {
        match input {
            Input::StripeAdded(stripe) | Input::Committed { stripe, .. } => {
                assert_possible(&stripe)
            }
            Input::CommitRefused { repair: of, .. }
            | Input::Claimed { repair: of, .. }
            | Input::ClaimRefused { repair: of, .. } => assert_eq!(of, repair),
            Input::StripeRemoved(_) | Input::NodeState { .. } => {}
            other => panic!("{other:?} is no word of this keeper"),
        }
    }
    true
}

fn assert_possible(stripe: &Stripe) {
    stripe.check().expect("no stripe is told that there cannot be");
    let nodes: Vec<NodeId> = stripe.chunks.iter().filter_map(|chunk| chunk.node).collect();
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len(), "a node has two chunks");
}
