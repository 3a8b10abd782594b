//! A private authority for clusters without another: it signs certificates, takes them back, and
//! gives way to its successor.
//!
//! Place: before a cluster's first start, and once a year.
//! An authority is a folder of its owner's: `ca.crt` and `ca.key`, `ca.crl` with what was revoked,
//! and `issued.json` with what was signed. A change of authority has two steps, so that nothing is
//! interrupted: both are trusted, and every principal gets a certificate of the new one; then the
//! old one is trusted no more. In between `ca.crt` holds both, the new one first, and
//! `previous.key` stays.
//!
//! Files are replaced whole, so that a daemon that reads them anew never sees half of one.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber,
};
use rustix::fs::{FlockOperation, flock};
use rustix::rand::GetRandomFlags;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName};
use serde::{Deserialize, Serialize};
use suture_edge::error::{bad_input, quoted};
use tempfile::NamedTempFile;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Principal;
use super::certificate::{Statement, serial};
use super::credentials::{AUTHORITY, CERTIFICATE, KEY, REVOKED};
use crate::data_dir;

/// The key that the authority signs with.
const AUTHORITY_KEY: &str = "ca.key";

/// The key of the authority before, while it is still trusted.
const PREVIOUS_KEY: &str = "previous.key";

/// The list of all that was signed.
const ISSUED: &str = "issued.json";

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long an authority is trusted.
const AUTHORITY_LIFETIME: Duration = DAY.saturating_mul(3650);

/// How long a node's certificate counts by default.
pub const NODE_LIFETIME: Duration = DAY.saturating_mul(365);

/// How long a user's certificate counts by default.
pub const USER_LIFETIME: Duration = DAY.saturating_mul(90);

/// Machines whose clocks are behind by less than this can use a new certificate at once.
const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A folder that signs.
#[derive(Debug)]
pub struct Authority {
    dir: PathBuf,
    /// Held as long as this lives: one command at a time changes what was signed.
    _lock: File,
}

/// A certificate that was signed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issued {
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// The URI that names its holder.
    pub uri: String,
    /// The authority's number, in hexadecimal digits.
    pub authority: String,
    /// The last second in which it counts, since 1970.
    pub not_after: u64,
    /// When it was revoked, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

impl Authority {
    /// Makes a new one, in a folder of its own.
    ///
    /// # Errors
    /// Bad input when there is one already; a failure when its files cannot be written.
    pub fn create(dir: &Path, name: &str, now: SystemTime) -> Result<Authority> {
        data_dir::open(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let authority = Authority::locked(dir)?;
        let path = authority.path(AUTHORITY);
        if path.exists() {
            return Err(bad_input(format!(
                "{} exists: this directory has an authority. Replace it with 'suture cert rotate'",
                path.display(),
            )));
        }
        let (certificate, key) = self_signed(name, now)?;
        write_private(&authority.path(AUTHORITY_KEY), key.serialize_pem().as_bytes())?;
        write_public(&path, certificate.as_bytes())?;
        Ok(authority)
    }

    /// Opens one that was made before.
    ///
    /// # Errors
    /// Bad input when the folder has none.
    pub fn open(dir: &Path) -> Result<Authority> {
        let missing = |path: &Path| {
            bad_input(format!(
                "{} does not exist: create an authority with 'suture cert init', or name its directory",
                path.display(),
            ))
        };
        if !dir.is_dir() {
            return Err(missing(dir));
        }
        let authority = Authority::locked(dir)?;
        for name in [AUTHORITY, AUTHORITY_KEY] {
            let path = authority.path(name);
            if !path.exists() {
                return Err(missing(&path));
            }
        }
        Ok(authority)
    }

    /// The folder, once no other command changes it.
    fn locked(dir: &Path) -> Result<Authority> {
        let cannot = || format!("cannot lock {}", dir.display());
        let lock = File::open(dir).with_context(cannot)?;
        flock(&lock, FlockOperation::LockExclusive).with_context(cannot)?;
        Ok(Authority { dir: dir.to_owned(), _lock: lock })
    }

    /// Signs a certificate for a principal and puts it, with a new key and what its holder is to
    /// trust, into the folder `out`. A folder that holds the credentials of another principal is
    /// refused.
    ///
    /// # Errors
    /// Bad input when the folder is another principal's, or the authority's own time is over
    /// before.
    pub fn issue(
        &self,
        principal: &Principal,
        lifetime: Duration,
        out: &Path,
        now: SystemTime,
    ) -> Result<Issued> {
        self.issue_at(&[], principal, lifetime, out, now)
    }

    /// As [`Authority::issue`], for a machine that browsers know by these host names and addresses.
    ///
    /// # Errors
    /// As there, and bad input for what is neither a host name nor an address.
    pub fn issue_at(
        &self,
        hosts: &[String],
        principal: &Principal,
        lifetime: Duration,
        out: &Path,
        now: SystemTime,
    ) -> Result<Issued> {
        let hosts = hosts.iter().map(|host| host_name(host)).collect::<Result<Vec<_>>>()?;
        self.refuse_own(out)?;
        refuse_other(out, principal)?;
        let (signer, of) = self.signer()?;
        let not_after = now + lifetime;
        let left = of.not_after.saturating_sub(seconds(now));
        if left < lifetime.as_secs() {
            return Err(bad_input(format!(
                "the authority's own certificate expires in {} days: replace it with \
                 'suture cert rotate', or ask for fewer days",
                left / DAY.as_secs(),
            )));
        }
        let key = KeyPair::generate()?;
        let mut params = parameters(&principal.to_string(), now, not_after)?;
        let uri = Ia5String::try_from(principal.uri())?;
        params.subject_alt_names = [vec![SanType::URI(uri)], hosts].concat();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &signer)?;
        let statement = Statement::read(certificate.der()).map_err(|flaw| anyhow!("{flaw}"))?;
        let issued = Issued {
            serial: statement.serial,
            uri: principal.uri(),
            authority: of.serial,
            not_after: statement.not_after,
            revoked: None,
        };
        // First the record that it can be revoked by: a certificate without one never could be.
        let mut all = self.issued()?;
        all.push(issued.clone());
        self.keep_issued(&all)?;
        data_dir::open(out).with_context(|| format!("cannot make {}", out.display()))?;
        self.give(out)?;
        write_private(&out.join(KEY), key.serialize_pem().as_bytes())?;
        write_public(&out.join(CERTIFICATE), certificate.pem().as_bytes())?;
        Ok(issued)
    }

