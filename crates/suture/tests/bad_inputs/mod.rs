//! What people type wrongly, and what is answered: tables of an input, what stderr says and the
//! exit status. A table only grows.
//!
//! Each row is a line for the shell, run in a folder with files of every kind; rows that need a
//! cluster share one. Whatever a row says, nothing may panic, no terminal may be sent control
//! characters, and no error is said twice.

mod command_lines;
mod configurations;
mod of_a_cluster;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::daemons::{self, Cluster, count, finish, noise, suture};
use crate::rows::{Row, check, fault, run};
use command_lines::COMMAND_LINES;
use configurations::CONFIGURATIONS;
use of_a_cluster::OF_A_CLUSTER;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

/// Scenarios of a testbed: one that can be run, and others that differ from it in one thing.
fn write_scenarios(folder: &Path) {
    let scenario = "code = 'rs(2,1)'\nchunk_size = '64KiB'\nstripes = 4\npolicies = ['flow']\n\
                    [cluster]\nnodes = 4\n[failure]\nnodes = ['n1']\n";
    fs::write(folder.join("trace.csv"), "1,2\n").unwrap();
    for (name, from, to) in [
        ("scenario", "", ""),
        ("misspelt", "stripes = 4", "stripes = 4\nrepetition = 5"),
        ("zero-rate", "nodes = 4", "nodes = 4\nbandwidth = '0Mbit'"),
        ("no-policy", "'flow'", "'flwo'"),
        ("all-fail", "'n1'", "'n0', 'n1', 'n2', 'n3'"),
        ("bad-trace", "[failure]", "[replay]\nuplinks = 'trace.csv'\n[failure]"),
        ("no-load-rate", "[failure]", "[load]\nworkload = 'ibm'\n[failure]"),
        (
            "closed-rate",
            "[failure]",
            "[load]\nworkload = 'ibm'\nclosed = true\nrate = 1.0\n[failure]",
        ),
        (
            "told-nothing",
            "[cluster]",
            "declared = false\n[replay]\nmodel = 'tpch'\ndeclared = true\n[cluster]",
        ),
    ] {
        let path = folder.join(name).with_extension("toml");
        fs::write(path, scenario.replacen(from, to, 1)).unwrap();
    }
}

