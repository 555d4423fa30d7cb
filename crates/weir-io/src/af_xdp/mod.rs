//! A port on an interface by AF_XDP in copy mode: the fast way in and out, for CAP_NET_RAW,
//! CAP_NET_ADMIN and CAP_BPF.
//!
//! Room: ports. The pool's region is the umem, so a frame that one port received leaves by another
//! port of the same worker without being copied by us. Per frame nothing is asked of the kernel:
//! [`Device::flush`] wakes it once a round.
//!
//! What kernels leave undone on virtual interfaces (veth, tap) is made good, since XDP carries no
//! word about it: partial checksums are found by their value
//! ([`complete_if_partial`]), super-frames arrive in
//! several buffers and are cut to the MTU. What can't be made good here is switched off at the
//! other end ([`OtherEnd`]) or reported ([`AfXdp::notes`]).

mod bound;
mod loans;
mod program;
mod settings;
mod ways;

pub use bound::{Mode, Program, Umem};
pub use settings::OtherEnd;

use crate::interface::{self, Seen, Watch, no_runt};
use crate::offload::checksum::complete_if_partial;
use crate::offload::layout;
use crate::offload::segment::{Cut, MAX_SUPER};
use crate::sys::prefetch;
use crate::sys::xdp::Descriptor;
use bound::{Bound, NEED};
use loans::Loans;
use std::os::fd::AsFd;
use ways::Known;
use weir_packet::{
    Arrival, Burst, Caps, Device, DeviceCounters, DeviceError, Feed, Frame, LinkState, Pool,
    Shortcut, Taken, Ways,
};

/// Length of an Ethernet header.
const ETHERNET: usize = 14;
/// An Ethernet header and two tags, on top of the MTU.
const LINK_BYTES: usize = ETHERNET + 8;
/// The shortest frame that is given to the kernel: a header.
const MIN_FRAME: usize = ETHERNET;
/// Chunks are given to the fill ring when so many are missing: one write for all of them.
const REFILL: usize = 32;
/// Frames that a ring has even where others have all but these.
const LEAST: usize = 64;
/// Frames that no ring takes, where there are enough.
const KEPT: usize = 4096;

/// How to open the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the program is attached.
    pub mode: Mode,
    /// Which queue of the interface is served. A veth has one, if it was made without a word about it.
    pub queue: u32,
    /// How many are served, by this port and by others ([`AfXdp::open_queue`]).
    pub queues: u32,
    /// Entries of each ring: a power of two.
    pub ring: u32,
    /// What may be done to the other end of a veth pair.
    pub other_end: OtherEnd,
    /// Whether the kernel may be told to forward frames by itself.
    pub shortcut: Offer,
    /// What is done where another has the queue.
    pub if_busy: IfBusy,
}

/// What is done where another program has the queue or the hook of the interface, or is only just giving it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfBusy {
    /// It is tried again for up to two seconds, and whoever opens the port waits.
    #[default]
    Wait,
    /// It is said at once ([`DeviceError::Busy`]), for who must not wait.
    Say,
}

/// Whether a port offers a [`Shortcut`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// It does not.
    #[default]
    No,
    /// It does. To be opened behind the driver ([`Mode::Generic`]): there a frame that is sent on needs
    /// nothing of the interface's other end.
    Yes,
}

impl Default for Options {
    /// Native, else generic; queue 0; rings of 2048; the other end is set.
    fn default() -> Self {
        Self {
            mode: Mode::NativeElseGeneric,
            queue: 0,
            queues: 1,
            ring: 2048,
            other_end: OtherEnd::Set,
            shortcut: Offer::No,
            if_busy: IfBusy::Wait,
        }
    }
}

/// A frame of several buffers on its way together, and then apart.
#[derive(Debug)]
struct Super {
    bytes: Vec<u8>,
    /// Its last buffer has not come yet.
    open: bool,
    cut: Option<Cut>,
}

