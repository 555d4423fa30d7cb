//! A socket bound to a queue, with the program that feeds it: what a port has while its interface
//! is there.
//!
//! Room: `af_xdp`. Everything that opens or lets go of kernel objects.

use super::settings::Settings;
use super::ways::Known;
use super::{IfBusy, Options, program, settings};
use crate::interface::{self, Watch};
use crate::patience::{Again, patiently};
use crate::sys::bpf::{Attach, Map, Redirect};
use crate::sys::{packet, xdp};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use weir_packet::{DeviceError, Pool};

pub(super) const NEED: &str = "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF";
/// Wake-ups that one flush may take; each sends up to 256 frames.
const WAKES: u32 = 8;
/// What closing waits for frames on their way out, in pieces.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);
const DRAIN_ATTEMPTS: u32 = 20;

/// Where the XDP program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, or behind it where that fails; the reason is noted.
    NativeElseGeneric,
    /// In the driver.
    Native,
    /// Behind the driver. On veth it costs the same.
    Generic,
}

/// The umem that the AF_XDP ports of one worker share: the region of its pool. The first port
/// registers it, the others bind to it (`XDP_SHARED_UMEM`); ports may come and go in any order.
#[derive(Clone, Debug)]
pub struct Umem {
    sockets: Arc<Mutex<Vec<Weak<OwnedFd>>>>,
    ring: u32,
}

impl Default for Umem {
    fn default() -> Self {
        Self::new()
    }
}

impl Umem {
    /// No port yet; rings are [`Options::default`]'s.
    pub fn new() -> Self {
        Self::with_rings(Options::default().ring)
    }
    /// No port yet; whoever asks for [`Self::ring`] makes rings of so many entries.
    pub fn with_rings(ring: u32) -> Self {
        Self { sockets: Arc::default(), ring }
    }
    /// Entries of each ring of ports that are opened by what they are called ([`crate::open::open`]).
    pub fn ring(&self) -> u32 {
        self.ring
    }
    /// Ports that have it registered.
    pub fn ports(&self) -> usize {
        self.live().len()
    }
    fn live(&self) -> Vec<Arc<OwnedFd>> {
        let mut all = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|s| s.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
    fn joined(&self, socket: &Arc<OwnedFd>) {
        let mut all = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(socket));
    }
    /// Binds to the umem of any port that has it, else registers it.
    fn bind(&self, index: u32, o: Options, region: xdp::Region) -> io::Result<xdp::Socket> {
        let bind =
            |other: Option<&OwnedFd>| xdp::Socket::bind(index, o.queue, o.ring, region, other);
        for other in self.live() {
            match bind(Some(&other)) {
                // The other one's interface has gone, and its binding with it.
                Err(e) if e.raw_os_error() == Some(libc::EBADF) => {}
                result => return result,
            }
        }
        bind(None)
    }
}

/// What an interface has once, be its queues one port's or several workers': the program, and how the interface is set.
#[derive(Debug)]
struct Attached {
    redirect: Redirect,
    _promiscuous: packet::Socket,
    _settings: Settings,
    index: u32,
    generic: bool,
    driver: String,
}

/// The program that feeds the queues of one interface, each of which a worker has ([`super::AfXdp::open_queue`]): attached by the
/// first, let go of by the last.
#[derive(Clone, Debug, Default)]
pub struct Program(Arc<Mutex<Weak<Attached>>>);

impl Program {
    /// Attached to this interface, by `attach` if nobody has yet; says by whom.
    fn of(
        &self,
        index: u32,
        attach: impl FnOnce() -> Result<Attached, DeviceError>,
    ) -> Result<Arc<Attached>, DeviceError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An interface that has gone and come back is another one.
        if let Some(there) = known.upgrade().filter(|a| a.index == index) {
            return Ok(there);
        }
        let new = Arc::new(attach()?);
        *known = Arc::downgrade(&new);
        Ok(new)
    }
}

/// Fields are dropped in this order: no frame comes any more before the socket goes.
#[derive(Debug)]
pub(super) struct Bound {
    _attached: Arc<Attached>,
    pub(super) socket: xdp::Socket,
    pub(super) index: u32,
    pub(super) generic: bool,
    /// The other end of the interface is this kernel: checksums may be partial.
    pub(super) is_virtual: bool,
    pub(super) is_veth: bool,
    pub(super) notes: Vec<String>,
    /// Queues that are not served.
    pub(super) beside: Option<String>,
    /// Frames that the kernel took out of the tx ring, and the interface did not take from it.
    refused: u64,
}

