//! What a configuration says of folders and disks and cannot be on this machine: said by `suture
//! config check`, and by an agent as it starts.
//!
//! Place: a daemon's configuration is read -> [looked at beside the disks] -> the daemon's start.
//! Nothing is made or opened: a folder that is not there yet is judged by the one that it will be
//! in. It is advice, since another machine may be meant.

use std::path::Path;

use suture_edge::units::format_size;

use super::{AgentConfig, CoordinatorConfig};

impl CoordinatorConfig {
    /// What a coordinator would not start with on this machine, in sentences.
    pub fn advice_here(&self) -> Vec<String> {
        let mut advice = of_disk(&self.data_dir, None);
        advice.extend(self.audit.as_deref().and_then(|audit| of_audit(audit, &self.data_dir)));
        advice
    }
}

impl AgentConfig {
    /// What an agent would not start with, or take no chunks with, on this machine, in sentences.
    pub fn advice_here(&self) -> Vec<String> {
        of_disk(&self.data_dir, self.keep_free)
    }
}

/// What is wrong with a data_dir and what is to be left free beside it.
fn of_disk(data_dir: &Path, keep_free: Option<u64>) -> Vec<String> {
    let mut there = data_dir.ancestors().filter(|folder| folder.exists());
    let nearest = there.next().unwrap_or(Path::new("."));
    let shown = nearest.display();
    if !nearest.is_dir() {
        return vec![format!("data_dir: '{shown}' is not a directory")];
    }
    // What cannot be looked at is the daemon's to report.
    let Ok(disk) = rustix::fs::statvfs(nearest) else { return Vec::new() };
    let bytes = disk.f_blocks.saturating_mul(disk.f_frsize);
    if bytes == 0 {
        return vec![format!("data_dir: '{shown}' is of a file system without space for files")];
    }
    let too_much = keep_free.filter(|keep| *keep >= bytes).map(|keep| {
        format!(
            "keep_free: {} is all of the disk of '{shown}', which has {}: an agent with this takes \
             no chunks",
            format_size(keep),
            format_size(bytes)
        )
    });
    too_much.into_iter().collect()
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
        assert_eq!(of_disk(&folder.path().join("new/data"), Some(1)), [""; 0]);
        assert_eq!(of_disk(Path::new("not-there"), None), [""; 0]);
        let only = |data_dir: &Path, keep_free| -> String {
            let mut advice = of_disk(data_dir, keep_free);
            assert_eq!(advice.len(), 1, "{advice:?}");
            advice.remove(0)
        };
        let advice = only(&file.join("data"), None);
        assert!(advice.ends_with("/file' is not a directory"), "{advice}");
        let advice = only(Path::new("/proc/x"), None);
        assert!(advice.starts_with("data_dir: '/proc' is of a file system"), "{advice}");
        let advice = only(folder.path(), Some(u64::MAX));
        assert!(advice.starts_with("keep_free: "), "{advice}");
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