/// Files of every kind.
fn prepare(folder: &Path) {
    write_scenarios(folder);
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    for name in ["emptydir", "many/sub", "mixed", "newline", "latin", "part", "garbage", "hollow"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    for name in ["identified", "version9", "unsaid"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    write("f", b"hello");
    write("f2", b"world");
    write("empty", b"");
    write("mib", &noise(1 << 20));
    write("noise", &noise(300));
    write(
        "utf16",
        &"\u{feff}listen = ''".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>(),
    );
    write("many/a", b"a");
    write("many/sub/b", b"b");
    write("newline/a\nb", b"");
    write("odd.toml", b"[[node]]\nname = 'a'\nupink = '1Gbit'\n");
    fs::write(folder.join("latin").join(OsStr::from_bytes(b"\xff")), b"").unwrap();
    write("garbage/metadata.db", &noise(9000));
    write("hollow/metadata.db", b"");
    write("identified/identity", b"nonsense\n");
    write("unsaid/identity", b"");
    write("version9/identity", b"suture-store 9\n");
    write("target", b"old");
    for (name, bytes) in [("big", 2 << 30), ("huge", 4 << 40)] {
        fs::File::create(folder.join(name)).unwrap().set_len(bytes).unwrap();
    }
    for (link, to) in [("dangling", "nowhere"), ("link", "f"), ("mixed/link", "../f")] {
        symlink(to, folder.join(link)).unwrap();
    }
    symlink("target", folder.join("through")).unwrap();
    let script = "mkfifo fifo mixed/fifo
        suture encode f --code 'rs(2,1)' --chunk-size 4KiB -o enc
        for d in broken cut scribbled; do cp -r enc $d; done
        cp -r enc escape; sed -i '1s/{/{\"\\\\u001b[2J\": 1,/' escape/manifest.json
        cp -r enc stray; touch stray/$'\\e[2J'
        mkdir -m 500 locked
        mkdir piped && mkfifo piped/manifest.json
        rm broken/chunk.0[01] && truncate -s 40 cut/manifest.json && cp noise scribbled/manifest.json
        for c in secret part/a part/b-secret part/c; do cp f $c; done
        chmod 000 secret part/b-secret";
    let prepared = run(&format!("set -e; {script}"), folder, &[]);
    assert_eq!(prepared.status, 0, "{}", prepared.stderr);
}

#[test]
fn a_command_line_that_cannot_be_right_says_what_would_be() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let plan = "--code rs(6,3) --stripes 1";
    let sim = "simulate --code rs(3,2) --nodes 8 --stripes 20 --chunk-size 1MiB --failed n0";
    check(COMMAND_LINES, folder.path(), &[("PLAN", plan), ("SIM", sim), ("TERM", "dumb")]);
}

#[test]
fn a_configuration_that_cannot_be_right_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut wrong = Vec::new();
    let long = ["name", "rack"].map(|key| format!("{key} = '{}'", "n".repeat(300)));
    let long = [
        ("agent", &*long[0], "n...' (300 bytes) is not a valid node name: 1 to 128 bytes", 2),
        ("agent", &*long[1], "n...' (300 bytes) is not a valid rack name: 1 to 128 bytes", 2),
    ];
    for &(role, text, expected, status) in CONFIGURATIONS.iter().chain(&long) {
        let mut lines = String::new();
        for (key, value) in
            [("listen", "127.0.0.1:0"), ("data_dir", "data"), ("coordinator", "127.0.0.1:1")]
        {
            let is_of_role = key != "coordinator" || role == "agent";
            if is_of_role && !text.contains(&format!("{key} =")) {
                lines += &format!("{key} = '{value}'\n");
            }
        }
        fs::write(folder.path().join("c.toml"), lines + text + "\n").unwrap();
        let command = ["suture", role, "--config c.toml"].join(" ");
        let row = (role, expected, status);
        if let Some(fault) =
            fault(&run(&format!("exec timeout 10 {command}"), folder.path(), &[]), &row)
        {
            wrong.push(format!("{role}: {text}\n  expected {status}: {expected}\n  found {fault}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n\n{}", wrong.len(), wrong.join("\n"));
    let made = ["~", "$HOME"].map(|name| folder.path().join(name).exists());
    assert_eq!(made, [false, false]);
}

#[test]
fn what_a_file_may_have_in_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let keys = format!("listen = '127.0.0.1:0'\r\ndata_dir = '{}'\r\n", data.display());
    let comment = format!("#{}\n{keys}", "x".repeat(5 << 20));
    let config = folder.path().join("c.toml");
    for text in [format!("\u{feff}{keys}"), keys.clone(), comment] {
        fs::write(&config, &text).unwrap();
        let (mut coordinator, line) = daemons::Process::start_by(
            suture().args(["coordinator", "--config"]).arg(&config).stderr(Stdio::null()),
        );
        assert!(line.starts_with("listening on "), "{:?}: {line}", &text[..20]);
        coordinator.stop();
    }
}

#[test]
fn a_path_that_is_not_whole_begins_where_the_daemon_was_started_and_the_log_has_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let started_in = folder.path().join("here");
    fs::create_dir(&started_in).unwrap();
    let text = "listen = '127.0.0.1:0'\ndata_dir = 'kept/data'\n";
    fs::write(folder.path().join("c.toml"), text).unwrap();
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let (mut coordinator, _) = daemons::Process::start_by(
        suture()
            .args(["coordinator", "--config", "../c.toml"])
            .current_dir(&started_in)
            .stdin(Stdio::null())
            .stderr(log),
    );
    coordinator.stop();
    let whole = fs::canonicalize(started_in.join("kept/data")).unwrap();
    assert!(whole.join("metadata.db").exists());
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log.contains(&format!("data_dir 'kept/data' is '{}'", whole.display())), "{log}");
}

