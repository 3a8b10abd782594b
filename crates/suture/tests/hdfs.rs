//! A coordinator of HDFS, and an agent beside a DataNode, as operators meet them: what they say
//! while no NameNode answers, and what after that.

use std::fs;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::daemons::{self, Cluster, Process, address_in_log, get, start_coordinator, suture};
use crate::listed::JsonPage;
use serde_json::{Value, json};
use suture_drivers::hdfs::frame::{Frames, PROTOCOL};
use suture_drivers::hdfs::namenode::Question;

/// A coordinator of HDFS in that mode, which no NameNode has found yet, and where they connect.
fn coordinator(mode: &str) -> (Cluster, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("first.toml"), "metrics = '127.0.0.1:0'\n").unwrap();
    let hdfs = format!("[hdfs]\nmode = '{mode}'\nlisten = '127.0.0.1:0'\n");
    fs::write(folder.path().join("more.toml"), hdfs).unwrap();
    let (coordinator, address) = start_coordinator(folder.path(), "127.0.0.1:0");
    let cluster = Cluster { agents: Vec::new(), coordinator, address, folder };
    let log = cluster.path("coordinator.log");
    let plugins = wait_for(&log, |text| {
        let after = text.split("plugins are awaited address=").nth(1)?;
        after.split_whitespace().next()?.parse().ok()
    });
    (cluster, plugins)
}

