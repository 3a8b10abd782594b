//! Moving payload with a place that others may want: what cannot be moved at once is left.
//!
//! Place: under each operation of a client at an agent, on either end of its waits.

use std::io::{self, IoSlice};

use super::super::error::NetError;
use super::super::fair_places::SharedPlace;
use super::super::tls::Stream;
use super::{Connection, Traffic, unless_wanted, wait};

/// Of what is sent while its place may be wanted, so much is encrypted at a time: a connection that
/// goes without a place keeps no more than that.
const SHARED_BYTES: usize = 64 * 1024;

impl Connection {
    /// Fills `into` with the payload of the last frame, or less of it if there is nothing to read
    /// and another operation wants the place; gives how much came.
    ///
    /// # Errors
    /// When the connection breaks or stalls.
    pub async fn read_payload_sharing(
        &mut self,
        into: &mut [u8],
        traffic: Traffic<'_>,
        place: &SharedPlace,
    ) -> Result<usize, NetError> {
        self.read_part(into, 0, traffic, Some(place)).await
    }

    /// Waits until there may be something to read.
    ///
    /// # Errors
    /// When nothing comes in the time that there is.
    pub async fn readable(&mut self) -> Result<(), NetError> {
        self.wait_readable(None).await.map(drop)
    }

    /// As [`Connection::write_spent`], but less of the payload if the other side takes no more for
    /// now and another operation wants the place; gives how much of it was taken.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub async fn write_sharing(
        &mut self,
        mut headers: &[u8],
        payload: &mut [u8],
        traffic: Traffic<'_>,
        place: &SharedPlace,
    ) -> Result<usize, NetError> {
        self.check_proven()?;
        let mut taken = 0;
        while taken < payload.len() {
            self.take_turn(traffic).await;
            let most = match self.stream {
                Stream::Tls(_) => SHARED_BYTES,
                // Nothing is kept of what is sent as it is.
                Stream::Plain(_) => usize::MAX,
            };
            let bytes = (payload.len() - taken).min(self.turn).min(most);
            let now = &mut payload[taken..taken + bytes];
            let (moved, goes_on) = match &mut self.stream {
                Stream::Tls(tls) => {
                    let sealed = tls.seal(std::mem::take(&mut headers), now)?;
                    self.turn -= bytes;
                    (bytes, self.send_sealed(now, sealed, traffic, Some(place)).await?)
                }
                Stream::Plain(_) => self.write_part(&mut headers, now, traffic, place).await?,
            };
            traffic.port.count(traffic.purpose, moved);
            taken += moved;
            if !goes_on {
                break;
            }
        }
        Ok(taken)
    }

    /// Sends headers, and some of the payload as it is; gives how much, and whether the place is
    /// still had.
    async fn write_part(
        &mut self,
        headers: &mut &[u8],
        payload: &[u8],
        traffic: Traffic<'_>,
        place: &SharedPlace,
    ) -> Result<(usize, bool), NetError> {
        match self.stream.try_write_vectored(&[IoSlice::new(headers), IoSlice::new(payload)]) {
            Ok(bytes) => {
                let of_headers = bytes.min(headers.len());
                *headers = &headers[of_headers..];
                self.turn -= bytes - of_headers;
                self.moved(bytes - of_headers);
                Ok((bytes - of_headers, true))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.end_turn(traffic);
                let ready = self.stream.writable();
                let ready = wait(self.timeout, &mut self.allowance, "sending", ready);
                // Half a header is nothing that can be gone on with.
                let place = headers.is_empty().then_some(place);
                Ok((0, unless_wanted(place, ready).await?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until all that was taken has left, and more can be sent.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub async fn drained(&mut self, traffic: Traffic<'_>) -> Result<(), NetError> {
        self.flush(traffic).await?;
        wait(self.timeout, &mut self.allowance, "sending", self.stream.writable()).await
    }
}
