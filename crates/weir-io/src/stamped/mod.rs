//! An interface as an instrument sees it: frames out with the kernel's word when they left, frames in
//! with the kernel's word when they came.
//!
//! Room: beside the ports; not a [`weir_packet::Device`], since sender and capture live on threads of
//! their own and frames are only looked at, never kept in a pool. AF_PACKET; needs CAP_NET_RAW. Called
//! by the measurement engine.
//!
//! The stamps are the kernel's software ones (SO_TIMESTAMPING): taken when the driver is given a frame,
//! and when a frame enters the stack. Unlike stamps taken by a program they do not wait for a thread to
//! get a core. Where an adapter stamps every frame ([`Stamping`]), its stamps are taken instead, told in the
//! time of the kernel's. All are nanoseconds of the Unix epoch, so they move when the machine's time is set.

mod device_clock;
mod held;
mod offers;

pub use held::{Stamping, offers};
pub use offers::{Offers, Stamps};

use crate::interface::{Watch, error};
use crate::sys::stamp::{self, Batch, By, Out, Queue};
use device_clock::DeviceClock;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use weir_packet::{DeviceError, LinkState, Nanos};

/// What the kernel may queue for a socket, in bytes of its accounting.
const BUFFER: i32 = 32 << 20;
const NEED: &str = "CAP_NET_RAW";
/// Bytes kept of a frame that was sent: as much as any probe's headers and proof take.
const HEAD: usize = 128;
/// Bytes kept of a frame that came: a whole Ethernet frame with two tags.
const WHOLE: usize = 1526;

fn open(
    name: &str,
    stamps: Stamps,
    make: impl FnOnce(u32, i32, By) -> io::Result<OwnedFd>,
) -> Result<Opened, DeviceError> {
    let (watch, i) = Watch::new(name)?;
    let failed = |e| error("opening a packet socket", name, NEED, e);
    let clock = match stamps {
        Stamps::Software => None,
        Stamps::Hardware { clock } => Some(DeviceClock::open(clock).map_err(failed)?),
    };
    let fd = make(i.index, BUFFER, by_of(stamps)).map_err(failed)?;
    Ok(Opened { fd, watch, index: i.index, clock })
}

fn by_of(stamps: Stamps) -> By {
    match stamps {
        Stamps::Software => By::Kernel,
        Stamps::Hardware { .. } => By::Adapter,
    }
}

struct Opened {
    fd: OwnedFd,
    watch: Watch,
    index: u32,
    clock: Option<DeviceClock>,
}

/// When a frame passed, as all others have it.
fn when(passed: &stamp::Passed, clock: &mut Option<DeviceClock>) -> Option<Nanos> {
    let told = clock.as_mut().zip(passed.hardware).and_then(|(c, at)| c.unix(at));
    told.or(passed.stamp)
}

/// Sends by an interface.
#[derive(Debug)]
pub struct Sender {
    fd: OwnedFd,
    out: Out,
    sent: Batch,
    clock: Option<DeviceClock>,
}

impl Sender {
    /// Opens the interface, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// No such interface, down, no rights.
    pub fn open(name: &str) -> Result<Self, DeviceError> {
        Self::with(name, Stamps::Software)
    }

    /// The same with these stamps, which a [`Stamping`] must have set and hold.
    ///
    /// # Errors
    /// Also: the adapter's clock can't be read.
    pub fn with(name: &str, stamps: Stamps) -> Result<Self, DeviceError> {
        let Opened { fd, clock, .. } = open(name, stamps, stamp::sender)?;
        Ok(Self { fd, out: Out::new(by_of(stamps)), sent: Batch::new(HEAD), clock })
    }

    /// Sends frames (Ethernet header first, no FCS) from the front; says how many the kernel took. It
    /// takes none while its queue is full.
    ///
    /// # Errors
    /// What the system says of the first of them: it is down, or too long.
    pub fn send<B: AsRef<[u8]>>(&mut self, frames: &[B]) -> io::Result<usize> {
        self.send_stamping(frames, |_| true)
    }

