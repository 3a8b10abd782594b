//! Agents and a coordinator that are of different clusters: a disk that is not mounted, or a
//! mistake. With real processes.

use std::fs;

use crate::daemons::{
    Cluster, Finished, Process, count, finish, start_agent, start_coordinator, suture,
};
use serde_json::Value;

const CODE: [&str; 4] = ["--code", "rs(2,1)", "--chunk-size", "16KiB"];
const AGENTS: usize = 4;

impl Cluster {
    fn start_agents(&mut self) {
        let agent = |i| start_agent(self.folder.path(), &self.address, i, "");
        self.agents = (0..AGENTS).map(agent).collect();
    }

    fn start_coordinator(&mut self) {
        (self.coordinator, _) = start_coordinator(self.folder.path(), &self.address);
    }
}

#[test]
fn a_coordinator_whose_disk_is_not_mounted_says_so_and_its_agents_wait() {
    let mut cluster = Cluster::of(AGENTS);
    let content = cluster.put("a", 90_000, &CODE);
    cluster.coordinator.stop();
    cluster.agents.clear();
    fs::rename(cluster.path("coordinator"), cluster.path("mounted later")).unwrap();
    cluster.start_coordinator();
    cluster.start_agents();
    let status = cluster.wait("all agents are refused", |status| {
        status["refused_agents"].as_array().is_some_and(|agents| agents.len() == AGENTS)
    });
    assert_eq!(status["state"], "foreign", "{status:#}");
    let said = cluster.run(&["status"]);
    assert_eq!(said.status, 3, "{}", said.stdout);
    assert!(
        said.stdout.contains("disk of this coordinator's data_dir mounted?"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("are refused: n0, n1, n2, n3"), "{}", said.stdout);

    cluster.coordinator.stop();
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    fs::rename(cluster.path("mounted later"), cluster.path("coordinator")).unwrap();
    cluster.start_coordinator();
    cluster.wait("nobody has to start them again", |status| count(status, "up") == AGENTS);
    assert!(cluster.agents.iter_mut().all(|agent| agent.0.try_wait().unwrap().is_none()));
    assert_eq!(cluster.run(&["status"]).status, 0);
    cluster.assert_reads("a", &content);
}

/// Neither disk is mounted at first: a new agent is the first of a new cluster.
#[test]
fn an_agent_with_chunks_waits_though_the_wrong_cluster_has_nodes() {
    let mut cluster = Cluster::of(AGENTS);
    let content = cluster.put("a", 90_000, &CODE);
    cluster.coordinator.stop();
    cluster.agents.clear();
    fs::rename(cluster.path("coordinator"), cluster.path("mounted later")).unwrap();
    fs::rename(cluster.path("n3"), cluster.path("n3 mounted later")).unwrap();
    cluster.start_coordinator();
    let start = |cluster: &Cluster, i| start_agent(cluster.folder.path(), &cluster.address, i, "");
    let new = start(&cluster, 3);
    cluster.wait("the empty directory is of the new cluster", |status| count(status, "up") == 1);
    cluster.agents = (0..AGENTS - 1).map(|i| start(&cluster, i)).collect();
    cluster.wait("the others are refused", |status| {
        status["refused_agents"].as_array().is_some_and(|agents| agents.len() >= AGENTS - 1)
    });
    drop(new);
    cluster.coordinator.stop();
    for name in ["coordinator", "n3"] {
        fs::remove_dir_all(cluster.path(name)).unwrap();
    }
    fs::rename(cluster.path("mounted later"), cluster.path("coordinator")).unwrap();
    fs::rename(cluster.path("n3 mounted later"), cluster.path("n3")).unwrap();
    cluster.start_coordinator();
    cluster.wait("those with chunks need nobody", |status| count(status, "up") == AGENTS - 1);
    cluster.assert_reads("a", &content);
}

/// Makes the metadata again at the address that the agents know.
fn rebuild(cluster: &Cluster, args: &[&str]) -> Finished {
    let path = cluster.path("coordinator.toml");
    let text = fs::read_to_string(&path).unwrap().replace("127.0.0.1:0", &cluster.address);
    fs::write(&path, text).unwrap();
    let mut command = suture();
    command.args(["metadata", "rebuild", "--format", "json", "--config"]).arg(&path).args(args);
    finish(&mut command)
}

#[test]
fn metadata_are_made_again_of_one_cluster_and_who_is_refused_is_named() {
    let (mut cluster, mut other) = (Cluster::of(AGENTS), Cluster::of(AGENTS + 1));
    let id = cluster.wait("it answers", |_| true)["cluster"].as_str().unwrap().to_string();
    let content = cluster.put("a", 90_000, &CODE);
    other.put("b", 90_000, &CODE);
    for ended in [&mut cluster, &mut other] {
        ended.coordinator.stop();
        ended.agents.clear();
    }
    fs::remove_dir_all(cluster.path("coordinator")).unwrap();
    let config = other.path("n4.toml");
    let text = fs::read_to_string(&config).unwrap().replace(&other.address, &cluster.address);
    fs::write(&config, text).unwrap();
    let (_stranger, _) = Process::start("agent", &config);
    cluster.start_agents();

    let mixed = rebuild(&cluster, &["--agents", "5", "--wait", "5s"]);
    assert_eq!(mixed.status, 1, "{}{}", mixed.stdout, mixed.stderr);
    for said in ["agents of more than one cluster", &id, "n4", "n0, n1, n2, n3", "--cluster"] {
        assert!(mixed.stderr.contains(said), "{said} is not in {}", mixed.stderr);
    }
    assert_eq!(fs::read_dir(cluster.path("coordinator")).unwrap().count(), 0);

    let found = rebuild(&cluster, &["--agents", "5", "--wait", "5s", "--cluster", &id]);
    assert_eq!(found.status, 3, "{}{}", found.stdout, found.stderr);
    let found: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!((&found["objects"], &found["missing_agents"]), (&1.into(), &1.into()), "{found:#}");
    assert_eq!(found["refused_agents"][0]["name"], "n4", "{found:#}");

    let wrong = rebuild(&cluster, &["--cluster", "0000000000000001"]);
    assert_eq!(wrong.status, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains(&format!("are of cluster {id}")), "{}", wrong.stderr);
    cluster.start_coordinator();
    cluster.assert_reads("a", &content);
}
