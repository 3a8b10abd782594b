//! Copies of the metadata: whatever file is restored gives a coordinator that can begin, or is
//! refused.
//!
//! Place: `suture metadata restore` and a coordinator's start, on a file that comes from anywhere.
//! An input is a byte that says how it is made: as the file itself, or by changes to a sound one.
//! Those are rows and columns with new values; SQLite is asked to make them, and what its own rules
//! refuse stays.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rusqlite::Connection;
use rusqlite::types::Value;
use suture_drivers::metadata::backup::{restore, take};
use suture_drivers::metadata::{
    Incomplete, MetadataStore, NewNode, NodeRecord, Object, ObjectStripe,
};
use suture_drivers::store::StoreId;
use suture_repair::cluster::{Cluster, Node};
use suture_repair::coordinator::{Config, Coordinator, ScrubConfig};
use suture_repair::event::{Input, Liveness, ScrubStep};
use suture_repair::id::{Generation, NodeId, Stamp, StripeId};
use suture_repair::stripe::{ChunkRecord, Stripe, StripeMap};
use suture_repair::time::{Span, Time};

use crate::cursor::{Cursor, piece};
use crate::scratch;
use crate::timers::TIMERS;

/// Longer inputs only repeat themselves.
const CHANGES_MAX: usize = 8;

/// Tables and their columns, as the schema has them.
const TABLES: [(&str, &[&str]); 6] = [
    (
        "cluster",
        &[
            "id",
            "epoch",
            "next_stripe",
            "paused",
            "in_use",
            "pass_begun",
            "pass_next",
            "pass_ended",
        ],
    ),
    (
        "node",
        &[
            "id", "name", "address", "uplink", "downlink", "failed", "rack", "removed", "store",
            "replaced",
        ],
    ),
    ("object", &["id", "name", "bytes", "code", "chunk_bytes", "checksum", "created"]),
    (
        "stripe",
        &[
            "id",
            "object",
            "ordinal",
            "code",
            "chunk_bytes",
            "data_bytes",
            "generation",
            "unit_bytes",
            "checksum",
        ],
    ),
    ("chunk", &["stripe", "idx", "node", "stamp", "crc", "bytes", "fault"]),
    ("unknown", &["first", "below"]),
];

/// How an input is made: as it is, or by changes, after which sums are as an older version left
/// them; otherwise they stay, and tell of most changes.
const AS_IT_IS: u8 = 0;
const WITHOUT_SUMS: u8 = 2;

/// Inputs to begin with: a sound file, one cut short, and changes of all kinds of columns.
pub fn valid() -> Vec<Vec<u8>> {
    let sound = SOUND.with(|sound| sound.borrow_mut().get_or_insert_with(make).clone());
    let sound = fs::read(sound).expect("it was made");
    let mut inputs = vec![vec![1], [&[AS_IT_IS][..], &sound[..4096]].concat()];
    let number = |at: [u8; 3], value: i64| [&at[..], &[0], &value.to_le_bytes()].concat();
    let text = |at: [u8; 3], value: &str| [&at[..], &[1], &piece(value.as_bytes())].concat();
    let changes = [
        number([0, 1, 0], u32::MAX.into()),
        number([0, 2, 0], i64::MAX),
        number([0, 4, 0], 1),
        number([0, 6, 0], 3),
        number([1, 0, 1], 7),
        number([1, 3, 1], 0),
        text([2, 3, 0], "clay(4,2,5)"),
        text([3, 3, 0], "rs(200,55)"),
        number([3, 4, 1], -1),
        number([3, 7, 1], 64),
        number([4, 1, 2], 300),
        number([4, 2, 2], 77),
        number([4, 5, 2], 0),
        number([5, 1, 0], -5),
        [&[3, 8, 0][..], &[2]].concat(),
    ];
    for kind in [1, WITHOUT_SUMS] {
        inputs.extend(changes.iter().map(|change| [&[kind], &change[..]].concat()));
    }
    inputs.push([&[1], &changes.concat()[..60]].concat());
    inputs
}

