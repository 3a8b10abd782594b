//! The units of systemd: nothing that guards a daemon or limits it is lost from them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{is_here, said, skipped, workspace};

/// What both services have, in the order of the units. Several values of a key stand in one.
const BOTH: [(&str, &str); 46] = [
    // How systemd knows that it is ready, that it lives and that it is to be started anew.
    ("Type", "notify"),
    ("ExecReload", "/bin/kill -HUP $MAINPID"),
    ("Restart", "on-failure"),
    ("RestartSec", "2s"),
    ("RestartPreventExitStatus", "2"),
    ("WatchdogSec", "2min"),
    ("TimeoutStartSec", "5min"),
    ("TimeoutStopSec", "30s"),
    // Its user, and its folders.
    ("User", "suture"),
    ("Group", "suture"),
    ("StateDirectoryMode", "0700"),
    ("ConfigurationDirectory", "suture"),
    ("UMask", "0077"),
    // Limits.
    ("LimitNOFILE", "65536"),
    ("LimitCORE", "0"),
    ("TasksMax", "2048"),
    ("MemoryMax", "75%"),
    // What it may not do.
    ("NoNewPrivileges", "yes"),
    ("CapabilityBoundingSet", ""),
    ("AmbientCapabilities", ""),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "yes"),
    ("PrivateTmp", "yes"),
    ("PrivateDevices", "yes"),
    ("PrivateMounts", "yes"),
    ("ProtectClock", "yes"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectControlGroups", "yes"),
    ("ProtectProc", "invisible"),
    ("ProcSubset", "pid"),
    ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("RemoveIPC", "yes"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallFilter", "@system-service; ~@privileged @resources; setrlimit prlimit64"),
    ("SystemCallErrorNumber", "EPERM"),
    // Neither goes further than that: these would open what is closed above.
    ("ReadWritePaths", ""),
    ("PermissionsStartOnly", ""),
    ("BindPaths", ""),
];

const OF_COORDINATOR: [(&str, &str); 5] = [
    ("ExecStart", "/usr/bin/suture coordinator"),
    ("StateDirectory", "suture suture/coordinator"),
    ("LogsDirectory", "suture"),
    ("LogsDirectoryMode", "0700"),
    ("OOMScoreAdjust", "-500"),
];

const OF_AGENT: [(&str, &str); 5] = [
    ("ExecStart", "/usr/bin/suture agent"),
    ("StateDirectory", "suture suture/agent"),
    ("OOMScoreAdjust", "-250"),
    ("CPUWeight", "50"),
    ("IOWeight", "50"),
];

fn path(role: &str) -> PathBuf {
    workspace().join(format!("packaging/systemd/suture-{role}.service"))
}

fn read_unit(role: &str) -> String {
    fs::read_to_string(path(role)).unwrap()
}

/// All values of a key of a unit's service.
fn values(service: &str, key: &str) -> String {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned);
    service.lines().filter_map(value).collect::<Vec<String>>().join("; ")
}

#[test]
fn units_guard_and_limit_their_daemons() {
    for (role, own) in [("coordinator", OF_COORDINATOR), ("agent", OF_AGENT)] {
        let unit = read_unit(role);
        let (head, rest) = unit.split_once("[Service]").expect("a service");
        let (service, install) = rest.split_once("[Install]").expect("who wants it");
        for (key, wanted) in BOTH.into_iter().chain(own) {
            assert_eq!(values(service, key), wanted, "{key} of suture-{role}.service");
        }
        assert!(head.contains(&format!("man:suture-{role}(1)")), "{head}");
        assert!(install.contains("WantedBy=multi-user.target"), "{install}");
    }
}

#[test]
fn units_users_and_folders_fit_each_other() {
    let read = |name: &str| fs::read_to_string(workspace().join(name)).unwrap();
    assert!(read("packaging/systemd/suture.sysusers").contains("\nu suture - "));
    let folders = read("packaging/systemd/suture.tmpfiles");
    assert!(folders.contains("d /var/lib/suture 0700 suture suture -"), "{folders}");
    assert!(folders.contains("d /etc/suture 0755 root root -"), "{folders}");
    for role in ["coordinator", "agent"] {
        let (config, unit) = (read(&format!("config/{role}.toml")), read_unit(role));
        assert!(config.contains(&format!("\ndata_dir = \"/var/lib/suture/{role}\"")), "{config}");
        assert!(values(&unit, "StateDirectory").ends_with(&format!("suture/{role}")), "{unit}");
    }
}

/// What systemd counts against a unit goes up to 10; of what is left here, most is the network.
#[test]
fn systemd_counts_little_against_the_units() {
    if !is_here("systemd-analyze") {
        return;
    }
    for role in ["coordinator", "agent"] {
        let mut rate = Command::new("systemd-analyze");
        rate.args(["security", "--offline=true", "--no-pager", "--threshold=15"]).arg(path(role));
        let output = rate.output().unwrap();
        let said = said(&output);
        if said.contains("unrecognized option") {
            return skipped("SKIPPED: this systemd-analyze cannot rate units that are not loaded");
        }
        assert!(output.status.success(), "{said}");
    }
}