/// A port by AF_XDP.
#[derive(Debug)]
pub struct AfXdp {
    watch: Watch,
    umem: Umem,
    program: Program,
    options: Options,
    bound: Option<Bound>,
    known: Option<Known>,
    loans: Loans,
    caps: Caps,
    mtu: usize,
    /// Chunks that the kernel may have for reception, and those it has.
    fill: usize,
    /// And would have if no other port had any.
    wanted: usize,
    filled: usize,
    /// Chunks that the kernel has for sending.
    sending: usize,
    big: Super,
    fault: Option<DeviceError>,
    /// With what sockets counted that are closed by now.
    counters: DeviceCounters,
    /// An interface that was let go of, as its link was down: its index, and what it had received.
    unserved: Option<(u32, u64)>,
}

impl AfXdp {
    /// Opens the interface. `pool` is the pool of the worker that will call it, `umem` the handle
    /// that all AF_XDP ports of this worker share.
    ///
    /// A quarter of the pool's chunks is lent to the kernel for reception; at most a ring full, and
    /// at most half of those that are free.
    ///
    /// # Errors
    /// [`DeviceError`]: no such interface, down, missing capability, chunk size not 2048 or 4096,
    /// another XDP program attached.
    pub fn open(
        name: &str,
        options: Options,
        umem: &Umem,
        pool: &mut Pool,
    ) -> Result<Self, DeviceError> {
        Self::open_queue(name, options, umem, pool, &Program::default())
    }

    /// The same of one queue of several, which workers have: all have the program of the interface together.
    ///
    /// # Errors
    /// As [`AfXdp::open`].
    pub fn open_queue(
        name: &str,
        options: Options,
        umem: &Umem,
        pool: &mut Pool,
        program: &Program,
    ) -> Result<Self, DeviceError> {
        let setting = |problem: String| DeviceError::Setting { name: name.to_owned(), problem };
        if !matches!(pool.chunk_bytes(), 2048 | 4096) {
            return Err(setting(format!(
                "AF_XDP needs chunks of 2048 or 4096 bytes, the pool's have {}",
                pool.chunk_bytes()
            )));
        }
        if !options.ring.is_power_of_two() || !(64..=32_768).contains(&options.ring) {
            return Err(setting(format!(
                "a ring of {} entries: it must be a power of two from 64 to 32768",
                options.ring
            )));
        }
        let (watch, interface) = Watch::new(name)?;
        let known = match options.shortcut {
            Offer::No => None,
            Offer::Yes => {
                let maps = Known::new();
                Some(maps.map_err(|e| interface::error("making its maps", name, NEED, e))?)
            }
        };
        let bound = Bound::open_first(&watch, options, umem, pool, known.as_ref(), program)?;
        // What others need beside ports' rings stays: copies, frames that wait, those that programs and controllers make.
        let wanted = pool.count() / 4;
        let free = pool.available().saturating_sub(wanted.min(KEPT)) / 2;
        let mut this = Self {
            watch,
            umem: umem.clone(),
            program: program.clone(),
            options,
            bound: Some(bound),
            known,
            loans: Loans::new(pool),
            caps: Caps::new(0, Feed::Overflows),
            mtu: 0,
            wanted,
            fill: wanted
                .min(free)
                .max(LEAST.min(pool.available() / 2))
                .clamp(1, options.ring as usize),
            filled: 0,
            sending: 0,
            big: Super { bytes: Vec::with_capacity(MAX_SUPER), open: false, cut: None },
            fault: None,
            counters: DeviceCounters::default(),
            unserved: None,
        };
        this.measure(interface.mtu, pool);
        this.refill(pool);
        Ok(this)
    }

    /// What a person should know about how the port was opened: a fallback, a setting that was
    /// changed elsewhere, a setting that should be changed and could not.
    pub fn notes(&self) -> Vec<String> {
        let notes = self.bound.as_ref().map_or(&[][..], |b| b.notes.as_slice());
        let named = |c: String| format!("{}: {c}", self.watch.name());
        notes.iter().cloned().chain(self.caveat().map(named)).collect()
    }

