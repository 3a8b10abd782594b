//! An authority for tests, and credentials that it signs.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use suture_drivers::identity::authority::Authority;
use suture_drivers::identity::credentials::Kept;
use suture_drivers::identity::{AccessRole, Principal};

pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// An authority, and folders of credentials that it signed.
pub struct Signed {
    pub dir: tempfile::TempDir,
    pub authority: Authority,
}

impl Signed {
    pub fn new() -> Signed {
        let dir = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let authority = Authority::create(&dir.path().join("authority"), "tests", now).unwrap();
        Signed { dir, authority }
    }

    pub fn folder(&self, role: AccessRole, name: &str) -> PathBuf {
        self.folder_of(&Principal::new(role, name).unwrap())
    }

    pub fn folder_of(&self, principal: &Principal) -> PathBuf {
        let out = self.dir.path().join(format!("{}-{}", principal.role, principal.name));
        self.authority.issue(principal, DAY, &out, SystemTime::now()).unwrap();
        out
    }

    pub fn credentials_of(&self, principal: &Principal) -> Arc<Kept> {
        open(&self.folder_of(principal))
    }

    pub fn credentials(&self, role: AccessRole, name: &str) -> Arc<Kept> {
        open(&self.folder(role, name))
    }
}

pub fn open(folder: &Path) -> Arc<Kept> {
    Arc::new(Kept::open(folder, SystemTime::now()).unwrap())
}
