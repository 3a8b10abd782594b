//! While a coordinator makes plans, a client that asks for its status is given the last one.
//!
//! Place: beside stripes affected -> queue -> [plan].

use std::sync::Arc;
use std::time::Duration;

use crate::control;
use suture_drivers::control::acceptor::{self, ControlLimits};
use suture_drivers::control::client::{self, Client};
use suture_drivers::control::proto::{RepairAction, RepairCommand, StatusReply, StatusRequest};
use suture_drivers::coordinator::Handle;
use suture_drivers::coordinator::throttle::Live;
use suture_drivers::maintenance_window::ThrottleIntent;
use suture_drivers::metadata::{Incomplete, MetadataStore};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Nothing is answered so soon by a coordinator that does something else.
const SOON: Duration = Duration::from_millis(500);

/// A coordinator that does something else until this is dropped.
struct Busy {
    _until: std::sync::mpsc::Sender<()>,
}

impl Busy {
    async fn begin(coordinator: &Handle) -> Busy {
        let (until, ended) = std::sync::mpsc::channel();
        let (begins, begun) = oneshot::channel();
        let coordinator = coordinator.clone();
        tokio::spawn(async move {
            let works = coordinator.query(move |_| {
                let _ = begins.send(());
                let _ = ended.recv();
            });
            works.await
        });
        timeout(TIMEOUT, begun).await.expect("it begins").unwrap();
        Busy { _until: until }
    }
}

async fn ask(client: &mut Client, or_kept: bool) -> StatusReply {
    client.status(StatusRequest { or_kept }).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn while_plans_are_made_a_status_of_before_is_given_but_not_of_before_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let store = MetadataStore::open(dir.path(), Incomplete::Refuse).unwrap();
    let (service, _metadata, coordinator) = control::coordinator_of(store);
    let service = Arc::new(service);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(acceptor::serve(listener, service.clone(), ControlLimits::default(), None));
    let mut client = client::connect(&address, None).await.unwrap();
    assert_eq!(ask(&mut client, false).await.age_seconds, None);

    // One is kept every second.
    let mut kept = None;
    for _ in 0..20 {
        let _busy = Busy::begin(&coordinator).await;
        kept = timeout(SOON, ask(&mut client, true)).await.ok();
        if kept.is_some() {
            break;
        }
    }
    let kept = kept.expect("one was kept");
    assert!(kept.age_seconds.is_some_and(|age| age > 0.0) && !kept.paused, "{kept:?}");
    assert_eq!(ask(&mut client, false).await.age_seconds, None);

    let busy = Busy::begin(&coordinator).await;
    assert!(timeout(SOON, ask(&mut client, false)).await.is_err(), "it is to be of now");
    let pause = RepairCommand { action: RepairAction::Pause.into(), ..Default::default() };
    client.command_repair(pause).await.unwrap();
    assert!(timeout(SOON, ask(&mut client, true)).await.is_err(), "it would be of before");
    drop(busy);
    assert!(ask(&mut client, true).await.paused);

    // A configuration that is read anew is one too.
    let busy = Busy::begin(&coordinator).await;
    service.configure(Live { throttle: ThrottleIntent::default(), backup_every: None }).await;
    assert!(timeout(SOON, ask(&mut client, true)).await.is_err(), "it would be of before");
    drop(busy);
    assert!(ask(&mut client, true).await.paused);
}
