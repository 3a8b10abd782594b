//! What daemons of a testbed have counted of repairs, read from what they export for monitoring.
//!
//! Place: beside the testbed's repair, before it and after it. The kernel counts what passes links
//! (`watch.rs`) and what processes take (`usage.rs`); which bytes of that were payload of repairs,
//! and how often repairs went on by other plans, only daemons know.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use suture_repair::id::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::network::Network;

/// A daemon that has not answered after this is not going to.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What is asked for; the connection ends with the answer.
const REQUEST: &[u8] = b"GET /metrics HTTP/1.0\r\n\r\n";

/// What daemons have counted of repairs, since they began or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RepairCounts {
    /// Payload that agents sent for repairs.
    pub payload_bytes: f64,
    /// What the plans of dispatched repairs move, as a whole.
    pub dispatched_bytes: f64,
    /// Those of them by which repairs went on that had begun by another plan.
    pub replacing_bytes: f64,
    /// Repairs that were dispatched, those by which others went on included.
    pub started: f64,
    /// Repairs that went on by another plan.
    pub replaced: f64,
    /// How many attempts failed.
    pub failed: f64,
}

impl RepairCounts {
    /// What the coordinator and all agents but those of `gone` nodes have counted so far.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn read(network: &Network, gone: &[NodeId]) -> Result<RepairCounts> {
        let mut counts = RepairCounts::default();
        counts.add_coordinator(&page(network.client.metrics()).await?);
        for (node, host) in (0..).map(NodeId).zip(&network.nodes) {
            if !gone.contains(&node) {
                counts.add_agent(&page(host.metrics()).await?);
            }
        }
        Ok(counts)
    }

    /// What was counted since an earlier moment.
    pub fn since(self, earlier: RepairCounts) -> RepairCounts {
        RepairCounts {
            payload_bytes: self.payload_bytes - earlier.payload_bytes,
            dispatched_bytes: self.dispatched_bytes - earlier.dispatched_bytes,
            replacing_bytes: self.replacing_bytes - earlier.replacing_bytes,
            started: self.started - earlier.started,
            replaced: self.replaced - earlier.replaced,
            failed: self.failed - earlier.failed,
        }
    }

    fn add_coordinator(&mut self, page: &str) {
        self.dispatched_bytes += sum(page, "suture_dispatched_bytes_total ");
        self.replacing_bytes += sum(page, "suture_replacing_bytes_total ");
        self.started += sum(page, "suture_repairs_started_total ");
        self.replaced += sum(page, "suture_repairs_replaced_total ");
        self.failed += sum(page, "suture_repair_failures_total{");
    }

    fn add_agent(&mut self, page: &str) {
        let sent = "suture_agent_moved_bytes_total{direction=\"sent\",purpose=\"repair\"} ";
        self.payload_bytes += sum(page, sent);
    }
}

/// The sum of all samples whose lines begin so.
fn sum(page: &str, beginning: &str) -> f64 {
    let samples = page.lines().filter_map(|line| line.strip_prefix(beginning));
    let values = samples.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// What a daemon exports.
async fn page(address: SocketAddr) -> Result<String> {
    let ask = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(REQUEST).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    let text = timeout(ANSWER_TIMEOUT, ask).await.context("no answer");
    let text = text.and_then(|text| text.context("the connection breaks"));
    let text = text.with_context(|| format!("cannot read the metrics at {address}"))?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.contains(" 200 "), "the metrics at {address} are refused: {status}");
    Ok(body.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    const COORDINATOR: &str = "# TYPE suture_repairs_started counter\n\
        suture_repairs_started_total 10\nsuture_repairs_replaced_total 2\n\
        suture_dispatched_bytes_total 5000\nsuture_replacing_bytes_total 1000\n\
        suture_repair_failures_total{reason=\"stalled\"} 1\n\
        suture_repair_failures_total{reason=\"missing\"} 2\n";

    const AGENT: &str = "suture_agent_moved_bytes_total{direction=\"sent\",purpose=\"repair\"} 700\n\
        suture_agent_moved_bytes_total{direction=\"sent\",purpose=\"client\"} 9\n\
        suture_agent_moved_bytes_total{direction=\"received\",purpose=\"repair\"} 8\n";

    #[test]
    fn what_daemons_export_of_repairs_is_summed_and_counts_from_a_moment_on() {
        let mut counts = RepairCounts::default();
        counts.add_coordinator(COORDINATOR);
        counts.add_agent(AGENT);
        counts.add_agent(AGENT);
        let expected = RepairCounts {
            payload_bytes: 1400.0,
            dispatched_bytes: 5000.0,
            replacing_bytes: 1000.0,
            started: 10.0,
            replaced: 2.0,
            failed: 3.0,
        };
        assert_eq!(counts, expected);
        let before = RepairCounts { payload_bytes: 400.0, started: 4.0, ..RepairCounts::default() };
        let since = counts.since(before);
        assert_eq!((since.payload_bytes, since.started, since.failed), (1000.0, 6.0, 3.0));
    }

    #[tokio::test]
    async fn a_page_is_what_follows_the_head_of_an_answer_that_is_no_refusal() {
        let answered = async |answer: &'static str| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; REQUEST.len()];
                stream.read_exact(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
            let page = page(address).await;
            server.await.unwrap();
            page
        };
        let page = answered("HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\na 1\n").await;
        assert_eq!(page.unwrap(), "a 1\n");
        let refused = answered("HTTP/1.0 503 Service Unavailable\r\n\r\n").await.unwrap_err();
        assert!(format!("{refused:#}").contains("503"), "{refused:#}");
    }
}