    /// The same; only frames of which `stamped` says so, by their place, are handed over by [`Self::stamps`]:
    /// a stamp costs the kernel about as much as a frame.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_stamping<B: AsRef<[u8]>>(
        &mut self,
        frames: &[B],
        stamped: impl Fn(usize) -> bool,
    ) -> io::Result<usize> {
        match self.out.send(&self.fd, frames, stamped) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => Ok(0),
            other => other,
        }
    }

    /// Hands over frames that have left since the last call, their first 128 bytes, with the moment at
    /// which the driver took them; at most so many, the others by the next call. Says how many.
    ///
    /// # Errors
    /// What the system says.
    pub fn stamps(
        &mut self,
        at_most: usize,
        mut each: impl FnMut(&[u8], Nanos),
    ) -> io::Result<usize> {
        let mut all = 0;
        loop {
            let want = (at_most - all).min(stamp::BATCH);
            let got = self.sent.take(&self.fd, Queue::Sent, want)?;
            for i in 0..got {
                let (head, passed) = self.sent.frame(i);
                if let Some(at) = when(&passed, &mut self.clock) {
                    each(head, at);
                }
            }
            all += got;
            if got < want || all >= at_most {
                return Ok(all);
            }
        }
    }
}

/// Sees every frame that comes in by an interface.
#[derive(Debug)]
pub struct Capture {
    fd: OwnedFd,
    watch: Watch,
    index: u32,
    batch: Batch,
    /// Room for a frame whose tag is put back.
    tagged: Vec<u8>,
    clock: Option<DeviceClock>,
}

impl Capture {
    /// Opens the interface, in the network namespace of the calling thread. The kernel begins to stamp what
    /// comes a moment later (where nothing else has asked it to, by work that it puts off): frames in that
    /// moment have no stamp.
    ///
    /// # Errors
    /// No such interface, down, no rights.
    pub fn open(name: &str) -> Result<Self, DeviceError> {
        Self::with(name, Stamps::Software)
    }

    /// The same with these stamps, which a [`Stamping`] must have set and hold.
    ///
    /// # Errors
    /// Also: the adapter's clock can't be read.
    pub fn with(name: &str, stamps: Stamps) -> Result<Self, DeviceError> {
        let Opened { fd, watch, index, clock } = open(name, stamps, stamp::receiver)?;
        Ok(Self {
            fd,
            watch,
            index,
            batch: Batch::new(WHOLE),
            tagged: Vec::with_capacity(WHOLE + 4),
            clock,
        })
    }

    /// Waits for frames, `at_most` so long, and hands over those that are there (a tag that the kernel
    /// has taken out is put back) with the moment at which each came; says how many. A frame longer
    /// than an Ethernet's is cut.
    ///
    /// # Errors
    /// What the system says; the interface may be down or gone ([`Capture::link`]).
    pub fn receive(
        &mut self,
        at_most: Duration,
        mut each: impl FnMut(&[u8], Option<Nanos>),
    ) -> io::Result<usize> {
        let mut got = self.batch.take(&self.fd, Queue::Received, stamp::BATCH)?;
        if got == 0 && stamp::wait(&self.fd, at_most)? {
            got = self.batch.take(&self.fd, Queue::Received, stamp::BATCH)?;
        }
        for i in 0..got {
            let (bytes, passed) = self.batch.frame(i);
            let at = when(&passed, &mut self.clock);
            match (passed.vlan, bytes.split_at_checked(12)) {
                (Some((tpid, tci)), Some((macs, rest))) => {
                    self.tagged.clear();
                    self.tagged.extend_from_slice(macs);
                    self.tagged.extend_from_slice(&tpid.to_be_bytes());
                    self.tagged.extend_from_slice(&tci.to_be_bytes());
                    self.tagged.extend_from_slice(rest);
                    each(&self.tagged, at);
                }
                _ => each(bytes, at),
            }
        }
        Ok(got)
    }

    /// Frames that the kernel had to drop since the last call, because nobody took them in time.
    pub fn take_drops(&self) -> u64 {
        crate::sys::packet::take_drops(&self.fd).unwrap_or(0)
    }

    /// Whether frames can flow.
    pub fn link(&self) -> LinkState {
        match self.watch.look(Some(self.index)) {
            crate::interface::Seen::Same(state, _) => state,
            _ => LinkState::Gone,
        }
    }
}
