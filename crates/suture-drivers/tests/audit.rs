//! What the audit log of a coordinator has after changes, refusals and puts, over real connections.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::signed::Signed;
use crate::{control, words};
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::access::{Call, Caller};
use suture_drivers::control::audit::Audit;
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::proto;
use suture_drivers::identity::AccessRole;
use suture_drivers::metadata::{Incomplete, MetadataStore};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tonic::{Code, Status};

struct Running {
    dir: TempDir,
    address: SocketAddr,
    signed: Signed,
}

impl Running {
    async fn start(log: &Path) -> Running {
        let (dir, signed) = (tempfile::tempdir().unwrap(), Signed::new());
        let store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = control::coordinator(store).with_audit(Audit::open(log).unwrap());
        let credentials = Some(signed.credentials(AccessRole::Coordinator, "c"));
        let limits = ControlLimits::default();
        tokio::spawn(acceptor::serve(listener, service, limits, credentials));
        Running { dir, address, signed }
    }

    async fn client(&self, role: AccessRole, name: &str) -> Client {
        let credentials = self.signed.credentials(role, name);
        client::connect(&self.address.to_string(), Some(credentials)).await.unwrap()
    }
}

/// The lines of operators and admins, then of all others.
fn lines(log: &Path) -> Vec<serde_json::Value> {
    let of = |log: &Path| {
        let text = fs::read_to_string(log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()
    };
    [of(log), of(&log.with_extension("others.jsonl"))].concat()
}

fn named(name: &str) -> proto::ObjectName {
    proto::ObjectName { name: name.into() }
}

#[tokio::test]
async fn who_asked_for_what_and_what_came_of_it_is_written_down() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let running = Running::start(&log).await;
    let mut alice = running.client(AccessRole::Operator, "alice").await;
    alice.start_scrub(proto::ScrubRequest {}).await.unwrap();
    alice.status(proto::StatusRequest::default()).await.unwrap();
    alice.remove(named("a")).await.unwrap_err();
    let mut bob = running.client(AccessRole::Client, "bob").await;
    bob.remove(named("alice/x")).await.unwrap_err();
    bob.remove(named("bob/x")).await.unwrap_err();
    let lines = lines(&log);
    let said: Vec<String> = lines
        .iter()
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
            format!("{} {} {:.12}", text("who"), text("call"), text("result"))
        })
        .collect();
    assert_eq!(
        said,
        [
            "operator alice StartScrub asked",
            "- StartScrub done",
            "operator alice Remove refused: ope",
            "client bob Remove refused: 'al",
            "client bob Remove asked",
            "- Remove failed: ther",
        ]
    );
    assert!(lines[0]["from"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(lines[0]["time"].as_str().unwrap().ends_with('Z'));
    drop(running.dir);
}

#[tokio::test]
async fn no_number_of_calls_of_a_client_makes_the_lines_of_others_go() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let running = Running::start(&log).await;
    let mut alice = running.client(AccessRole::Admin, "alice").await;
    alice.start_scrub(proto::ScrubRequest {}).await.unwrap();
    let before = fs::read(&log).unwrap();
    let mut bob = running.client(AccessRole::Client, "bob").await;
    let mut codes = Vec::new();
    for name in ["alice/x", "bob/x", &"bob/".repeat(5000)] {
        for _ in 0..300 {
            codes.push(bob.remove(named(name)).await.unwrap_err().code());
        }
    }
    let begin = proto::PutBegin { name: "bob/\n".into(), ..Default::default() };
    let step = Some(proto::put_request::Step::Begin(begin));
    for _ in 0..300 {
        let said = tokio_stream::iter([proto::PutRequest { step: step.clone() }]);
        let mut replies = bob.put(said).await.unwrap().into_inner();
        codes.push(replies.message().await.unwrap_err().code());
    }
    for code in [Code::PermissionDenied, Code::NotFound, Code::ResourceExhausted] {
        assert!(codes.contains(&code), "{code:?}");
    }
    assert_eq!(fs::read(&log).unwrap(), before, "of alice nothing has gone");
    tokio::time::sleep(Duration::from_secs(4)).await;
    bob.remove(named("alice/x")).await.unwrap_err();
    let said = lines(&log);
    assert!(said.len() < 400, "{} lines for {} calls", said.len(), codes.len());
    assert!(said.iter().any(|line| line["result"].to_string().contains("others before it)")));
    alice.remove(named("bob/x")).await.unwrap_err();
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 4, "she is not held up");
}