#[test]
fn metadata_that_are_cut_or_of_another_program_are_refused_by_the_name_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let (mut coordinator, _) = daemons::start_coordinator(folder.path(), "127.0.0.1:0");
    coordinator.stop();
    let path = folder.path().join("coordinator/metadata.db");
    let whole = fs::read(&path).unwrap();
    let cut = |bytes: usize| whole[..bytes].to_vec();
    // Where SQLite has the version of the schema, and whose it is.
    let with = |at: usize, number: u32| {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let unreadable = "coordinator/metadata.db' is not a database that can be read";
    let config = folder.path().join("coordinator.toml");
    for (bytes, expected, status) in [
        (cut(10), unreadable, 1),
        (cut(50), unreadable, 1),
        (cut(100), unreadable, 1),
        (cut(4096), unreadable, 1),
        (cut(whole.len() / 2), unreadable, 1),
        (cut(whole.len() - 4096), unreadable, 1),
        (with(60, 99), "coordinator/metadata.db' has schema version 99, this build reads", 2),
        (with(60, 0), "coordinator/metadata.db' has schema version 0, this build reads", 2),
        (with(68, 7), "coordinator/metadata.db' is a database of another program", 2),
    ] {
        fs::write(&path, &bytes).unwrap();
        for name in ["metadata.db-wal", "metadata.db-shm"] {
            let _ = fs::remove_file(path.with_file_name(name));
        }
        let refused = finish(suture().args(["coordinator", "--config"]).arg(&config));
        assert_eq!(fault(&refused, &("coordinator", expected, status)), None, "{}", bytes.len());
        assert!(fs::read(&path).unwrap() == bytes, "it is left as it is");
    }
    fs::write(&path, &whole).unwrap();
    let (mut coordinator, _) = daemons::start_coordinator(folder.path(), "127.0.0.1:0");
    coordinator.stop();
}

/// Configurations of agents and coordinators that collide with those of the cluster.
fn write_rivals(cluster: &Cluster, folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
    let data = |name: &str| cluster.path(name).display().to_string();
    let address = &cluster.address;
    write(
        "same-dir.toml",
        format!("listen = '127.0.0.1:0'\ndata_dir = '{}'\n", data("coordinator")),
    );
    write("same-port.toml", format!("listen = '{address}'\ndata_dir = 'elsewhere'\n"));
    let agent = |name: &str, data_dir: &str| {
        format!(
            "listen = '127.0.0.1:0'\ncoordinator = '{address}'\nname = '{name}'\ndata_dir = '{data_dir}'\n"
        )
    };
    write("other-name.toml", agent("n33", &data("n2")));
    write("copied-name.toml", agent("n2", "copied"));
    write("other-cluster.toml", agent("n7", "foreign"));
    fs::create_dir_all(folder.join("foreign")).unwrap();
    write("foreign/identity", "suture-store 1\ncluster 00000000000000aa\nnode n7\n".into());
}

#[test]
fn a_cluster_answers_what_cannot_be_done() {
    let mut cluster = Cluster::of(3);
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    write_rivals(&cluster, folder.path());
    // A port on which nothing is ever sent.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let nodes = cluster.json(&["node", "list"]);
    let agent = nodes["nodes"][0]["address"].as_str().unwrap().to_string();
    // A pipe that stays open.
    let script = "mkfifo waiting && exec 9<>waiting && echo open && exec sleep 600";
    let mut holder = Command::new("sh");
    let holder = holder.args(["-c", script]).current_dir(folder.path()).stdin(Stdio::null());
    let (_holder, _) = daemons::Process::start_by(holder);
    cluster.agents[2].stop();
    let variables = [
        ("SUTURE_COORDINATOR", cluster.address.as_str()),
        ("CODE", "--code rs(2,1)"),
        ("AGENT", agent.as_str()),
        ("SILENT_PORT", silent.as_str()),
    ];
    let (alone, rows): (Vec<Row>, Vec<Row>) =
        OF_A_CLUSTER.iter().partition(|row| row.0.starts_with("suture agent"));
    check(&alone, folder.path(), &variables);
    cluster.agents[2] = daemons::start_agent(cluster.folder.path(), &cluster.address, 2, "");
    cluster.wait("all are up", |status| count(status, "up") == 3);
    check(&rows, folder.path(), &variables);
}