    /// Credentials in its own folder would be copied to a machine with the authority's key.
    fn refuse_own(&self, out: &Path) -> Result<()> {
        let is_own = fs::canonicalize(out)
            .is_ok_and(|out| fs::canonicalize(&self.dir).is_ok_and(|own| out.starts_with(own)));
        if is_own {
            Err(bad_input(format!(
                "{} is the directory of the authority, which must be kept off the cluster's \
                 machines: name another directory with --out",
                out.display(),
            )))
        } else {
            Ok(())
        }
    }

    /// Puts what is to be trusted, and what no more, into a folder with credentials.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn give(&self, out: &Path) -> Result<()> {
        for name in [AUTHORITY, REVOKED] {
            let from = self.path(name);
            if from.exists() {
                write_public(&out.join(name), &read(&from)?)?;
            }
        }
        Ok(())
    }

    /// Revokes all certificates of a principal that still count; gives those.
    ///
    /// # Errors
    /// Bad input when there is none.
    pub fn revoke(&self, principal: &str, now: SystemTime) -> Result<Vec<Issued>> {
        let seconds = seconds(now);
        let mut all = self.issued()?;
        let mut revoked = Vec::new();
        let is_theirs = |issued: &&mut Issued| {
            let name = Principal::from_uri(&issued.uri).and_then(Result::ok);
            name.is_some_and(|name| name.to_string() == principal || issued.uri == principal)
        };
        for issued in all.iter_mut().filter(is_theirs) {
            if issued.revoked.is_none() && issued.not_after > seconds {
                issued.revoked = Some(seconds);
                revoked.push(issued.clone());
            }
        }
        if revoked.is_empty() {
            return Err(bad_input(format!(
                "{} has no valid certificate of this authority: give a role and a name, such \
                 as 'agent n1'",
                quoted(principal),
            )));
        }
        self.keep_issued(&all)?;
        self.write_revoked(&all, now)?;
        Ok(revoked)
    }

    /// Makes the successor, which signs from now on; both are trusted until [`Authority::finish`].
    ///
    /// # Errors
    /// Bad input when a change is going on already.
    pub fn rotate(&self, name: &str, now: SystemTime) -> Result<()> {
        if self.path(PREVIOUS_KEY).exists() {
            return Err(bad_input(
                "the authority is being replaced already: finish with 'suture cert rotate --finish'",
            ));
        }
        let (certificate, key) = self_signed(name, now)?;
        let former = read(&self.path(AUTHORITY))?;
        let both = [certificate.as_bytes(), &former].concat();
        write_private(&self.path(PREVIOUS_KEY), &read(&self.path(AUTHORITY_KEY))?)?;
        // If this ends between the two, the key is not that of the first certificate: `signer`
        // takes whichever certificate the key belongs to.
        write_public(&self.path(AUTHORITY), &both)?;
        write_private(&self.path(AUTHORITY_KEY), key.serialize_pem().as_bytes())?;
        self.write_revoked(&self.issued()?, now)
    }

    /// Ends a change: only the new authority is trusted. Gives the certificates that lose their
    /// worth by it; unless `force`d, there may be none.
    ///
    /// # Errors
    /// Bad input when no change is going on, or a principal has no certificate of the new
    /// authority.
    pub fn finish(&self, force: bool, now: SystemTime) -> Result<Vec<Issued>> {
        if !self.path(PREVIOUS_KEY).exists() {
            return Err(bad_input("the authority is not being replaced"));
        }
        let (_, of) = self.signer()?;
        let left = self.not_renewed(&of, now)?;
        if !force && let Some(first) = left.first() {
            return Err(bad_input(format!(
                "{} certificates are of the former authority alone, the first that of {}: renew \
                 them, revoke them, or give --force",
                left.len(),
                first.uri,
            )));
        }
        let pem = pem::encode(&pem::Pem::new("CERTIFICATE", of.der.as_ref()));
        write_public(&self.path(AUTHORITY), pem.as_bytes())?;
        fs::remove_file(self.path(PREVIOUS_KEY))?;
        self.write_revoked(&self.issued()?, now)?;
        Ok(left)
    }

    /// The certificates of former authorities that count, whose holders have none of this one.
    fn not_renewed(&self, of: &OwnCertificate, now: SystemTime) -> Result<Vec<Issued>> {
        let all = self.issued()?;
        let counts = |issued: &Issued| issued.revoked.is_none() && issued.not_after > seconds(now);
        let has_new = |old: &Issued| {
            let is_its = |new: &Issued| new.authority == of.serial && new.uri == old.uri;
            all.iter().any(|new| is_its(new) && counts(new))
        };
        let old = all.iter().filter(|issued| issued.authority != of.serial && counts(issued));
        Ok(old.filter(|old| !has_new(old)).cloned().collect())
    }

    /// Everything that was signed, oldest first.
    ///
    /// # Errors
    /// When the list is damaged.
    pub fn issued(&self) -> Result<Vec<Issued>> {
        let path = self.path(ISSUED);
        if !path.exists() {
            return Ok(Vec::new());
        }
        serde_json::from_slice(&read(&path)?)
            .map_err(|error| bad_input(format!("{}: {error}", path.display())))
    }

    fn keep_issued(&self, all: &[Issued]) -> Result<()> {
        write_private(&self.path(ISSUED), &serde_json::to_vec_pretty(all)?)
    }

    /// One list for each authority that is trusted.
    fn write_revoked(&self, all: &[Issued], now: SystemTime) -> Result<()> {
        let mut lists = String::new();
        for key in [AUTHORITY_KEY, PREVIOUS_KEY] {
            let path = self.path(key);
            if !path.exists() {
                continue;
            }
            let (signer, of) = self.signer_with(&path)?;
            let revoked = all.iter().filter(|issued| issued.authority == of.serial);
            lists += &revocation_list(&signer, revoked, now)?;
        }
        write_public(&self.path(REVOKED), lists.as_bytes())
    }

    /// The present authority that signs, and what its certificate says.
    fn signer(&self) -> Result<(Issuer<'static, KeyPair>, OwnCertificate)> {
        self.signer_with(&self.path(AUTHORITY_KEY))
    }

    fn signer_with(&self, key: &Path) -> Result<(Issuer<'static, KeyPair>, OwnCertificate)> {
        let text = String::from_utf8(read(key)?).unwrap_or_default();
        let pair = KeyPair::from_pem(&text)
            .map_err(|error| bad_input(format!("{}: it is not a key: {error}", key.display())))?;
        let public = rcgen::PublicKeyData::subject_public_key_info(&pair);
        for own in self.certificates()? {
            if own.public_key == public {
                return Ok((Issuer::from_ca_cert_der(&own.der, pair)?, own));
            }
        }
        let path = self.path(AUTHORITY);
        Err(bad_input(format!("{} is not the key of {}", key.display(), path.display())))
    }

    fn certificates(&self) -> Result<Vec<OwnCertificate>> {
        let path = self.path(AUTHORITY);
        let wrong = || bad_input(format!("{}: it is not a certificate", path.display()));
        let bundle = read(&path)?;
        let certificates = CertificateDer::pem_slice_iter(&bundle);
        certificates.map(|der| der.ok().and_then(OwnCertificate::read).ok_or_else(wrong)).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// What a certificate of the authority itself says.
struct OwnCertificate {
    der: CertificateDer<'static>,
    serial: String,
    not_after: u64,
    public_key: Vec<u8>,
}

impl OwnCertificate {
    fn read(der: CertificateDer<'static>) -> Option<OwnCertificate> {
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let (serial, not_after) = (serial(&parsed), parsed.validity().not_after.timestamp());
        let public_key = parsed.public_key().raw.to_vec();
        Some(OwnCertificate { serial, not_after: not_after.try_into().ok()?, public_key, der })
    }
}

/// A new authority's certificate and key.
/// A host name or an address as a certificate has it.
fn host_name(host: &str) -> Result<SanType> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    match (DnsName::try_from(name), Ia5String::try_from(host)) {
        (Ok(_), Ok(host)) => Ok(SanType::DnsName(host)),
        _ => Err(bad_input(format!(
            "{} is neither a host name nor an address: write it as in https://NAME, without a port",
            quoted(host)
        ))),
    }
}