    /// A ring that is shorter than it would be alone.
    fn short(&self) -> Option<String> {
        let wanted = self.wanted.min(self.options.ring as usize);
        (self.fill < wanted).then(|| {
            format!(
                "its ring has {} frames for {wanted}, as other ports had theirs when it was opened: add it again, or give more 'frames'",
                self.fill
            )
        })
    }

    /// Whether the program is attached behind the driver, not in it.
    pub fn is_generic(&self) -> bool {
        self.bound.as_ref().is_some_and(|b| b.generic)
    }

    fn measure(&mut self, mtu: usize, pool: &Pool) {
        self.mtu = mtu;
        self.caps.measure(mtu, pool.max_frame_bytes());
    }

    /// Lends chunks for reception until the kernel has as many as it may.
    #[inline]
    fn refill(&mut self, pool: &mut Pool) {
        let missing = self.fill - self.filled.min(self.fill);
        if missing < REFILL.min(self.fill) {
            return;
        }
        let Some(b) = &mut self.bound else { return };
        let n = missing.min(b.socket.fill.room(missing)).min(pool.available());
        for _ in 0..n {
            let Some(frame) = pool.alloc() else { break };
            match self.loans.lend(pool, frame) {
                Ok(lent) => {
                    b.socket.fill.push(lent.offset);
                    self.filled += 1;
                }
                Err(frame) => pool.free(frame),
            }
        }
        b.socket.fill.publish_pushed();
    }

    /// Takes back what was sent.
    #[inline]
    fn reap(&mut self, pool: &mut Pool) {
        if self.sending == 0 {
            return;
        }
        let Some(b) = &mut self.bound else { return };
        while let Some(offset) = b.socket.completion.pop() {
            self.sending = self.sending.saturating_sub(1);
            if let Some(frame) = self.loans.take_back(pool, offset, 0) {
                pool.free(frame);
            }
        }
        b.socket.completion.publish_popped();
    }

    /// Whether a frame of one buffer is a small super-frame: an IP packet longer than the MTU.
    #[inline]
    fn is_super(frame: &Frame, mtu: usize) -> bool {
        frame.len() > mtu + ETHERNET
            && layout::of_frame(frame.bytes(), 0).is_some_and(|l| l.end - l.l3 > mtu)
    }

    /// A buffer of a super-frame; `more` follow.
    fn gather(&mut self, frame: Frame, more: bool, pool: &mut Pool) {
        if !self.big.open {
            self.big.bytes.clear();
        }
        let part = frame.bytes();
        // Beyond the limit bytes are left out, and the headers then say more than there is.
        let room = MAX_SUPER - self.big.bytes.len().min(MAX_SUPER);
        self.big.bytes.extend_from_slice(part.get(..room).unwrap_or(part));
        self.big.open = more;
        pool.free(frame);
        if more {
            return;
        }
        // Whoever made the super-frame did not say of what size its pieces were.
        let mtu = self.mtu.min(pool.max_frame_bytes().saturating_sub(LINK_BYTES));
        self.big.cut = Cut::to_mtu(&self.big.bytes, mtu);
        match self.big.cut {
            Some(_) => self.counters.segmented += 1,
            None => self.counters.rx_errors += 1,
        }
    }

    /// Hands over pieces of the super-frame; `false` when some are left.
    fn hand_over_pieces(&mut self, pool: &mut Pool, burst: &mut Burst) -> bool {
        while let Some(mut cut) = self.big.cut.filter(|c| !c.is_done()) {
            if burst.room() == 0 {
                return false;
            }
            let Some(mut frame) = pool.alloc() else { return false };
            let whole = cut.next_frame(&self.big.bytes, &mut frame);
            self.big.cut = whole.then_some(cut);
            let frame = if whole { burst.push(frame).err() } else { Some(frame) };
            if let Some(frame) = frame {
                pool.free(frame);
            }
        }
        self.big.cut = None;
        true
    }