#[test]
fn of_two_puts_of_one_name_at_once_one_is_stored_and_the_other_is_refused() {
    let cluster = Cluster::of(3);
    let sources = [3_000_000, 2_000_000].map(noise);
    let paths = ["first", "second"].map(|name| cluster.path(name));
    for (path, source) in paths.iter().zip(&sources) {
        fs::write(path, source).unwrap();
    }
    for round in 0..5 {
        let name = format!("it-{round}");
        let puts = paths.each_ref().map(|path| {
            let mut put = suture();
            put.args(["put", "--code", "rs(2,1)", "--name", &name]).arg(path);
            put.env("SUTURE_COORDINATOR", &cluster.address);
            put.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        let ended = puts.map(|put| put.wait_with_output().unwrap());
        let statuses = ended.each_ref().map(|put| put.status.code());
        let (stored, status): (usize, i32) = match statuses {
            [Some(0), Some(status)] => (0, status),
            [Some(status), Some(0)] => (1, status),
            _ => panic!("{ended:?}"),
        };
        let told = String::from_utf8_lossy(&ended[1 - stored].stderr);
        let is_told = match status {
            1 => told.contains(&format!("another put is writing '{name}' right now")),
            2 => told.contains(&format!("there is an object '{name}' already")),
            _ => false,
        };
        assert!(is_told, "{status}: {told}");
        cluster.assert_reads(&name, &sources[stored]);
    }
    assert_eq!(cluster.json(&["ls"])["objects"].as_array().unwrap().len(), 5);
}

#[test]
fn an_object_whose_nodes_are_gone_says_so_once() {
    let mut cluster = Cluster::of(3);
    cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    cluster.agents[0].kill();
    cluster.agents[1].kill();
    let output = cluster.path("x");
    let failed = cluster.run(&["get", "it", "-o", output.to_str().unwrap()]);
    let row = ("get", "cannot be read now", 3);
    assert_eq!(fault(&failed, &row), None);
    assert!(!output.exists());
}

/// Lets this process have as many files open as the system ever lets it; gives how many that are.
fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    let limit = if is_raised { raised.current } else { limit.current };
    limit.unwrap_or(u64::MAX)
}

#[test]
fn signals_and_strangers_end_no_daemon() {
    let cluster = Cluster::of(3);
    let content = cluster.put("it", 100_000, &["--code", "rs(2,1)"]);
    for process in cluster.agents.iter().chain([&cluster.coordinator]) {
        for signal in [Signal::USR1, Signal::USR2] {
            kill_process(Pid::from_child(&process.0), signal).unwrap();
        }
    }
    let nodes = cluster.json(&["node", "list"]);
    let agent = nodes["nodes"][0]["address"].as_str().unwrap().to_string();
    // To both together 3000, where this process may have so many: some ten seconds.
    let each = (raise_descriptor_limit().saturating_sub(200) / 2).min(1500) as usize;
    let mut idle = Vec::new();
    for address in [&cluster.address, &agent] {
        for round in 0..each {
            let mut stream = TcpStream::connect(address).unwrap();
            if round % 3 == 0 {
                // It may be hung up on before all of it was sent.
                let _ = stream.write_all(&noise(round * 7 + 1));
            }
            idle.push(stream);
        }
    }
    cluster.assert_reads("it", &content);
    assert_eq!(cluster.json(&["status"])["state"], "healthy");
    assert_eq!(count(&cluster.json(&["status"]), "up"), 3);
}

#[test]
fn two_agents_of_one_name_are_told_and_so_is_the_log() {
    let cluster = Cluster::of(1);
    let (config, data) = (cluster.path("twin.toml"), cluster.path("twin"));
    let text = fs::read_to_string(cluster.path("n0.toml")).unwrap();
    let own = cluster.path("n0").display().to_string();
    fs::write(&config, text.replace(&own, &data.display().to_string())).unwrap();
    let refused = finish(suture().args(["agent", "--config"]).arg(&config));
    let row = ("agent", "'n0' is the name of another store, last at 127.0.0.1:", 2);
    assert_eq!(fault(&refused, &row), None);
    let log = fs::read_to_string(cluster.path("coordinator.log")).unwrap();
    assert!(log.contains("an agent is refused: 'n0' is the name of another store"), "{log}");
}
