//! Capture files as ports: [`PcapIn`] receives the frames of a file once, [`PcapOut`] writes what
//! it is given.
//!
//! Room: ports. Both read and write the file in the worker's thread, through a buffer; a disk that
//! stalls stalls the worker. Where rate matters, [`crate::replay`] reads the file beforehand.

use super::{CaptureError, Format, LINKTYPE_ETHERNET, Reader, Writer};
use crate::clock;
use crate::file::trouble;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use weir_packet::{Burst, Caps, Device, DeviceCounters, DeviceError, Feed, LinkState, Nanos, Pool};

const MAX_FRAME: usize = 65_535;

/// A port that receives the frames of a capture, once, as fast as they are taken. Stamps are kept.
/// Frames that it is given for sending are freed.
#[derive(Debug)]
pub struct PcapIn {
    path: PathBuf,
    name: String,
    reader: Option<Reader<BufReader<File>>>,
    /// A frame that was read and then found no chunk.
    waiting: Option<(Vec<u8>, Option<Nanos>)>,
    fault: Option<DeviceError>,
    counters: DeviceCounters,
}

impl PcapIn {
    /// Opens a pcap or pcapng file.
    ///
    /// # Errors
    /// [`DeviceError::File`]: it can't be opened, is no capture, or (pcap) not of Ethernet.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let reader = Reader::open(path)?;
        if let Some(link_type) = reader.link_type().filter(|&t| t != LINKTYPE_ETHERNET) {
            return Err(CaptureError::NotEthernet { link_type }.in_file(path));
        }
        Ok(Self {
            path: path.to_owned(),
            name: path.display().to_string(),
            reader: Some(reader),
            waiting: None,
            fault: None,
            counters: DeviceCounters::default(),
        })
    }

    /// Why reading ended before the end of the file, if it did.
    pub fn error(&self) -> Option<&DeviceError> {
        self.fault.as_ref()
    }
}

impl Device for PcapIn {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        Caps { max_frame_bytes: MAX_FRAME, feed: Feed::Waits }
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        for _ in 0..burst.room() {
            let Some(mut frame) = pool.alloc() else { break };
            let filled = match (self.waiting.take(), &mut self.reader) {
                (Some((bytes, stamp)), _) => Ok(fill(&mut frame, &bytes, stamp)),
                (None, None) => Err(None),
                (None, Some(reader)) => match reader.next_record() {
                    // A frame of another link type has no Ethernet header to look at.
                    Ok(Some(r)) if r.link_type != LINKTYPE_ETHERNET => Ok(false),
                    Ok(Some(r)) => Ok(fill(&mut frame, r.bytes, r.stamp)),
                    Ok(None) => Err(None),
                    Err(e) => Err(Some(e)),
                },
            };
            match filled {
                Ok(true) => {
                    if let Err(frame) = burst.push(frame) {
                        self.waiting = Some((frame.bytes().to_vec(), frame.stamp()));
                        pool.free(frame);
                        break;
                    }
                }
                Ok(false) => {
                    self.counters.rx_errors += 1;
                    pool.free(frame);
                }
                Err(end) => {
                    pool.free(frame);
                    self.reader = None;
                    if let Some(e) = end {
                        self.fault = Some(e.in_file(&self.path));
                    }
                    break;
                }
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        for frame in burst.drain() {
            pool.free(frame);
        }
        n
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn exhausted(&self) -> bool {
        self.reader.is_none()
    }
    fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(ToString::to_string)
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, _pool: &mut Pool) {
        self.reader = None;
    }
}

fn fill(frame: &mut weir_packet::Frame, bytes: &[u8], stamp: Option<Nanos>) -> bool {
    if frame.copy_from(bytes).is_err() {
        return false;
    }
    if let Some(t) = stamp {
        frame.set_stamp(t);
    }
    true
}

/// A port that writes what it is given to a file. A frame keeps its stamp; one without gets the
/// time of writing. Receives nothing.
#[derive(Debug)]
pub struct PcapOut {
    path: PathBuf,
    name: String,
    writer: Option<Writer<BufWriter<File>>>,
    fault: Option<DeviceError>,
    counters: DeviceCounters,
}

impl PcapOut {
    /// Creates (or empties) the file: pcapng when its name ends in `.pcapng`, else pcap.
    ///
    /// # Errors
    /// [`DeviceError::File`].
    pub fn create(path: &Path) -> Result<Self, DeviceError> {
        let format = match path.extension() {
            Some(e) if e.eq_ignore_ascii_case("pcapng") => Format::Pcapng,
            _ => Format::Pcap,
        };
        Self::create_as(path, format)
    }

    /// Creates (or empties) the file in the format given.
    ///
    /// # Errors
    /// [`DeviceError::File`].
    pub fn create_as(path: &Path, format: Format) -> Result<Self, DeviceError> {
        let mut options = File::options();
        // A pipe that nobody reads would not be opened before somebody came.
        let options =
            options.write(true).create(true).truncate(false).custom_flags(libc::O_NONBLOCK);
        let opened = options.open(path).and_then(|file| match file.metadata()?.file_type() {
            kind if kind.is_fifo() => Err(io::Error::other("it is a pipe: name a file")),
            kind if kind.is_file() => file.set_len(0).map(|()| file),
            _ => Ok(file),
        });
        let made = opened.and_then(|f| {
            let mut w = Writer::new(BufWriter::with_capacity(256 << 10, f), format, 0)?;
            w.add_interface("weir")?;
            Ok(w)
        });
        let writer = made.map_err(|e| DeviceError::File {
            path: path.display().to_string(),
            problem: format!("can't be written: {}", trouble(&e)),
        })?;
        Ok(Self {
            path: path.to_owned(),
            name: path.display().to_string(),
            writer: Some(writer),
            fault: None,
            counters: DeviceCounters::default(),
        })
    }

    /// Why writing ended, if it did.
    pub fn error(&self) -> Option<&DeviceError> {
        self.fault.as_ref()
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// [`DeviceError::File`], also for a write that failed earlier.
    pub fn finish(&mut self) -> Result<(), DeviceError> {
        if let Some(Err(e)) = self.writer.as_mut().map(Writer::flush) {
            self.fail(&e);
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    fn fail(&mut self, e: &std::io::Error) {
        self.writer = None;
        self.fault = Some(DeviceError::File {
            path: self.path.display().to_string(),
            problem: format!("can't be written: {e}"),
        });
    }
}

impl Device for PcapOut {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        Caps { max_frame_bytes: MAX_FRAME, feed: Feed::Waits }
    }
    /// Down once the file can't be written any more.
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        if self.fault.is_some() { LinkState::Down } else { LinkState::Up }
    }
    fn rx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let n = burst.len();
        let mut now = None;
        for frame in burst.drain() {
            let stamp = frame.stamp().unwrap_or_else(|| *now.get_or_insert_with(clock::unix));
            let written = self.writer.as_mut().map(|w| w.write(0, stamp, None, frame.bytes()));
            match written {
                Some(Ok(())) => {}
                Some(Err(e)) => {
                    self.counters.tx_errors += 1;
                    self.fail(&e);
                }
                None => self.counters.tx_errors += 1,
            }
            pool.free(frame);
        }
        n
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn exhausted(&self) -> bool {
        true
    }
    fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(ToString::to_string)
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, _pool: &mut Pool) {
        if let Some(Err(e)) = self.writer.as_mut().map(Writer::flush) {
            self.fail(&e);
        }
        self.writer = None;
    }
}
