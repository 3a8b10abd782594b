//! A listing that found the session's queue full is made again when there is space in it.
//!
//! Place: [failure detected]; what an agent holds counts once its coordinator has received it.

use std::sync::Arc;
use std::time::Duration;

use crate::agents::{CLUSTER, config};
use suture_drivers::agent::session::{SESSION_QUEUE, SessionEvent, session};
use suture_drivers::agent::{self, Config};
use suture_drivers::limit::Rates;
use suture_drivers::net;
use suture_drivers::store::{Identity, Store};
use suture_repair::id::NodeId;
use suture_repair::message::{FromAgent, ToAgent};
use suture_repair::time::Span;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_found_the_queue_full_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity { cluster: CLUSTER, node: "n0".into() };
    let store = Arc::new(Store::open(dir.path(), &identity).unwrap());
    let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let (seam, mut feed) = session();
    let (stop, stopped) = oneshot::channel::<()>();
    let heartbeat_every = Span::from_millis(1);
    let config = Config { heartbeat_every, ..config(NodeId(0), Rates::default(), dir.path()) };
    let ended = tokio::spawn(async move {
        let shutdown = async { drop(stopped.await) };
        agent::run(config, store, seam, listener, shutdown).await.unwrap();
    });
    feed.events.send(SessionEvent::Connected { epoch: 1 }).await.unwrap();
    while feed.outbox.len() < SESSION_QUEUE {
        sleep(Duration::from_millis(10)).await;
    }
    feed.events.send(SessionEvent::Message(ToAgent::List)).await.unwrap();
    sleep(Duration::from_millis(500)).await;

    for _ in 0..SESSION_QUEUE {
        feed.outbox.recv().await.unwrap();
    }
    let listed =
        async { while !matches!(feed.outbox.recv().await, Some(FromAgent::Inventory(_))) {} };
    timeout(Duration::from_secs(60), listed).await.expect("it is listed again");
    drop(stop);
    ended.await.unwrap();
}
