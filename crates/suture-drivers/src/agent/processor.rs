//! What this machine's processor takes for each byte of a repair, measured once.
//!
//! Place: an agent starts -> [it measures its processor] -> it joins and reports that -> plan ...
//! With the kernels that repairs run, on buffers that fit a processor's cache as slices do, and
//! with a connection of this machine to itself. Each is tried again and again for a moment, and the
//! fastest time counts: whatever else runs meanwhile makes times longer, never shorter. All of it
//! ends after about a tenth of a second, however slow the machine is.
//!
//! Sockets are measured without TLS, and disks not at all: both cost more where they are used, so a
//! processor is busier then than plans think.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use suture_edge::checksum::crc32c;
use suture_gf::{BitMatrix, Maps, bits};
use suture_repair::processor::{Processor, ProcessorCosts};

/// Bytes of a buffer: a slice.
const BUFFER_BYTES: usize = 64 << 10;

/// How long each cost is tried.
const EACH: Duration = Duration::from_millis(15);

/// How long a connection, or a buffer through it, may take before there is no use in waiting.
const SOCKET_TIMEOUT: Duration = Duration::from_millis(25);

/// Bits for each byte that a helper sends as traces, and how many helpers a decoder receives from:
/// those of rs(6,3), to the next whole number.
const RANK: usize = 4;
const HELPERS: usize = 8;

/// Neither zero nor one.
const FACTOR: u8 = 0x53;

/// So many cores of this machine and what a byte costs them; `None` where it cannot be measured,
/// as without a network of the machine's own.
pub fn measure(cores: f64) -> Option<Processor> {
    let ([send, receive], source) = (measure_sockets().ok()?, vec![FACTOR; BUFFER_BYTES]);
    let mut sum = vec![0u8; BUFFER_BYTES];
    let term = per_byte(BUFFER_BYTES, || suture_gf::mul_add(&mut sum, FACTOR, &source));
    let checksum = per_byte(BUFFER_BYTES, || {
        std::hint::black_box(crc32c(&source));
    });
    let copy = per_byte(BUFFER_BYTES, || sum.copy_from_slice(std::hint::black_box(&source)));
    let (traces, decoding) = (measure_traces(&source), measure_decoding(&mut sum));
    let costs = ProcessorCosts {
        sent: send + checksum + term,
        received: receive + checksum + term,
        traced: (traces - term).max(0.0),
        decoded: (decoding - term).max(0.0),
        read: copy + checksum,
        // Of blocks, and of the whole chunk.
        written: copy + 2.0 * checksum,
    };
    Processor::new(cores, costs)
}

/// To make a byte of traces.
fn measure_traces(source: &[u8]) -> f64 {
    let maps = Maps::new(&[BitMatrix::new(&[0x1d, 0x36, 0x6c, 0xd8], 8)]);
    let mut planes = vec![0u8; bits::buffer_bytes(RANK, source.len())];
    per_byte(planes.len(), || {
        suture_gf::map_sum(&mut planes, &maps, &[source], source.len());
    })
}

/// To decode a byte of traces.
fn measure_decoding(rebuilt: &mut [u8]) -> f64 {
    let map = BitMatrix::new(&[1, 2, 4, 8, 3, 6, 12, 9], RANK);
    let maps = Maps::new(&[map; HELPERS]);
    let planes = vec![FACTOR; bits::buffer_bytes(RANK, rebuilt.len())];
    let sources: Vec<&[u8]> = (0..HELPERS).map(|_| &planes[..]).collect();
    let symbols = rebuilt.len();
    per_byte(HELPERS * planes.len(), || {
        suture_gf::map_sum(rebuilt, &maps, &sources, symbols);
    })
}

/// Nanoseconds for each of so many bytes, at the fastest of some times.
fn per_byte(bytes: usize, mut run: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut fastest = f64::INFINITY;
    loop {
        let started = Instant::now();
        run();
        fastest = fastest.min(ns(started.elapsed()));
        if begun.elapsed() >= EACH {
            return fastest / bytes as f64;
        }
    }
}

/// Nanoseconds for each byte that is sent, and for each that is received, by one thread over TCP.
fn measure_sockets() -> io::Result<[f64; 2]> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut from = TcpStream::connect_timeout(&listener.local_addr()?, SOCKET_TIMEOUT)?;
    let (mut to, peer) = listener.accept()?;
    if peer != from.local_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    from.set_nonblocking(true)?;
    to.set_nonblocking(true)?;
    from.set_nodelay(true)?;
    let mut buffer = vec![FACTOR; BUFFER_BYTES];
    let (begun, mut fastest) = (Instant::now(), [f64::INFINITY; 2]);
    while begun.elapsed() < EACH {
        let started = Instant::now();
        // As much as there is room for.
        let sent = retried(|| from.write(&buffer))?;
        let sent_at = Instant::now();
        let mut received = 0;
        while received < sent {
            match retried(|| to.read(&mut buffer[received..sent]))? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                more => received += more,
            }
        }
        let times = [sent_at - started, sent_at.elapsed()];
        for (fastest, time) in fastest.iter_mut().zip(times) {
            *fastest = fastest.min(ns(time) / sent.max(1) as f64);
        }
    }
    Ok(fastest)
}

/// Tries until something is moved, for a moment.
fn retried(mut step: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    let begun = Instant::now();
    loop {
        match step() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if begun.elapsed() >= SOCKET_TIMEOUT {
                    return Err(ErrorKind::TimedOut.into());
                }
                std::thread::yield_now();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            moved => return moved,
        }
    }
}

fn ns(time: Duration) -> f64 {
    time.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_measured_and_every_byte_costs_something() {
        let measured = measure(1.5).expect("this machine has a network of its own");
        assert_eq!(measured.cores(), 1.5);
        let costs = measured.costs();
        for cost in [costs.sent, costs.received, costs.read, costs.written] {
            assert!(cost > 0.0, "{costs:?}");
        }
    }

    #[test]
    fn traces_are_made_and_decoded_by_the_kernels_that_repairs_run() {
        let mut rebuilt = vec![0u8; BUFFER_BYTES];
        assert!(measure_traces(&vec![FACTOR; BUFFER_BYTES]) > 0.0);
        assert!(measure_decoding(&mut rebuilt) > 0.0);
        // An even number of helpers that send the same adds up to nothing.
        assert!(rebuilt.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn no_cores_are_no_processor() {
        assert_eq!(measure(0.0), None);
    }
}