    /// Counts what the interface has received since it was let go of, as its link was down: all of it went past, where it has one queue.
    fn miss_unserved(&mut self, bound: &Bound) {
        let Some((_, before)) = self.unserved.take().filter(|(i, _)| *i == bound.index) else {
            return;
        };
        if self.options.queues != 1 || bound.beside.is_some() {
            return;
        }
        let come = self.watch.received().unwrap_or(before).saturating_sub(before);
        self.counters.rx_missed += come.saturating_sub(bound.socket.rx.ready().into());
    }

    /// Lets go of the interface and takes every chunk back. Frames that were taken for sending and have not left count as
    /// errors.
    fn unbind(&mut self, pool: &mut Pool) {
        self.reap(pool);
        self.counters.tx_errors += self.sending as u64;
        if let Some(known) = &self.known {
            known.stop();
        }
        if let Some(b) = self.bound.take() {
            let (missed, errors) = b.counted();
            // What came and was not asked for goes with the socket.
            self.counters.rx_missed += missed + u64::from(b.socket.rx.ready());
            self.counters.tx_errors += errors;
        }
        // The socket is gone: the kernel has no way to a chunk any more.
        self.loans.recover(pool);
        (self.filled, self.sending) = (0, 0);
        self.big.open = false;
        self.big.cut = None;
    }
}

