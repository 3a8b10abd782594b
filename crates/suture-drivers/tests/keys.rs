//! Keys that other tools made: which can be used, and what is said of the others.
//!
//! The files in `keys` are of openssl: an authority of P-256 signed a certificate of agent n0 for
//! each kind of key, for a hundred years. The keys with a passphrase are those of P-256 (`pkcs8`,
//! `sec1`) and RSA (`pkcs1`). None of them is used for anything else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use rcgen::string::Ia5String;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use suture_drivers::identity::authority::Authority;
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

#[test]
fn a_certificate_that_names_purposes_needs_that_of_a_client() {
    let dir = tempfile::tempdir().unwrap();
    Authority::create(dir.path(), "tests", SystemTime::now()).unwrap();
    let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let key = KeyPair::from_pem(&text("ca.key")).unwrap();
    let signer = Issuer::from_ca_cert_pem(&text("ca.crt"), key).unwrap();
    let read = |purposes: Vec<ExtendedKeyUsagePurpose>| {
        let (own, key) = (tempfile::tempdir().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::default();
        let uri = Ia5String::try_from("suture://agent/n0").unwrap();
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.extended_key_usages = purposes;
        let certificate = params.signed_by(&key, &signer).unwrap().pem();
        fs::write(own.path().join("tls.crt"), certificate).unwrap();
        fs::write(own.path().join("ca.crt"), text("ca.crt")).unwrap();
        fs::write(own.path().join("tls.key"), key.serialize_pem()).unwrap();
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(own.path().join("tls.key"), private).unwrap();
        let found = Credentials::read(own.path(), SystemTime::now());
        found.map(drop).map_err(|error| error.to_string())
    };
    use ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
    for purposes in [vec![], vec![ClientAuth], vec![ClientAuth, ServerAuth]] {
        read(purposes).unwrap();
    }
    let error = read(vec![ServerAuth]).unwrap_err();
    assert!(error.contains("tls.crt: "), "{error}");
}
