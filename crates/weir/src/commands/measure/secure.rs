//! The control channel by TLS: who we are, whom we trust, and the handshake, in the time that there is.
//!
//! Room: three files and rustls' streams. What certificates must be, and what is said of those that are not,
//! is `openflow::tls`'s, as for a VDP's own connections.

use crate::fault::bad_input;
use crate::openflow::tls::{Identity, Part, PeerName, Pem, in_words, io_in_words};
use anyhow::Result;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, ConnectionCommon, ServerConnection, StreamOwned};
use weir_measure::control::Stream;

/// Arguments of TLS.
#[derive(Debug, clap::Args)]
pub struct TlsArgs {
    /// For 'tls:' and 'ptls:': certificates of the authorities that sign switches, as PEM
    #[arg(long, value_name = "FILE.pem")]
    ca: Option<PathBuf>,
    /// This side's certificate, with its chain, as PEM
    #[arg(long, value_name = "FILE.pem")]
    cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE.pem")]
    key: Option<PathBuf>,
    /// The name that the switch's certificate is for, where it is not the host's; '*': any
    #[arg(long, value_name = "NAME")]
    peer_name: Option<String>,
}

impl TlsArgs {
    /// Whether any of them is.
    pub fn is_given(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some() || self.peer_name.is_some()
    }
}

/// The longest file, in bytes.
const LONGEST: u64 = 1 << 20;
/// A socket takes no time-out of zero.
const LEAST: Duration = Duration::from_millis(1);

fn read(option: &str, path: Option<&Path>) -> Result<Vec<u8>> {
    let Some(path) = path else {
        return Err(bad_input(format!("TLS needs --ca, --cert and --key: {option} is missing")));
    };
    let at = |e: &dyn std::fmt::Display| bad_input(format!("{option} {}: {e}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| at(&e))?;
    let n = file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| at(&e))?;
    if n as u64 > LONGEST {
        return Err(at(&format!("longer than {LONGEST} bytes")));
    }
    Ok(bytes)
}

/// Reads the three files.
///
/// # Errors
/// Which is missing, or of no use, and why.
pub fn identity(args: &TlsArgs) -> Result<Identity> {
    let ca = read("--ca", args.ca.as_deref())?;
    let certificate = read("--cert", args.cert.as_deref())?;
    let key = read("--key", args.key.as_deref())?;
    let name = match args.peer_name.as_deref() {
        None => PeerName::Host,
        Some("*") => PeerName::Any,
        Some(name) => PeerName::Is(ServerName::try_from(name.to_owned()).map_err(|_| {
            bad_input(format!("--peer-name {name}: neither a host's name nor an address"))
        })?),
    };
    let pem = Pem { certificate: &certificate, key: &key, ca: &ca };
    Identity::new(&pem, name).map_err(|(part, why)| {
        let (option, path) = match part {
            Part::Ca => ("--ca", &args.ca),
            Part::Certificate => ("--cert", &args.cert),
            Part::Key => ("--key", &args.key),
        };
        let path = path.as_deref().unwrap_or(Path::new(""));
        bad_input(format!("{option} {}: {why}", path.display()))
    })
}

/// The handshake with a switch that we connected to.
///
/// # Errors
/// In one line: what does not verify, or that it took too long.
pub fn connect(
    identity: &Identity,
    host: &str,
    tcp: TcpStream,
    until: Instant,
) -> io::Result<Box<dyn Stream>> {
    let name = identity.expected(host).map_err(io::Error::other)?;
    let tls = ClientConnection::new(identity.client.clone(), name).map_err(io::Error::other)?;
    greet(StreamOwned::new(tls, tcp), until)
}

/// The handshake with a switch that connected to us.
///
/// # Errors
/// As [`connect`].
pub fn accept(identity: &Identity, tcp: TcpStream, until: Instant) -> io::Result<Box<dyn Stream>> {
    let tls = ServerConnection::new(identity.server.clone()).map_err(io::Error::other)?;
    greet(StreamOwned::new(tls, tcp), until)
}

fn greet<C, D>(mut stream: StreamOwned<C, TcpStream>, until: Instant) -> io::Result<Box<dyn Stream>>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<D>> + Send + 'static,
    D: tokio_rustls::rustls::SideData + 'static,
    StreamOwned<C, TcpStream>: Read + Write,
{
    while stream.conn.is_handshaking() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::other("TLS failed: the switch did not finish its handshake"));
        }
        // One step at a time: a switch that trickles has no more time than one that is silent.
        stream.sock.set_read_timeout(Some(left.max(LEAST)))?;
        stream.sock.set_write_timeout(Some(left.max(LEAST)))?;
        let (conn, sock) = (&mut *stream.conn, &mut stream.sock);
        let step = if conn.wants_write() { conn.write_tls(sock) } else { conn.read_tls(sock) };
        match step {
            Ok(0) => {
                let why = "TLS failed: the switch hung up: does it speak TLS, and trust --cert?";
                return Err(io::Error::other(why));
            }
            Ok(_) => {}
            Err(e)
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(e) => return Err(io::Error::other(format!("TLS failed: {e}"))),
        }
        if let Err(e) = conn.process_new_packets() {
            // It is told why.
            let _ = conn.write_tls(sock);
            return Err(io::Error::other(format!("TLS failed: {}", in_words(&e))));
        }
    }
    stream.sock.set_read_timeout(None)?;
    stream.sock.set_write_timeout(None)?;
    Ok(Box::new(Secured(stream)))
}

/// A stream by TLS.
struct Secured<C>(StreamOwned<C, TcpStream>)
where
    StreamOwned<C, TcpStream>: Read + Write;

impl<C> Read for Secured<C>
where
    StreamOwned<C, TcpStream>: Read + Write,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(told)
    }
}

impl<C> Write for Secured<C>
where
    StreamOwned<C, TcpStream>: Read + Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(told)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(told)
    }
}

/// An error of TLS in words; what is to be waited for stays what it is.
fn told(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::InvalidData => io::Error::other(format!("TLS failed: {}", io_in_words(&e))),
        _ => e,
    }
}

impl<C, D> Stream for Secured<C>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<D>> + Send + 'static,
    D: tokio_rustls::rustls::SideData + 'static,
    StreamOwned<C, TcpStream>: Read + Write,
{
    fn socket(&self) -> &TcpStream {
        &self.0.sock
    }
    fn buffers(&self) -> bool {
        true
    }
    fn holds_back(&self) -> bool {
        self.0.conn.wants_write()
    }
}