#[tokio::test]
async fn who_may_command_nothing_does_not_hear_which_commands_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let running = Running::start(&log).await;
    let node = proto::NodeCommand { name: "n9".into(), action: 99, ..Default::default() };
    let repair = proto::RepairCommand { action: 99, ..Default::default() };
    let mut bob = running.client(AccessRole::Client, "bob").await;
    let refused = [
        bob.command_node(node.clone()).await.unwrap_err(),
        bob.command_repair(repair.clone()).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(status.code(), Code::PermissionDenied, "{status}");
    }
    let results: Vec<String> = lines(&log).iter().map(|line| line["result"].to_string()).collect();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|result| result.contains("refused: client bob")), "{results:?}");
    let mut alice = running.client(AccessRole::Operator, "alice").await;
    let unknown = [
        alice.command_node(node).await.unwrap_err(),
        alice.command_repair(repair).await.unwrap_err(),
    ];
    for status in unknown {
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
}

#[tokio::test]
async fn a_full_disk_stops_changes_and_nothing_else() {
    let running = Running::start(Path::new("/dev/full")).await;
    let mut admin = running.client(AccessRole::Admin, "root").await;
    admin.status(proto::StatusRequest::default()).await.unwrap();
    let error = admin.start_scrub(proto::ScrubRequest {}).await.unwrap_err();
    assert!(error.message().contains("the audit log cannot be written"), "{error}");
    let mut agent = running.client(AccessRole::Agent, "n1").await;
    let said = tokio_stream::iter([words::join("n1")]);
    agent.session(said).await.expect("repairs need agents");
    let error = admin.remove(named("a")).await.unwrap_err();
    assert!(error.message().starts_with("nothing was changed"), "{error}");
}

/// A file system of its own, of a few hundred KiB; none where this test may not make one.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn new() -> Option<SmallDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(dir.path()).status();
        let is_mounted = mounted.is_ok_and(|status| status.success());
        if !is_mounted {
            let _ = writeln!(std::io::stderr(), "SKIPPED: mounting a small tmpfs needs root");
        }
        is_mounted.then_some(SmallDisk(dir))
    }

    /// Takes what is left of it, to the last byte.
    fn fill(&self) {
        let mut filler = fs::File::create(self.0.path().join("filler")).unwrap();
        for bytes in [4096, 1] {
            while filler.write_all(&vec![7; bytes]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the log is still open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_disk_that_fills_between_both_lines_of_changes_has_room_for_all_second_ones() {
    let Some(disk) = SmallDisk::new() else { return };
    let log = disk.0.path().join("audit.jsonl");
    let (audit, caller) =
        (Audit::open(&log).unwrap(), Caller::unproven("[::1]:9".parse().unwrap()));
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.push(audit.begin(&caller, Call::Put, "a").await.unwrap());
    }
    disk.fill();
    for call in [Call::Remove, Call::StartScrub] {
        let error = audit.begin(&caller, call, "a").await.unwrap_err();
        assert!(error.message().starts_with("nothing was changed"), "{error}");
    }
    // Refusals take no space of the changes in progress.
    for _ in 0..500 {
        audit.refuse(&caller, Call::Put, "a", &"no ".repeat(300)).await;
    }
    for begun in begun {
        audit.end(begun, Err(Status::internal("why ".repeat(300)))).await.unwrap();
    }
    let found = lines(&log);
    let of = |number: u64| found.iter().filter(|line| line["number"] == number).count();
    assert_eq!((1..=7).map(of).collect::<Vec<_>>(), [2, 2, 2, 2, 2, 0, 0], "{found:#?}");
    disk.free();
    let begun = audit.begin(&caller, Call::Remove, "a").await.unwrap();
    audit.end(begun, Ok(())).await.unwrap();
}

#[tokio::test]
async fn a_put_that_is_given_up_is_written_down_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let running = Running::start(&log).await;
    let mut admin = running.client(AccessRole::Admin, "root").await;
    let begin = proto::PutBegin {
        name: "a".into(),
        code: "rs(2,1)".into(),
        chunk_bytes: 64,
        overwrite: false,
    };
    let step = Some(proto::put_request::Step::Begin(begin));
    let said = tokio_stream::iter([proto::PutRequest { step }]);
    let mut replies = admin.put(said).await.unwrap().into_inner();
    while let Ok(Some(_)) = replies.message().await {}
    let lines = lines(&log);
    assert_eq!(lines[0]["what"], "a");
    let result = lines[1]["result"].as_str().unwrap();
    assert!(result.starts_with("failed"), "{result}");
}
