//! Keys that other tools made: which can be used, and what is said of the others.
//!
//! The files in `keys` are of openssl: an authority of P-256 signed a certificate of agent n0 for
//! each kind of key, for a hundred years. The keys with a passphrase are those of P-256 (`pkcs8`,
//! `sec1`) and RSA (`pkcs1`). None of them is used for anything else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use suture_drivers::identity::credentials::Credentials;

/// What comes of a folder with this certificate and this key.
fn read(certificate: &str, key: &str) -> Result<String, String> {
    let (dir, files) = (tempfile::tempdir().unwrap(), Path::new("tests/keys"));
    let copies = [
        ("ca.crt", "ca.crt".to_owned()),
        ("tls.crt", format!("{certificate}.crt")),
        ("tls.key", format!("{key}.key")),
    ];
    for (name, file) in copies {
        fs::copy(files.join(file), dir.path().join(name)).unwrap();
    }
    fs::set_permissions(dir.path().join("tls.key"), fs::Permissions::from_mode(0o600)).unwrap();
    let found = Credentials::read(dir.path(), SystemTime::now());
    found.map(|found| found.own.principal.to_string()).map_err(|error| error.to_string())
}

#[test]
fn keys_of_the_kinds_that_are_named_can_be_used() {
    for kind in ["p256", "p384", "ed25519", "rsa2048"] {
        assert_eq!(read(kind, kind), Ok("agent n0".to_owned()), "{kind}");
    }
}

#[test]
fn keys_of_other_kinds_are_refused_with_the_kinds_that_can_be_used() {
    for kind in ["p521", "ed448", "rsa1024"] {
        let error = read(kind, kind).unwrap_err();
        assert!(error.contains("tls.key is of a kind that cannot be used"), "{kind}: {error}");
        assert!(error.contains("make one of ECDSA P-256"), "{kind}: {error}");
    }
}

#[test]
fn a_key_with_a_passphrase_is_said_to_have_one() {
    for (certificate, key) in [("p256", "pkcs8"), ("p256", "sec1"), ("rsa2048", "pkcs1")] {
        let error = read(certificate, key).unwrap_err();
        let expected = "tls.key: the key has a passphrase: write it without one";
        assert!(error.ends_with(expected), "{key}: {error}");
    }
}

#[test]
fn a_key_of_another_certificate_is_said_to_be_one() {
    let error = read("p256", "p384").unwrap_err();
    assert!(error.contains("is not the key of"), "{error}");
}
