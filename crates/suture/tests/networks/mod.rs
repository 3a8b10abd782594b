//! Whether tests can have network namespaces of their own.

use std::io::Write;
use std::process::Command;
use std::sync::OnceLock;

/// Whether networks can be made here; says so where they cannot. Tests run at once: one tries.
pub fn can_make_networks() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = *CAN.get_or_init(|| {
        let name = format!("suture-test-{}", std::process::id());
        let made = Command::new("ip").args(["netns", "add", &name]).output();
        let can = made.is_ok_and(|output| output.status.success());
        if can {
            Command::new("ip").args(["netns", "del", &name]).output().unwrap();
        }
        let has_tc = Command::new("tc").arg("-V").output().is_ok_and(|out| out.status.success());
        can && has_tc && rustix::process::geteuid().is_root()
    });
    if !can {
        let why = "SKIPPED: no network namespaces here: the testbed needs root, ip and tc";
        let _ = writeln!(std::io::stderr(), "{why}");
    }
    can
}
