//! The credentials of a daemon or a command: its principal, its proof, and the authorities that it
//! trusts.
//!
//! Place: [files are read] -> connections are made and taken -> the principal at each end is known.
//! They are a folder: `tls.crt` with the certificate and those between it and the authority,
//! `tls.key`, `ca.crt` with all authorities that are trusted, and `ca.crl` with what these revoked,
//! if anything: names that other tools use too. A daemon reads them anew while it runs; what cannot
//! be used is refused, and what was read before stays.
//!
//! Both ends of a connection are judged by the same verifier: of a trusted authority, valid now,
//! not revoked, with a principal. Which principal it has to be is compared by the caller.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, ServerConfig,
    SignatureScheme, version,
};
use suture_edge::error::bad_input;
use tokio::sync::watch;
use x509_parser::num_bigint::BigUint;
use x509_parser::prelude::{CertificateRevocationList, FromDer};

use super::certificate::{Flaw, Statement, TrustedAuthority};

/// The certificate, and those between it and the authority.
pub const CERTIFICATE: &str = "tls.crt";

/// The key of the certificate.
pub const KEY: &str = "tls.key";

/// The authorities that are trusted.
pub const AUTHORITY: &str = "ca.crt";

/// The lists of what they revoked.
pub const REVOKED: &str = "ca.crl";

/// What group and others may do with a key.
const OTHERS: u32 = 0o077;

/// The write permission of others, which files of trusted authorities must not have. Groups are
/// left alone: a user's own group may write where that is the system's custom.
const OTHERS_WRITE: u32 = 0o002;

/// What others than the owner of a folder may do to its names: they could put files of their own
/// there.
const FOLDER_WRITE: u32 = 0o022;

/// With this bit no user can remove or replace files of others in a folder that all may write.
const STICKY: u32 = 0o1000;

/// Hundreds of authorities or thousands of revocations fit.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How long after one file of a folder another may be changed, where both belong to one change.
const OTHER_HALF: Duration = Duration::from_millis(200);

/// Credentials as they were read at one moment.
#[derive(Debug)]
pub struct Credentials {
    /// What our own certificate says.
    pub own: Statement,
    /// How connections are made.
    pub client: Arc<ClientConfig>,
    /// How connections are taken.
    pub server: Arc<ServerConfig>,
    /// How many others there were before them, in this process.
    pub number: u64,
    /// The authority that signed the own certificate; of several the one that counts longest.
    authority: Option<TrustedAuthority>,
    verifier: Arc<dyn ClientCertVerifier>,
    files: CredentialFiles,
}

/// The files as they were.
#[derive(Clone, PartialEq, Eq)]
struct CredentialFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
    revoked: Option<Vec<u8>>,
}

impl Credentials {
    /// Reads and checks a folder. What cannot be used may be half of a change, whose other half
    /// comes a moment later: that is waited for.
    ///
    /// # Errors
    /// Bad input, with the file: it cannot be read, is no certificate, key or list, does not match
    /// the others, names no principal, counts no more or not yet; others may read the key.
    pub fn read(dir: &Path, now: SystemTime) -> Result<Credentials> {
        loop {
            let files = CredentialFiles::read(dir)?;
            let before = files.clone();
            let flawed = match Credentials::of(files, dir, now) {
                Ok(credentials) => return Ok(credentials),
                Err(flawed) => flawed,
            };
            std::thread::sleep(OTHER_HALF);
            if CredentialFiles::read(dir)? == before {
                return Err(flawed);
            }
        }
    }

