//! The bytes of a control connection: a TCP socket, or whatever is wrapped around one (TLS).
//!
//! Room: the seam between the control channel's thread and the socket. Cryptography is the binary's.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A connected stream that does not block once [`Stream::ready`] has been called.
pub trait Stream: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;

    /// Whether it keeps bytes above the socket: then the socket's silence does not mean that there is
    /// nothing to read.
    fn buffers(&self) -> bool {
        false
    }

    /// Whether bytes that were written wait above the socket: `flush` hands them on.
    fn holds_back(&self) -> bool {
        false
    }

    /// Makes the socket ready for the channel's thread: small messages leave at once, nothing blocks.
    ///
    /// # Errors
    /// The system's.
    fn ready(&self) -> io::Result<()> {
        self.socket().set_nodelay(true)?;
        self.socket().set_nonblocking(true)
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}
