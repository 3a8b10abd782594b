//! What a configuration says of folders and disks and cannot be on this machine: said by `suture
//! config check`, and by an agent as it starts.
//!
//! Place: a daemon's configuration is read -> [looked at beside the disks] -> the daemon's start.
//! Nothing is made or opened: a folder that is not there yet is judged by the one that it will be
//! in.

use std::path::Path;

use suture_edge::units::format_size;

use super::{AgentConfig, CoordinatorConfig};

/// What was found, in sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundHere {
    /// What the daemon would not start with on this machine.
    pub faults: Vec<String>,
    /// What it would start with, and hardly is meant.
    pub advice: Vec<String>,
}

impl CoordinatorConfig {
    /// What of it cannot be on this machine.
    pub fn found_here(&self) -> FoundHere {
        let mut found = of_disk(&self.data_dir, None);
        found.faults.extend(self.audit.as_deref().and_then(|log| of_audit(log, &self.data_dir)));
        found
    }
}

impl AgentConfig {
    /// What of it cannot be on this machine.
    pub fn found_here(&self) -> FoundHere {
        of_disk(&self.data_dir, self.keep_free)
    }
}

/// What is wrong with a data_dir and what is to be left free beside it.
fn of_disk(data_dir: &Path, keep_free: Option<u64>) -> FoundHere {
    let fault = |why: String| FoundHere { faults: vec![why], ..FoundHere::default() };
    let mut there = data_dir.ancestors().filter(|folder| folder.exists());
    let nearest = there.next().unwrap_or(Path::new("."));
    let shown = nearest.display();
    if !nearest.is_dir() {
        return fault(format!("data_dir: '{shown}' is not a directory"));
    }
    // What cannot be looked at is the daemon's to report.
    let Ok(disk) = rustix::fs::statvfs(nearest) else { return FoundHere::default() };
    let bytes = disk.f_blocks.saturating_mul(disk.f_frsize);
    if bytes == 0 {
        return fault(format!("data_dir: '{shown}' is of a file system without space for files"));
    }
    let too_much = keep_free.filter(|keep| *keep >= bytes).map(|keep| {
        format!(
            "keep_free: {} is all of the disk of '{shown}', which has {}: an agent with this takes \
             no chunks",
            format_size(keep),
            format_size(bytes)
        )
    });
    FoundHere { advice: too_much.into_iter().collect(), ..FoundHere::default() }
}

/// What is wrong with where the audit log is to be. The data_dir is made by the daemon.
fn of_audit(audit: &Path, data_dir: &Path) -> Option<String> {
    let shown = audit.display();
    if audit.is_dir() {
        return Some(format!("audit: '{shown}' is a directory: name a file in it"));
    }
    let folder = audit.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    let is_there = folder.is_dir() || folder == data_dir;
    (!is_there).then(|| {
        format!("audit: '{shown}' cannot be written: there is no directory '{}'", folder.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_dir_is_judged_by_the_folder_that_it_will_be_in() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(of_disk(&folder.path().join("new/data"), Some(1)), FoundHere::default());
        assert_eq!(of_disk(Path::new("not-there"), None), FoundHere::default());
        let only = |found: FoundHere| -> (String, bool) {
            let is_fault = !found.faults.is_empty();
            let [said] = &[found.faults, found.advice].concat()[..] else { panic!() };
            (said.clone(), is_fault)
        };
        let (fault, is_fault) = only(of_disk(&file.join("data"), None));
        assert!(is_fault && fault.ends_with("/file' is not a directory"), "{fault}");
        let (fault, is_fault) = only(of_disk(Path::new("/proc/x"), None));
        let is_said = fault.starts_with("data_dir: '/proc' is of a file system");
        assert!(is_fault && is_said, "{fault}");
        let (advice, is_fault) = only(of_disk(folder.path(), Some(u64::MAX)));
        assert!(!is_fault && advice.starts_with("keep_free: "), "{advice}");
    }

    #[test]
    fn an_audit_log_needs_a_folder_that_is_there_or_made() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(of_audit(&at("audit.jsonl"), &at("data")), None);
        assert_eq!(of_audit(Path::new("audit.jsonl"), &at("data")), None);
        assert_eq!(of_audit(&at("data/audit.jsonl"), &at("data")), None);
        let advice = of_audit(&at("none/audit.jsonl"), &at("data")).unwrap();
        assert!(advice.contains("there is no directory"), "{advice}");
        assert!(of_audit(folder.path(), &at("data")).unwrap().contains("name a file in it"));
    }
}