    fn of(files: CredentialFiles, dir: &Path, now: SystemTime) -> Result<Credentials> {
        let provider = Arc::new(provider());
        let at = dir.join(CERTIFICATE);
        let chain = certificates(&files.certificate, &at)?;
        let own = Statement::read(&chain[0]).map_err(|flaw| flawed(&at, &flaw))?;
        let roots = certificates(&files.authority, &dir.join(AUTHORITY))?;
        let verifier_by =
            |roots: &[CertificateDer<'_>]| verifier(roots, &files.revoked, dir, &provider);
        let verifier = verifier_by(&roots)?;
        verify(&*verifier, &chain, now).map_err(|flaw| flawed(&at, &flaw))?;
        let vouches = |root: &&CertificateDer<'_>| {
            let alone = verifier_by(std::slice::from_ref(root));
            alone.is_ok_and(|alone| verify(&*alone, &chain, now).is_ok())
        };
        let authorities =
            roots.iter().filter(vouches).filter_map(|root| TrustedAuthority::read(root).ok());
        let authority = authorities.max_by_key(|authority| authority.not_after);
        let key = PrivateKeyDer::from_pem_slice(&files.key)
            .map_err(|_| bad_input(no_key(&files.key, &dir.join(KEY))))?;
        let certified = CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider);
        certified.map_err(|error| {
            let (key, certificate) = (dir.join(KEY), at.display());
            let key = key.display();
            bad_input(match error {
                TlsError::InconsistentKeys(_) => format!("{key} is not the key of {certificate}"),
                _ => format!(
                    "{key} is of a kind that cannot be used: make one of ECDSA P-256 or P-384, \
                     Ed25519, or RSA with 2048 bits or more"
                ),
            })
        })?;
        let clock: Arc<dyn TimeProvider> = Arc::new(ClockOfDay);
        let mut client = ClientConfig::builder_with_details(provider.clone(), clock.clone())
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(EitherEnd(verifier.clone())))
            .with_client_auth_cert(chain.clone(), key.clone_key())?;
        let mut server = ServerConfig::builder_with_details(provider, clock)
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(verifier.clone())
            .with_single_cert(chain, key)?;
        // Connections last; one that is made anew proves itself anew.
        server.send_tls13_tickets = 0;
        // Records of the data plane are encrypted by `net/records.rs`.
        (client.enable_secret_extraction, server.enable_secret_extraction) = (true, true);
        let (client, server) = (Arc::new(client), Arc::new(server));
        Ok(Credentials { own, client, server, number: 0, authority, verifier, files })
    }

    /// Whether certificates that were shown, the holder's first, can be accepted.
    ///
    /// # Errors
    /// Why they cannot be accepted.
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), Flaw> {
        verify(&*self.verifier, chain, now)
    }

    /// When our own certificate and its authority count no more, in seconds since 1970.
    pub fn ends(&self) -> Vec<(&'static str, u64)> {
        let authority = self.authority.as_ref().map(|authority| ("authority", authority.not_after));
        [("own", self.own.not_after)].into_iter().chain(authority).collect()
    }

    /// What the operator has to know of times that are soon over: that of the certificate, and that
    /// of the authority that signed it.
    pub fn warnings(&self, now: SystemTime) -> Vec<String> {
        let of_authority = self.authority.as_ref().and_then(|authority| authority.warning(now));
        self.own.warning(now).into_iter().chain(of_authority).collect()
    }
}

// Nothing of it is for logs: it has a key.
impl fmt::Debug for CredentialFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialFiles")
    }
}

impl CredentialFiles {
    fn read(dir: &Path) -> Result<CredentialFiles> {
        let read = |name: &str| {
            let path = dir.join(name);
            // A pipe would be waited for, and what has no end be kept.
            let read = fs::metadata(&path).and_then(|of| match (of.is_file(), of.len()) {
                (false, _) => Err(io::Error::other("it is not a regular file")),
                (true, FILE_BYTES_MAX..) => {
                    Err(io::Error::other(format!("it has {FILE_BYTES_MAX} bytes or more")))
                }
                (true, _) => fs::read(&path),
            });
            read.map_err(|error| {
                bad_input(format!(
                    "cannot read {}: {error}. A credentials directory has {CERTIFICATE}, {KEY} and \
                     {AUTHORITY}; 'suture cert' makes one",
                    path.display(),
                ))
            })
        };
        check_folder(dir)?;
        for path in [dir.join(AUTHORITY), dir.join(REVOKED), dir.join(CERTIFICATE)] {
            let mode = fs::metadata(&path).map_or(0, |of| of.mode());
            if mode & OTHERS_WRITE != 0 {
                let (path, mode) = (path.display(), mode & 0o777);
                return Err(bad_input(format!(
                    "{path} is writable by others (mode {mode:o}), who could change which peers \
                     are trusted: chmod go-w {path}, and check its content"
                )));
            }
        }
        let key = dir.join(KEY);
        let mode = fs::metadata(&key).map_or(0, |of| of.mode());
        if mode & OTHERS != 0 {
            let (key, mode) = (key.display(), mode & 0o777);
            return Err(bad_input(format!(
                "others than its owner may read {key} (mode {mode:o}): chmod go-rwx {key}, and \
                 take a new key if they may have"
            )));
        }
        let is_absent = match fs::metadata(dir.join(REVOKED)) {
            Err(error) => error.kind() == io::ErrorKind::NotFound,
            Ok(_) => false,
        };
        let revoked = if is_absent { None } else { Some(read(REVOKED)?) };
        let (certificate, authority) = (read(CERTIFICATE)?, read(AUTHORITY)?);
        Ok(CredentialFiles { certificate, key: read(KEY)?, authority, revoked })
    }
}

