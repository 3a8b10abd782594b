//! Credentials that cannot be used, and ports that ask for others: tables of an input, what stderr
//! says and the exit status. A table only grows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::daemons::{Cluster, count, noise};
use crate::rows::{Row, SILENT, check, run};
use crate::secured::Secured;
use rcgen::string::Ia5String;
use rcgen::{
    CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType,
};
use suture_drivers::identity::authority::Authority;
use suture_drivers::identity::{AccessRole, Principal};

/// Without any cluster.
const CERT: &[Row] = &[
    ("suture cert", "Usage: suture cert [OPTIONS] <COMMAND>", 2),
    (
        "suture cert node n1",
        "create an authority with 'suture cert init', or name its directory",
        2,
    ),
    ("suture cert rotate", "suture-authority does not exist", 2),
    ("suture cert init --authority f", "cannot make f", 1),
    ("suture cert init && suture cert init", "this directory has an authority. Replace it with", 2),
    ("suture cert node 'a b'", "'a b' is not a valid node name", 2),
    ("suture cert node ''", "a name has 1 to 128 bytes of text on one line", 2),
    ("suture cert node \"$(printf 'a\\nb')\"", "a name has 1 to 128 bytes of text on one line", 2),
    (
        "suture cert node \"$(printf 'a\\342\\200\\256b')\"",
        "a name has 1 to 128 bytes of text on",
        2,
    ),
    ("suture cert node $(printf %0200d 7)", "a name has 1 to 128 bytes", 2),
    ("suture cert node a/b", "'a/b' cannot be the name of a directory: name one with --out", 2),
    ("suture cert node ..", "'..' cannot be the name of a directory: name one with --out", 2),
    ("suture cert node n1 --coordinator --keeper", "cannot be used with", 2),
    ("suture cert node n1 --days 0", "0 is not in 1..=3650", 2),
    ("suture cert node n1 --days 99999", "99999 is not in 1..=3650", 2),
    ("suture cert node n1 --days soon", "invalid digit", 2),
    ("suture cert user eve", "--role <ROLE>", 2),
    ("suture cert user eve --role root", "invalid value 'root'", 2),
    ("suture cert user eve --role agent", "nodes are not users: use 'suture cert node'", 2),
    ("suture cert user eve --role admin --prefix eve/", "only clients have a prefix", 2),
    ("suture cert user eve --role client --prefix ''", "the role client needs a prefix", 2),
    ("suture cert user eve --role client --prefix eve", "a prefix ends with '/'", 2),
    ("suture cert node n1 && suture cert node n1", SILENT, 0),
    ("touch key && mkdir l && ln -s ../key l/tls.key && suture cert node l", SILENT, 0),
    ("test -L l/tls.key && grep -q PRIVATE key", SILENT, 0),
    ("suture cert node n2 --out n1", "is the certificate of agent n1: name another directory", 2),
    (
        "suture cert user n1 --role viewer",
        "is the certificate of agent n1: name another directory",
        2,
    ),
    ("suture cert node n9 --out suture-authority", "is the directory of the authority, which", 2),
    (
        "suture cert node n9 --out ./suture-authority/../suture-authority",
        "name another directory",
        2,
    ),
    ("test -e suture-authority/tls.key", SILENT, 1),
    ("suture cert node n3 --out /proc/n3", "cannot make /proc/n3", 1),
    ("suture cert revoke 'agent n9'", "has no valid certificate of this authority", 2),
    ("suture cert revoke n1", "give a role and a name, such as 'agent n1'", 2),
    ("suture cert rotate --finish", "the authority is not being replaced", 2),
    ("suture cert rotate --force", "--finish", 2),
    ("suture cert node n9 --host n9:80", "'n9:80' is neither a host name nor an address", 2),
    ("test -e n9", SILENT, 1),
    ("suture cert rotate && suture cert rotate", "finish with 'suture cert rotate --finish'", 2),
    ("suture cert rotate --finish", "certificates are of the former authority alone", 2),
    ("suture cert rotate --finish --force", SILENT, 0),
    ("suture cert show n1", SILENT, 0),
    (
        "suture cert user eve --role client --prefix e/ && suture cert show eve | grep -q 'begin with e/$'",
        SILENT,
        0,
    ),
    ("suture cert show n1 | grep 'begin with'", SILENT, 1),
    ("suture cert show nowhere", "cannot read nowhere/tls.crt: No such file", 2),
    ("suture cert show f", "f/ca.crl: Not a directory", 2),
    ("echo x > suture-authority/ca.key; suture cert node n4", "ca.key: it is not a key", 2),
    ("rm suture-authority/ca.key; suture cert node n4", "ca.key does not exist", 2),
    ("echo x > suture-authority/issued.json; suture cert revoke 'agent n1'", "does not exist", 2),
];

