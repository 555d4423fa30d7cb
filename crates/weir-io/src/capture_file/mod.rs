//! Capture files: pcap and pcapng, read and written, with time stamps in nanoseconds.
//!
//! Room: ports. [`Reader`] and [`Writer`] know bytes and work on anything that reads or writes;
//! [`PcapIn`] and [`PcapOut`] make ports of them. Sources: draft-ietf-opsawg-pcap and
//! draft-ietf-opsawg-pcapng.
//!
//! A file is input like any other: no field of it is trusted, and memory stays below
//! [`MAX_BLOCK`] whatever it says.

mod device;
mod input;
mod pcap;
mod pcapng;
mod writer;

pub use device::{PcapIn, PcapOut};
pub use writer::{Format, Writer};

use crate::file::trouble;
use input::Input;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use thiserror::Error;
use weir_packet::{DeviceError, Nanos};

/// The link type of Ethernet, in both formats.
pub const LINKTYPE_ETHERNET: u32 = 1;

/// The longest captured frame that is read, in bytes: what tcpdump and wireshark allow too.
pub const MAX_CAPTURED: u32 = 262_144;

/// The longest block that is read into memory, in bytes: a frame and its options.
pub const MAX_BLOCK: u32 = MAX_CAPTURED + 131_072;

/// Which way a frame went, seen from the host that captured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It was received.
    In,
    /// It was sent.
    Out,
}

/// One captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in nanoseconds of the Unix epoch. A simple packet block has no stamp.
    pub stamp: Option<Nanos>,
    /// Number of the interface in its section of the file; 0 in pcap.
    pub interface: u32,
    /// What the bytes begin with; [`LINKTYPE_ETHERNET`] or something else.
    pub link_type: u32,
    /// Which way it went, if the file says so.
    pub direction: Option<Direction>,
    /// Length on the wire in bytes; more than was captured when the capture was limited.
    pub original_len: u32,
    /// What was captured, without FCS where the file says that it has one.
    pub bytes: &'a [u8],
}

impl Record<'_> {
    /// Whether less was captured than was on the wire.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.original_len as usize
    }
}

/// Why a capture can't be read (on).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The system could not read.
    #[error("can't be read: {0}")]
    Io(#[from] io::Error),
    /// Neither pcap nor pcapng.
    #[error(
        "is not a capture: it begins with {}; a pcap or pcapng file is expected",
        beginning(.begins)
    )]
    NotACapture {
        /// The first bytes, at most eight.
        begins: Vec<u8>,
    },
    /// The file ends inside something.
    #[error(
        "is cut short at byte {end}, inside the {what} that begins at byte {at}; the {frames} \
         frames in front of it are whole"
    )]
    CutShort {
        /// Where that begins, in bytes from the start.
        at: u64,
        /// Length of the file in bytes.
        end: u64,
        /// Inside what.
        what: &'static str,
        /// Frames read until then.
        frames: u64,
    },
    /// A field has a value that can't be.
    #[error("is damaged: {problem}, at byte {at}")]
    Malformed {
        /// Where, in bytes from the start.
        at: u64,
        /// What is wrong.
        problem: &'static str,
    },
    /// Frames of another kind of link.
    #[error("holds frames of link type {link_type}; only Ethernet (1) can be used")]
    NotEthernet {
        /// The link type, as registered.
        link_type: u32,
    },
}

impl CaptureError {
    /// The same, naming the file.
    pub fn in_file(self, path: &Path) -> DeviceError {
        DeviceError::File { path: path.display().to_string(), problem: self.to_string() }
    }
}

fn beginning(begins: &[u8]) -> String {
    let hex: Vec<String> = begins.iter().map(|b| format!("{b:02x}")).collect();
    let hex = hex.join(" ");
    match begins {
        [] => "nothing: it is empty".to_owned(),
        [0x1f, 0x8b, ..] => format!("{hex} (gzip: unpack it first)"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => format!("{hex} (zstd: unpack it first)"),
        _ if begins.iter().all(|b| (0x20..0x7f).contains(b)) => {
            format!("\"{}\"", String::from_utf8_lossy(begins))
        }
        _ => hex,
    }
}

/// Byte order of a file or of a section of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endian {
    Little,
    Big,
}