/// Waits until a log says something; gives what is made of it.
fn wait_for<T>(log: &Path, read: impl Fn(&str) -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(log).unwrap();
        if let Some(found) = read(&text) {
            return found;
        }
        assert!(began.elapsed() < daemons::TIMEOUT, "not within a minute: {text}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// An active NameNode without DataNodes connects. Shutting down what it gives ends it.
fn join_namenode(plugins: SocketAddr) -> TcpStream {
    let tcp = TcpStream::connect(plugins).unwrap();
    let mut frames = Frames::new(tcp.try_clone().unwrap());
    frames.send(&json!({ "protocol": PROTOCOL, "hadoop": "3.4.2", "pool": "BP-1" })).unwrap();
    let welcome: Value = frames.receive().unwrap();
    assert_eq!(welcome, json!({ "protocol": PROTOCOL }));
    thread::spawn(move || {
        while let Ok(question) = frames.receive::<Question>() {
            let answer = match question {
                Question::State => json!({ "active": true }),
                Question::Nodes => json!({ "nodes": [] }),
                Question::Groups => json!({ "groups": [], "gone": [], "more": false }),
                _ => json!({}),
            };
            if frames.send(&answer).is_err() {
                return;
            }
        }
    });
    tcp
}

/// Waits until a number of the coordinator's is this.
fn wait_for_metric(cluster: &Cluster, name: &str, value: f64) {
    let address = address_in_log(&cluster.path("coordinator.log"), "metrics are at ");
    let (began, line) = (Instant::now(), format!("{name} {value:.1}"));
    loop {
        let text = get(address, "/metrics", "");
        if text.lines().any(|found| found == line) {
            return;
        }
        assert!(began.elapsed() < daemons::TIMEOUT, "not within a minute: {line}: {text}");
        thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn while_no_namenode_answers_nothing_is_known_and_nobody_says_that_all_is_well() {
    let (cluster, plugins) = coordinator("repair");
    let page = JsonPage::read();
    let blind = cluster.json(&["status"]);
    page.check("suture status", &blind);
    let hdfs = &blind["hdfs"];
    assert_eq!((&blind["state"], &hdfs["connected"]), (&json!("unknown"), &json!(false)));
    assert_eq!((&hdfs["leased"], &hdfs["pool"]), (&json!(false), &Value::Null));
    let status = cluster.run(&["status"]);
    assert_eq!(status.status, 3, "{}", status.stdout);
    assert!(!status.stdout.contains("healthy"), "{}", status.stdout);
    let warning = "warning: no active NameNode answers (for ";
    assert!(status.stdout.contains(warning), "{}{}", status.stdout, status.stderr);
    wait_for_metric(&cluster, "suture_hdfs_connected", 0.0);
    wait_for_metric(&cluster, "suture_hdfs_lease", 0.0);

    let namenode = join_namenode(plugins);
    let well = cluster.wait("it is known what is at risk", |status| {
        status["state"] == "healthy" && status["hdfs"]["leased"] == true
    });
    page.check("suture status", &well);
    let hdfs = &well["hdfs"];
    assert_eq!((&hdfs["mode"], &hdfs["pool"]), (&json!("repair"), &json!("BP-1")));
    assert_eq!((&hdfs["namenodes"], &hdfs["no_lease"]), (&json!(1), &Value::Null));
    let line = "HDFS: the NameNode of BP-1 answers; 0 groups at risk; its lost blocks are left";
    let said = cluster.ok(&["status"]);
    assert!(said.contains(line), "{said}");
    wait_for_metric(&cluster, "suture_hdfs_connected", 1.0);
    wait_for_metric(&cluster, "suture_hdfs_lease", 1.0);

    namenode.shutdown(Shutdown::Both).unwrap();
    cluster.wait("it is not known any more", |status| status["state"] == "unknown");
}

#[test]
fn whoever_only_observes_is_not_paused_and_cannot_be_resumed() {
    let (cluster, plugins) = coordinator("observe");
    let _namenode = join_namenode(plugins);
    let well = cluster.wait("the NameNode answers", |status| status["state"] == "healthy");
    JsonPage::read().check("suture status", &well);
    let hdfs = &well["hdfs"];
    assert_eq!((&hdfs["mode"], &hdfs["leased"]), (&json!("observe"), &json!(false)));
    assert_eq!(hdfs["no_lease"], "this coordinator only observes");
    let said = cluster.ok(&["status"]);
    assert!(said.contains("; this coordinator only observes"), "{said}");
    assert!(!said.contains("paused"), "{said}");
    for command in ["resume", "start"] {
        let refused = cluster.run(&["repair", command]);
        assert_eq!(refused.status, 2, "{command}: {}", refused.stdout);
        let why = "only observes, and HDFS repairs: set [hdfs] mode to 'repair'";
        assert!(refused.stderr.contains(why), "{command}: {}", refused.stderr);
    }
    cluster.ok(&["repair", "start", "--dry-run"]);
    wait_for_metric(&cluster, "suture_hdfs_connected", 1.0);
    wait_for_metric(&cluster, "suture_hdfs_lease", 0.0);
}

#[test]
fn an_agent_says_what_keeps_it_from_its_datanode_each_time_that_it_is_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, log) = (folder.path().join("datanode.sock"), folder.path().join("agent.log"));
    let text = format!(
        "coordinator = '127.0.0.1:9'\nlisten = '127.0.0.1:0'\ndata_dir = '{}'\n[hdfs]\nsocket = '{}'\n",
        folder.path().join("agent").display(),
        socket.display()
    );
    let config = folder.path().join("agent.toml");
    fs::write(&config, text).unwrap();
    let mut command = suture();
    command.args(["agent", "--config"]).arg(&config).stdout(Stdio::null());
    command.stderr(fs::File::create(&log).unwrap());
    let _agent = Process(command.spawn().unwrap());
    let no_socket = "No such file or directory (os error 2); waiting for it";
    wait_for(&log, |text| text.contains(no_socket).then_some(()));
    let listener = UnixListener::bind(&socket).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let answered = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut frames = Frames::new(stream.unwrap());
            if frames.receive::<Value>().is_ok() {
                answered.fetch_add(1, Ordering::Relaxed);
                let _ = frames.send(&json!({ "error": "failed", "why": "it starts" }));
            }
        }
    });
    wait_for(&log, |_| (asked.load(Ordering::Relaxed) > 2).then_some(()));
    let text = fs::read_to_string(&log).unwrap();
    for said in [no_socket, "the DataNode says: it starts; waiting for it"] {
        assert_eq!(text.matches(said).count(), 1, "once: {said}: {text}");
    }
}