/// At a coordinator that asks for certificates (`$SECURED`), an agent that does (`$AGENT`), and a
/// coordinator that has none (`$PLAIN`).
const OF_A_CLUSTER: &[Row] = &[
    ("suture status --credentials own/root", SILENT, 0),
    ("suture status --credentials expired", "expired/tls.crt: it has expired", 1),
    ("suture status --credentials early", "early/tls.crt: it is not valid yet", 1),
    ("suture status --credentials other", "another authority", 2),
    ("suture status --credentials mixed", "mixed/tls.crt: it is of another authority", 2),
    ("suture status --credentials roleless", "roleless/tls.crt: ", 2),
    ("suture status --credentials roleless", "suture://", 2),
    ("suture status --credentials unreadable", "unreadable/tls.crt: Permission denied", 2),
    ("suture status --credentials hidden", "hidden/tls.key: Permission denied", 2),
    ("suture status --credentials nothing", "nothing/tls.crt: it is not a certificate", 2),
    ("suture status --credentials open", "others than its owner may read open/tls.key", 2),
    ("suture status --credentials open", "(mode 644): chmod go-rwx open/tls.key", 2),
    ("suture status --credentials changeable", "changeable/ca.crt is writable by others", 2),
    ("suture status --credentials changeable", "are trusted: chmod go-w changeable/ca.crt", 2),
    ("suture status --credentials shared", "shared is writable by others (mode 777)", 2),
    ("suture status --credentials shared", "are trusted: chmod go-w shared, and check", 2),
    ("suture status --credentials foreign", "foreign belongs to another user (number 65534)", 2),
    ("suture status --credentials foreign", "chown 0 foreign, and see that it is as it", 2),
    ("suture status --credentials foreign-key", "foreign-key/tls.key belongs to another user", 2),
    ("suture status --credentials endless", "endless/ca.crt: it has 1048576 bytes or more", 2),
    ("suture status --credentials pipe", "pipe/tls.key: it is not a regular file", 2),
    ("suture status --credentials two", "client team may not look at the cluster", 2),
    ("suture status --credentials two-others", "is not the key of two-others/tls.crt", 2),
    ("suture status --credentials swapped", "swapped/tls.key is not the key of swapped/tls.crt", 2),
    ("suture status --credentials emptydir", "emptydir/tls.crt: No such file", 2),
    ("suture status --credentials nowhere", "'suture cert' makes one", 2),
    ("suture status --credentials own/n0", "agent n0 may not look at the cluster", 2),
    ("suture status --credentials own/team", "client team may not look at the cluster", 2),
    ("suture rm x --credentials own/guest", "viewer guest may not remove objects", 2),
    ("suture rm kept --dry-run --credentials own/guest", "viewer guest may not remove objects", 2),
    ("suture rm kept --dry-run --credentials own/root | grep -q 'would be removed'", SILENT, 0),
    ("suture node fail n0 --credentials own/guest", "viewer guest may not fail nodes", 2),
    ("suture put f --name x --credentials own/ops", "operator ops may not put objects", 2),
    ("suture put f --name x --credentials own/team", "team/", 2),
    ("suture get kept -o x --credentials own/team", "team/", 2),
    ("suture metadata backup -o b --credentials own/ops", "operator ops may not", 2),
    ("test -e b", SILENT, 1),
    ("suture status", "asks for credentials (--credentials)", 1),
    ("suture status --coordinator $PLAIN --credentials own/root", "without credentials", 2),
    ("suture status --coordinator $AGENT --credentials own/root", "agent n0", 2),
    ("suture status --coordinator $AGENT", "what listens there", 1),
    (
        "suture agent --config as-n1.toml",
        "the certificate in 'own/n0' is node n0's, and this is node n1: correct name or",
        2,
    ),
    ("suture agent --config as-user.toml", "has the certificate of admin root, and none of", 2),
    ("suture agent --config as-expired.toml", "expired/tls.crt: it has expired", 1),
    ("suture agent --config as-open.toml", "others than its owner may read open/tls.key", 2),
    ("timeout 5 suture agent --config plain.toml; exit 3", "asks for credentials", 3),
    ("suture coordinator --config as-agent.toml", "and none of the role coordinator", 2),
    ("suture status --credentials own/root", SILENT, 0),
];

