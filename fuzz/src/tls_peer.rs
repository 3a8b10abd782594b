//! The other side of an encrypted connection, by the book (RFC 8446): copies everything, hurries
//! nowhere.
//!
//! Place: under the target `records`, which compares what our records do with what is said here.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};

/// Kinds of content.
pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

/// The most plaintext of a record.
pub const PLAIN_BYTES: usize = 16 << 10;

const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;

/// The keys of one direction.
pub struct PeerKeys {
    secret: Vec<u8>,
    key: LessSafeKey,
    iv: Vec<u8>,
    number: u64,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label, without a context (section 7.1).
fn expand(secret: &[u8], label: &str, length: usize) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let (bytes, of_label) = ((length as u16).to_be_bytes(), [label.len() as u8]);
    let info = [&bytes[..], &of_label, label.as_bytes(), &[0]].concat();
    let mut out = vec![0; length];
    let (prk, info) = (Prk::new_less_safe(HKDF_SHA256, secret), [&info[..]]);
    let expanded = prk.expand(&info, Length(length)).expect("it is short");
    expanded.fill(&mut out).expect("it is as long");
    out
}

impl PeerKeys {
    /// Those of a secret, for its first record (section 7.3).
    pub fn new(secret: &[u8]) -> PeerKeys {
        let key = UnboundKey::new(&AES_128_GCM, &expand(secret, "key", 16)).expect("a key");
        let (key, iv) = (LessSafeKey::new(key), expand(secret, "iv", 12));
        PeerKeys { secret: secret.to_vec(), key, iv, number: 0 }
    }

    /// Those after a key update (section 7.2).
    pub fn next(&self) -> PeerKeys {
        PeerKeys::new(&expand(&self.secret, "traffic upd", 32))
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.number.to_be_bytes());
        nonce.iter_mut().zip(&self.iv).for_each(|(byte, with)| *byte ^= with);
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// A record with that inside: content, its kind, and zeros if there are any (section 5.2).
    pub fn seal(&mut self, inside: &[u8]) -> Vec<u8> {
        let length = u16::try_from(inside.len() + TAG_BYTES).expect("records are short");
        let header = [&[DATA, 3, 3], &length.to_be_bytes()[..]].concat();
        let (nonce, mut body) = (self.nonce(), inside.to_vec());
        self.key.seal_in_place_append_tag(nonce, Aad::from(&header), &mut body).expect("it seals");
        [header, body].concat()
    }

    /// What is inside of a record, without its zeros; `None` where it was not sealed so.
    fn open(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        let (header, body) = record.split_at(HEADER_BYTES);
        let (nonce, mut body) = (self.nonce(), body.to_vec());
        let plain = self.key.open_in_place(nonce, Aad::from(header), &mut body).ok()?;
        let end = plain.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        Some(plain[..end].to_vec())
    }
}

/// How a reader ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It does not: more may come, perhaps the rest of a record.
    Open,
    /// The other side has said that it sends no more.
    Closed,
    /// What came cannot be right.
    Broken,
}

/// What a reader has to make of bytes.
#[derive(Debug)]
pub struct Heard {
    /// The data, all that came before the end.
    pub data: Vec<u8>,
    pub end: End,
    /// How many times the other side took new keys.
    pub key_updates: usize,
}

/// Reads records that come one after the other.
pub fn hear(mut keys: PeerKeys, mut wire: &[u8]) -> Heard {
    let mut heard = Heard { data: Vec::new(), end: End::Open, key_updates: 0 };
    while let Some((header, rest)) = wire.split_first_chunk::<HEADER_BYTES>() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let is_record = header[..3] == [DATA, 3, 3];
        if !is_record || !(1 + TAG_BYTES..=PLAIN_BYTES + 256).contains(&length) {
            return Heard { end: End::Broken, ..heard };
        }
        if rest.len() < length {
            break;
        }
        let (record, rest) = wire.split_at(HEADER_BYTES + length);
        wire = rest;
        let inside = keys.open(record);
        match inside.as_deref().and_then(<[u8]>::split_last) {
            Some((&DATA, content)) if content.len() <= PLAIN_BYTES => {
                heard.data.extend_from_slice(content);
            }
            Some((&ALERT, &[_, 0])) => return Heard { end: End::Closed, ..heard },
            Some((&HANDSHAKE, &[24, 0, 0, 1, 0 | 1])) => {
                heard.key_updates += 1;
                keys = keys.next();
            }
            // A ticket, which nobody wants.
            Some((&HANDSHAKE, &[4, ..])) => {}
            _ => return Heard { end: End::Broken, ..heard },
        }
    }
    heard
}
