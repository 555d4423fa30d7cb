//! A connection's bytes, over a Unix socket or over TLS, with a deadline on everything.
//!
//! Room: sockets and rustls. [`super::lines`] makes lines of it; [`super::server`], [`super::api`] and
//! [`super::client`] make links. Nobody is waited for longer than said, however slowly bytes come: a
//! handshake is a part of the first read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::Connection;

/// A connection.
#[derive(Debug)]
pub enum Link {
    /// On this machine.
    Unix(UnixStream),
    /// From anywhere; boxed, since it is large.
    Tls(Box<Tls>),
}

/// A connection by TLS.
#[derive(Debug)]
pub struct Tls {
    conn: Connection,
    tcp: TcpStream,
}

/// What is left until a deadline.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Link {
    /// By TLS over a connection; whoever reads or writes first shakes hands.
    pub fn tls(conn: impl Into<Connection>, tcp: TcpStream) -> Self {
        // Requests and answers are small: they shall not wait for more.
        let _ = tcp.set_nodelay(true);
        Self::Tls(Box::new(Tls { conn: conn.into(), tcp }))
    }

    /// Shakes hands, where that is still to do: whoever is at the other end of TLS has shown a certificate then.
    ///
    /// # Errors
    /// As [`Link::read`]; `UnexpectedEof` where the other side has ended.
    pub fn shake_hands(&mut self, until: Instant) -> io::Result<()> {
        match self {
            Self::Unix(_) => Ok(()),
            Self::Tls(t) => t.shake_hands(until),
        }
    }

    /// Reads what is there; `Ok(0)`: the other side sends no more.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` at the deadline; the system's, and those of TLS.
    pub fn read(&mut self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        match self {
            Self::Unix(s) => {
                s.set_read_timeout(Some(left(until)?))?;
                s.read(into)
            }
            Self::Tls(t) => t.read(into, until),
        }
    }

    /// Sends bytes, and takes away from them what it has: what is left at an error is to be sent yet.
    ///
    /// # Errors
    /// As [`Link::read`].
    pub fn write_all(&mut self, bytes: &mut &[u8], until: Instant) -> io::Result<()> {
        match self {
            Self::Unix(s) => {
                while !bytes.is_empty() {
                    s.set_write_timeout(Some(left(until)?))?;
                    match s.write(bytes) {
                        Ok(0) => return Err(ErrorKind::WriteZero.into()),
                        Ok(n) => *bytes = bytes.get(n..).unwrap_or_default(),
                        Err(e) if e.kind() == ErrorKind::Interrupted => {}
                        Err(e) => return Err(e),
                    }
                }
                Ok(())
            }
            Self::Tls(t) => t.write_all(bytes, until),
        }
    }

    /// Something that says from another thread that no more will be sent.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn hang_up(&self) -> io::Result<impl Fn() + Send + 'static> {
        enum End {
            Unix(UnixStream),
            Tcp(TcpStream),
        }
        let end = match self {
            Self::Unix(s) => End::Unix(s.try_clone()?),
            Self::Tls(t) => End::Tcp(t.tcp.try_clone()?),
        };
        Ok(move || {
            // A connection that is closed already needs no end.
            let _ = match &end {
                End::Unix(s) => s.shutdown(Shutdown::Write),
                End::Tcp(s) => s.shutdown(Shutdown::Write),
            };
        })
    }
}

impl Tls {
    fn read(&mut self, into: &mut [u8], until: Instant) -> io::Result<usize> {
        loop {
            match self.conn.reader().read(into) {
                Ok(n) => return Ok(n),
                // An end without TLS's good-bye: whoever frames by lines sees what is missing.
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
            self.flush(until)?;
            self.tcp.set_read_timeout(Some(left(until)?))?;
            match self.conn.read_tls(&mut self.tcp) {
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            self.take_in(until)?;
        }
    }

    /// Works on what has come; what TLS says of it goes out, an alert too.
    fn take_in(&mut self, until: Instant) -> io::Result<()> {
        let taken = self.conn.process_new_packets();
        let sent = self.flush(until);
        taken.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
        sent
    }

    fn flush(&mut self, until: Instant) -> io::Result<()> {
        while self.conn.wants_write() {
            self.tcp.set_write_timeout(Some(left(until)?))?;
            match self.conn.write_tls(&mut self.tcp) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(e) if e.kind() != ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }

    fn shake_hands(&mut self, until: Instant) -> io::Result<()> {
        while self.conn.is_handshaking() {
            self.flush(until)?;
            self.tcp.set_read_timeout(Some(left(until)?))?;
            if self.conn.read_tls(&mut self.tcp)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.take_in(until)?;
        }
        Ok(())
    }

    fn write_all(&mut self, bytes: &mut &[u8], until: Instant) -> io::Result<()> {
        self.shake_hands(until)?;
        while !bytes.is_empty() {
            let taken = self.conn.writer().write(bytes)?;
            *bytes = bytes.get(taken..).unwrap_or_default();
            self.flush(until)?;
        }
        // What an earlier call could not send.
        self.flush(until)
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.conn.send_close_notify();
        // Good-bye is said to whoever still listens, at once or not at all.
        let _ = self.tcp.set_write_timeout(Some(Duration::from_millis(100)));
        let _ = self.conn.write_tls(&mut self.tcp);
    }
}