impl Endian {
    /// 0 where there are not enough bytes; callers check lengths first.
    fn u16(self, b: &[u8], at: usize) -> u16 {
        let v = b.get(at..at + 2).and_then(|b| b.try_into().ok()).unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(v),
            Self::Big => u16::from_be_bytes(v),
        }
    }
    fn u32(self, b: &[u8], at: usize) -> u32 {
        let v = b.get(at..at + 4).and_then(|b| b.try_into().ok()).unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(v),
            Self::Big => u32::from_be_bytes(v),
        }
    }
}

#[derive(Debug)]
enum Body {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Reads a capture of either format, one frame at a time.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    body: Body,
    frames: u64,
}

impl Reader<BufReader<File>> {
    /// Opens a file and reads its header. What may keep who reads it waiting, such as a pipe, is refused.
    ///
    /// # Errors
    /// [`DeviceError::File`] with the reason.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let wrong = |problem| DeviceError::File { path: path.display().to_string(), problem };
        let mut options = File::options();
        // A pipe whose other end nobody has would not be opened before somebody came.
        let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let refused = |e| wrong(format!("can't be opened: {}", trouble(&e)));
        let file = opened.map_err(refused)?;
        let kind = file.metadata().map_err(refused)?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            let problem = "is no file but a pipe or a device: write the capture to a file first";
            return Err(wrong(problem.to_owned()));
        }
        Self::new(BufReader::with_capacity(256 << 10, file)).map_err(|e| e.in_file(path))
    }
}

impl<R: Read> Reader<R> {
    /// Reads the file's header. `from` is read in small pieces: give a buffered reader.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn new(from: R) -> Result<Self, CaptureError> {
        let mut input = Input::new(from);
        let mut magic = [0; 4];
        let n = input.read_up_to(&mut magic)?;
        let body = if n == 4 && magic == pcapng::SHB {
            Body::Pcapng(pcapng::Pcapng::new(&mut input)?)
        } else if let Some(kind) = pcap::Kind::of_magic(magic).filter(|_| n == 4) {
            Body::Pcap(pcap::Pcap::new(&mut input, kind)?)
        } else {
            let mut begins = magic[..n].to_vec();
            let mut more = [0; 4];
            let n = input.read_up_to(&mut more)?;
            begins.extend_from_slice(&more[..n]);
            return Err(CaptureError::NotACapture { begins });
        };
        Ok(Self { input, body, frames: 0 })
    }

    /// The next frame, or `None` at the end of a whole file. After an error there is nothing more
    /// to read: the error comes again or `None`.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        let record = match &mut self.body {
            Body::Pcap(p) => p.next(&mut self.input),
            Body::Pcapng(p) => p.next(&mut self.input),
        };
        match record {
            Ok(r) => {
                self.frames += u64::from(r.is_some());
                Ok(r)
            }
            Err(CaptureError::CutShort { at, end, what, .. }) => {
                Err(CaptureError::CutShort { at, end, what, frames: self.frames })
            }
            Err(e) => Err(e),
        }
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }
    /// Frames read so far.
    pub fn frames(&self) -> u64 {
        self.frames
    }
    /// The link type of the whole file, where there is one: pcap has, pcapng has one per interface.
    pub fn link_type(&self) -> Option<u32> {
        match &self.body {
            Body::Pcap(p) => Some(p.link_type),
            Body::Pcapng(_) => None,
        }
    }
    /// The name of an interface of the current section, as far as the file gives one.
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        match &self.body {
            Body::Pcap(_) => None,
            Body::Pcapng(p) => p.interface_name(interface),
        }
    }
}

/// Takes the FCS off a frame of `original_len` bytes, as far as it was captured.
fn without_fcs(bytes: &[u8], original_len: u32, fcs_bytes: u32) -> (&[u8], u32) {
    let len = original_len.saturating_sub(fcs_bytes);
    let keep = bytes.len().min(if fcs_bytes == 0 { usize::MAX } else { len as usize });
    (bytes.get(..keep).unwrap_or(bytes), len)
}

#[cfg(test)]
mod tests;