thread_local! {
    static SOUND: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// The metadata of four nodes and two objects, one with a scrub that has begun.
fn make() -> PathBuf {
    let dir = scratch::folder().join("sound");
    let mut store = MetadataStore::open(&dir, Incomplete::Refuse).expect("a new one");
    for index in 0..4 {
        let node = NewNode {
            name: format!("n{index}"),
            rack: (index % 2 == 0).then(|| "r".to_string()),
            address: format!("127.0.0.1:{}", 7401 + index),
            uplink: 1e8,
            downlink: 1e8,
            store: Some(StoreId(index)),
            processor: None,
        };
        store.join(&node).expect("it is new");
    }
    for (name, code) in [("photos", "rs(2,1)"), ("letters", "clay(2,2,3)")] {
        put(&mut store, name, code);
    }
    store.note_pass(ScrubStep::Begun).expect("it can be noted");
    store.close().expect("it can be closed");
    drop(store);
    let connection = Connection::open(dir.join("metadata.db")).expect("it is there");
    connection
        .execute("INSERT INTO unknown (first, below) VALUES (9, 12)", [])
        .expect("it has that table");
    connection.pragma_update(None, "journal_mode", "DELETE").expect("nobody has it open");
    connection.close().expect("it can be closed");
    dir.join("metadata.db")
}

fn put(store: &mut MetadataStore, name: &str, code: &str) {
    let (code, chunk_bytes) = (code.parse().expect("it is a code"), 4096);
    let put = store.begin_put(name).expect("the name is new");
    let record = |node| ChunkRecord {
        node: Some(NodeId(node)),
        stamp: Stamp(5),
        bytes: chunk_bytes,
        crc: Some(node),
    };
    let ids = store.reserve_stripes(put, 2).expect("there are more");
    let stripes = ids.into_iter().map(|id| ObjectStripe {
        stripe: Stripe {
            id,
            code,
            chunk_bytes,
            unit_bytes: chunk_bytes,
            generation: Generation(0),
            chunks: (0..code.chunk_count() as u32).map(record).collect(),
        },
        data_bytes: 8000,
        checksum: Some(7),
    });
    let object = Object {
        name: name.into(),
        bytes: 16_000,
        code,
        chunk_bytes,
        checksum: 7,
        created: 1_790_000_000,
    };
    store.commit_put(put, &object, stripes.collect()).expect("it was reserved");
}

/// Gives whether a coordinator begins on it.
///
/// # Panics
/// When one begins on what cannot be, or a refusal says nothing.
pub fn check(input: &[u8]) -> bool {
    let Some((&kind, rest)) = input.split_first() else { return false };
    let copy = match kind {
        AS_IT_IS => scratch::file("copy.db", rest),
        kind => changed(rest, kind == WITHOUT_SUMS),
    };
    let dir = scratch::folder().join("restored");
    let _ = fs::remove_dir_all(&dir);
    let begun = restore(&copy, &dir, Incomplete::Accept, true).and_then(|_| begin(&dir));
    begun.map_err(|why| assert!(!format!("{why:#}").is_empty())).is_ok()
}

/// A sound file with changes.
fn changed(changes: &[u8], without_sums: bool) -> PathBuf {
    let sound = SOUND.with(|sound| sound.borrow_mut().get_or_insert_with(make).clone());
    let copy = scratch::folder().join("changed.db");
    fs::copy(sound, &copy).expect("it can be copied");
    let connection = Connection::open(&copy).expect("it is a database");
    connection
        .execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;")
        .expect("known");
    let mut changes = Cursor(changes);
    for _ in 0..CHANGES_MAX {
        if change(&connection, &mut changes).is_none() {
            break;
        }
    }
    for table in ["cluster", "object", "stripe", "unknown"].iter().filter(|_| without_sums) {
        // Where a change has made that impossible, they stay.
        let _ = connection.execute(&format!("UPDATE {table} SET sum = NULL"), []);
    }
    connection.close().expect("it can be closed");
    copy
}

fn change(connection: &Connection, changes: &mut Cursor<'_>) -> Option<()> {
    let (table, column, row) = (changes.byte()?, changes.byte()?, changes.byte()?);
    let value = match changes.byte()? % 4 {
        0 => Value::Integer(changes.number()?.cast_signed()),
        1 => Value::Text(String::from_utf8_lossy(changes.piece()?).into_owned()),
        2 => Value::Null,
        _ => Value::Real(f64::from_bits(changes.number()?)),
    };
    let (table, columns) = TABLES[usize::from(table) % TABLES.len()];
    let column = columns[usize::from(column) % columns.len()];
    let key = if table == "chunk" { "stripe, idx" } else { "rowid" };
    let of = format!("SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET {row}");
    let update = format!("UPDATE {table} SET {column} = ?1 WHERE ({key}) = ({of})");
    // What SQLite refuses cannot be in a file that it takes for sound.
    let _ = connection.execute(&update, [value]);
    Some(())
}

/// What a coordinator does at its start, and what it is asked first.
fn begin(dir: &Path) -> Result<()> {
    let mut store = MetadataStore::open(dir, Incomplete::Accept)?;
    let core = load(&mut store)?;
    let stripes: Vec<StripeId> = core.stripes().iter().map(|stripe| stripe.id).collect();
    core.assert_all_invariants();
    let _ = (core.status(), core.preview(), store.names_of(&stripes)?, store.unknown()?);
    let mut bytes = 0;
    for object in store.objects("", "", 100)? {
        for entry in store.object_stripes(&object.name, 0, 100)? {
            assert_eq!(entry.stripe.check(), Ok(()));
            bytes += u128::from(entry.data_bytes);
            let label = store.label(&entry.stripe)?;
            assert!(label.bytes().len() < 16 << 10);
        }
    }
    assert!(bytes < u128::from(u64::MAX), "{bytes}");
    let open = store.first_open()?;
    store.close()?;
    take(&store.path(), open)?;
    Ok(())
}

/// As the coordinator's command does it.
fn load(store: &mut MetadataStore) -> Result<Coordinator> {
    let (nodes, intent) = (store.nodes()?, store.intent()?);
    let stripes = StripeMap::new(store.stripes()?);
    let mut cluster = Cluster::default();
    for NodeRecord { node, .. } in &nodes {
        let rack = node.rack.as_ref().map(|name| cluster.rack(name));
        cluster.nodes.push(Node { rack, ..node.as_planned() });
    }
    let rest = |&(node, until): &(NodeId, u64)| (node, Span::from_secs(until % 1_000_000));
    let config = Config {
        epoch: store.epoch(),
        timers: TIMERS,
        policy: "suture".parse().expect("it is a policy"),
        seed: store.cluster().0,
        paused: intent.paused,
        failed: intent.failed,
        draining: intent.draining,
        paused_nodes: intent.paused_nodes.iter().map(rest).collect(),
        claims: true,
        liveness: Liveness::Own,
        deletes: true,
        in_flight_max: 4,
        scrub: ScrubConfig { next: store.pass()?.next, ..ScrubConfig::OFF },
        rebalance_after: None,
        gather: Span::ZERO,
    };
    let mut core = Coordinator::new(Time::ZERO, config, cluster, stripes);
    store.announce_reserved()?;
    store.take_changes().into_iter().for_each(|change| core.handle(Time::ZERO, change));
    // All nodes are silent: everything is lost, planned, and refused.
    core.handle(Time::ZERO + Span::from_secs(60), Input::Tick);
    while core.poll().is_some() {}
    Ok(core)
}
