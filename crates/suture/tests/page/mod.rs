//! The coordinator's page: what it shows, what it takes from callers, and a walk through it in a
//! browser.

mod browser;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::SystemTime;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::{ClientConnection, StreamOwned};
use serde_json::{Value, json};
use suture_drivers::identity::credentials::Kept;

use crate::daemons::{
    self, Cluster, address_in_log, exchange, get, start_agent, start_coordinator,
};
use crate::secured::Secured;
use browser::Browser;

/// A cluster with a page, on links slow enough to see a repair.
fn shown(agents: usize) -> (Cluster, SocketAddr) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("first.toml"), "web = '127.0.0.1:0'\n").unwrap();
    let (coordinator, address) = start_coordinator(folder.path(), "127.0.0.1:0");
    let agent = |i: usize| {
        let keys = format!("uplink = '1Mbit'\ndownlink = '1Mbit'\nrack = 'r{}'", i % 3);
        start_agent(folder.path(), &address, i, &keys)
    };
    let agents = (0..agents).map(agent).collect();
    let cluster = Cluster { agents, coordinator, address, folder };
    let all = cluster.agents.len();
    cluster.wait("all agents are up", |status| daemons::count(status, "up") == all);
    let page = address_in_log(&cluster.path("coordinator.log"), "the page is at ");
    (cluster, page)
}

/// The status and the text of what is answered to a command.
fn command(page: SocketAddr, headers: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "POST /command HTTP/1.1\r\nHost: {page}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = exchange(page, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0);
    (status, body.trim().to_string())
}

const JSON: &str = "Content-Type: application/json\r\n";

