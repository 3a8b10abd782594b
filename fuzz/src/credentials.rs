//! Who somebody says to be, and what proves it: whatever URIs and folders of credentials hold is
//! read as what it says, or refused with the URI or the file.
//!
//! Place: before anything of either plane is heard. An input is a byte that chooses, and a URI, or
//! the files of a folder: certificate, key, authorities and what these revoked, which may be empty
//! and is not there then. A folder is read anew by who has read good ones before, as in a daemon.
//! All times of the certificates in `credentials/` are around that of the body, which has no clock.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use suture_drivers::identity::credentials::{
    AUTHORITY, CERTIFICATE, Credentials, KEY, Kept, REVOKED,
};
use suture_drivers::identity::{AccessRole, Principal};

use crate::cursor::{Cursor, piece};
use crate::scratch;

/// The files of a folder, in the order of an input.
const NAMES: [&str; 4] = [CERTIFICATE, KEY, AUTHORITY, REVOKED];

/// Those that were read before: an agent's.
const OWN: [&str; 4] = [
    include_str!("credentials/tls.crt"),
    include_str!("credentials/tls.key"),
    include_str!("credentials/ca.crt"),
    include_str!("credentials/ca.crl"),
];

/// The same agent's of a year later.
const RENEWED: [&str; 2] =
    [include_str!("credentials/renewed.crt"), include_str!("credentials/renewed.key")];

/// What its authority had revoked before.
const OLDER: &str = include_str!("credentials/older.crl");

/// The beginning of 2030.
const NOW: Duration = Duration::from_secs(1_893_456_000);

/// What a URI has that is about Suture.
const SCHEME: &str = "suture://";

const NAME_BYTES_MAX: usize = 128;

/// The kinds of inputs; what is behind them in the list is a folder.
const URI: u8 = 0;
const KINDS: u8 = 2;

/// Inputs to begin with: whoever there can be, and folders of one agent.
pub fn valid() -> Vec<Vec<u8>> {
    let mut uris: Vec<String> = AccessRole::ALL
        .iter()
        .map(|(role, _)| Principal::new(*role, "rack-1.node_2").expect("a name").uri())
        .collect();
    uris.extend(
        [
            "suture://client/nightly?prefix=backups/db/",
            "suture://agent/kn%C3%B6ten%201",
            "suture://operator/a@example.org",
        ]
        .map(str::to_owned),
    );
    let mut inputs: Vec<Vec<u8>> =
        uris.iter().map(|uri| [&[URI], uri.as_bytes()].concat()).collect();
    let [certificate, key, authority, revoked] = OWN;
    let [new_certificate, new_key] = RENEWED;
    inputs.extend(
        [
            OWN,
            [new_certificate, new_key, authority, revoked],
            [new_certificate, key, authority, revoked],
            [certificate, key, authority, ""],
            [certificate, key, authority, OLDER],
            [authority, key, certificate, revoked],
        ]
        .map(|files| folder_of(&files)),
    );
    inputs
}

fn folder_of(files: &[&str; 4]) -> Vec<u8> {
    let pieces = files.iter().flat_map(|file| piece(file.as_bytes()));
    [1].into_iter().chain(pieces).collect()
}

/// Gives whether somebody is said, or proven, to be there.
///
/// # Panics
/// When something is read as what it does not say, or refused without its name.
pub fn check(input: &[u8]) -> bool {
    let Some((&kind, bytes)) = input.split_first() else { return false };
    if kind % KINDS == URI { check_uri(bytes) } else { check_folder(bytes) }
}

fn check_uri(bytes: &[u8]) -> bool {
    let Ok(uri) = std::str::from_utf8(bytes) else { return false };
    match Principal::from_uri(uri) {
        None => {
            assert!(!uri.starts_with(SCHEME), "{uri:?}");
            false
        }
        Some(Err(why)) => {
            assert!(why.starts_with(uri) && why.len() > uri.len() + 2, "{why:?}");
            false
        }
        Some(Ok(someone)) => {
            check_principal(&someone);
            // Whoever is listed is found by what its line says.
            let role: Result<AccessRole, String> = someone.role.to_string().parse();
            assert_eq!(role, Ok(someone.role));
            assert!(!someone.command().is_empty());
            true
        }
    }
}

/// Names are for tables and logs, and prefixes keep clients apart.
fn check_principal(someone: &Principal) {
    let Principal { role, name, prefix } = someone;
    let is_text = |text: &str| text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control);
    assert!(!name.is_empty() && is_text(name) && is_text(prefix), "{someone:?}");
    let is_client = *role == AccessRole::Client;
    assert!(is_client == prefix.ends_with('/') && is_client != prefix.is_empty(), "{someone:?}");
    let uri = someone.uri();
    assert!(uri.is_ascii() && !uri.contains(' '), "{uri:?}");
    assert_eq!(Principal::from_uri(&uri).as_ref(), Some(&Ok(someone.clone())), "{uri}");
}

/// A folder that nobody else may change.
fn folder() -> PathBuf {
    let dir = scratch::folder().join("credentials");
    fs::create_dir_all(&dir).expect("a scratch folder");
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).expect("it is ours");
    dir
}

fn write(dir: &Path, files: &[&[u8]; 4]) {
    for (name, bytes) in NAMES.into_iter().zip(files) {
        let path = dir.join(name);
        if name == REVOKED && bytes.is_empty() {
            // It may not be there.
            let _ = fs::remove_file(&path);
            continue;
        }
        fs::write(&path, bytes).expect("it can be written");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
    }
}

/// What lies in a folder takes the place of what was read before, or does not.
fn check_folder(bytes: &[u8]) -> bool {
    let mut pieces = Cursor(bytes);
    let files: [&[u8]; 4] = std::array::from_fn(|_| pieces.piece().unwrap_or_default());
    let (dir, now): (PathBuf, SystemTime) = (folder(), UNIX_EPOCH + NOW);
    write(&dir, &OWN.map(str::as_bytes));
    let kept = Kept::open(&dir, now).expect("credentials that can be used");
    let former = kept.current();
    write(&dir, &files);
    match kept.reload(now) {
        Ok(is_new) => {
            let current = kept.current();
            assert_eq!(current.number, u64::from(is_new));
            assert_eq!(current.own.principal, former.own.principal);
            check_principal(&current.own.principal);
            let seconds = NOW.as_secs();
            let counts = current.own.not_before <= seconds && seconds <= current.own.not_after;
            assert!(counts, "{:?}", current.own);
            let _ = (current.ends(), current.warnings(now));
            let anew = Credentials::read(&dir, now).expect("they were taken");
            assert_eq!(anew.own, current.own);
            true
        }
        Err(why) => {
            let text = format!("{why:#}");
            let is_named = NAMES.iter().any(|name| text.contains(name));
            let is_other = text.contains("restart it");
            let dir = dir.display().to_string();
            assert!(text.contains(&dir) && (is_named || is_other), "{text}");
            assert_eq!(kept.current().number, former.number);
            false
        }
    }
}
