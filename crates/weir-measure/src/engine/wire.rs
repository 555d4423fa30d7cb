//! Data channels: where probes go out and frames come in.
//!
//! Room: between the engine's threads and ports. A channel has two halves, so that sending and receiving
//! live on threads of their own. [`interface`]: AF_PACKET with the kernel's time stamps.
//! [`interface_of_pktgen`]: with the kernel's packet generator. [`memory`]: rings in this process, for the demo
//! and for tests.

use crate::module::{LoadId, ProbeId};
use crate::pktgen::{self, Pktgen};
use crate::probe::{Contents, examine, whole_stamp};
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_io::memory::{Memory, MemoryPeer, WireSize};
use weir_io::stamped::{Capture, Sender, Stamps};
use weir_packet::{DeviceError, LinkState, Nanos};

/// Now, by the clock of all stamps: nanoseconds of the Unix epoch.
pub fn unix_now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Where probes leave.
pub trait Outlet: Send {
    /// Takes frames from the front, without waiting; says how many.
    ///
    /// # Errors
    /// The port can't be used any more.
    fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<usize>;

    /// The same; [`Self::departures`] need not say when frames left of which `told` says no, by their place.
    ///
    /// # Errors
    /// As above.
    fn send_telling(
        &mut self,
        frames: &[Vec<u8>],
        told: &dyn Fn(usize) -> bool,
    ) -> io::Result<usize> {
        let _ = told;
        self.send(frames)
    }

    /// Whether [`Self::departures`] says when frames left; otherwise only the program knows.
    fn tells_departures(&self) -> bool;

