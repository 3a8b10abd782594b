//! One end of a connection with a plugin: frames of JSON, each perhaps with raw bytes behind it.
//!
//! Place: under everything that is asked of HDFS.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | length of the JSON, big-endian like all three |
//! | 4..8 | length of the payload |
//! | 8..12 | CRC32C of the payload |
//! | 12.. | the JSON, then the payload |
//!
//! Both lengths are bounded before anything is allocated. The other end is a daemon of another
//! project, so what it sends is checked like any input.

use std::io::{self, ErrorKind, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use suture_edge::checksum::crc32c;

/// What both ends must speak.
pub const PROTOCOL: &str = "suture-hdfs-1";

/// The longest JSON: descriptions of some hundreds of block groups.
pub const JSON_BYTES_MAX: usize = 4 << 20;

/// The longest payload; plugins hold one at a time for each connection.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const HEADER_BYTES: usize = 12;

/// A connection that frames go through.
#[derive(Debug)]
pub struct Frames<S> {
    stream: S,
    payload: Vec<u8>,
}

impl<S: Read + Write> Frames<S> {
    /// An end of a connection, over `stream`.
    pub fn new(stream: S) -> Frames<S> {
        Frames { stream, payload: Vec::new() }
    }

    /// What the frames go over.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends a message without payload.
    ///
    /// # Errors
    /// As [`Frames::send_with`].
    pub fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message and what belongs to it.
    ///
    /// # Errors
    /// When the connection breaks, or the frame is longer than frames are.
    pub fn send_with(&mut self, message: &impl Serialize, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![0; HEADER_BYTES];
        serde_json::to_writer(&mut frame, message)?;
        let json_bytes = frame.len() - HEADER_BYTES;
        if json_bytes > JSON_BYTES_MAX || payload.len() > PAYLOAD_BYTES_MAX {
            let what = format!("a frame of {json_bytes} and {} bytes", payload.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        frame[..4].copy_from_slice(&(json_bytes as u32).to_be_bytes());
        frame[4..8].copy_from_slice(&(payload.len() as u32).to_be_bytes());
        frame[8..12].copy_from_slice(&crc32c(payload).to_be_bytes());
        self.stream.write_all(&frame)?;
        self.stream.write_all(payload)?;
        self.stream.flush()
    }

    /// The next message. What came with it is there until the one after.
    ///
    /// # Errors
    /// When the connection breaks or ends, and for what is no frame or another message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four"));
        let (json_bytes, payload_bytes) = (field(0) as usize, field(4) as usize);
        if json_bytes > JSON_BYTES_MAX || payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(wrong(format!("a frame of {json_bytes} and {payload_bytes} bytes")));
        }
        let mut json = vec![0; json_bytes];
        self.stream.read_exact(&mut json)?;
        self.payload.resize(payload_bytes, 0);
        self.stream.read_exact(&mut self.payload)?;
        if crc32c(&self.payload) != field(8) {
            return Err(wrong("a payload with another checksum than it was sent with".into()));
        }
        serde_json::from_slice(&json).map_err(|error| wrong(format!("no such message: {error}")))
    }

    /// What came with the last message.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

fn wrong(what: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use serde_json::{Value, json};

    use super::*;

    fn sent(message: &Value, payload: &[u8]) -> Vec<u8> {
        let mut frames = Frames::new(Cursor::new(Vec::new()));
        frames.send_with(message, payload).unwrap();
        frames.stream.into_inner()
    }

    fn received(bytes: Vec<u8>) -> io::Result<(Value, Vec<u8>)> {
        let mut frames = Frames::new(Cursor::new(bytes));
        let message = frames.receive()?;
        Ok((message, frames.payload))
    }

    #[test]
    fn a_frame_comes_as_it_was_sent() {
        let message = json!({ "op": "read", "block": -9223372036854775792i64 });
        for payload in [&b""[..], b"bytes", &[7; PAYLOAD_BYTES_MAX]] {
            assert_eq!(
                received(sent(&message, payload)).unwrap(),
                (message.clone(), payload.to_vec())
            );
        }
        // The layout is written down for others.
        let bytes = sent(&json!({}), b"123456789");
        assert_eq!(bytes, b"\0\0\0\x02\0\0\0\x09\xe3\x06\x92\x83{}123456789");
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_used() {
        let good = sent(&json!({}), b"payload");
        for (at, byte) in [(0, 0x7f), (4, 0x7f), (8, 1), (12, b'x'), (15, b'P')] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(received(bad).unwrap_err().kind(), ErrorKind::InvalidData, "byte {at}");
        }
        for cut in 0..good.len() {
            assert!(received(good[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        let long = vec![0; PAYLOAD_BYTES_MAX + 1];
        let mut frames = Frames::new(Cursor::new(Vec::new()));
        assert!(frames.send_with(&json!({}), &long).is_err());
    }
}
