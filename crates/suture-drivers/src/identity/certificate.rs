//! What certificates state: a principal, from when until when, and what is wrong with them.
//!
//! Place: [a certificate is read or was shown by a peer] -> its principal -> what that may do.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage, OtherError};
use suture_edge::error::quoted;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::Principal;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The principal that holds it.
    pub principal: Principal,
    /// When it begins to count, in seconds since 1970.
    pub not_before: u64,
    /// The last second in which it counts.
    pub not_after: u64,
    /// Its number at its authority, in hexadecimal digits.
    pub serial: String,
}

/// A warning is due with less time left than this; or than a quarter of a shorter lifetime.
const WARNED_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// What is wrong with a certificate, or with what it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is no certificate.
    Malformed,
    /// It has no URI of ours.
    NoPrincipal,
    /// It has one that says something impossible.
    Principal(String),
    /// It counts no more.
    Expired,
    /// It does not count yet.
    NotYetValid,
    /// No trusted authority signed it.
    Authority,
    /// Its authority took it back.
    Revoked,
    /// Something else, in the words of the library.
    Other(String),
}

impl Statement {
    /// Reads what a certificate says.
    ///
    /// # Errors
    /// When it is none, or does not name the principal that holds it.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Statement, Flaw> {
        let (rest, parsed) = X509Certificate::from_der(certificate).map_err(|_| Flaw::Malformed)?;
        if !rest.is_empty() {
            return Err(Flaw::Malformed);
        }
        let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
        Ok(Statement {
            principal: principal(&parsed)?,
            not_before: seconds(parsed.validity().not_before.timestamp()),
            not_after: seconds(parsed.validity().not_after.timestamp()),
            serial: serial(&parsed),
        })
    }

    /// What the operator of its holder has to know of its time, if that is soon over.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        soon_over(self.not_before, self.not_after, now)
            .map(|ends| format!("the certificate of {} {ends}: give it a new one", self.principal))
    }

    /// How long it still counts.
    pub fn left(&self, now: SystemTime) -> Duration {
        left(self.not_after, now)
    }
}

/// An authority, and its time. Daemons and commands go on trusting it after that, other programs do
/// not, and what it signs then is of no use to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedAuthority {
    /// What it calls itself.
    pub name: String,
    /// When it begins to count, in seconds since 1970.
    pub not_before: u64,
    /// The last second in which it counts.
    pub not_after: u64,
}

impl TrustedAuthority {
    /// Reads what its own certificate says.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<TrustedAuthority, Flaw> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| Flaw::Malformed)?;
        let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
        Ok(TrustedAuthority {
            name: parsed.subject().to_string(),
            not_before: seconds(parsed.validity().not_before.timestamp()),
            not_after: seconds(parsed.validity().not_after.timestamp()),
        })
    }

    /// What an operator who relies on it has to know of its time, if that is soon over.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        soon_over(self.not_before, self.not_after, now).map(|ends| {
            let name = quoted(&self.name);
            format!(
                "the authority {name} {ends}, and with it what it signed: replace it (suture cert \
                 rotate), or issue all certificates by another one"
            )
        })
    }
}

/// How a time ends, if so little of it is left that an operator has to know.
fn soon_over(not_before: u64, not_after: u64, now: SystemTime) -> Option<String> {
    let left = left(not_after, now);
    let lifetime = Duration::from_secs(not_after.saturating_sub(not_before));
    (left < WARNED_BEFORE.min(lifetime / 4)).then(|| match left.as_secs() / 3600 {
        _ if left.is_zero() => "has expired".into(),
        0 => "expires within the hour".into(),
        hours @ 1..48 => format!("expires in {hours} h"),
        hours => format!("expires in {} days", hours / 24),
    })
}

fn left(not_after: u64, now: SystemTime) -> Duration {
    (UNIX_EPOCH + Duration::from_secs(not_after)).duration_since(now).unwrap_or_default()
}

/// A certificate's number at its authority, in hexadecimal digits.
pub(super) fn serial(certificate: &X509Certificate<'_>) -> String {
    certificate.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The one principal that a certificate names: with two, different peers could take it for
/// different principals.
fn principal(certificate: &X509Certificate<'_>) -> Result<Principal, Flaw> {
    let names = certificate.subject_alternative_name().map_err(|_| Flaw::Malformed)?;
    let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or(&[]);
    let uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Principal::from_uri(uri),
        _ => None,
    });
    let mut found = uris.collect::<Result<Vec<_>, _>>().map_err(Flaw::Principal)?;
    match (found.pop(), found.is_empty()) {
        (Some(principal), true) => Ok(principal),
        (Some(_), false) => Err(Flaw::Principal("it names more than one".into())),
        (None, _) => Err(Flaw::NoPrincipal),
    }
}

impl From<&CertificateError> for Flaw {
    fn from(error: &CertificateError) -> Flaw {
        use CertificateError as E;
        match error {
            E::BadEncoding => Flaw::Malformed,
            E::Expired | E::ExpiredContext { .. } => Flaw::Expired,
            E::NotValidYet | E::NotValidYetContext { .. } => Flaw::NotYetValid,
            E::UnknownIssuer | E::BadSignature => Flaw::Authority,
            E::Revoked => Flaw::Revoked,
            // What the library reports of itself there is only a name.
            E::Other(OtherError(why)) => Flaw::Other(match why.to_string().as_str() {
                "CaUsedAsEndEntity" => "it is an authority's, not a node's or a user's".into(),
                "EndEntityUsedAsCa" => "who signed it is not an authority".into(),
                "UnsupportedCriticalExtension" => {
                    "it has a critical extension that is not understood".into()
                }
                name => name.into(),
            }),
            error => Flaw::Other(error.to_string()),
        }
    }
}

/// Why a connection could not be made or went away, as far as the identity of its ends has to do
/// with it.
pub fn explain(error: &TlsError) -> String {
    match error {
        TlsError::InvalidCertificate(error) => format!("its certificate: {}", Flaw::from(error)),
        TlsError::NoCertificatesPresented => "it showed no certificate".into(),
        TlsError::AlertReceived(alert) => refused(*alert),
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS: it runs without credentials, or is something else".into()
        }
        TlsError::PeerIncompatible(_) => "it does not speak TLS 1.3 as this does".into(),
        error => error.to_string(),
    }
}

/// What the other side answers to our certificate.
fn refused(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    let why = match alert {
        Alert::CertificateExpired => "expired, or not valid yet by its clock",
        Alert::CertificateRevoked => "revoked",
        Alert::UnknownCA => "of an authority that it does not trust",
        Alert::CertificateRequired => "missing",
        Alert::BadCertificate | Alert::CertificateUnknown | Alert::UnsupportedCertificate => {
            "of no use to it"
        }
        Alert::AccessDenied => "not one that may do this",
        alert => return format!("it ended the handshake: {alert:?}"),
    };
    format!("it refuses our certificate: {why}")
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Malformed => f.write_str("it is not a certificate"),
            Flaw::NoPrincipal => f.write_str(
                "it has no role: its alternative names lack a URI like suture://agent/NAME",
            ),
            Flaw::Principal(why) => write!(f, "its URI names no valid principal: {why}"),
            Flaw::Expired => f.write_str("it has expired"),
            Flaw::NotYetValid => {
                f.write_str("it is not valid yet: is this machine's clock right, and the signer's?")
            }
            Flaw::Authority => f.write_str("it is of another authority than those trusted here"),
            Flaw::Revoked => f.write_str("it was revoked"),
            Flaw::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Flaw {}