impl Bound {
    /// Opens it once.
    pub(super) fn open(
        watch: &Watch,
        options: Options,
        umem: &Umem,
        pool: &Pool,
        known: Option<&Known>,
        of: &Program,
    ) -> Result<Self, DeviceError> {
        let name = watch.name();
        let fail = |what| move |e| interface::error(what, name, NEED, e);
        let i = watch.usable()?;
        let (base, len) = pool.region();
        let region = xdp::Region { base, len, chunk_bytes: pool.chunk_bytes() };
        let socket = umem.bind(i.index, options, region).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOBUFS) => DeviceError::Setting {
                name: name.to_owned(),
                problem: format!(
                    "{} KiB of frames are more than may be locked in memory: raise 'ulimit -l' or \
                     grant CAP_IPC_LOCK",
                    len >> 10
                ),
            },
            _ => fail("binding an AF_XDP socket")(e),
        })?;
        let mut notes = Vec::new();
        let attached =
            of.of(i.index, || Self::attach(watch, i.index, options, known, &mut notes))?;
        // Last, so that no frame comes in before the offloads are off.
        attached.redirect.serve(options.queue, &socket.fd).map_err(fail("serving the queue"))?;
        umem.joined(&socket.fd);
        let beside = match watch.control.queues(name) {
            Ok((n @ 2.., _)) if options.queues == 1 => {
                Some(settings::beside(name, &attached.driver, options.queue, n))
            }
            _ => None,
        };
        Ok(Self {
            socket,
            index: i.index,
            generic: attached.generic,
            is_virtual: settings::is_virtual(&attached.driver),
            is_veth: attached.driver == "veth",
            _attached: attached,
            beside,
            notes,
            refused: 0,
        })
    }

    /// Attaches the program, and sets the interface so that frames come whole.
    fn attach(
        watch: &Watch,
        index: u32,
        options: Options,
        known: Option<&Known>,
        notes: &mut Vec<String>,
    ) -> Result<Attached, DeviceError> {
        let name = watch.name();
        let fail = |what| move |e| interface::error(what, name, NEED, e);
        let promiscuous = packet::Socket::promiscuous(index).map_err(fail("listening"))?;
        let attach = |how| {
            let sockets = Map::sockets()?;
            let code = match known {
                Some(k) => k.program(&sockets),
                None => program::to_socket(sockets.number()),
            };
            Redirect::attach(index, how, sockets, &code)
        };
        let native = match options.mode {
            Mode::Generic => None,
            Mode::Native => Some(attach(Attach::Native).map_err(fail("attaching XDP natively"))?),
            Mode::NativeElseGeneric => match attach(Attach::Native) {
                Ok(r) => Some(r),
                // Neither is a want of native XDP: missing rights, or a hook that is in use.
                Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EBUSY)) => {
                    return Err(fail("attaching XDP")(e));
                }
                Err(e) => {
                    notes.push(format!("{name}: generic XDP, because native XDP failed: {e}"));
                    None
                }
            },
        };
        let generic = native.is_none();
        let redirect = match native {
            Some(r) => r,
            None => attach(Attach::Generic).map_err(fail("attaching XDP behind the driver"))?,
        };
        let driver = watch.control.driver(name).unwrap_or_default();
        let how = if generic { Attach::Generic } else { Attach::Native };
        let settings = Settings::make(watch, index, &driver, how, options.other_end, notes);
        Ok(Attached {
            redirect,
            _promiscuous: promiscuous,
            _settings: settings,
            index,
            generic,
            driver,
        })
    }
    /// Opens it for a port that is new; see [`IfBusy`].
    pub(super) fn open_first(
        watch: &Watch,
        options: Options,
        umem: &Umem,
        pool: &Pool,
        known: Option<&Known>,
        of: &Program,
    ) -> Result<Self, DeviceError> {
        let open = |_| match Self::open(watch, options, umem, pool, known, of) {
            Err(DeviceError::System { source, .. })
                if source.raw_os_error() == Some(libc::EBUSY) =>
            {
                let name = watch.name().to_owned();
                Err(DeviceError::Busy { name, queue: options.queue })
            }
            result => result,
        };
        match options.if_busy {
            IfBusy::Wait => patiently(DeviceError::is_busy, open),
            IfBusy::Say => open(Again::Never),
        }
    }

    /// Has the kernel send what waits in the tx ring. Reception needs no waking in copy mode.
    #[inline]
    pub(super) fn wake(&mut self) {
        let mut left = self.socket.tx.pending();
        for _ in 0..WAKES {
            if left == 0 || !self.socket.tx.needs_wakeup() {
                break;
            }
            // An error is the budget (go on), a full buffer or a state of the interface (later).
            let sent = self.socket.wake_tx();
            // In copy mode this is one frame, which comes back as if it had been sent.
            let is_refused = sent.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY));
            self.refused += u64::from(is_refused);
            let now = self.socket.tx.pending();
            if now == left && sent.is_err() {
                break;
            }
            left = now;
        }
    }

    /// Waits a little for what is on its way out.
    pub(super) fn drain(&mut self) {
        for _ in 0..DRAIN_ATTEMPTS {
            self.wake();
            if self.socket.tx.pending() == 0 {
                break;
            }
            std::thread::sleep(DRAIN_PAUSE);
        }
    }

    /// Frames missed on reception, and frames that the kernel would not send.
    pub(super) fn counted(&self) -> (u64, u64) {
        let s = self.socket.statistics().unwrap_or_default();
        (s.rx_dropped + s.rx_ring_full, s.tx_invalid + self.refused)
    }
}
