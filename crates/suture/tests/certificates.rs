//! Certificates in the hands of operators, with real processes: the authority changes while
//! objects come and go, certificates end and are renewed, and a client that asks for what is not
//! its own is named.
//!
//! Place: before anything of either plane is received, around the whole life of a repair.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::daemons::{self, count, noise};
use crate::secured::Secured;
use suture_drivers::address::AgentAddress;
use suture_drivers::chunk_client::{ChunkClient, ChunkConnection};
use suture_drivers::identity::AccessRole;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::net::local_identity::LocalIdentity;
use suture_edge::checksum::crc32c;
use suture_repair::id::{ChunkCopy, ChunkIndex, Stamp, StripeId};
use suture_repair::label::Label;
use suture_repair::wire::{ClusterId, Who};

const AGENTS: usize = 4;

/// An object that comes as the test gives it, piece by piece.
struct SlowPut(Child, ChildStdin);

impl SlowPut {
    fn begin(cluster: &Secured, name: &str) -> SlowPut {
        SlowPut::begin_as("root", cluster, name)
    }

    fn begin_as(who: &str, cluster: &Secured, name: &str) -> SlowPut {
        let how = ["put", "-", "--name", name, "--code", "rs(2,1)", "--chunk-size", "64KiB"];
        let mut command = cluster.command(who);
        command.args(how).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut put = command.spawn().unwrap();
        let stdin = put.stdin.take().unwrap();
        let mut put = SlowPut(put, stdin);
        put.push(&noise(400_000));
        put
    }

    /// A put that was given up reads no more.
    fn push(&mut self, bytes: &[u8]) {
        let _ = self.1.write_all(bytes);
    }

    /// Gives the exit status, and what it said.
    fn end(self) -> (i32, String) {
        let SlowPut(put, stdin) = self;
        drop(stdin);
        let output = put.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), said)
    }
}

/// A get whose bytes are taken as the test wants them.
struct SlowGet(Child, ChildStdout, Vec<u8>);

impl SlowGet {
    fn begin(cluster: &Secured, name: &str) -> SlowGet {
        let mut command = cluster.command("root");
        command.args(["get", name, "-o", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut get = command.spawn().unwrap();
        let stdout = get.stdout.take().unwrap();
        let mut get = SlowGet(get, stdout, Vec::new());
        get.pull(100_000);
        get
    }

    fn pull(&mut self, bytes: u64) {
        (&mut self.1).take(bytes).read_to_end(&mut self.2).unwrap();
    }

    /// Gives the exit status, what it said, and what came.
    fn end(mut self) -> (i32, String, Vec<u8>) {
        self.pull(u64::MAX);
        let SlowGet(get, _, bytes) = self;
        let output = get.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), said, bytes)
    }
}

/// Puts objects and gets them, one after the other, until `is_enough` is set.
fn load(cluster: &Secured, is_enough: &AtomicBool) -> usize {
    let (content, source, back) = (noise(300_000), cluster.path("load"), cluster.path("loaded"));
    fs::write(&source, &content).unwrap();
    let (source, back) = (source.display().to_string(), back.display().to_string());
    let mut rounds = 0;
    while !is_enough.load(Ordering::Relaxed) {
        let name = format!("load-{rounds}");
        let how = ["--code", "rs(2,1)", "--chunk-size", "64KiB"];
        cluster.ok(&[&["put", &source, "--name", &name][..], &how].concat());
        cluster.ok(&["get", &name, "-o", &back]);
        assert!(fs::read(&back).unwrap() == content, "'{name}' came back with other bytes");
        rounds += 1;
    }
    rounds
}

/// Ends the load when dropped, also when a test fails.
struct Enough<'a>(&'a AtomicBool);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_for_new_credentials(cluster: &Secured, times: usize) {
    let agents = cluster.agents.len();
    let daemons = (0..agents).map(|index| format!("n{index}")).chain(["coordinator".into()]);
    for daemon in daemons {
        cluster.wait_for("everybody has read what is new", || {
            let log = cluster.log(&daemon);
            (log.matches("new credentials are in use").count() >= times).then_some(())
        });
    }
}

/// A change of the authority, given to all folders.
fn give(cluster: &Secured, args: &[&str]) -> String {
    let all = cluster.all_own();
    let folders: Vec<&str> = all.iter().map(String::as_str).collect();
    cluster.ok(&[args, &folders[..]].concat())
}

