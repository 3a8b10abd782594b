//! Records of TLS 1.3, once a handshake has given the keys (RFC 8446, section 5).
//!
//! Place: under the encrypted bytes of a connection; `tls.rs` decides what is received and sent.
//! The library that shook hands could do this too, with three copies of each byte on its way. Here
//! a payload is encrypted where it was gathered and decrypted where it is wanted: ciphertext may
//! lie behind the place of its plaintext, and moves there as it is decrypted. Keys come from the
//! library, new ones too (`rustls::kernel`); ciphers are those of `ring`.
//!
//! Invariant: one key seals no more than [`RECORDS_MAX`] records, and no number twice.

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::{AlertDescription, ConnectionTrafficSecrets, Error};

/// What comes before each record: its outer type, a version that is always the same, its length.
pub const HEADER_BYTES: usize = 5;

/// The most plaintext of a record.
pub const PLAIN_BYTES: usize = 16 << 10;

/// What a record adds to its plaintext: header, inner type, tag.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + 1 + TAG_BYTES;

/// A whole record. Others than ours may pad theirs, by so much at most.
pub const RECORD_BYTES: usize = HEADER_BYTES + PLAIN_BYTES + 256;

const TAG_BYTES: usize = 16;

/// Records by one key, at most: AES-GCM is safe for some more (RFC 8446, section 5.5).
pub const RECORDS_MAX: u64 = 1 << 23;

/// Kinds of content that may come.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// Messages that may come after a handshake.
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// The keys of one direction.
pub struct Keys {
    key: LessSafeKey,
    iv: [u8; 12],
    /// The number of the next record.
    number: u64,
    is_retired: bool,
}

/// What a record held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// So many bytes, at the beginning of the space.
    Data(usize),
    /// The other side sends no more.
    Closed,
    /// The other side encrypts with its next keys from now on, and asks for ours where that is
    /// requested.
    NewKeys {
        /// Whether we are to take new ones, too.
        requested: bool,
    },
    /// Nothing that concerns us.
    Nothing,
}