#[test]
fn the_page_shows_what_status_says_and_needs_nothing_from_elsewhere() {
    let (cluster, address) = shown(3);
    let body = |path: &str| {
        let answer = get(address, path, "");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'";
        assert!(head.contains(policy), "{path}: {head}");
        body.to_string()
    };
    let shown: Value = serde_json::from_str(&body("/status.json")).unwrap();
    let status = cluster.json(&["status"]);
    for key in ["state", "cluster", "epoch", "at_risk", "lost_chunks", "warnings"] {
        assert_eq!(shown[key], status[key], "{key}");
    }
    for count in [&shown["running_count"], &shown["blocked_count"]] {
        assert_eq!(*count, 0, "nothing runs or waits");
    }
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 3);
    let df = cluster.json(&["df"]);
    assert!(df["nodes"][0]["file_system"].is_string(), "{df}");
    for node in shown["nodes"].as_array().unwrap() {
        assert_eq!(node["file_system"], df["nodes"][0]["file_system"], "what racks are summed by");
    }
    let (page, script) = (body("/"), body("/page.js"));
    for part in [&page, &script, &body("/style.css")] {
        assert!(!part.contains("http://") && !part.contains("https://"), "it is all here");
    }
    // Whatever the script looks for is on the page, and names come in as text only.
    for id in script.split("byId('").skip(1).map(|rest| rest.split('\'').next().unwrap()) {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id} is not on the page");
    }
    assert!(!script.contains("innerHTML") && !script.contains("insertAdjacentHTML"));
    // A screen reader announces in which table each cell is.
    for table in page.split("<table ").skip(1) {
        let head = table.split("</thead>").next().unwrap();
        assert!(head.contains("aria-label") || head.contains("<caption>"), "{head}");
    }
    // And what a command does, before it is confirmed.
    assert!(
        page.contains("<dialog id=\"dialog\" aria-labelledby=\"dialog-title\" aria-describedby=")
    );
    assert!(get(address, "/../etc/passwd", "").starts_with("HTTP/1.1 404"));
    assert!(get(address, "/metrics", "").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_command_is_taken_from_its_own_page_and_from_programs_and_does_what_the_command_line_does() {
    let (cluster, page) = shown(4);
    cluster.put("x", 400_000, &["--code", "rs(2,1)", "--chunk-size", "64KiB"]);
    let own = format!("{JSON}Origin: http://{page}\r\nSec-Fetch-Site: same-origin\r\n");
    let is_paused = || cluster.json(&["status"])["paused"] == json!(true);
    // Neither a form nor a script of another page can send it.
    let pause = r#"{"command":"pause"}"#;
    for (headers, said) in [
        ("", "commands need the header"),
        ("Content-Type: text/plain\r\n", "commands need the header"),
        ("Content-Type: application/x-www-form-urlencoded\r\n", "commands need the header"),
        (&format!("{JSON}Origin: http://evil.example\r\n"), "pages of this address only"),
        (&format!("{JSON}Origin: null\r\n"), "pages of this address only"),
        (&format!("{JSON}Origin: http://{page}.evil.example\r\n"), "pages of this address only"),
        (&format!("{JSON}Sec-Fetch-Site: cross-site\r\n"), "pages of this address only"),
        (&format!("{JSON}Sec-Fetch-Site: same-site\r\n"), "pages of this address only"),
    ] {
        let (status, why) = command(page, headers, pause);
        assert!(status == 403 && why.contains(said), "{headers:?}: {status} {why}");
    }
    assert!(!is_paused(), "nothing was done");
    assert_eq!(command(page, &own, pause), (200, "{}".into()));
    assert!(is_paused());
    assert_eq!(command(page, JSON, r#"{"command":"resume"}"#).0, 200, "a program has no origin");
    assert!(!is_paused());

    let node = |command: &str, node: &str| json!({ "command": command, "node": node }).to_string();
    let long = node("drain", &"n".repeat(5000));
    for (body, status, said) in [
        (node("drain", "n9"), 404, "there is no node 'n9'"),
        (node("remove", "n1"), 400, "this is not a command: unknown variant"),
        (r#"{"command":"fail","node":"n1","force":true}"#.into(), 400, "unknown field `force`"),
        (r#"{"command":"cap","rate":"0Mbit"}"#.into(), 400, "0Mbit"),
        (r#"{"command":"cap","rate":"-5"}"#.into(), 400, "-5"),
        (String::new(), 400, "this is not a command"),
        ("{".repeat(4000), 400, "this is not a command"),
        (long, 413, "at most 4096 bytes"),
    ] {
        let shown: String = body.chars().take(60).collect();
        let (found, why) = command(page, JSON, &body);
        assert!(found == status && why.contains(said), "{shown}: {found} {why}");
    }
    assert!(get(page, "/command", "").starts_with("HTTP/1.1 405"));
    let put = format!("PUT /command HTTP/1.1\r\nHost: {page}\r\n{JSON}\r\n");
    assert!(exchange(page, put.as_bytes()).starts_with("HTTP/1.1 405"));

    assert_eq!(command(page, JSON, r#"{"command":"cap","rate":"2Mbit"}"#).0, 200);
    let throttle = cluster.json(&["repair", "throttle"]);
    assert_eq!(throttle["cap"], json!(250_000));
    assert_eq!(command(page, JSON, r#"{"command":"cap","rate":"off"}"#).0, 200);
    assert_eq!(cluster.json(&["repair", "throttle"])["cap"], Value::Null);

    // With one node paused, another one that fails takes data with it.
    assert_eq!(command(page, JSON, &node("fail", "n1")).0, 200);
    let (status, why) = command(page, JSON, &node("fail", "n2"));
    assert!(status == 409 && why.contains("could not be read"), "{status} {why}");
    assert_eq!(command(page, JSON, &node("return", "n1")).0, 200);
    let audited = fs::read_to_string(cluster.path("coordinator/audit.jsonl")).unwrap();
    for line in ["\"n1\"", "REPAIR_ACTION_PAUSE", "REPAIR_ACTION_RESUME"] {
        assert!(audited.contains(line), "{line} is not in\n{audited}");
    }
}

/// So many connections that send nothing, or too little.
const STRANGERS: usize = 1000;

/// Commands of which half comes: more than one address may have under way.
const HALF_COMMANDS: usize = 40;

/// What the coordinator has in memory, in bytes.
fn resident(cluster: &Cluster) -> u64 {
    let path = format!("/proc/{}/status", cluster.coordinator.0.id());
    let text = fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process");
    let kilobytes = line.split_whitespace().next().expect("a number");
    1024 * kilobytes.parse::<u64>().unwrap()
}

#[test]
fn strangers_who_say_nothing_or_half_of_it_keep_nobody_from_the_page() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let (cluster, page) = shown(0);
    let is_shown = || get(page, "/status.json", "").starts_with("HTTP/1.1 200");
    assert!(is_shown());
    let before = resident(&cluster);
    let stranger = |number: usize| {
        let mut stream = TcpStream::connect(page).unwrap();
        if number.is_multiple_of(2) {
            let _ = stream.write_all(b"GET / HTTP/1.1\r\nX-Slow: ");
        }
        stream
    };
    let silent: Vec<TcpStream> = (0..STRANGERS).map(stranger).collect();
    assert!(is_shown());
    let grown = resident(&cluster).saturating_sub(before);
    assert!(grown < 32_000_000, "{grown} bytes for {STRANGERS} connections");

    // Nobody waits for those of whose commands a part has come, and nothing else comes of them.
    let head = format!("POST /command HTTP/1.1\r\nHost: {page}\r\n{JSON}");
    let half = |_| {
        let mut stream = TcpStream::connect(page).unwrap();
        stream.write_all(format!("{head}Content-Length: 99\r\n\r\n{{").as_bytes()).unwrap();
        stream
    };
    let halves: Vec<TcpStream> = (0..HALF_COMMANDS).map(half).collect();
    assert!(is_shown(), "while they send no more");
    let answers = halves.into_iter().map(|mut stream| {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    });
    let answers: Vec<String> = answers.collect();
    let (late, refused): (Vec<&String>, Vec<&String>) =
        answers.iter().partition(|answer| answer.starts_with("HTTP/1.1 408"));
    assert!(late.iter().all(|answer| answer.contains("did not come within 8 s")), "{late:?}");
    assert!(!late.is_empty(), "{answers:?}");
    // A client that still sends when it is refused may lose the answer with the connection.
    let is_refusal = |answer: &&String| answer.is_empty() || answer.starts_with("HTTP/1.1 503");
    assert!(refused.iter().all(is_refusal), "{refused:?}");
    assert!(is_shown(), "their places are free again");

    let chunk = "{".repeat(5000);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n1388\r\n{chunk}\r\n0\r\n\r\n");
    for (request, status) in [
        (chunked, "413"),
        (format!("{head}Content-Length: -1\r\n\r\n"), "400"),
        (format!("{head}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"), "400"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
    ] {
        let begin: String = request.chars().take(160).collect();
        let answer = exchange(page, request.as_bytes());
        let is_lost = answer.is_empty() && status == "400";
        let is_so = is_lost || answer.starts_with(&format!("HTTP/1.1 {status}"));
        assert!(is_so, "{begin:?}: {answer}");
    }
    drop(silent);
    assert_eq!(cluster.json(&["status"])["paused"], json!(false), "nothing was commanded");
}

/// What is answered to a client with a certificate; nothing where the connection is refused.
fn ask_as(cluster: &Secured, who: &str, page: SocketAddr, request: &str) -> String {
    let kept = Kept::open(&cluster.own(who), SystemTime::now()).unwrap();
    let name = "suture".try_into().unwrap();
    let connection = ClientConnection::new(kept.current().client.clone(), name).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(page).unwrap());
    let mut answer = Vec::new();
    if stream.write_all(request.as_bytes()).is_ok() {
        let _ = stream.read_to_end(&mut answer);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn with_credentials_pages_are_for_roles_and_commands_for_those_who_may_give_them() {
    let cluster = Secured::with(2, "metrics = '127.0.0.1:0'\nweb = '127.0.0.1:0'");
    let log = cluster.path("coordinator.log");
    let page = address_in_log(&log, "the page is at ");
    let metrics = address_in_log(&log, "metrics are at ");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: suture\r\n\r\n");
    let pause = r#"{"command":"pause"}"#;
    let post = format!(
        "POST /command HTTP/1.1\r\nHost: suture\r\n{JSON}Content-Length: {}\r\n\r\n{pause}",
        pause.len()
    );
    let denied = "may not command repairs: the role is operator or admin";
    for (who, looks, commands) in [
        ("guest", true, false),
        ("team", false, false),
        ("n0", false, false),
        ("ops", true, true),
        ("root", true, true),
    ] {
        let ask = |at: SocketAddr, request: &str| ask_as(&cluster, who, at, request);
        let status = if looks { "HTTP/1.1 200" } else { "HTTP/1.1 403" };
        for answer in [ask(page, &get("/status.json")), ask(metrics, &get("/metrics"))] {
            assert!(answer.starts_with(status), "{who}: {answer}");
        }
        let viewer = ask(page, &get("/viewer.json"));
        assert_eq!(viewer.contains(r#""may_command":true"#), commands, "{who}: {viewer}");
        cluster.ok(&["repair", "resume"]);
        let answer = ask(page, &post);
        let is_paused =
            cluster.run(&["status", "--format", "json"]).stdout.contains("\"paused\": true");
        assert_eq!(is_paused, commands, "{who}: {answer}");
        match (looks, commands) {
            (_, true) => assert!(answer.starts_with("HTTP/1.1 200"), "{who}: {answer}"),
            (true, false) => assert!(answer.contains(denied), "{who}: {answer}"),
            (false, false) => assert!(answer.starts_with("HTTP/1.1 403"), "{who}: {answer}"),
        }
    }
    let audited = |log: &str| fs::read_to_string(cluster.path("coordinator").join(log)).unwrap();
    assert!(audited("audit.jsonl").contains("operator ops"));
    assert!(audited("audit.others.jsonl").contains(denied));
    // Without a certificate, or without encryption, nothing is answered.
    for at in [page, metrics] {
        let answer = exchange(at, get("/").as_bytes());
        assert!(!answer.contains("HTTP/1.1"), "{answer}");
    }
}

#[test]
fn an_operator_sees_a_failure_and_commands_from_a_browser() {
    let Some(path) = browser::find() else { return };
    let (mut cluster, page) = shown(7);
    cluster.put("photos/1", 6_000_000, &["--code", "rs(3,2)", "--chunk-size", "256KiB"]);
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start(&path, folder.path(), (1280, 900));
    browser.open(&format!("http://{page}/"));
    browser.wait("document.getElementById('state')?.textContent === 'healthy'");
    browser.wait("document.querySelectorAll('#nodes tbody tr').length === 7");
    browser.picture("healthy");

    // What stays is not made anew under the fingers of whoever is there.
    browser.press("Tab", 9);
    browser.wait("document.activeElement.className === 'skip'");
    browser.value("document.querySelector('[aria-label=\"Drain n3\"]').focus()");
    std::thread::sleep(std::time::Duration::from_secs(4));
    browser.wait("document.activeElement.getAttribute('aria-label') === 'Drain n3'");

    cluster.agents[0].kill();
    browser.wait("document.getElementById('state').textContent === 'repairing'");
    browser.wait("document.querySelectorAll('#running tbody tr').length > 0");
    browser.wait("document.querySelector('#busiest').textContent.startsWith('The busiest: n')");
    browser.wait(
        "[...document.querySelectorAll('#links .repair')].some((bar) => bar.offsetWidth > 9)",
    );
    let is_said = "[...document.querySelectorAll('#links .said')].some((of) => \
                   of.textContent.includes(' repair, ') && of.offsetWidth === 1)";
    browser.wait(is_said);
    // As `suture df` counts: three on one file system, one on another, two that do not report
    // theirs.
    let free = browser.value(
        "freeOf([[7, 90], [7, 100], [7, 80], [9, 1000], [null, 5], [null, 5]].map(
            ([file_system, free_bytes]) => ({ file_system, free_bytes })))",
    );
    assert_eq!(free, json!(1110));
    browser.picture("repairing");
    browser.resize(390, 844);
    let is_narrow = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    browser.wait(is_narrow);
    browser.picture("phone");
    browser.resize(1280, 900);

    browser.click("#pause");
    browser.wait("document.getElementById('dialog').open");
    browser.picture("dialog");
    browser.click("#dialog-cancel");
    browser.wait("!document.getElementById('dialog').open");
    assert_eq!(cluster.json(&["status"])["paused"], json!(false), "nothing was done");
    browser.click("#pause");
    browser.click("#dialog-go");
    browser.wait("document.getElementById('pause').textContent === 'Resume repairs'");
    assert_eq!(cluster.json(&["status"])["paused"], json!(true));
    browser.click("#pause");
    browser.click("#dialog-go");
    browser.wait("document.getElementById('pause').textContent === 'Pause repairs'");

    browser.click("#cap");
    browser.wait("document.activeElement.id === 'dialog-rate'");
    browser.type_over("a lot");
    browser.click("#dialog-go");
    browser.wait("document.getElementById('dialog-refusal').textContent.includes('a lot')");
    browser.wait("document.activeElement.id === 'dialog-rate'");
    browser.type_over("3Mbit");
    browser.press("Enter", 13);
    browser.wait("document.getElementById('limited').textContent.includes('at most 3.00 Mbit/s')");
    assert_eq!(cluster.json(&["repair", "throttle"])["cap"], json!(375_000));

    browser.wait("document.getElementById('state').textContent === 'healthy'");
    browser.wait("document.querySelector('#past td:nth-child(2)')?.textContent === 'n0 failed'");
    browser.click("[aria-label='Drain n3']");
    browser.click("#dialog-go");
    browser.wait("document.querySelector('[aria-label=\"Return n3\"]') !== null");
    // It may hold nothing any more by then.
    cluster.wait("n3 is being emptied", |status| {
        ["draining", "drained"].iter().any(|intent| status["nodes"][3]["intent"] == *intent)
    });
    browser.click("[aria-label='Return n3']");
    browser.click("#dialog-go");
    browser.wait("document.querySelector('[aria-label=\"Drain n3\"]') !== null");
    browser.picture("past");

    // Two more are gone than there may be: the page says what cannot be read.
    (1..4).for_each(|agent| cluster.agents[agent].kill());
    browser.wait("document.querySelector('#risk dd.bad') !== null");
    browser.picture("unreadable");
    browser.wait("document.querySelectorAll('#blocked tbody tr').length > 0");
    assert!(browser.complaints.is_empty(), "{:#?}", browser.complaints);
    cluster.coordinator.kill();
    browser.wait("document.getElementById('state').textContent.includes('does not answer')");
    browser.wait("document.title === 'no answer - Suture'");
}