/// Refuses what others than this process's user and root could have put there, or can any time.
fn check_folder(dir: &Path) -> Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let files = [CERTIFICATE, KEY, AUTHORITY, REVOKED].map(|name| dir.join(name));
    for path in [dir.to_owned()].into_iter().chain(files) {
        // What cannot be looked at cannot be read either, which says more.
        let Ok(of) = fs::metadata(&path) else { continue };
        if of.uid() != own && of.uid() != 0 {
            let (path, owner) = (path.display(), of.uid());
            return Err(bad_input(format!(
                "{path} belongs to another user (number {owner}), who may change it any time: chown \
                 {own} {path}, and see that it is as it should be"
            )));
        }
        let mode = of.mode();
        if of.is_dir() && mode & FOLDER_WRITE != 0 && mode & STICKY == 0 {
            let (path, mode) = (path.display(), mode & 0o777);
            return Err(bad_input(format!(
                "{path} is writable by others (mode {mode:o}), who could change which peers are \
                 trusted: chmod go-w {path}, and check the files in it"
            )));
        }
    }
    Ok(())
}

/// What is wrong with bytes that hold no key.
fn no_key(bytes: &[u8], path: &Path) -> String {
    let path = path.display();
    let is_encrypted = bytes.windows(9).any(|word| word == b"ENCRYPTED");
    if is_encrypted {
        format!("{path}: the key has a passphrase: write it without one")
    } else {
        format!("{path}: it is not a key")
    }
}