impl Keys {
    /// Those that the library made, for the record of that number.
    ///
    /// # Errors
    /// When they are for another cipher than those that we offer.
    pub fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Keys, Error> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(Error::General("a cipher that was not offered".into())),
        };
        let key = UnboundKey::new(algorithm, key.as_ref());
        let key = key.map_err(|_| Error::General("a key of another length".into()))?;
        let iv = iv.as_ref().try_into().map_err(|_| Error::General("a nonce is short".into()))?;
        Ok(Keys { key: LessSafeKey::new(key), iv, number, is_retired: false })
    }

    /// The same, some records later.
    #[cfg(test)]
    pub fn skip_to(&mut self, number: u64) {
        self.number = number;
    }

    /// Whether it is time for the next ones.
    pub fn are_worn(&self) -> bool {
        self.number >= RECORDS_MAX || self.is_retired
    }

    /// The other side asks for the next ones: they come with whatever is sent next. Until then it
    /// may ask as often as it likes.
    pub fn retire(&mut self) {
        self.is_retired = true;
    }

    /// Encrypts data into a record; `into` has its length and [`OVERHEAD_BYTES`].
    ///
    /// # Errors
    /// When the numbers are used up.
    pub fn seal(&mut self, data: &[u8], into: &mut [u8]) -> Result<(), Error> {
        self.seal_as(DATA, data, into)
    }

    /// Encrypts data where it lies, but for the last byte of `data`, which stays as it is;
    /// `around`, of [`OVERHEAD_BYTES`], gets the record's header and what comes behind the data.
    ///
    /// # Errors
    /// As [`Keys::seal`].
    pub fn seal_around(&mut self, data: &mut [u8], around: &mut [u8]) -> Result<(), Error> {
        let (header, behind) = around.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&header_of(data.len() + TAG_BYTES));
        let kind = data.len() - 1;
        let next = std::mem::replace(&mut data[kind], DATA);
        let nonce = self.next_nonce()?;
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), data);
        behind[0] = std::mem::replace(&mut data[kind], next);
        behind[1..].copy_from_slice(sealed.map_err(|_| Error::EncryptError)?.as_ref());
        Ok(())
    }

    /// Encrypts the word that the next record has the next keys; `into` has 5 bytes and
    /// [`OVERHEAD_BYTES`].
    ///
    /// # Errors
    /// As [`Keys::seal`].
    pub fn seal_key_update(&mut self, into: &mut [u8]) -> Result<(), Error> {
        self.seal_as(HANDSHAKE, &KEY_UPDATE_MESSAGE, into)
    }

    fn seal_as(&mut self, content: u8, data: &[u8], into: &mut [u8]) -> Result<(), Error> {
        let (header, body) = into.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&header_of(body.len()));
        let (plain, tag) = body.split_at_mut(data.len() + 1);
        plain[..data.len()].copy_from_slice(data);
        plain[data.len()] = content;
        let nonce = self.next_nonce()?;
        let sealed = self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), plain);
        tag.copy_from_slice(sealed.map_err(|_| Error::EncryptError)?.as_ref());
        Ok(())
    }

    /// Decrypts the record that begins at `at` in `space`, all of which it fills from there on, to
    /// the beginning of `space`.
    ///
    /// # Errors
    /// When it was changed on its way, is no record, or reports why the other side ends.
    pub fn open(&mut self, space: &mut [u8], at: usize) -> Result<Opened, Error> {
        let header: [u8; HEADER_BYTES] = space[at..at + HEADER_BYTES].try_into().expect("as long");
        let nonce = self.next_nonce()?;
        let opened = self.key.open_within(nonce, Aad::from(header), space, at + HEADER_BYTES..);
        let plain = &*opened.map_err(|_| Error::DecryptError)?;
        // Zeros may follow the content and its kind.
        let end = plain.iter().rposition(|byte| *byte != 0);
        let (content, kind) = end.map_or((&[][..], 0), |end| (&plain[..end], plain[end]));
        match kind {
            DATA if content.len() <= PLAIN_BYTES => Ok(Opened::Data(content.len())),
            ALERT => alert(content),
            HANDSHAKE => message(content),
            _ => Err(Error::General("a record of a kind that cannot come here".into())),
        }
    }

    fn next_nonce(&mut self) -> Result<Nonce, Error> {
        let mut nonce = self.iv;
        let number = self.number.to_be_bytes();
        nonce[4..].iter_mut().zip(number).for_each(|(byte, with)| *byte ^= with);
        self.number = self.number.checked_add(1).ok_or(Error::EncryptError)?;
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

/// "New keys", and none are asked for.
const KEY_UPDATE_MESSAGE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// How long a record with that [`KeyUpdate`](Keys::seal_key_update) is.
pub const KEY_UPDATE_BYTES: usize = KEY_UPDATE_MESSAGE.len() + OVERHEAD_BYTES;

fn header_of(body: usize) -> [u8; HEADER_BYTES] {
    let [_, _, high, low] = (body as u32).to_be_bytes();
    [DATA, 3, 3, high, low]
}

/// The length of a whole record that begins so, if its header is there.
///
/// # Errors
/// When it is longer than a record can be, or none.
pub fn record_bytes(received: &[u8]) -> Result<Option<usize>, Error> {
    let Some(&[kind, 3, 3, high, low]) = received.first_chunk::<HEADER_BYTES>() else {
        return if received.len() < HEADER_BYTES {
            Ok(None)
        } else {
            Err(Error::General("no record of TLS 1.3".into()))
        };
    };
    let body = usize::from(u16::from_be_bytes([high, low]));
    if kind == DATA && (1 + TAG_BYTES..=RECORD_BYTES - HEADER_BYTES).contains(&body) {
        Ok(Some(HEADER_BYTES + body))
    } else {
        Err(Error::General("a record that cannot come here".into()))
    }
}

fn alert(content: &[u8]) -> Result<Opened, Error> {
    match content {
        [_, 0] => Ok(Opened::Closed),
        [_, why] => Err(Error::AlertReceived(AlertDescription::from(*why))),
        _ => Err(Error::General("an alert that is none".into())),
    }
}

fn message(content: &[u8]) -> Result<Opened, Error> {
    match content {
        [KEY_UPDATE, 0, 0, 1, requested @ (0 | 1)] => {
            Ok(Opened::NewKeys { requested: *requested == 1 })
        }
        // They are not offered, and not kept: a connection that is made anew proves itself anew.
        [NEW_SESSION_TICKET, ..] => Ok(Opened::Nothing),
        _ => Err(Error::General("a message that cannot come after a handshake".into())),
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::cipher::{AeadKey, Iv};
    use suture_repair::random::Random;

    use super::*;

    fn keys(number: u64) -> Keys {
        let (key, iv) = (AeadKey::from([7; 32]), Iv::from([9; 12]));
        Keys::new((number, ConnectionTrafficSecrets::Aes256Gcm { key, iv })).unwrap()
    }

    fn sealed(keys: &mut Keys, data: &[u8]) -> Vec<u8> {
        let mut record = vec![0; data.len() + OVERHEAD_BYTES];
        keys.seal(data, &mut record).unwrap();
        record
    }

    #[test]
    fn records_open_in_their_order_to_wherever_they_belong() {
        let (mut random, mut sealer, mut opener) = (Random::new(1), keys(5), keys(5));
        for length in [0, 1, 15, 16, 17, 1000, PLAIN_BYTES - 1, PLAIN_BYTES] {
            for at in [0, 1, 22, 5000] {
                let mut data = vec![0; length];
                random.fill(&mut data);
                let record = sealed(&mut sealer, &data);
                assert_eq!(record_bytes(&record).unwrap(), Some(record.len()));
                let mut space = vec![0xee; at];
                space.extend(&record);
                assert_eq!(opener.open(&mut space, at).unwrap(), Opened::Data(length));
                assert_eq!(space[..length], data, "{length} bytes from {at}");
            }
        }
    }

    #[test]
    fn a_record_is_the_same_wherever_its_payload_lies() {
        let (mut random, mut copying, mut in_place) = (Random::new(2), keys(0), keys(0));
        for length in [1, 15, 16, 17, 1000, PLAIN_BYTES - 1, PLAIN_BYTES] {
            let mut data = vec![0; length + 1];
            random.fill(&mut data);
            let (record, behind) = (sealed(&mut copying, &data[..length]), data[length]);
            let mut around = [0; OVERHEAD_BYTES];
            in_place.seal_around(&mut data, &mut around).unwrap();
            assert_eq!(data[length], behind, "it belongs to the next piece");
            let (header, tail) = around.split_at(HEADER_BYTES);
            assert_eq!([header, &data[..length], tail].concat(), record, "{length} bytes");
        }
    }

    #[test]
    fn what_was_changed_repeated_or_left_out_does_not_open() {
        let (first, second) = {
            let mut sealer = keys(0);
            (sealed(&mut sealer, b"first"), sealed(&mut sealer, b"second"))
        };
        for at in 0..first.len() {
            let mut changed = first.clone();
            changed[at] ^= 1;
            assert_eq!(keys(0).open(&mut changed, 0), Err(Error::DecryptError), "byte {at}");
        }
        assert_eq!(keys(0).open(&mut second.clone(), 0), Err(Error::DecryptError));
        let mut opener = keys(0);
        opener.open(&mut first.clone(), 0).unwrap();
        assert_eq!(opener.open(&mut first.clone(), 0), Err(Error::DecryptError));
    }

    #[test]
    fn what_is_no_data_is_told_apart() {
        let opened = |content, data: &[u8]| {
            let mut record = vec![0; data.len() + OVERHEAD_BYTES];
            keys(0).seal_as(content, data, &mut record).unwrap();
            keys(0).open(&mut record, 0)
        };
        assert_eq!(opened(ALERT, &[1, 0]), Ok(Opened::Closed));
        let refused = AlertDescription::AccessDenied;
        assert_eq!(opened(ALERT, &[2, 49]), Err(Error::AlertReceived(refused)));
        assert_eq!(opened(HANDSHAKE, &[24, 0, 0, 1, 1]), Ok(Opened::NewKeys { requested: true }));
        assert_eq!(opened(HANDSHAKE, &[4, 0, 0, 0]), Ok(Opened::Nothing));
        for (content, data) in
            [(ALERT, &[1][..]), (HANDSHAKE, &[24, 0, 0, 1, 2]), (20, &[1]), (0, &[])]
        {
            assert!(matches!(opened(content, data), Err(Error::General(_))), "{content} {data:?}");
        }
        for header in [[22, 3, 3, 0, 40], [23, 3, 1, 0, 40], [23, 3, 3, 0, 16], [23, 3, 3, 0xff, 0]]
        {
            assert!(record_bytes(&header).is_err(), "{header:?}");
        }
        assert_eq!(record_bytes(&[23, 3, 3, 0]), Ok(None));
    }
}