impl Device for AfXdp {
    fn name(&self) -> &str {
        self.watch.name()
    }
    fn caps(&self) -> Caps {
        self.caps
    }
    fn link(&mut self, pool: &mut Pool) -> LinkState {
        match self.watch.look_again(self.bound.as_ref().map(|b| b.index)) {
            Seen::Same(state, mtu) => {
                self.measure(mtu, pool);
                let waits = |b: &mut Bound| (b.socket.tx.pending() > 0).then_some(b.index);
                if let (LinkState::Down, Some(index)) = (state, self.bound.as_mut().and_then(waits))
                {
                    // The kernel would send them when the link is back, to nobody who still waits for them, and nothing
                    // takes them out of the ring but the socket's end. It is opened again when it can be.
                    self.unbind(pool);
                    self.unserved = self.watch.received().map(|n| (index, n));
                }
                state
            }
            Seen::Back(mtu) => {
                self.measure(mtu, pool);
                LinkState::Down
            }
            Seen::None => {
                self.unbind(pool);
                self.fault = Some(DeviceError::NoInterface(self.name().to_owned()));
                LinkState::Gone
            }
            Seen::Another => {
                self.unbind(pool);
                let opened = self.watch.usable().and_then(|i| {
                    let known = self.known.as_ref();
                    let (options, of) = (self.options, &self.program);
                    Ok((i, Bound::open(&self.watch, options, &self.umem, pool, known, of)?))
                });
                match opened {
                    Ok((interface, bound)) => {
                        self.miss_unserved(&bound);
                        self.bound = Some(bound);
                        self.fault = None;
                        self.measure(interface.mtu, pool);
                        self.refill(pool);
                        interface.running.into()
                    }
                    Err(e) => {
                        let down = matches!(e, DeviceError::InterfaceDown(_));
                        self.fault = Some(e);
                        if down { LinkState::Down } else { LinkState::Gone }
                    }
                }
            }
        }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        if self.big.cut.is_some() && !self.hand_over_pieces(pool, burst) {
            return burst.len() - before;
        }
        let mut popped = false;
        while burst.room() > 0 {
            let Some(b) = &mut self.bound else { break };
            let Some(d) = b.socket.rx.pop() else { break };
            popped = true;
            self.filled = self.filled.saturating_sub(1);
            let Some(frame) = self.loans.take_back(pool, d.offset, d.len) else {
                self.counters.rx_errors += 1;
                continue;
            };
            if d.is_continued() || self.big.open || Self::is_super(&frame, self.mtu) {
                self.gather(frame, d.is_continued(), pool);
                if !self.hand_over_pieces(pool, burst) {
                    break;
                }
                continue;
            }
            // Another core wrote it: let all of the burst be on their way before the first is read.
            prefetch(frame.bytes());
            if let Err(frame) = burst.push(frame) {
                pool.free(frame);
            }
        }
        if popped && let Some(b) = &mut self.bound {
            b.socket.rx.publish_popped();
        }
        self.refill(pool);
        if self.bound.as_ref().is_some_and(|b| b.is_virtual) {
            for frame in burst.as_mut_slice().get_mut(before..).unwrap_or_default() {
                // A piece of a super-frame is complete, and is left as it is.
                let completed = complete_if_partial(frame.bytes_mut());
                self.counters.csum_completed += u64::from(completed);
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if burst.is_empty() {
            return 0;
        }
        let Some(b) = &mut self.bound else { return 0 };
        let n = burst.len().min(b.socket.tx.room(burst.len()));
        for mut frame in burst.drain_front(n) {
            no_runt(&mut frame);
            let ours = if frame.len() < MIN_FRAME {
                Err(frame)
            } else {
                // Of another pool: not this umem's memory.
                self.loans.lend(pool, frame)
            };
            match ours {
                Ok(lent) => {
                    b.socket.tx.push(Descriptor::new(lent.offset, lent.len));
                    self.sending += 1;
                }
                Err(frame) => {
                    self.counters.tx_errors += 1;
                    pool.free(frame);
                }
            }
        }
        b.socket.tx.publish_pushed();
        n
    }
    fn flush(&mut self, pool: &mut Pool) {
        if let Some(b) = &mut self.bound {
            b.wake();
        }
        self.reap(pool);
    }
    fn arrival(&self) -> Arrival<'_> {
        self.bound.as_ref().map_or(Arrival::Never, |b| Arrival::Told(b.socket.fd.as_fd()))
    }
    fn held(&self) -> usize {
        self.loans.count()
    }
    fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(ToString::to_string)
    }
    fn caveat(&self) -> Option<String> {
        let beside = self.bound.as_ref().and_then(|b| b.beside.clone());
        let all: Vec<String> = beside.into_iter().chain(self.short()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
    fn shortcut(&mut self) -> Option<&mut dyn Shortcut> {
        self.known.is_some().then_some(self)
    }
    fn offers_shortcut(&self) -> bool {
        self.known.is_some()
    }
    fn exit(&self) -> Option<u32> {
        // A kernel at the other end takes frames as a kernel made them: with checksums that were left
        // for later.
        let bound = self.known.as_ref().and(self.bound.as_ref());
        bound.filter(|b| b.is_veth).map(|b| b.index)
    }
    fn counters(&self) -> DeviceCounters {
        let (missed, errors) = self.bound.as_ref().map_or((0, 0), Bound::counted);
        DeviceCounters {
            rx_missed: self.counters.rx_missed + missed,
            tx_errors: self.counters.tx_errors + errors,
            ..self.counters
        }
    }
    fn close(&mut self, pool: &mut Pool) {
        if let Some(b) = &mut self.bound {
            b.drain();
        }
        self.reap(pool);
        self.unbind(pool);
    }
}

impl Shortcut for AfXdp {
    fn start(&mut self, ways: &Ways) -> Result<(), String> {
        let Some(known) = &mut self.known else { return Ok(()) };
        known.start(ways).map_err(|e| format!("telling the kernel its ways: {e}"))
    }
    fn stop(&mut self) {
        if let Some(known) = &self.known {
            known.stop();
        }
    }
    fn taken(&self, counter: u32) -> Taken {
        self.known.as_ref().map_or(Taken::default(), |k| k.taken(counter))
    }
}