#[test]
fn certificates_that_cannot_be_made_are_refused_with_what_could_be() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "hello").unwrap();
    check(CERT, folder.path(), &[]);
}

/// Signs a certificate that does not name its holder.
fn sign_roleless(authority: &Path, out: &Path) {
    let read = |name: &str| fs::read_to_string(authority.join(name)).unwrap();
    let signer = KeyPair::from_pem(&read("ca.key")).unwrap();
    let signer = Issuer::from_ca_cert_pem(&read("ca.crt"), signer).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let name = Ia5String::try_from("host.example").unwrap();
    params.subject_alt_names = vec![SanType::DnsName(name)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    fs::write(out.join("tls.crt"), params.signed_by(&key, &signer).unwrap().pem()).unwrap();
    fs::write(out.join("tls.key"), key.serialize_pem()).unwrap();
}

/// Folders of credentials, each with one thing that is wrong.
fn prepare(cluster: &Secured, folder: &Path) {
    let copy = "set -e
        for d in roleless unreadable hidden nothing open swapped mixed changeable endless pipe \
            shared foreign foreign-key; do
            cp -r own/root $d; done
        for d in two two-others; do cp -r own/team $d; done
        mkdir emptydir; echo hello > f
        chmod 000 unreadable/tls.crt hidden/tls.key
        chmod 644 open/tls.key
        echo nothing > nothing/tls.crt
        cp own/ops/tls.key swapped/tls.key
        chmod 666 changeable/ca.crt
        chmod 777 shared
        chown 65534 foreign foreign-key/tls.key
        truncate -s 3G endless/ca.crt
        rm pipe/tls.key; mkfifo -m 600 pipe/tls.key
        cat own/team/tls.crt own/root/tls.crt > two/tls.crt
        cat own/root/tls.crt own/team/tls.crt > two-others/tls.crt
        suture cert init --authority others
        suture cert user root --role admin --authority others --out other
        cp other/ca.crt mixed/ca.crt";
    let prepared = run(copy, folder, &[]);
    assert_eq!(prepared.status, 0, "{}", prepared.stderr);
    sign_roleless(&folder.join("authority"), &folder.join("roleless"));
    let authority = Authority::open(&folder.join("authority")).unwrap();
    let (root, day) = (Principal::new(AccessRole::Admin, "root"), Duration::from_secs(24 * 3600));
    let (root, now) = (root.unwrap(), SystemTime::now());
    authority.issue(&root, day, &folder.join("expired"), now - 3 * day).unwrap();
    authority.issue(&root, day, &folder.join("early"), now + 3 * day).unwrap();
    for (name, own, node) in [
        ("as-n1", "own/n0", "n1"),
        ("as-user", "own/root", "n7"),
        ("as-expired", "expired", "n7"),
        ("as-open", "open", "n7"),
        ("plain", "", "n7"),
    ] {
        let own = if own.is_empty() { String::new() } else { format!("credentials = '{own}'\n") };
        let text = format!(
            "listen = '127.0.0.1:0'\ncoordinator = '{}'\nname = '{node}'\ndata_dir = 'of-{name}'\n{own}",
            cluster.address,
        );
        fs::write(folder.join(name).with_extension("toml"), text).unwrap();
    }
    let text = "listen = '127.0.0.1:0'\ndata_dir = 'of-agent'\ncredentials = 'own/n0'\n";
    fs::write(folder.join("as-agent.toml"), text).unwrap();
    let mode = fs::metadata(folder.join("own/root/tls.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "as it is made");
}

#[test]
fn credentials_that_cannot_be_used_are_refused_with_the_file_or_the_peer() {
    let cluster = Secured::of(3);
    let content = cluster.put("kept", 300_000);
    let (plain, folder) = (Cluster::of(0), cluster.folder.path());
    prepare(&cluster, folder);
    let status = cluster.run(&["status", "--format", "json"]).stdout;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    // Which of them has joined first is unknown.
    let agent = status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "n0");
    let variables = [
        ("SUTURE_COORDINATOR", cluster.address.as_str()),
        ("PLAIN", plain.address.as_str()),
        ("AGENT", agent.unwrap()["address"].as_str().unwrap()),
    ];
    check(OF_A_CLUSTER, folder, &variables);
    cluster.wait("nobody was missed", |status| count(status, "up") == 3);
    cluster.assert_reads("kept", &content);
    assert_eq!(content, noise(300_000));
}