#[test]
fn objects_are_stored_while_the_authority_changes() {
    let cluster = Secured::of(AGENTS);
    let kept = cluster.put("kept", 9_000_000);
    let give = |args: &[&str]| give(&cluster, args);
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&cluster, &is_enough));
        let enough = Enough(&is_enough);
        let mut across_the_first = SlowPut::begin(&cluster, "across-the-first");
        let mut across_both = SlowPut::begin(&cluster, "across-both");
        let got_across_both = SlowGet::begin(&cluster, "kept");
        assert!(give(&["cert", "rotate"]).contains("the new one signs"));
        wait_for_new_credentials(&cluster, 1);
        let early = cluster.run(&["cert", "rotate", "--finish"]);
        assert_eq!(early.status, 2, "{}", early.stderr);
        assert!(early.stderr.contains("9 certificates are of the former"), "{}", early.stderr);
        cluster.sign_anew();
        wait_for_new_credentials(&cluster, 2);
        across_the_first.push(&noise(400_000));
        assert_eq!(across_the_first.end(), (0, String::new()));
        let mut across_the_second = SlowPut::begin(&cluster, "across-the-second");
        assert!(give(&["cert", "rotate", "--finish"]).contains("only the new authority"));
        wait_for_new_credentials(&cluster, 3);
        across_the_second.push(&noise(400_000));
        assert_eq!(across_the_second.end(), (0, String::new()));
        // They began with a certificate of the authority that is trusted no more.
        across_both.push(&noise(400_000));
        assert_eq!(across_both.end(), (0, String::new()));
        let (status, said, bytes) = got_across_both.end();
        assert_eq!(status, 0, "{said}");
        assert!(bytes == kept, "it came with other bytes");
        drop(enough);
        assert!(loading.join().expect("no put or get fails meanwhile") > 3);
    });
    let twice = [noise(400_000), noise(400_000)].concat();
    cluster.assert_reads("kept", &kept);
    cluster.assert_reads("across-the-first", &twice);
    cluster.assert_reads("across-the-second", &twice);
    cluster.assert_reads("across-both", &twice);
    cluster.wait("all is as it was", |status| {
        status["state"] == "healthy" && count(status, "up") == AGENTS
    });
}

#[test]
fn a_put_of_who_was_given_no_new_certificate_ends_and_says_how_to_get_one() {
    let cluster = Secured::of(3);
    // A copy gets what is trusted, and not the new certificate.
    fs::create_dir(cluster.own("elsewhere")).unwrap();
    for file in fs::read_dir(cluster.own("team")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), cluster.own("elsewhere").join(file.file_name())).unwrap();
    }
    let mut put = SlowPut::begin_as("elsewhere", &cluster, "team/x");
    give(&cluster, &["cert", "rotate"]);
    wait_for_new_credentials(&cluster, 1);
    cluster.sign_anew();
    wait_for_new_credentials(&cluster, 2);
    give(&cluster, &["cert", "rotate", "--finish"]);
    wait_for_new_credentials(&cluster, 3);
    put.push(&noise(400_000));
    let (status, said) = put.end();
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("another authority"), "{said}");
    assert!(said.contains("take a new one (suture cert user team --role client)"), "{said}");
    let found = cluster.run(&["ls"]);
    assert_eq!(
        (found.status, found.stdout.as_str()),
        (0, "0 objects, 0 B\n"),
        "nothing of it is visible"
    );
}

/// Whether the log says something since that byte.
fn says(log: &str, since: usize, words: &str) -> bool {
    log[since.min(log.len())..].contains(words)
}

#[test]
fn a_certificate_that_ends_is_warned_of_shuts_its_node_out_and_is_renewed_under_way() {
    let cluster = Secured::of(AGENTS);
    let content = cluster.put("kept", 300_000);
    assert!(!says(&cluster.log("n1"), 0, "expires in"), "it has a year");
    cluster.sign_for(AccessRole::Agent, "n1", Duration::from_secs(10));
    let ends = "the certificate of agent n1 expires within the hour: give it a new one";
    cluster.wait("status warns of it", |status| status["warnings"].to_string().contains(ends));
    cluster.wait_for("its own log does", || says(&cluster.log("n1"), 0, ends).then_some(()));
    let shown = cluster.ok(&["cert", "show", cluster.own("n1").to_str().unwrap()]);
    assert!(shown.contains(&format!("warning: {ends}")), "{shown}");
    cluster.wait("it is shut out when it ended", |status| count(status, "up") == AGENTS - 1);
    cluster.assert_reads("kept", &content);
    let ended = "the certificate of agent n1 has expired: give it a new one";
    cluster.wait_for("its own log says why", || says(&cluster.log("n1"), 0, ended).then_some(()));
    let shown = cluster.run(&["cert", "show", cluster.own("n1").to_str().unwrap()]);
    assert!(shown.status == 1 && shown.stderr.contains("expired"), "{}", shown.stderr);
    cluster.sign_for(AccessRole::Agent, "n1", Duration::from_secs(24 * 3600));
    cluster.wait("it is back without a restart", |status| {
        status["state"] == "healthy" && count(status, "up") == AGENTS
    });
    cluster.assert_reads("kept", &content);
    cluster.sign_for(AccessRole::Admin, "root", Duration::from_secs(100));
    let warned = cluster.run(&["ls"]);
    assert_eq!(warned.status, 0, "{}", warned.stderr);
    assert!(warned.stderr.starts_with("warning: the certificate of admin root expires within"));
}

