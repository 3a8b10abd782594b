//! Agents that have no place for more clients, with real processes.

use std::fs;
use std::time::Duration;

use crate::daemons::{Cluster, suture};
use suture_drivers::chunk_client::{ChunkClient, ChunkConnection};
use suture_drivers::net::local_identity::LocalIdentity;
use suture_repair::wire::{ClusterId, Who};

/// Takes every place that clients of this address have at an agent, and does nothing with them.
async fn take_all_places(client: &ChunkClient, address: &str) -> Vec<ChunkConnection> {
    let mut taken = Vec::new();
    while let Ok(connection) =
        client.connect(address.parse::<std::net::SocketAddr>().unwrap()).await
    {
        taken.push(connection);
        assert!(taken.len() < 10_000, "there is an end to places");
    }
    taken
}

#[test]
fn a_put_waits_for_a_place_at_agents_that_have_none() {
    let cluster = Cluster::of(4);
    let status = cluster.wait("it answers", |_| true);
    let id = u64::from_str_radix(status["cluster"].as_str().unwrap(), 16).unwrap();
    let local_identity =
        LocalIdentity { cluster: ClusterId(id), who: Who::Client, credentials: None };
    let timeout = Duration::from_secs(10);
    let client = ChunkClient { local_identity, connect_timeout: timeout, idle_timeout: timeout };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let taken: Vec<Vec<ChunkConnection>> = status["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| runtime.block_on(take_all_places(&client, node["address"].as_str().unwrap())))
        .collect();
    assert!(taken.iter().all(|of_one| of_one.len() > 10), "agents have many places");

    let file = cluster.path("file");
    fs::write(&file, vec![7; 100_000]).unwrap();
    let mut put = suture();
    put.arg("put").arg(&file).args(["--name", "x", "--code", "rs(2,1)", "--coordinator"]);
    let mut put = put.arg(&cluster.address).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    assert!(put.try_wait().unwrap().is_none(), "it waits");
    drop(taken);
    assert!(put.wait().unwrap().success());
    cluster.assert_reads("x", &[7; 100_000]);
}
