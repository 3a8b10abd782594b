//! The identity of both ends of a connection, before its first frame.
//!
//! Place: a connection is made or taken -> [both ends prove who they are] -> frames.

use std::io;
use std::sync::Arc;

use suture_repair::wire::{ClusterId, Denial, Frame, Who};
use tokio::net::TcpStream;

use super::error::NetError;
use super::tls::{Stream, TlsStream};
use crate::identity::AccessRole;
use crate::identity::credentials::{Kept, Proven};

/// What TLS begins with.
const TLS_HANDSHAKE: u8 = 22;

/// The identity that this process announces to the other side, and how both prove theirs.
#[derive(Clone, Debug)]
pub struct LocalIdentity {
    /// The cluster that both must belong to.
    pub cluster: ClusterId,
    /// The identity that this process claims.
    pub who: Who,
    /// What proves it; none: nothing is proven, and nothing encrypted.
    pub credentials: Option<Arc<Kept>>,
}

impl LocalIdentity {
    /// Proves our identity to the other end of a connection that we made, and has it prove that it
    /// is the agent of that name.
    pub(super) async fn prove_to(
        &self,
        tcp: TcpStream,
        name: &str,
    ) -> Result<(Stream, Option<Proven>), NetError> {
        let Some(kept) = &self.credentials else { return Ok((Stream::Plain(tcp), None)) };
        let credentials = kept.current();
        let stream = TlsStream::connect(tcp, &credentials.client).await;
        let stream = stream.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                NetError::Tls("it ended the handshake: it may run without credentials".into())
            }
            _ => error.into(),
        })?;
        let proven = Proven::new(stream.peer_certificates(), kept.clone(), credentials.number)?;
        let found = &proven.statement.principal;
        if found.role != AccessRole::Agent || found.name != name {
            let (found, expected) = (found.clone(), format!("agent {name}"));
            return Err(NetError::Other { found, expected });
        }
        Ok((Stream::Tls(stream.into()), Some(proven)))
    }

    /// Has a peer that connected prove its identity, and proves ours.
    pub(super) async fn authenticate(
        &self,
        tcp: TcpStream,
    ) -> Result<(Stream, Option<Proven>), NetError> {
        let Some(kept) = &self.credentials else { return Ok((Stream::Plain(tcp), None)) };
        refuse_plain(&tcp).await?;
        let credentials = kept.current();
        let stream = TlsStream::accept(tcp, &credentials.server).await?;
        let proven = Proven::new(stream.peer_certificates(), kept.clone(), credentials.number)?;
        Ok((Stream::Tls(stream.into()), Some(proven)))
    }
}

/// Answers a peer that begins without TLS with what is missing, in the frames that it speaks.
async fn refuse_plain(tcp: &TcpStream) -> Result<(), NetError> {
    let mut first = [0; 1];
    match tcp.peek(&mut first).await? {
        0 => return Err(NetError::Closed),
        _ if first[0] == TLS_HANDSHAKE => return Ok(()),
        _ => {}
    }
    let _ = tcp.try_write(&Frame::Error(Denial::Unproven).encode());
    Err(NetError::Tls("it does not speak TLS: it has no credentials, or is something else".into()))
}
