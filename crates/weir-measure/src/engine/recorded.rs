//! A data channel whose frames are saved as they pass: for tshark, and for whoever doubts.
//!
//! Room: files. Both halves live on threads of their own, so each has its own file, `NAME.in.pcapng` with the
//! stamps that the measurement uses, `NAME.out.pcapng` with the moments at which the program gave frames to the
//! port. Called by the binary, where it is asked to.

use super::wire::{Channel, Inlet, Outlet, unix_now};
use crate::pktgen::Pktgen;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Duration;
use weir_io::capture_file::{Direction, Format, Writer};
use weir_packet::{DeviceError, LinkState, Nanos};

/// Saves a channel's frames in `directory`, in files that are made anew.
///
/// # Errors
/// They can't be written.
pub fn recorded(channel: Channel, directory: &Path) -> Result<Channel, DeviceError> {
    let Channel { name, outlet, inlet } = channel;
    let file = |way: &str, direction| Tape::create(directory, &name, way, direction);
    let (into, out) = (file("in", Direction::In)?, file("out", Direction::Out)?);
    let outlet = Box::new(Sending { outlet, tape: out });
    let inlet = Box::new(Receiving { inlet, tape: into });
    Ok(Channel { name, outlet, inlet })
}

/// A file that is being written.
struct Tape {
    to: Writer<BufWriter<File>>,
    path: String,
    direction: Direction,
}

impl Tape {
    fn create(
        directory: &Path,
        name: &str,
        way: &str,
        direction: Direction,
    ) -> Result<Self, DeviceError> {
        // A port may be called after a file: 'xdp:eth1', 'pcap:a/b'.
        let plain: String = name.chars().map(|c| if "/:".contains(c) { '-' } else { c }).collect();
        let path = directory.join(format!("{plain}.{way}.pcapng"));
        let told = path.display().to_string();
        let fail = |e: io::Error| DeviceError::File { path: told.clone(), problem: e.to_string() };
        let mut to = Writer::new(
            BufWriter::new(File::create(&path).map_err(fail)?),
            Format::Pcapng,
            u32::MAX,
        )
        .map_err(fail)?;
        to.add_interface(name).map_err(fail)?;
        Ok(Self { to, path: told, direction })
    }

    fn write(&mut self, at: Nanos, frame: &[u8]) -> io::Result<()> {
        self.to.write(0, at, Some(self.direction), frame).map_err(|e| self.failed(&e))
    }

    fn failed(&self, e: &io::Error) -> io::Error {
        io::Error::new(e.kind(), format!("saving its frames to {}: {e}", self.path))
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        // A disk that is full has been told of, or holds all but the end.
        let _ = self.to.flush();
    }
}

struct Sending {
    outlet: Box<dyn Outlet>,
    tape: Tape,
}

impl Sending {
    fn save(&mut self, at: Nanos, frames: &[Vec<u8>]) -> io::Result<()> {
        frames.iter().try_for_each(|f| self.tape.write(at, f))
    }
}

impl Outlet for Sending {
    fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<usize> {
        self.send_telling(frames, &|_| true)
    }
    fn send_telling(
        &mut self,
        frames: &[Vec<u8>],
        told: &dyn Fn(usize) -> bool,
    ) -> io::Result<usize> {
        let at = unix_now();
        let n = self.outlet.send_telling(frames, told)?;
        self.save(at, &frames[..n])?;
        Ok(n)
    }
    fn tells_departures(&self) -> bool {
        self.outlet.tells_departures()
    }
    fn departures(
        &mut self,
        at_most: usize,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        self.outlet.departures(at_most, each)
    }
    /// The kernel's frames are not seen here.
    fn pktgen(&mut self) -> Option<&mut Pktgen> {
        self.outlet.pktgen()
    }
}

struct Receiving {
    inlet: Box<dyn Inlet>,
    tape: Tape,
}

impl Inlet for Receiving {
    fn receive(
        &mut self,
        at_most: Duration,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        let (tape, mut saved) = (&mut self.tape, Ok(()));
        let got = self.inlet.receive(at_most, &mut |bytes, at| {
            if saved.is_ok() {
                saved = tape.write(at, bytes);
            }
            each(bytes, at);
        });
        saved.and(got)
    }
    fn take_drops(&mut self) -> u64 {
        self.inlet.take_drops()
    }
    fn link(&mut self) -> LinkState {
        self.inlet.link()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::memory;
    use super::*;
    use weir_io::capture_file::Reader;
    use weir_packet::{Burst, Device, Pool};

    #[test]
    fn what_passes_is_in_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let (channel, mut device) = memory("a:b");
        let mut channel = recorded(channel, directory.path()).unwrap();
        let frames = [vec![7; 60], vec![8; 100]];
        assert_eq!(channel.outlet.send(&frames).unwrap(), 2);
        // The device hands back the second one.
        let mut pool = Pool::new(16, 2048).unwrap();
        let mut burst = Burst::new();
        device.rx(&mut pool, &mut burst);
        let first = burst.drain().next();
        first.into_iter().for_each(|f| pool.free(f));
        let mut frame = pool.alloc().unwrap();
        frame.copy_from(&frames[1]).unwrap();
        burst.push(frame).ok();
        device.tx(&mut pool, &mut burst);
        device.flush(&mut pool);
        let mut came = Vec::new();
        let each = &mut |bytes: &[u8], at| came.push((at, bytes.to_vec()));
        channel.inlet.receive(Duration::from_secs(1), each).unwrap();
        assert_eq!(came.len(), 1);
        drop(channel);
        let read = |way: &str| {
            let mut r = Reader::open(&directory.path().join(format!("a-b.{way}.pcapng"))).unwrap();
            assert_eq!(r.interface_name(0), None);
            let mut all = Vec::new();
            while let Some(record) = r.next_record().unwrap() {
                all.push((record.stamp, record.direction, record.bytes.to_vec()));
            }
            assert_eq!(r.interface_name(0), Some("a:b"));
            all
        };
        let (at, frame) = &came[0];
        assert_eq!(read("in"), [(Some(*at), Some(Direction::In), frame.clone())]);
        assert_eq!(*frame, frames[1]);
        let out: Vec<_> = read("out").into_iter().map(|r| (r.1, r.2)).collect();
        assert_eq!(out, frames.map(|f| (Some(Direction::Out), f)));
        let nowhere = recorded(memory("x").0, &directory.path().join("none"));
        assert!(nowhere.is_err_and(|e| e.to_string().contains("x.in.pcapng")));
    }
}
