//! The control conversation as a capture file, for tshark and for whoever doubts.
//!
//! Room: bytes and a file. The engine sees a stream, not packets: each piece that was written or read
//! becomes one segment, with headers as TCP would have them (IPv4, numbers in sequence, good checksums).
//! Where neither end has a port of OpenFlow's (6653, 6633), the controller's is written as 6653, so that
//! readers know what it is.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use weir_io::capture_file::{Direction, Format, Writer};
use weir_io::file::trouble;
use weir_packet::{DeviceError, Nanos};
use weir_wire::build::{Frame, Transport};
use weir_wire::tcp;

/// OpenFlow's registered port, and the one before it.
const KNOWN: [u16; 2] = [6653, 6633];
/// Bytes in a segment at most.
const SEGMENT: usize = 32 * 1024;

/// A conversation that is saved.
pub struct Conversation {
    to: Writer<BufWriter<File>>,
    us: SocketAddrV4,
    them: SocketAddrV4,
    /// Sequence numbers: ours, theirs.
    seq: [u32; 2],
    frame: Vec<u8>,
    error: Option<io::Error>,
    path: PathBuf,
    unsaved: Unsaved,
}

/// Why a conversation is not saved whole, once it has ended; whoever asked for it has this.
pub type Unsaved = Arc<OnceLock<String>>;

fn v4(a: Option<SocketAddr>, host: u8) -> SocketAddrV4 {
    match a {
        Some(SocketAddr::V4(a)) => a,
        other => {
            let port = other.map_or(0, |a| a.port());
            SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), port)
        }
    }
}

impl Conversation {
    /// Saved at `path`, which is made anew.
    ///
    /// # Errors
    /// It can't be written.
    pub fn create(path: &Path) -> Result<Self, DeviceError> {
        let fail = |e: io::Error| DeviceError::File {
            path: path.display().to_string(),
            problem: e.to_string(),
        };
        let file = BufWriter::new(File::create(path).map_err(fail)?);
        let mut to = Writer::new(file, Format::Pcapng, u32::MAX).map_err(fail)?;
        to.add_interface("control").map_err(fail)?;
        let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        Ok(Self {
            to,
            us: nobody,
            them: nobody,
            seq: [1, 1],
            frame: Vec::new(),
            error: None,
            path: path.to_owned(),
            unsaved: Unsaved::default(),
        })
    }

    /// What will be said in the end where it could not be saved.
    pub fn unsaved(&self) -> Unsaved {
        Arc::clone(&self.unsaved)
    }

    /// A new connection begins.
    pub fn connection(&mut self, us: Option<SocketAddr>, them: Option<SocketAddr>) {
        (self.us, self.them) = (v4(us, 1), v4(them, 2));
        if !KNOWN.contains(&self.us.port()) && !KNOWN.contains(&self.them.port()) {
            self.us.set_port(KNOWN[0]);
        }
        self.seq = [1, 1];
    }

    /// Bytes that went to the switch.
    pub fn sent(&mut self, at: Nanos, bytes: &[u8]) {
        self.segments(at, bytes, Direction::Out);
    }

    /// Bytes that came from the switch.
    pub fn received(&mut self, at: Nanos, bytes: &[u8]) {
        self.segments(at, bytes, Direction::In);
    }

    fn segments(&mut self, at: Nanos, bytes: &[u8], direction: Direction) {
        for part in bytes.chunks(SEGMENT) {
            if let Err(e) = self.segment(at, part, direction) {
                self.error.get_or_insert(e);
            }
        }
    }

    fn segment(&mut self, at: Nanos, bytes: &[u8], direction: Direction) -> io::Result<()> {
        let [ours, theirs] = self.seq;
        let (from, to, seq, ack) = match direction {
            Direction::Out => (self.us, self.them, ours, theirs),
            Direction::In => (self.them, self.us, theirs, ours),
        };
        let flags = tcp::Flags::ACK | tcp::Flags::PSH;
        let header = tcp::Repr { seq, ack, ..tcp::Repr::new(from.port(), to.port(), flags) };
        let transport = Transport::Tcp(header);
        let frame = Frame { transport, ..Frame::tcp_v4(from, to, flags, bytes) };
        self.frame.resize(frame.len(), 0);
        frame.emit(&mut self.frame).map_err(|e| io::Error::other(e.to_string()))?;
        self.seq[usize::from(direction == Direction::In)] = seq.wrapping_add(bytes.len() as u32);
        self.to.write(0, at, Some(direction), &self.frame)
    }

    /// All is said.
    ///
    /// # Errors
    /// The first thing that went wrong with the file.
    pub fn finish(&mut self) -> io::Result<()> {
        let flushed = self.to.flush();
        let done = self.error.take().map_or(flushed, Err);
        if let Err(e) = &done {
            // Once: a conversation ends once.
            let _ = self.unsaved.set(format!("{}: {}", self.path.display(), trouble(e)));
        }
        done
    }
}
