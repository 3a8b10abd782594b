//! Answers that last longer than the certificate by which they were asked for: a client with a new
//! one goes on. (Puts, gets and load with real processes: `certificates.rs` of the command line.)

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::control;
use crate::signed::{Signed, open};
use suture_code::Code;
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::proto;
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::metadata::{Incomplete, MetadataStore, NewNode, Object, ObjectStripe};
use suture_drivers::object::lookup::Lookup;
use suture_repair::id::{Generation, NodeId, Stamp, StripeId};
use suture_repair::stripe::{ChunkRecord, Stripe};
use tempfile::TempDir;
use tokio::net::TcpListener;

const CHUNK_BYTES: u64 = 4096;

/// More than what is sent ahead to a client that reads nothing.
const STRIPES: u32 = 60_000;

/// A coordinator whose authority changes, with one long object.
struct Changing {
    signed: Signed,
    own: PathBuf,
    kept: Arc<Kept>,
    address: SocketAddr,
    _dir: TempDir,
}

fn code() -> Code {
    "rs(2,1)".parse().unwrap()
}

fn stripe(id: StripeId) -> ObjectStripe {
    let record = |node| ChunkRecord {
        node: Some(NodeId(node)),
        stamp: Stamp(0),
        bytes: CHUNK_BYTES,
        crc: Some(7),
    };
    let stripe = Stripe {
        id,
        code: code(),
        chunk_bytes: CHUNK_BYTES,
        unit_bytes: CHUNK_BYTES,
        generation: Generation(0),
        chunks: (0..3).map(record).collect(),
    };
    ObjectStripe { stripe, data_bytes: 2 * CHUNK_BYTES, checksum: Some(id.0) }
}

fn put_long(store: &mut MetadataStore) {
    for node in 0..3 {
        let (name, address) = (format!("n{node}"), format!("127.0.0.1:{}", 9000 + node));
        let (uplink, downlink) = (1e9, 1e9);
        let (rack, processor) = (None, None);
        let node = NewNode { name, rack, address, uplink, downlink, store: None, processor };
        store.join(&node).unwrap();
    }
    let id = store.begin_put("long").unwrap();
    let ids = store.reserve_stripes(id, STRIPES).unwrap();
    let bytes = u64::from(STRIPES) * 2 * CHUNK_BYTES;
    let object = Object {
        name: "long".into(),
        bytes,
        code: code(),
        chunk_bytes: CHUNK_BYTES,
        checksum: 7,
        created: 1_700_000_000,
    };
    store.commit_put(id, &object, ids.into_iter().map(stripe).collect()).unwrap();
}

impl Changing {
    async fn start() -> Changing {
        let (signed, dir) = (Signed::new(), tempfile::tempdir().unwrap());
        let own = signed.folder(AccessRole::Coordinator, "c");
        let kept = open(&own);
        let mut store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
        put_long(&mut store);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (service, limits) = (control::coordinator(store), ControlLimits::default());
        tokio::spawn(acceptor::serve(listener, service, limits, Some(kept.clone())));
        Changing { signed, own, kept, address, _dir: dir }
    }

    async fn connect(&self, role: AccessRole, name: &str) -> Client {
        let credentials = self.signed.credentials(role, name);
        client::connect(&self.address.to_string(), Some(credentials)).await.unwrap()
    }

    /// Changes the authority; these principals get new certificates, and no others.
    fn change(&mut self, renewed: &[(AccessRole, &str)]) {
        let now = SystemTime::now();
        self.signed.authority.rotate("tests", now).unwrap();
        self.signed.folder(AccessRole::Coordinator, "c");
        for (role, name) in renewed {
            self.signed.folder(*role, name);
        }
        self.signed.authority.finish(true, now).unwrap();
        self.signed.authority.give(&self.own).unwrap();
        for (role, name) in renewed {
            let folder = self.signed.dir.path().join(format!("{role}-{name}"));
            self.signed.authority.give(&folder).unwrap();
        }
        assert!(self.kept.reload(now).unwrap());
    }
}

const ROOT: (AccessRole, &str) = (AccessRole::Admin, "root");

#[tokio::test]
async fn a_long_answer_goes_on_with_a_new_certificate_and_ends_without() {
    let mut cluster = Changing::start().await;
    let mut client = cluster.connect(ROOT.0, ROOT.1).await;
    let mut other = cluster.connect(AccessRole::Admin, "other").await;
    let lookup = Lookup::of(&mut client, "long").await.unwrap();
    let without = Lookup::of(&mut other, "long").await.unwrap();
    cluster.change(&[ROOT]);
    let stripes = lookup.stripes().await.unwrap();
    assert_eq!(stripes.len(), STRIPES as usize);
    assert!(stripes.windows(2).all(|two| two[0].id.0 + 1 == two[1].id.0), "each once, in order");
    let error = without.stripes().await.unwrap_err().to_string();
    assert!(error.contains("take a new one (suture cert user other --role admin)"), "{error}");
    // A call after the change goes by a connection of its own.
    client.status(proto::StatusRequest::default()).await.unwrap();
}
