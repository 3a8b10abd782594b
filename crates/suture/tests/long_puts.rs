//! Puts that last, beside what happens to nodes meanwhile: what they have stored is recorded
//! nowhere before they end.
//!
//! Place: put begun -> chunks durable -> [nodes leave or fail] -> object visible, or refused.

use std::io::Write;
use std::process::{Child, Stdio};

use crate::daemons::{Cluster, Finished, interruptible, noise};
use serde_json::Value;

/// One of the three chunks of a stripe may be lost; two have to be stored.
const HOW: [&str; 4] = ["--code", "rs(2,1)", "--chunk-size", "64KiB"];
const STRIPE_BYTES: usize = 2 * (64 << 10);

/// A put that has stored some stripes and waits for more of its source.
struct LongPut(Child);

impl LongPut {
    fn begin(cluster: &Cluster, content: &[u8]) -> LongPut {
        let mut put = interruptible();
        put.args(["put", "-", "--name", "x"]).args(HOW).env("SUTURE_COORDINATOR", &cluster.address);
        let put = put.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut put = put.spawn().unwrap();
        put.stdin.as_mut().unwrap().write_all(content).unwrap();
        let stored =
            || (0..cluster.agents.len()).map(|agent| cluster.chunks(agent).len()).sum::<usize>();
        cluster.wait("stripes are stored", |_| stored() >= 3 * (content.len() / STRIPE_BYTES - 1));
        LongPut(put)
    }

    fn end(mut self) -> Finished {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Finished {
            status: output.status.code().unwrap(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

fn node<'a>(listed: &'a Value, name: &str) -> &'a Value {
    listed["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap()
}

#[test]
fn an_object_is_refused_of_which_too_little_is_left_when_it_is_stored() {
    let cluster = Cluster::of(3);
    let content = noise(2 * STRIPE_BYTES);
    let put = LongPut::begin(&cluster, &content);
    cluster.ok(&["node", "fail", "n0", "n1"]);
    let Finished { status, stderr, .. } = put.end();
    let is_said = stderr.contains("too few chunks are left of 2 of its 2 stripes")
        && stderr.contains("(n0, n1): nothing was stored");
    assert!(status == 1 && is_said, "{status}: {stderr}");
    assert_eq!(cluster.json(&["ls"])["objects"], serde_json::json!([]));

    // One of three is what such a put may lack.
    cluster.ok(&["node", "return", "n0", "n1"]);
    cluster.wait_healthy();
    let put = LongPut::begin(&cluster, &content);
    cluster.ok(&["node", "fail", "n0"]);
    let Finished { status, stderr, .. } = put.end();
    assert_eq!(status, 0, "{stderr}");
    cluster.assert_reads("x", &content);
}

#[test]
fn a_node_is_not_drained_and_cannot_be_removed_before_a_put_that_uses_it_has_ended() {
    let mut cluster = Cluster::of(4);
    let content = noise(4 * STRIPE_BYTES);
    let put = LongPut::begin(&cluster, &content);
    let used = (0..4).find(|agent| !cluster.chunks(*agent).is_empty()).unwrap();
    let name = format!("n{used}");
    cluster.ok(&["node", "drain", &name]);
    let listed = cluster.json(&["node", "list"]);
    assert_eq!(node(&listed, &name)["intent"], "draining");
    assert!(node(&listed, &name)["put_chunks"].as_u64() > Some(0), "{listed}");
    assert!(cluster.ok(&["node", "list"]).contains("of puts under way"));
    cluster.agents[used].stop();
    cluster.wait("it is silent", |status| {
        status["nodes"].as_array().unwrap().iter().any(|node| node["health"] != "up")
    });
    let refused = cluster.run(&["node", "remove", &name]);
    let is_said = refused.stderr.contains("puts that have not ended have places for");
    assert!(is_said && refused.status == 1, "{}: {}", refused.status, refused.stderr);
    assert_eq!(put.end().status, 0);
    cluster.assert_reads("x", &content);
}