/// What is used of cryptography. The shorter key is as safe, and faster.
fn provider() -> CryptoProvider {
    let mut provider = ring::default_provider();
    let suites = [
        ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
        ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
        ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    provider.cipher_suites = suites.to_vec();
    provider
}

fn verifier(
    authorities: &[CertificateDer<'_>],
    revoked: &Option<Vec<u8>>,
    dir: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>> {
    let path = dir.join(AUTHORITY);
    let mut roots = RootCertStore::empty();
    for root in authorities {
        let added = roots.add(root.clone().into_owned());
        added.map_err(|_| flawed(&path, &Flaw::Malformed))?;
    }
    let path = dir.join(REVOKED);
    let wrong = || bad_input(format!("{}: it is not a list of revocations", path.display()));
    let lists = revoked.as_deref().unwrap_or_default();
    let lists = CertificateRevocationListDer::pem_slice_iter(lists);
    let lists = lists.collect::<Result<Vec<_>, _>>().map_err(|_| wrong())?;
    if revoked.is_some() && lists.is_empty() {
        // Half of a change, or something else: it admits no connection again.
        return Err(wrong());
    }
    WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .with_crls(lists)
        .allow_unknown_revocation_status()
        .build()
        .map_err(|_| wrong())
}

fn verify(
    verifier: &dyn ClientCertVerifier,
    chain: &[CertificateDer<'_>],
    now: SystemTime,
) -> Result<(), Flaw> {
    let (own, between) = chain.split_first().ok_or(Flaw::Malformed)?;
    match verifier.verify_client_cert(own, between, unix_time(now)) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InvalidCertificate(error)) => Err(Flaw::from(&error)),
        Err(error) => Err(Flaw::Other(error.to_string())),
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.ok().filter(|all| !all.is_empty());
    all.ok_or_else(|| flawed(path, &Flaw::Malformed))
}

/// Bad input, but where the clock decides: then a daemon that is started again, once the clock is
/// set or a new certificate is there, gets on.
fn flawed(path: &Path, flaw: &Flaw) -> anyhow::Error {
    let why = format!("{}: {flaw}", path.display());
    match flaw {
        Flaw::Expired | Flaw::NotYetValid => anyhow!(why),
        _ => bad_input(why),
    }
}

/// A time as certificates have it. One before 1970 counts as 1970, when none was valid yet.
fn unix_time(now: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// The clock by which handshakes judge certificates: that of the library panics before 1970.
#[derive(Debug)]
struct ClockOfDay;

impl TimeProvider for ClockOfDay {
    fn current_time(&self) -> Option<UnixTime> {
        Some(unix_time(SystemTime::now()))
    }
}

/// Judges servers as clients are judged: what a certificate says is not where its holder is.
#[derive(Debug)]
struct EitherEnd(Arc<dyn ClientCertVerifier>);

impl ServerCertVerifier for EitherEnd {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.0.verify_client_cert(own, between, now).map(|_| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Credentials that are read anew while a daemon runs.
#[derive(Debug)]
pub struct Kept {
    dir: PathBuf,
    current: watch::Sender<Arc<Credentials>>,
}

/// The principal at the other end of a connection, for as long as it can be accepted: certificates
/// expire and are revoked while connections last.
#[derive(Debug)]
pub struct Proven {
    /// What its certificate states.
    pub statement: Statement,
    chain: Vec<CertificateDer<'static>>,
    by: Arc<Kept>,
    /// The number of those of our credentials by which it was accepted last.
    at: AtomicU64,
}

impl Proven {
    /// The principal that a handshake has accepted, by those of our credentials with that number.
    ///
    /// # Errors
    /// Why it cannot be accepted.
    pub fn new(chain: &[CertificateDer<'_>], by: Arc<Kept>, number: u64) -> Result<Proven, Flaw> {
        let statement = Statement::read(chain.first().ok_or(Flaw::Malformed)?)?;
        let chain = chain.iter().map(|of| of.clone().into_owned()).collect();
        let proven = Proven { statement, chain, by, at: AtomicU64::new(number) };
        proven.check().map(|()| proven)
    }

    /// Whether it is to be accepted still. Costs next to nothing while our credentials stay.
    ///
    /// # Errors
    /// Why it cannot be any more.
    pub fn check(&self) -> Result<(), Flaw> {
        let (now, number) = (SystemTime::now(), self.by.current.borrow().number);
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        if since > self.statement.not_after {
            return Err(Flaw::Expired);
        }
        if self.at.load(Ordering::Relaxed) != number {
            self.by.current().verify(&self.chain, now)?;
            self.at.store(number, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether a list of an authority has a lower number than its list among those before. What cannot
/// be read is for others to refuse.
fn is_older(found: &[u8], known: &[u8]) -> bool {
    let (found, known) = (list_numbers(found), list_numbers(known));
    found.iter().any(|(issuer, number)| known.get(issuer).is_some_and(|before| number < before))
}

/// The numbers of revocation lists, by the authorities that issued them.
fn list_numbers(lists: &[u8]) -> BTreeMap<String, BigUint> {
    let lists = CertificateRevocationListDer::pem_slice_iter(lists).flatten();
    let number = |list: CertificateRevocationListDer<'_>| {
        let (_, list) = CertificateRevocationList::from_der(&list).ok()?;
        Some((list.issuer().to_string(), list.crl_number()?.clone()))
    };
    lists.filter_map(number).collect()
}

impl Kept {
    /// Reads them for the first time.
    ///
    /// # Errors
    /// As [`Credentials::read`].
    pub fn open(dir: &Path, now: SystemTime) -> Result<Kept> {
        let current = watch::Sender::new(Arc::new(Credentials::read(dir, now)?));
        Ok(Kept { dir: dir.to_owned(), current })
    }

    /// Those that count now.
    pub fn current(&self) -> Arc<Credentials> {
        self.current.borrow().clone()
    }

    /// Waits until others count than those with that number.
    pub async fn changed(&self, number: u64) {
        let mut current = self.current.subscribe();
        let changed = current.wait_for(|current| current.number != number).await;
        changed.expect("who holds the sender is here");
    }

    /// The number of those that lie in the folder now. What cannot be used leaves those before.
    pub fn refresh(&self) -> u64 {
        // The task that reads them anew now and then warns of a failure.
        let _ = self.reload(SystemTime::now());
        self.current.borrow().number
    }

    /// Reads them anew, if anything of them changed; gives whether it did.
    ///
    /// # Errors
    /// As [`Credentials::read`], and when they are another principal's; those before stay.
    pub fn reload(&self, now: SystemTime) -> Result<bool> {
        let files = CredentialFiles::read(&self.dir)?;
        let former = self.current();
        if files == former.files {
            return Ok(false);
        }
        if former.files.revoked.is_some() && files.revoked.is_none() {
            return Err(bad_input(format!(
                "{} is gone, and with it what was revoked: changed credentials are not used, those \
                 before are; copy it from the folder of the authority again",
                self.dir.join(REVOKED).display(),
            )));
        }
        if let (Some(known), Some(found)) = (&former.files.revoked, &files.revoked)
            && is_older(found, known)
        {
            return Err(bad_input(format!(
                "{} is older than the list that was there, and what was revoked since would count \
                 again: changed credentials are not used, those before are; copy it from the folder \
                 of the authority again",
                self.dir.join(REVOKED).display(),
            )));
        }
        let mut new = Credentials::of(files, &self.dir, now)
            .context("changed credentials are not used, those before are")?;
        if new.own.principal != former.own.principal {
            return Err(bad_input(format!(
                "{}: these are the credentials of {}, and this is {}: restart it to change that",
                self.dir.display(),
                new.own.principal,
                former.own.principal,
            )));
        }
        self.current.send_modify(|current| {
            new.number = current.number + 1;
            *current = Arc::new(new);
        });
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_before_1970_is_one_when_no_certificate_was_valid() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(unix_time(SystemTime::UNIX_EPOCH - day), at(0));
        assert_eq!(unix_time(SystemTime::UNIX_EPOCH + day), at(24 * 3600));
    }
}