fn self_signed(name: &str, now: SystemTime) -> Result<(String, KeyPair)> {
    let key = KeyPair::generate()?;
    // What it revokes is found by its name, so that must not be its successor's too.
    let serial = random_serial()?;
    let name = format!("{name} {}", hex(&serial[..4]));
    let mut params = parameters(&name, now, now + AUTHORITY_LIFETIME)?;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    // It signs nothing that signs.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok((params.self_signed(&key)?.pem(), key))
}

/// What all certificates have: a name for people, a number that cannot be guessed, and their time.
fn parameters(name: &str, now: SystemTime, end: SystemTime) -> Result<CertificateParams> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = OffsetDateTime::from(now - CLOCK_SKEW);
    params.not_after = OffsetDateTime::from(end);
    params.serial_number = Some(SerialNumber::from_slice(&random_serial()?));
    Ok(params)
}

/// 16 random bytes; the first bit is no sign, and the first byte no padding.
fn random_serial() -> Result<[u8; 16]> {
    let mut serial = [0; 16];
    rustix::rand::getrandom(&mut serial, GetRandomFlags::empty())?;
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

fn revocation_list<'a>(
    signer: &Issuer<'_, KeyPair>,
    revoked: impl Iterator<Item = &'a Issued>,
    now: SystemTime,
) -> Result<String> {
    let entry = |issued: &Issued| {
        let at = UNIX_EPOCH + Duration::from_secs(issued.revoked?);
        Some(RevokedCertParams {
            serial_number: SerialNumber::from_slice(&bytes_of(&issued.serial)?),
            revocation_time: OffsetDateTime::from(at),
            reason_code: None,
            invalidity_date: None,
        })
    };
    let params = CertificateRevocationListParams {
        this_update: OffsetDateTime::from(now - CLOCK_SKEW),
        // No newer one is fetched: it counts until it is replaced.
        next_update: OffsetDateTime::from(now + AUTHORITY_LIFETIME),
        crl_number: SerialNumber::from(seconds(now)),
        issuing_distribution_point: None,
        revoked_certs: revoked.filter_map(entry).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    Ok(params.signed_by(signer)?.pem()?)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(serial: &str) -> Option<Vec<u8>> {
    let digits = (0..serial.len()).step_by(2).map(|at| serial.get(at..at + 2));
    digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// Refuses a folder in which there is a certificate of another principal.
fn refuse_other(out: &Path, principal: &Principal) -> Result<()> {
    let path = out.join(CERTIFICATE);
    if !path.exists() {
        return Ok(());
    }
    let der = CertificateDer::from_pem_slice(&read(&path)?).ok();
    let found = der.and_then(|der| Statement::read(&der).ok()).map(|statement| statement.principal);
    match found {
        Some(found) if found.role == principal.role && found.name == principal.name => Ok(()),
        Some(found) => Err(bad_input(format!(
            "{} is the certificate of {found}: name another directory with --out",
            path.display(),
        ))),
        None => Err(bad_input(format!(
            "{} is there, and is not a certificate of this authority: name another directory with --out",
            path.display(),
        ))),
    }
}

fn seconds(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Replaces a file that only its owner may read.
fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    write(path, bytes, 0o600)
}

/// Replaces a file that all users may read.
fn write_public(path: &Path, bytes: &[u8]) -> Result<()> {
    write(path, bytes, 0o644)
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    // A link stays one: what it leads to is what others read.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(Path::new("."));
    let replace = || {
        let mut part = NamedTempFile::new_in(folder)?;
        part.write_all(bytes)?;
        part.as_file().set_permissions(Permissions::from_mode(mode))?;
        part.as_file().sync_all()?;
        part.persist(path)?;
        data_dir::sync(folder)
    };
    replace().with_context(|| format!("cannot write {}", path.display()))
}
