//! A TAP device as a port: what the port sends, the kernel's interface of that name receives.
//!
//! Room: ports. No offloads are agreed on, so the kernel completes checksums, cuts super-frames and
//! writes VLAN tags into frames before they come here. One system call a frame: for virtual
//! machines and for a host's own stack, not for rate. Addresses are the user's affair.

use crate::interface::{self, Seen, Watch};
use crate::sys::netdev::Control;
use crate::sys::tun;
use weir_packet::{
    Arrival, Burst, Caps, Device, DeviceCounters, DeviceError, Feed, LinkState, Pool,
};

const NEED: &str = "CAP_NET_ADMIN";

/// What becomes of the device when the port is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It goes with the port (unless it was persistent before).
    Port,
    /// It stays.
    Persistent,
}

/// A port by TAP.
#[derive(Debug)]
pub struct Tap {
    watch: Watch,
    /// The number of the interface that was attached to.
    index: u32,
    device: Option<tun::Tap>,
    caps: Caps,
    fault: Option<DeviceError>,
    counters: DeviceCounters,
}

impl Tap {
    /// Attaches to the TAP device of that name, or makes it (an empty name: the kernel chooses, see
    /// [`Device::name`]); sets it up.
    ///
    /// # Errors
    /// [`DeviceError`]: no CAP_NET_ADMIN, an interface of that name that is no TAP, in use.
    pub fn open(name: &str, lifetime: Lifetime, pool: &Pool) -> Result<Self, DeviceError> {
        let (device, name) = attach(name)?;
        if lifetime == Lifetime::Persistent {
            device.persist().map_err(|e| interface::error("making it stay", &name, NEED, e))?;
        }
        let (watch, i) = Watch::new(&name)?;
        let mut tap = Self {
            watch,
            index: i.index,
            device: Some(device),
            caps: Caps::new(0, Feed::Overflows),
            fault: None,
            counters: DeviceCounters::default(),
        };
        tap.measure(i.mtu, pool);
        Ok(tap)
    }

    fn measure(&mut self, mtu: usize, pool: &Pool) {
        self.caps.measure(mtu, pool.max_frame_bytes());
    }
}

/// Attaches and sets up.
fn attach(name: &str) -> Result<(tun::Tap, String), DeviceError> {
    let (device, given) = take(name)?;
    Control::new()
        .and_then(|c| c.set_up(&given))
        .map_err(|e| interface::error("setting it up", &given, NEED, e))?;
    Ok((device, given))
}

/// Attaches.
fn take(name: &str) -> Result<(tun::Tap, String), DeviceError> {
    let setting =
        |problem: &str| DeviceError::Setting { name: name.to_owned(), problem: problem.to_owned() };
    // The kernel makes a name of what has '%d', and says nothing of the others but that they are wrong.
    if name.contains(|c: char| matches!(c, '%' | '/' | ':') || c.is_whitespace()) {
        return Err(setting("a name has no '%', '/', ':' or space"));
    }
    tun::Tap::attach(name).map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => setting("a name has at most 15 bytes"),
        Some(libc::EINVAL) => setting("an interface of that name is there and is no TAP device"),
        Some(libc::EBUSY) => setting("the TAP device is in use by another program"),
        Some(libc::ENOENT) => setting("there is no /dev/net/tun: 'modprobe tun' may help"),
        _ => interface::error("making a TAP device", name, NEED, e),
    })
}

impl Device for Tap {
    fn name(&self) -> &str {
        self.watch.name()
    }
    fn caps(&self) -> Caps {
        self.caps
    }
    /// The device may be moved to another namespace: the port stays with it. One that was deleted
    /// is attached to again when someone makes it; it is not made anew, since whoever deleted it
    /// meant that.
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        match self.device.as_ref().map(tun::Tap::state) {
            Some(tun::State::Up) => {
                // In another namespace nothing is seen of it, and what has its name here may be another.
                if let Seen::Same(_, mtu) = self.watch.look(Some(self.index)) {
                    self.measure(mtu, pool);
                }
                return LinkState::Up;
            }
            Some(tun::State::Down) => return LinkState::Down,
            Some(tun::State::Gone) | None => self.device = None,
        }
        if self.watch.look(None) == Seen::None {
            self.fault = Some(DeviceError::NoInterface(self.name().to_owned()));
            return LinkState::Gone;
        }
        let opened =
            attach(self.watch.name()).and_then(|(device, _)| Ok((device, self.watch.usable()?)));
        match opened {
            Ok((device, i)) => {
                self.device = Some(device);
                self.index = i.index;
                self.measure(i.mtu, pool);
                self.fault = None;
                LinkState::Up
            }
            Err(e) => {
                self.fault = Some(e);
                LinkState::Gone
            }
        }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        let Some(device) = &self.device else { return 0 };
        for _ in 0..burst.room() {
            let Some(mut frame) = pool.alloc() else { break };
            let room = frame.tailroom();
            let read = match frame.set_len(room) {
                Ok(()) => device.read(frame.bytes_mut()),
                Err(_) => Ok(room),
            };
            match read {
                // A frame that fills the chunk may have been longer.
                Ok(n) if n < room && frame.set_len(n).is_ok() => {
                    if let Err(frame) = burst.push(frame) {
                        pool.free(frame);
                    }
                }
                Ok(_) => {
                    self.counters.rx_errors += 1;
                    pool.free(frame);
                }
                Err(_) => {
                    pool.free(frame);
                    break;
                }
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let Some(device) = &self.device else { return 0 };
        let mut taken = 0;
        for frame in burst.as_slice() {
            match device.write(frame.bytes()) {
                Ok(_) => {}
                // Full, or down.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EIO)) => break,
                Err(_) => self.counters.tx_errors += 1,
            }
            taken += 1;
        }
        for frame in burst.drain_front(taken) {
            pool.free(frame);
        }
        taken
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn arrival(&self) -> Arrival<'_> {
        self.device.as_ref().map_or(Arrival::Never, |d| Arrival::Told(d.descriptor()))
    }
    fn held(&self) -> usize {
        0
    }
    fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(ToString::to_string)
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, _pool: &mut Pool) {
        self.device = None;
    }
}

/// A TAP device that is no port: frames by hand, for a program that hands them over itself. It goes when this
/// is dropped, and stays in the namespace it was made in, whoever uses it.
#[derive(Debug)]
pub struct Outlet(tun::Tap);

impl Outlet {
    /// Makes a TAP device of that name in the calling thread's namespace. It is down, so that whoever makes it can give it a
    /// MAC address first: the kernel makes a link-local address of the one that it has when it is set up.
    ///
    /// # Errors
    /// [`DeviceError`]: no CAP_NET_ADMIN, the name is taken or too long.
    pub fn make(name: &str) -> Result<Self, DeviceError> {
        take(name).map(|(device, _)| Self(device))
    }
    /// Has the kernel receive a frame.
    ///
    /// # Errors
    /// The device is full, down or gone.
    pub fn send(&self, frame: &[u8]) -> std::io::Result<()> {
        self.0.write(frame).map(|_| ())
    }
    /// Says whether there is a carrier, which programs and routes look at; there is one at first.
    ///
    /// # Errors
    /// The device is gone, or the kernel is older than 5.0.
    pub fn set_carrier(&self, carrier: LinkState) -> std::io::Result<()> {
        self.0.set_carrier(carrier)
    }
    /// A frame that the kernel has sent, and how many bytes it has; `None` when there is none. One that fills
    /// `into` may have been longer.
    pub fn receive(&self, into: &mut [u8]) -> Option<usize> {
        self.0.read(into).ok()
    }
}