    /// Hands over frames (their beginning at least) that have left since the last call, with the moment; at most
    /// so many, the others by the next call. Says how many.
    ///
    /// # Errors
    /// The port can't be used any more.
    fn departures(
        &mut self,
        at_most: usize,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize>;

    /// Who sends loads that are counted, in place of this.
    fn pktgen(&mut self) -> Option<&mut Pktgen> {
        None
    }
}

/// Where frames come in.
pub trait Inlet: Send {
    /// Waits for frames, `at_most` so long, and hands over those that are there with the moment at which
    /// each came; says how many.
    ///
    /// # Errors
    /// The port can't be used any more.
    fn receive(
        &mut self,
        at_most: Duration,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize>;

    /// Frames lost before they could be received, since the last call.
    fn take_drops(&mut self) -> u64;

    /// Whether frames can flow.
    fn link(&mut self) -> LinkState;
}

/// Both halves of a channel.
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Where probes leave.
    pub outlet: Box<dyn Outlet>,
    /// Where frames come in.
    pub inlet: Box<dyn Inlet>,
}

/// An interface of the calling thread's network namespace, by AF_PACKET.
///
/// # Errors
/// No such interface, down, no rights.
pub fn interface(name: &str) -> Result<Channel, DeviceError> {
    interface_with(name, Stamps::Software)
}

/// The same with these stamps, which a [`weir_io::stamped::Stamping`] has set.
///
/// # Errors
/// Also: the adapter's clock can't be read.
pub fn interface_with(name: &str, stamps: Stamps) -> Result<Channel, DeviceError> {
    let inlet = Box::new(Capture::with(name, stamps)?);
    Ok(Channel { name: name.to_owned(), outlet: Box::new(Sender::with(name, stamps)?), inlet })
}

/// The same, but that loads whose frames are counted are sent by the kernel's packet generator.
///
/// # Errors
/// As [`interface_with`].
pub fn interface_of_pktgen(
    name: &str,
    stamps: Stamps,
    pktgen: Pktgen,
) -> Result<Channel, DeviceError> {
    let Channel { name, outlet: sender, inlet } = interface_with(name, stamps)?;
    Ok(Channel { name, outlet: Box::new(Generated { sender, pktgen }), inlet })
}

struct Generated {
    sender: Box<dyn Outlet>,
    pktgen: Pktgen,
}

impl Outlet for Generated {
    fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<usize> {
        self.sender.send(frames)
    }
    fn send_telling(
        &mut self,
        frames: &[Vec<u8>],
        told: &dyn Fn(usize) -> bool,
    ) -> io::Result<usize> {
        self.sender.send_telling(frames, told)
    }
    fn tells_departures(&self) -> bool {
        self.sender.tells_departures()
    }
    fn departures(
        &mut self,
        at_most: usize,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        self.sender.departures(at_most, each)
    }
    fn pktgen(&mut self) -> Option<&mut Pktgen> {
        Some(&mut self.pktgen)
    }
}

impl Outlet for Sender {
    fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<usize> {
        Sender::send(self, frames)
    }
    fn send_telling(
        &mut self,
        frames: &[Vec<u8>],
        told: &dyn Fn(usize) -> bool,
    ) -> io::Result<usize> {
        self.send_stamping(frames, told)
    }
    fn tells_departures(&self) -> bool {
        true
    }
    fn departures(
        &mut self,
        at_most: usize,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        self.stamps(at_most, each)
    }
}

impl Inlet for Capture {
    fn receive(
        &mut self,
        at_most: Duration,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        Capture::receive(self, at_most, |b, at| each(b, at.unwrap_or_else(unix_now)))
    }
    fn take_drops(&mut self) -> u64 {
        Capture::take_drops(self)
    }
    fn link(&mut self) -> LinkState {
        Capture::link(self)
    }
}

/// A channel in memory, and the port (a device, for a data plane in this process) that it is wired to.
pub fn memory(name: &str) -> (Channel, Memory) {
    let size = WireSize { slots: 4096, ..WireSize::default() };
    let (device, peer) = Memory::with_peer(name, size);
    let shared = std::sync::Arc::new(std::sync::Mutex::new(peer));
    let outlet = Box::new(MemoryHalf { peer: shared.clone(), frame: Vec::new() });
    let inlet = Box::new(MemoryHalf { peer: shared, frame: Vec::new() });
    (Channel { name: name.to_owned(), outlet, inlet }, device)
}

/// Half of a channel in memory. The peer is one object, so the halves take turns: it is for tests and the
/// demo, where stamps are the program's anyway.
struct MemoryHalf {
    peer: std::sync::Arc<std::sync::Mutex<MemoryPeer>>,
    frame: Vec<u8>,
}

impl MemoryHalf {
    fn with<T>(&self, work: impl FnOnce(&mut MemoryPeer) -> T) -> T {
        let mut peer = self.peer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        work(&mut peer)
    }
}

impl Outlet for MemoryHalf {
    fn send(&mut self, frames: &[Vec<u8>]) -> io::Result<usize> {
        Ok(self.with(|p| frames.iter().take_while(|f| p.send(f).is_ok()).count()))
    }
    fn tells_departures(&self) -> bool {
        false
    }
    fn departures(&mut self, _: usize, _: &mut dyn FnMut(&[u8], Nanos)) -> io::Result<usize> {
        Ok(0)
    }
}

impl Inlet for MemoryHalf {
    fn receive(
        &mut self,
        at_most: Duration,
        each: &mut dyn FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        let mut frame = std::mem::take(&mut self.frame);
        let mut got = 0;
        let end = std::time::Instant::now() + at_most;
        while got < 64 {
            if self.with(|p| p.recv(&mut frame)) {
                each(&frame, unix_now());
                got += 1;
            } else if got > 0 || std::time::Instant::now() >= end {
                break;
            } else {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        self.frame = frame;
        Ok(got)
    }
    fn take_drops(&mut self) -> u64 {
        0
    }
    fn link(&mut self) -> LinkState {
        if self.with(|p| p.is_abandoned()) { LinkState::Down } else { LinkState::Up }
    }
}

/// A probe that was found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub id: ProbeId,
    /// When the program sent it.
    pub made: Nanos,
    /// Whether all of it is as it was sent.
    pub contents: Contents,
}

/// Finds the probe in a frame that came at `at`; or what pktgen wrote into one of its own.
pub fn recognise(frame: &[u8], at: Nanos) -> Option<Found> {
    if let Some(pktgen::Frame { load, number, made }) = pktgen::find(frame) {
        let id = ProbeId { load, flow: 0, number };
        // What the kernel puts behind its own proof is not known here.
        return Some(Found { id, made, contents: Contents::AsSent });
    }
    let (run, id, contents) = examine(frame)?;
    let probe = ProbeId { load: LoadId(run.0), flow: id.stream, number: id.number };
    Some(Found { id: probe, made: whole_stamp(id.stamp, at), contents })
}
