//! Authentication of connections between agents, and with clients: certificates of an authority
//! that is made here, real sockets, and all peers that are to be refused.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::agents::{self, CLUSTER, Cluster, chain, client, client_as, name, stripe, task};
use crate::signed::{DAY, Signed, open};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use suture_drivers::chunk_client::ChunkConnection;
use suture_drivers::identity::authority::Authority;
use suture_drivers::identity::credentials::{Credentials, Kept};
use suture_drivers::identity::{AccessRole, Principal};
use suture_drivers::label::StripeLabel;
use suture_drivers::net::connection::Connection;
use suture_drivers::net::local_identity::LocalIdentity;
use suture_edge::checksum::crc32c;
use suture_repair::id::{ChunkCopy, ChunkIndex, NodeId, RepairId, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::plan::{Mode, Range};
use suture_repair::wire::{Denial, Frame, Who};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

fn agent(signed: &Signed, node: NodeId) -> Arc<Kept> {
    signed.credentials(AccessRole::Agent, &name(node))
}

fn well() -> (ChunkCopy, Range) {
    let copy = ChunkCopy { stripe: StripeId(1), chunk: ChunkIndex(0), stamp: Stamp(0) };
    (copy, Range { from: 0, to: 4 })
}

/// Writes and reads a chunk at the first agent.
async fn use_agent(cluster: &Cluster, credentials: Arc<Kept>) -> Result<(), String> {
    let (client, agent) = (client_as(Some(credentials)), cluster.nodes[0].address());
    let (copy, range) = well();
    let written = client.write_chunk(agent.clone(), copy, crc32c(b"well"), b"well").await;
    written.map_err(|error| error.to_string())?;
    let read = client.read_chunk(agent, copy, range).await.map_err(|error| error.to_string())?;
    assert_eq!(read, b"well");
    Ok(())
}

#[tokio::test]
async fn agents_that_prove_who_they_are_repair() {
    let signed = Signed::new();
    let mut cluster = Cluster::start_proven(4, &|node| Some(agent(&signed, node))).await;
    let (stripe, chunks) = stripe("rs(3,1)", 1, 3 << 20);
    let admin = signed.credentials(AccessRole::Admin, "root");
    cluster.store_as(Some(admin.clone()), &stripe, &chunks).await;
    let trees = [chain(&[1, 2, 3], 0)];
    let task = task(RepairId::new(1, 1), &stripe, (&trees, Mode::Streamed), 0);
    cluster.dispatch(&task).await;
    let copy = cluster.outcome(task.repair).await.unwrap();
    let range = Range { from: 0, to: stripe.chunk_bytes };
    let agent = cluster.nodes[0].address();
    assert_eq!(client_as(Some(admin)).read_chunk(agent, copy, range).await.unwrap(), chunks[0]);
}

#[tokio::test]
async fn who_has_no_place_at_an_agent_is_told_why() {
    let (signed, others) = (Signed::new(), Signed::new());
    let cluster = Cluster::start_proven(1, &|node| Some(agent(&signed, node))).await;
    for role in [AccessRole::Admin, AccessRole::Coordinator] {
        use_agent(&cluster, signed.credentials(role, "may")).await.unwrap();
    }
    for role in [AccessRole::Viewer, AccessRole::Operator, AccessRole::Agent] {
        let error = use_agent(&cluster, signed.credentials(role, "not")).await.unwrap_err();
        assert!(error.contains("it asks for credentials"), "{role}: {error}");
    }
    let error = use_agent(&cluster, others.credentials(AccessRole::Admin, "x")).await.unwrap_err();
    assert!(error.contains("another authority") && error.contains("certificate"), "{error}");
    let (copy, range) = well();
    let error = client().read_chunk(cluster.nodes[0].addr, copy, range).await.unwrap_err();
    assert!(error.to_string().contains("it asks for credentials"), "{error}");
    use_agent(&cluster, signed.credentials(AccessRole::Admin, "again")).await.unwrap();
}

/// The label of a stripe of that object.
fn label_of(object: &str) -> Label {
    let label = StripeLabel {
        object: object.into(),
        code: "rs(3,2)".parse().unwrap(),
        object_chunk_bytes: 64,
        created: 0,
        first: StripeId(1),
        ordinal: 0,
        is_last: true,
        chunk_bytes: 64,
        data_bytes: 192,
        checksum: 0,
        crcs: vec![0; 5],
    };
    label.encode()
}

#[tokio::test]
async fn a_client_reads_and_writes_chunks_of_its_own_objects_only() {
    let signed = Signed::new();
    let cluster = Cluster::start_proven(1, &|node| Some(agent(&signed, node))).await;
    let connect = async |role, name: &str| {
        let client = client_as(Some(signed.credentials(role, name)));
        client.connect(cluster.nodes[0].address()).await.unwrap()
    };
    let copy = |stripe| {
        let stripe = StripeId(stripe);
        ChunkCopy { stripe, stamp: agents::put_key().stamp(stripe), ..well().0 }
    };
    let write = async |by: &mut ChunkConnection, stripe, label: &Label| {
        let mut writer = by.write(copy(stripe), 4).await.unwrap();
        writer.push(b"well").await.unwrap();
        writer.finish(crc32c(b"well"), label).await.map_err(|error| error.to_string())
    };
    let read = async |by: &mut ChunkConnection, stripe| {
        let bytes = by.read(copy(stripe), 0, &mut [0; 4]).await;
        bytes.and(by.read_label(copy(stripe)).await).map_err(|error| error.to_string())
    };
    let mut admin = connect(AccessRole::Admin, "root").await;
    let (ours, theirs) = (label_of("us/x"), label_of("usa/x"));
    for (stripe, label) in [(1, &ours), (2, &theirs), (3, &Label::default())] {
        write(&mut admin, stripe, label).await.unwrap();
    }
    let mut client = connect(AccessRole::Client, "us").await;
    assert_eq!(read(&mut client, 1).await, Ok(ours.clone()));
    for stripe in [2, 3] {
        for _ in 0..2 {
            let error = read(&mut client, stripe).await.unwrap_err();
            assert!(error.contains("begins with your prefix"), "{error}");
        }
        read(&mut client, 1).await.unwrap();
        read(&mut admin, stripe).await.unwrap();
    }
    write(&mut client, 11, &ours).await.unwrap();
    // Stripes of others, under a stamp that the coordinator has not sent to it.
    for stamp in [0, 1, copy(1).stamp.0] {
        let guessed = ChunkCopy { stamp: Stamp(stamp), ..copy(14) };
        let mut writer = client.write(guessed, 4).await.unwrap();
        writer.push(b"well").await.unwrap();
        let error = writer.finish(crc32c(b"well"), &ours).await.unwrap_err().to_string();
        assert!(error.contains("no put of yours was given it"), "{error}");
        client = connect(AccessRole::Client, "us").await;
    }
    for (stripe, label) in [(12, &theirs), (13, &Label::default())] {
        let error = write(&mut client, stripe, label).await.unwrap_err();
        assert!(error.contains("begins with your prefix"), "{error}");
        let mut admin = connect(AccessRole::Admin, "root").await;
        let error = read(&mut admin, stripe).await.unwrap_err();
        assert!(error.contains("missing"), "it was not kept: {error}");
        client = connect(AccessRole::Client, "us").await;
    }
}

#[tokio::test]
async fn probes_are_for_agents() {
    let signed = Signed::new();
    let cluster = Cluster::start_proven(1, &|node| Some(agent(&signed, node))).await;
    let limits = suture_drivers::limit::Port::unlimited();
    let probe = async |role, name: &str, who| {
        let credentials = Some(signed.credentials(role, name));
        let local_identity = LocalIdentity { cluster: CLUSTER, who, credentials };
        let opened =
            Connection::open(&cluster.nodes[0].address(), &local_identity, &limits, DAY).await;
        let mut connection = opened.unwrap().0;
        connection.write_frame(Frame::Probe { bytes: 4 << 20 }).await.unwrap();
        connection.read_frame().await.unwrap()
    };
    for role in [AccessRole::Client, AccessRole::Admin, AccessRole::Coordinator] {
        let answer = probe(role, "x", Who::Client).await;
        assert_eq!(answer, Frame::Error(Denial::Unproven), "{role}");
    }
    let answer = probe(AccessRole::Agent, "n1", Who::Prober).await;
    assert!(matches!(answer, Frame::ReadData(_)), "{answer:?}");
}

#[tokio::test]
async fn nobody_is_a_node_whose_name_its_certificate_does_not_say() {
    let signed = Signed::new();
    let cluster = Cluster::start_proven(2, &|node| Some(agent(&signed, node))).await;
    let limits = suture_drivers::limit::Port::unlimited();
    let agent = cluster.nodes[0].address();
    let hello = async |role, name: &str, who| {
        let credentials = Some(signed.credentials(role, name));
        let local_identity = LocalIdentity { cluster: CLUSTER, who, credentials };
        let opened = Connection::open(&agent, &local_identity, &limits, DAY).await;
        opened.map(|_| ()).map_err(|error| error.to_string())
    };
    let second = NodeId(1);
    hello(AccessRole::Agent, &name(second), Who::Agent(second)).await.unwrap();
    for (role, name, who) in [
        (AccessRole::Agent, "n7", Who::Agent(second)),
        (AccessRole::Admin, &name(second), Who::Agent(second)),
        (AccessRole::Agent, &name(second), Who::Client),
    ] {
        let error = hello(role, name, who).await.unwrap_err();
        assert!(error.contains("it asks for credentials"), "{role} {name} as {who}: {error}");
    }
}

/// Passes on what comes, in pieces of so many bytes at first.
async fn dribble(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, piece: usize) {
    let (mut buffer, mut passed) = ([0; 4096], 0);
    loop {
        let at_once = if passed < 8000 { piece } else { buffer.len() };
        let Ok(bytes @ 1..) = from.read(&mut buffer[..at_once]).await else { return };
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
        passed += bytes;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_handshake_may_come_in_pieces_of_any_size() {
    let signed = Signed::new();
    let cluster = Cluster::start_proven(1, &|node| Some(agent(&signed, node))).await;
    let mut through = cluster.nodes[0].address();
    for piece in [1, 2, 5, 6, 100, 1400] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let agent = std::mem::replace(&mut through.addr, listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let agent = TcpStream::connect(agent).await.unwrap();
            [&client, &agent].into_iter().for_each(|stream| stream.set_nodelay(true).unwrap());
            let ((asked, answer), (answered, ask)) = (client.into_split(), agent.into_split());
            tokio::join!(dribble(asked, ask, piece), dribble(answered, answer, piece));
        });
        let client = client_as(Some(signed.credentials(AccessRole::Admin, "root")));
        let (copy, _) = well();
        let copy = ChunkCopy { stripe: StripeId(piece as u64), ..copy };
        client.write_chunk(through.clone(), copy, crc32c(b"well"), b"well").await.unwrap();
        through = cluster.nodes[0].address();
    }
}

#[tokio::test]
async fn an_agent_that_is_another_than_the_one_meant_is_not_believed() {
    let signed = Signed::new();
    let cluster = Cluster::start_proven(2, &|node| Some(agent(&signed, node))).await;
    let mut agent = cluster.nodes[0].address();
    agent.name = "n1".into();
    let client = client_as(Some(signed.credentials(AccessRole::Admin, "root")));
    let error = client.connect(agent).await.unwrap_err().to_string();
    assert!(error.contains("it is agent n0, not agent n1"), "{error}");
    let plain = agents::Cluster::start(1, Default::default()).await;
    let error = client.connect(plain.nodes[0].address()).await.unwrap_err().to_string();
    assert!(error.contains("credentials"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_was_revoked_ends_connections_that_there_are() {
    let signed = Signed::new();
    let own = signed.folder(AccessRole::Agent, "n0");
    let kept = open(&own);
    let cluster = Cluster::start_proven(1, &|_| Some(kept.clone())).await;
    let client = client_as(Some(signed.credentials(AccessRole::Admin, "lost-laptop")));
    let mut connection = client.connect(cluster.nodes[0].address()).await.unwrap();
    let (copy, _) = well();
    let mut writer = connection.write(copy, 4).await.unwrap();
    writer.push(b"well").await.unwrap();
    writer.finish(crc32c(b"well"), &Default::default()).await.unwrap();
    connection.read(copy, 0, &mut [0; 4]).await.unwrap();
    let earlier = SystemTime::now() - Duration::from_secs(60);
    signed.credentials(AccessRole::Viewer, "guest");
    signed.authority.revoke("viewer guest", earlier).unwrap();
    signed.authority.give(&own).unwrap();
    let older = std::fs::read(own.join("ca.crl")).unwrap();
    signed.authority.revoke("admin lost-laptop", SystemTime::now()).unwrap();
    signed.authority.give(&own).unwrap();
    assert!(kept.reload(SystemTime::now()).unwrap());
    assert!(connection.read(copy, 0, &mut [0; 4]).await.is_err(), "it was open");
    let error = client.connect(cluster.nodes[0].address()).await.unwrap_err().to_string();
    assert!(error.contains("revoked"), "{error}");
    let other = signed.credentials(AccessRole::Admin, "other");
    client_as(Some(other)).read_chunk(cluster.nodes[0].address(), copy, well().1).await.unwrap();
    // A list that vanishes does not give back what it took, nor does one from before.
    std::fs::write(own.join("ca.crl"), older).unwrap();
    let error = kept.reload(SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("ca.crl is older"), "{error}");
    std::fs::remove_file(own.join("ca.crl")).unwrap();
    let error = kept.reload(SystemTime::now()).unwrap_err().to_string();
    assert!(error.contains("ca.crl is gone"), "{error}");
    let error = client.connect(cluster.nodes[0].address()).await.unwrap_err().to_string();
    assert!(error.contains("revoked"), "{error}");
}

#[tokio::test]
async fn an_authority_changes_and_nobody_is_cut_off() {
    let signed = Signed::new();
    let (node, user) =
        (signed.folder(AccessRole::Agent, "n0"), signed.folder(AccessRole::Admin, "a"));
    let (kept, before) = (open(&node), open(&user));
    let cluster = Cluster::start_proven(1, &|_| Some(kept.clone())).await;
    let now = SystemTime::now();
    let mut open_since =
        client_as(Some(before.clone())).connect(cluster.nodes[0].address()).await.unwrap();
    signed.authority.rotate("tests", now).unwrap();
    for folder in [&node, &user] {
        signed.authority.give(folder).unwrap();
    }
    assert!(kept.reload(now).unwrap() && before.reload(now).unwrap());
    use_agent(&cluster, before.clone()).await.unwrap();
    assert!(signed.authority.finish(false, now).is_err(), "nobody has a new certificate yet");
    signed.folder(AccessRole::Agent, "n0");
    assert!(kept.reload(now).unwrap());
    use_agent(&cluster, before.clone()).await.unwrap();
    signed.folder(AccessRole::Admin, "a");
    assert!(before.reload(now).unwrap());
    assert!(signed.authority.finish(false, now).unwrap().is_empty());
    let (copy, _) = well();
    open_since.write(copy, 0).await.map(|_| ()).expect("its certificate is trusted still");
    for folder in [&node, &user] {
        signed.authority.give(folder).unwrap();
    }
    assert!(kept.reload(now).unwrap() && before.reload(now).unwrap());
    use_agent(&cluster, before).await.unwrap();
    // A connection by the former authority has ended; its client connects anew.
    assert!(!open_since.is_usable() || open_since.read(copy, 0, &mut [0; 1]).await.is_err());
}

#[test]
fn who_relies_on_an_authority_whose_time_is_soon_over_is_told() {
    let (now, dir) = (SystemTime::now(), tempfile::tempdir().unwrap());
    // It lasts for ten years.
    let begun = now - 3640 * DAY;
    let authority = Authority::create(&dir.path().join("authority"), "old one", begun).unwrap();
    let (folder, root) = (dir.path().join("root"), Principal::new(AccessRole::Admin, "root"));
    authority.issue(&root.unwrap(), DAY, &folder, now).unwrap();
    let warnings = Credentials::read(&folder, now).unwrap().warnings(now);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.starts_with("the authority '") && warning.contains("old one"), "{warning}");
    assert!(warning.contains("expires in") && warning.contains("suture cert rotate"), "{warning}");
    let fresh = Signed::new().credentials(AccessRole::Admin, "root").current();
    assert_eq!(fresh.warnings(now), [""; 0]);
}

#[test]
fn no_key_is_in_what_is_printed_of_credentials() {
    let signed = Signed::new();
    let folder = signed.folder(AccessRole::Admin, "root");
    let key = std::fs::read(folder.join("tls.key")).unwrap();
    let shown = format!("{:?}", open(&folder));
    let (text, numbers) = (String::from_utf8(key.clone()).unwrap(), format!("{key:?}"));
    assert!(!shown.contains(text.lines().nth(1).unwrap()), "{shown}");
    assert!(!shown.contains(&numbers[1..200]), "{shown}");
}

#[test]
fn credentials_that_cannot_be_used_are_refused_with_the_file() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    let (signed, others) = (Signed::new(), Signed::new());
    let now = SystemTime::now();
    let fresh = || signed.folder(AccessRole::Agent, "n0");
    let other = others.folder(AccessRole::Agent, "n0");
    let refused =
        |folder: &Path, at: SystemTime| Credentials::read(folder, at).unwrap_err().to_string();
    let folder = fresh();
    assert!(Credentials::read(&folder, now).is_ok());
    for (at, expected) in [(now + 2 * DAY, "expired"), (now - 2 * DAY, "not valid yet")] {
        let error = refused(&folder, at);
        assert!(error.contains("tls.crt") && error.contains(expected), "{error}");
    }
    for (file, text, expected) in [
        ("tls.crt", "nothing", "is not a certificate"),
        ("tls.key", "nothing", "is not a key"),
        ("ca.crt", "", "is not a certificate"),
        (
            "ca.crl",
            "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
            "not a list of revocations",
        ),
        ("ca.crl", "", "not a list of revocations"),
    ] {
        fs::write(folder.join(file), text).unwrap();
        let error = refused(&folder, now);
        assert!(error.contains(file) && error.contains(expected), "{error}");
        let _ = fs::remove_file(folder.join("ca.crl"));
        fs::remove_dir_all(&folder).unwrap();
        fresh();
    }
    for (file, expected) in [("tls.key", "is not the key of"), ("ca.crt", "another authority")] {
        fs::copy(other.join(file), folder.join(file)).unwrap();
        let error = refused(&folder, now);
        assert!(error.contains(expected), "{error}");
        fs::remove_dir_all(&folder).unwrap();
        fresh();
    }
    fs::set_permissions(folder.join("tls.key"), fs::Permissions::from_mode(0o640)).unwrap();
    let error = refused(&folder, now);
    assert!(error.contains("mode 640") && error.contains("chmod go-rwx"), "{error}");
    fs::remove_file(folder.join("tls.key")).unwrap();
    let error = refused(&folder, now);
    assert!(error.contains("cannot read") && error.contains("tls.key"), "{error}");
}

/// What a browser that trusts the authority says of a certificate at a host.
fn at_host(folder: &Path, host: &str) -> Result<(), String> {
    let pem = |name| CertificateDer::from_pem_file(folder.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pem("ca.crt")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let (host, now) = (ServerName::try_from(host.to_string()).unwrap(), UnixTime::now());
    let verified =
        verifier.build().unwrap().verify_server_cert(&pem("tls.crt"), &[], &host, &[], now);
    verified.map(drop).map_err(|error| error.to_string())
}

#[test]
fn browsers_know_a_coordinator_by_the_hosts_that_were_said() {
    let signed = Signed::new();
    let (who, now) = (Principal::new(AccessRole::Coordinator, "c0").unwrap(), SystemTime::now());
    let hosts = ["suture.example.org", "*.lab.example.org", "192.0.2.7", "2001:db8::7"];
    let folder = signed.dir.path().join("c0");
    let issue = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|host| host.to_string()).collect();
        signed.authority.issue_at(&hosts, &who, DAY, &folder, now)
    };
    issue(&hosts).unwrap();
    for host in ["suture.example.org", "a.lab.example.org", "192.0.2.7", "2001:db8::7"] {
        assert_eq!(at_host(&folder, host), Ok(()), "{host}");
    }
    let other = at_host(&folder, "other.example.org").unwrap_err();
    assert!(other.contains("not valid for name"), "{other}");
    assert_eq!(Credentials::read(&folder, now).unwrap().own.principal, who);
    for host in ["suture.example.org:7480", "https://suture", "a b", "", "*"] {
        let refused = issue(&[host]).unwrap_err().to_string();
        assert!(refused.contains("is neither a host name nor an address"), "{host}: {refused}");
    }
}