/// A connection to the first agent, with these credentials.
async fn connect(cluster: &Secured, who: &str) -> ChunkConnection {
    let nodes =
        serde_json::from_str::<serde_json::Value>(&cluster.ok(&["status", "--format", "json"]));
    let status = nodes.unwrap();
    let node = &status["nodes"][0];
    let agent = AgentAddress {
        name: node["name"].as_str().unwrap().into(),
        node: None,
        addr: node["address"].as_str().unwrap().parse().unwrap(),
    };
    let id = u64::from_str_radix(status["cluster"].as_str().unwrap(), 16).unwrap();
    let kept = Kept::open(&cluster.own(who), SystemTime::now()).unwrap();
    let local_identity = LocalIdentity {
        cluster: ClusterId(id),
        who: Who::Client,
        credentials: Some(Arc::new(kept)),
    };
    let wait = Duration::from_secs(10);
    let client = ChunkClient { local_identity, connect_timeout: wait, idle_timeout: wait };
    client.connect(agent).await.unwrap()
}

/// A copy that the first agent has.
fn a_copy(cluster: &Secured) -> ChunkCopy {
    let chunks = daemons::chunk_files(&cluster.path("n0"));
    let name = chunks[0].file_name().unwrap().to_str().unwrap().to_owned();
    let parts: Vec<u64> =
        name.split('.').map(|part| u64::from_str_radix(part, 16).unwrap()).collect();
    let chunk = ChunkIndex(u8::try_from(parts[1]).unwrap());
    ChunkCopy { stripe: StripeId(parts[0]), chunk, stamp: Stamp(parts[2]) }
}

#[test]
fn a_client_that_asks_an_agent_for_chunks_of_others_is_named_in_its_log() {
    let cluster = Secured::of(3);
    let content = cluster.put("secret", 300_000);
    let copy = a_copy(&cluster);
    let files = daemons::chunk_files(&cluster.path("n0")).len();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        connect(&cluster, "root").await.read(copy, 0, &mut [0; 4]).await.unwrap();
        let mut team = connect(&cluster, "team").await;
        let refused = team.read(copy, 0, &mut [0; 4]).await.unwrap_err().to_string();
        assert!(refused.contains("begins with your prefix"), "{refused}");
        team.read_label(copy).await.unwrap_err();
        let other = ChunkCopy { stripe: StripeId(77), ..copy };
        let mut writer = team.write(other, 4).await.unwrap();
        writer.push(b"mine").await.unwrap();
        let refused = writer.finish(crc32c(b"mine"), &Label::default()).await.unwrap_err();
        assert!(refused.to_string().contains("begins with your prefix"), "{refused}");
        // The same over and over: there are lines for the first ones only.
        for _ in 0..200 {
            team.read(copy, 0, &mut [0; 4]).await.unwrap_err();
        }
    });
    let log = cluster.log("n0");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" refused: ")).collect();
    let of = |what: &str| format!("{what} from client team at 127.0.0.1 refused: ");
    assert!(lines[0].contains(&of("a read")), "{log}");
    assert!(lines[0].contains("is not of an object whose name begins with team/"), "{log}");
    assert!(lines.iter().any(|line| line.contains(&of("a chunk"))), "{log}");
    assert!(lines.len() < 30, "{} lines", lines.len());
    assert_eq!(daemons::chunk_files(&cluster.path("n0")).len(), files, "nothing was kept");
    cluster.assert_reads("secret", &content);
}

/// The first bytes that a TLS client sends: a record that announces more than comes.
const HALF_A_HELLO: [u8; 11] = [22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

#[test]
fn half_a_handshake_nonsense_and_plain_words_at_a_port_with_certificates_end_nobody() {
    let cluster = Secured::of(3);
    let content = cluster.put("kept", 300_000);
    let status: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["status", "--format", "json"])).unwrap();
    let agent = status["nodes"][0]["address"].as_str().unwrap();
    let mut open = Vec::new();
    for at in [&cluster.address[..], agent] {
        for round in 0..300 {
            let mut stream = TcpStream::connect(at).unwrap();
            let plain = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..];
            let said = match round % 4 {
                0 => &HALF_A_HELLO,
                1 => &noise(round * 7 + 1)[..],
                2 => plain,
                _ => &[],
            };
            // It may be hung up on before all of it was sent.
            let _ = stream.write_all(said);
            open.push(stream);
        }
    }
    cluster.assert_reads("kept", &content);
    cluster.wait("nobody was missed", |status| count(status, "up") == 3);
    let logs = [cluster.log("coordinator"), cluster.log("n0")];
    for log in &logs {
        let refused = log.lines().filter(|line| line.contains(" refused: "));
        assert!((1..60).contains(&refused.count()), "{log}");
    }
    assert!(logs.iter().all(|log| !log.contains("panicked")));
    // Those that sent half of something are hung up on, and receive nothing of the cluster.
    for mut stream in open.into_iter().step_by(4).take(3) {
        stream.set_read_timeout(Some(daemons::TIMEOUT)).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() < 16, "an alert at most: {heard:?}");
    }
}
