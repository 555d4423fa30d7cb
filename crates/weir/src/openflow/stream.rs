//! A connection's bytes, with TLS or without.
//!
//! Room: tokio's sockets behind one face, polled by `session` alone.

use super::relay::stream::Relayed;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connected stream.
#[derive(Debug)]
pub enum Stream {
    /// As it is.
    Plain(TcpStream),
    /// Protected; boxed, since it is large.
    Tls(Box<TlsStream<TcpStream>>),
    /// By way of the node that the VDP came from.
    Relayed(Box<Relayed>),
}

impl Stream {
    /// Reads what is there; `Ok(0)`: the peer sends no more.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(into);
        let done = match self {
            Self::Plain(s) => Pin::new(s).poll_read(cx, &mut buf),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_read(cx, &mut buf),
            Self::Relayed(s) => return s.poll_read(cx, buf.initialize_unfilled()),
        };
        done.map_ok(|()| buf.filled().len())
    }
    /// Writes as much as fits.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(s) => Pin::new(s).poll_write(cx, bytes),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_write(cx, bytes),
            Self::Relayed(s) => s.poll_write(cx, bytes),
        }
    }
    /// Sends on what a layer below keeps.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(s) => Pin::new(s).poll_flush(cx),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_flush(cx),
            Self::Relayed(s) => s.poll_flush(cx),
        }
    }
    /// Says good-bye.
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Self::Tls(s) => Pin::new(s.as_mut()).poll_shutdown(cx),
            Self::Relayed(s) => s.poll_shutdown(cx),
        }
    }
}
