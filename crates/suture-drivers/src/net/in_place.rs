//! Payload that is encrypted where it lies, and leaves from there.
//!
//! Place: between the slice that was computed for a parent and its socket.
//! A record is a header, the encrypted payload, and a few bytes that come out behind it. So the
//! payload stays where it is, all that lies around it in the stream is kept here, the *fringe*, and
//! one call sends both in turn. What is encrypted with a piece of payload is the kind of its
//! content, which stands behind it: for a moment it takes the place of the next piece's first byte.
//! The last byte of all has nothing behind it, and gets a record of its own in the fringe.

use std::io::IoSlice;

use rustls::Error;

use super::records::{HEADER_BYTES, Keys, OVERHEAD_BYTES, PLAIN_BYTES};

/// What comes between two pieces: the end of a record, and the header of the next.
const BETWEEN_BYTES: usize = OVERHEAD_BYTES;

/// Payload that may be encrypted at a time, so that one call can send it with all of its fringe.
pub const IN_PLACE_BYTES: usize = 256 * PLAIN_BYTES;

/// What lies around a payload that is on its way.
#[derive(Debug, Default)]
pub struct Fringe {
    bytes: Vec<u8>,
    /// How much of it comes before the payload.
    before: usize,
}

impl Fringe {
    /// Encrypts `headers`, then `payload` where it lies; gives how many bytes are to be sent.
    ///
    /// # Errors
    /// When the numbers of records are used up.
    pub fn seal(
        &mut self,
        keys: &mut Keys,
        headers: &[u8],
        payload: &mut [u8],
    ) -> Result<usize, Error> {
        assert!((1..=IN_PLACE_BYTES).contains(&payload.len()), "payload of a size that is sent");
        let of_headers = headers.len() + headers.len().div_ceil(PLAIN_BYTES) * OVERHEAD_BYTES;
        let pieces = (payload.len() - 1).div_ceil(PLAIN_BYTES);
        self.before = of_headers + if pieces == 0 { 0 } else { HEADER_BYTES };
        self.bytes.resize(of_headers + pieces * BETWEEN_BYTES + 1 + OVERHEAD_BYTES, 0);
        let records = self.bytes[..of_headers].chunks_mut(PLAIN_BYTES + OVERHEAD_BYTES);
        for (part, record) in headers.chunks(PLAIN_BYTES).zip(records) {
            keys.seal(part, record)?;
        }
        let mut fringe = self.bytes[of_headers..].chunks_exact_mut(BETWEEN_BYTES);
        for from in (0..payload.len() - 1).step_by(PLAIN_BYTES) {
            let to = (payload.len() - 1).min(from + PLAIN_BYTES);
            let around = fringe.next().expect("as many as there are pieces");
            keys.seal_around(&mut payload[from..=to], around)?;
        }
        let last = payload[payload.len() - 1];
        let record = self.bytes.len() - 1 - OVERHEAD_BYTES;
        keys.seal(&[last], &mut self.bytes[record..])?;
        Ok(self.bytes.len() + payload.len() - 1)
    }

    /// All that is to be sent, but for the first `sent` bytes.
    pub fn parts<'a>(&'a self, payload: &'a [u8], sent: usize) -> Vec<IoSlice<'a>> {
        let payload = &payload[..payload.len() - 1];
        let (mut skipped, mut rest) = (sent, &self.bytes[self.before..]);
        let mut parts = Vec::with_capacity(2 * payload.len().div_ceil(PLAIN_BYTES) + 2);
        let mut add = |part: &'a [u8]| {
            let skip = skipped.min(part.len());
            skipped -= skip;
            if skip < part.len() {
                parts.push(IoSlice::new(&part[skip..]));
            }
        };
        add(&self.bytes[..self.before]);
        let mut pieces = payload.chunks(PLAIN_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            let bytes = if pieces.peek().is_some() { BETWEEN_BYTES } else { rest.len() };
            let (between, behind) = rest.split_at(bytes);
            add(piece);
            add(between);
            rest = behind;
        }
        add(rest);
        parts
    }
}

#[cfg(test)]
mod tests {
    use rustls::ConnectionTrafficSecrets;
    use rustls::crypto::cipher::{AeadKey, Iv};
    use suture_repair::random::Random;

    use super::super::records::{Opened, record_bytes};
    use super::*;

    fn keys() -> Keys {
        let (key, iv) = (AeadKey::from([7; 32]), Iv::from([9; 12]));
        Keys::new((0, ConnectionTrafficSecrets::Aes256Gcm { key, iv })).unwrap()
    }

    /// What the other side makes of it.
    fn opened(keys: &mut Keys, mut stream: &mut [u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        while let Some(bytes) = record_bytes(stream).unwrap() {
            let (record, behind) = stream.split_at_mut(bytes);
            match keys.open(record, 0).unwrap() {
                Opened::Data(length) => plain.extend(&record[..length]),
                other => panic!("{other:?} was not sent"),
            }
            stream = behind;
        }
        assert!(stream.is_empty(), "{} bytes are no record", stream.len());
        plain
    }

    #[test]
    fn headers_and_payload_come_out_in_their_order_however_they_are_sent() {
        let (mut random, mut sealer, mut opener) = (Random::new(1), keys(), keys());
        let mut fringe = Fringe::default();
        for length in [1, 2, 100, PLAIN_BYTES, PLAIN_BYTES + 1, PLAIN_BYTES + 2, 300_000] {
            for headers in [&b""[..], b"a header", &[7; 2 * PLAIN_BYTES + 1]] {
                let mut payload = vec![0; length];
                random.fill(&mut payload);
                let all = [headers, &payload].concat();
                let bytes = fringe.seal(&mut sealer, headers, &mut payload).unwrap();
                let mut stream = Vec::new();
                while stream.len() < bytes {
                    let parts = fringe.parts(&payload, stream.len());
                    let rest: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
                    assert_eq!(rest.len(), bytes - stream.len());
                    stream.extend(&rest[..rest.len().min(1 + random.below(20_000) as usize)]);
                }
                assert!(opened(&mut opener, &mut stream) == all, "{length} bytes");
            }
        }
    }
}
