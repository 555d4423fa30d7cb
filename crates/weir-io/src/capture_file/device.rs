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
/// What is written at once, and what a frame's record has beside the frame, at most.
const BUFFER: usize = 256 << 10;
const RECORD: usize = 64;

/// A port that receives the frames of a capture, once, as fast as they are taken. Stamps are kept.
/// Frames that it is given for sending are freed.
#[derive(Debug)]
pub struct PcapIn {
    path: PathBuf,
    name: String,
    reader: Option<Reader<BufReader<File>>>,
    /// A frame that was read and then found no chunk.
    waiting: Option<(Vec<u8>, Option<Nanos>)>,
    /// Frames read that were longer on the wire than what was captured of them.
    cut: u64,
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
            cut: 0,
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
        Caps::new(MAX_FRAME, Feed::Waits)
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
                    Ok(Some(r)) => {
                        self.cut += u64::from(r.is_cut());
                        Ok(fill(&mut frame, r.bytes, r.stamp))
                    }
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
    fn caveat(&self) -> Option<String> {
        let cut = self.cut;
        (cut > 0)
            .then(|| format!("{cut} frames were not captured whole, and came as far as they were"))
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
/// time of writing. Receives nothing. What it was given is in the file a moment later ([`Device::link`]).
#[derive(Debug)]
pub struct PcapOut {
    path: PathBuf,
    name: String,
    writer: Option<Writer<BufWriter<File>>>,
    /// How long the records are that the buffer has.
    records: Vec<usize>,
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
            let mut w = Writer::new(BufWriter::with_capacity(BUFFER, f), format, 0)?;
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
            records: Vec::new(),
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
        self.write_out();
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Writes what the buffer has. If that fails nothing more is written, and frames that are not whole in the file count as
    /// errors, though they were taken.
    fn write_out(&mut self) {
        let Some(Err(e)) = self.writer.as_mut().map(Writer::flush) else {
            return self.records.clear();
        };
        if let Some(w) = self.writer.take() {
            // What was written is no more in the buffer; what is must not be tried again when it goes.
            let unwritten = w.get_ref().buffer().len();
            let _ = w.into_inner().into_parts();
            self.counters.tx_errors += lost(&self.records, unwritten);
        }
        self.records.clear();
        self.fault = Some(DeviceError::File {
            path: self.path.display().to_string(),
            problem: format!("can't be written: {}", trouble(&e)),
        });
    }

    fn write(&mut self, stamp: Nanos, bytes: &[u8]) -> io::Result<()> {
        let has = |w: &Writer<BufWriter<File>>| w.get_ref().buffer().len();
        if self.writer.as_ref().is_some_and(|w| has(w) + bytes.len() + RECORD > BUFFER) {
            self.write_out();
        }
        let w = self.writer.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        let before = has(w);
        w.write(0, stamp, None, bytes)?;
        self.records.push(has(w) - before);
        Ok(())
    }
}

/// How many of these records, one behind the other, are not whole without the last `unwritten` bytes.
fn lost(records: &[usize], mut unwritten: usize) -> u64 {
    let cut = |r: &&usize| {
        let cut = unwritten > 0;
        unwritten = unwritten.saturating_sub(**r);
        cut
    };
    records.iter().rev().take_while(cut).count() as u64
}

impl Device for PcapOut {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        Caps::new(MAX_FRAME, Feed::Waits)
    }
    /// Down once the file can't be written any more. Whoever asks has what has come so far written: it would wait for the
    /// buffer to be full, and a full disk with it.
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        self.write_out();
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
            self.counters.tx_errors += u64::from(self.write(stamp, frame.bytes()).is_err());
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
        self.write_out();
        self.writer = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(out: &mut PcapOut, pool: &mut Pool, frames: usize) {
        for _ in 0..frames {
            let mut burst = Burst::new();
            let mut frame = pool.alloc().unwrap();
            frame.copy_from(&[7; 60]).unwrap();
            burst.push(frame).unwrap();
            assert_eq!(out.tx(pool, &mut burst), 1);
        }
    }

    #[test]
    fn a_full_disk_is_told_and_what_it_did_not_take_is_counted() {
        let mut pool = Pool::new(16, 2048).unwrap();
        let mut out = PcapOut::create(Path::new("/dev/full")).unwrap();
        send(&mut out, &mut pool, 10);
        assert_eq!(out.link(&mut pool), LinkState::Down);
        assert!(out.fault().is_some_and(|f| f.contains("can't be written")));
        send(&mut out, &mut pool, 1);
        assert_eq!(out.counters().tx_errors, 11);
    }

    #[test]
    fn what_was_sent_is_in_the_file_soon() {
        let mut pool = Pool::new(16, 2048).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.pcap");
        let mut out = PcapOut::create(&path).unwrap();
        // More than the buffer takes, and some.
        let frames = BUFFER / 76 + 100;
        send(&mut out, &mut pool, frames);
        assert_eq!(out.link(&mut pool), LinkState::Up);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 24 + 76 * frames as u64);
        assert_eq!(out.counters().tx_errors, 0);
    }

    #[test]
    fn a_record_that_is_not_whole_is_lost() {
        let records = [76, 80, 76];
        let cases = [(0, 0), (1, 1), (76, 1), (77, 2), (156, 2), (157, 3), (300, 3)];
        for (unwritten, expected) in cases {
            assert_eq!(lost(&records, unwritten), expected, "{unwritten}");
        }
    }
}
