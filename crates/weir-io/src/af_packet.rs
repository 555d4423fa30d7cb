//! A port on an interface by AF_PACKET: works on every interface and needs CAP_NET_RAW.
//!
//! Room: ports. The kernel hands over what it has, and says so in a header: a checksum that is not
//! complete, a super-frame of up to 64 KiB, a VLAN tag beside the frame. All of it is made whole
//! here before the data plane sees it, and counted ([`DeviceCounters`]).
//!
//! The kernel's own stack sees the same frames: an interface that is a port should have no address.
//! A ring (TPACKET_V3) would save copies; it also hands over blocks up to half a millisecond late,
//! so plain messages in batches are what is used. Where rate matters, use [`crate::af_xdp`].
//! Super-frames inside VXLAN are cut there; inside other tunnels they are not, and count as `rx_errors`.

use crate::interface::{self, Seen, Watch};
use crate::offload::layout::{Ip, TCP, UDP};
use crate::offload::segment::{Cut, MAX_SUPER, Told};
use crate::offload::{checksum, restore_vlan};
use crate::sys::netdev::Control;
use crate::sys::packet::{Egress, Meta, RxBatch, Socket, TxBatch};
use std::cell::Cell;
use weir_packet::{
    Arrival, BURST, Burst, Caps, Device, DeviceCounters, DeviceError, Feed, Frame, LinkState, Pool,
};

/// What the kernel may queue for the port, in bytes of its accounting.
const RX_BUFFER: i32 = 16 << 20;
const NEED: &str = "CAP_NET_RAW";
/// `gso_type` of virtio: TCP over IPv4, TCP over IPv6, UDP cut at datagram borders.
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;

/// Both sockets of an open port, and the interface they are bound to.
#[derive(Debug)]
struct Sockets {
    rx: Socket,
    tx: Socket,
    index: u32,
}

impl Sockets {
    fn open(watch: &Watch) -> Result<(Self, usize), DeviceError> {
        let i = watch.usable()?;
        let fail = |e| interface::error("opening a packet socket", watch.name(), NEED, e);
        let tx = Socket::sender(i.index, egress(watch.name())).map_err(fail)?;
        let rx = Socket::receiver(i.index, RX_BUFFER).map_err(fail)?;
        Ok((Self { rx, tx, index: i.index }, i.mtu))
    }
}

/// Where there are several queues, a worker that another processor runs would go on by another one, and overtake its own frames.
fn egress(interface: &str) -> Egress {
    match Control::new().and_then(|c| c.queues(interface)) {
        Ok((_, to_send)) if to_send > 1 => Egress::Queued,
        // A driver that says nothing of queues has one.
        _ => Egress::Direct,
    }
}

/// A port by AF_PACKET.
#[derive(Debug)]
pub struct AfPacket {
    watch: Watch,
    sockets: Option<Sockets>,
    caps: Caps,
    fault: Option<DeviceError>,
    counters: DeviceCounters,
    missed: Cell<u64>,
    rx: RxBatch,
    tx: TxBatch,
    /// One empty frame per message that the next call may bring; their data is where it is put.
    frames: Vec<Frame>,
    frame_bytes: usize,
    /// Messages of the last call, and the first of them that was not handed over yet.
    got: usize,
    next: usize,
    /// The super-frame of message `next` that is being cut.
    cut: Option<Cut>,
}

/// What became of a message.
enum Delivery {
    /// It is done with.
    Done,
    /// No room, or no chunk: again later.
    Later,
}

impl AfPacket {
    /// Opens the interface. `pool` is the pool of the worker that will call it.
    ///
    /// # Errors
    /// [`DeviceError`]: no such interface, down, or no CAP_NET_RAW.
    pub fn open(name: &str, pool: &Pool) -> Result<Self, DeviceError> {
        let (watch, _) = Watch::new(name)?;
        let (sockets, mtu) = Sockets::open(&watch)?;
        let frame_bytes = pool.max_frame_bytes();
        let mut caps = Caps::new(frame_bytes, Feed::Overflows);
        caps.measure(mtu, frame_bytes);
        Ok(Self {
            watch,
            sockets: Some(sockets),
            caps,
            fault: None,
            counters: DeviceCounters::default(),
            missed: Cell::new(0),
            rx: RxBatch::new(BURST, frame_bytes, MAX_SUPER),
            tx: TxBatch::new(BURST),
            frames: Vec::with_capacity(BURST),
            frame_bytes,
            got: 0,
            next: 0,
            cut: None,
        })
    }

    /// Asks the kernel for messages, with as many empty frames as the pool has.
    fn receive(&mut self, pool: &mut Pool) {
        while self.frames.len() < BURST {
            let Some(mut f) = pool.alloc() else { break };
            if f.set_len(self.frame_bytes).is_err() {
                pool.free(f);
                break;
            }
            self.frames.push(f);
        }
        (self.got, self.next) = (0, 0);
        let Some(s) = &self.sockets else { return };
        // An error is the interface going down or away, which `link` sees too.
        self.got = self.rx.receive(&s.rx, &mut self.frames).unwrap_or(0);
    }

    /// Hands over message `next` of the last call.
    fn deliver(&mut self, pool: &mut Pool, burst: &mut Burst) -> Delivery {
        let meta = self.rx.meta(self.next);
        if meta.broken {
            self.counters.rx_errors += 1;
            return Delivery::Done;
        }
        if meta.gso_type != 0 {
            return self.deliver_super(meta, pool, burst);
        }
        if meta.len > self.frame_bytes {
            self.counters.rx_errors += 1;
            return Delivery::Done;
        }
        if burst.room() == 0 {
            return Delivery::Later;
        }
        let Some(mut empty) = pool.alloc() else { return Delivery::Later };
        let Some(place) =
            self.frames.get_mut(self.next).filter(|_| empty.set_len(self.frame_bytes).is_ok())
        else {
            pool.free(empty);
            return Delivery::Done;
        };
        let mut frame = std::mem::replace(place, empty);
        let mut whole = frame.set_len(meta.len).is_ok();
        if let Some((start, offset)) = meta.partial {
            whole &= checksum::complete_at(frame.bytes_mut(), start, offset);
            self.counters.csum_completed += 1;
        }
        self.finish(frame, meta, whole, pool, burst);
        Delivery::Done
    }

    /// Puts the tag back and hands the frame over, or counts it.
    fn finish(
        &mut self,
        mut frame: Frame,
        meta: Meta,
        mut whole: bool,
        pool: &mut Pool,
        burst: &mut Burst,
    ) {
        if let Some((tpid, tci)) = meta.vlan {
            whole &= restore_vlan(&mut frame, tpid, tci).is_ok();
            self.counters.vlan_restored += 1;
        }
        if !whole {
            self.counters.rx_errors += 1;
            pool.free(frame);
        } else if let Err(frame) = burst.push(frame) {
            pool.free(frame);
        }
    }

    /// Cuts the super-frame of message `next`, as far as there is room.
    fn deliver_super(&mut self, meta: Meta, pool: &mut Pool, burst: &mut Burst) -> Delivery {
        if self.cut.is_none() {
            let (Some(told), Some(head)) = (told(&meta), self.frames.get(self.next)) else {
                self.counters.rx_errors += 1;
                return Delivery::Done;
            };
            self.rx.join(self.next, head.bytes());
            let cut = Cut::told(self.rx.joined(self.next, meta.len), meta.gso_size, told);
            self.cut = cut.filter(|c| c.longest() <= self.frame_bytes);
            if self.cut.is_none() {
                self.counters.rx_errors += 1;
                return Delivery::Done;
            }
            self.counters.segmented += 1;
        }
        while let Some(mut cut) = self.cut.filter(|c| !c.is_done()) {
            if burst.room() == 0 {
                return Delivery::Later;
            }
            let Some(mut frame) = pool.alloc() else { return Delivery::Later };
            let whole = cut.next_frame(self.rx.joined(self.next, meta.len), &mut frame);
            self.cut = whole.then_some(cut);
            self.finish(frame, meta, whole, pool, burst);
        }
        self.cut = None;
        Delivery::Done
    }

    /// Opens the interface again, as far as that can be done now.
    fn reopen(&mut self) -> LinkState {
        match Sockets::open(&self.watch) {
            Ok((s, mtu)) => {
                self.sockets = Some(s);
                self.fault = None;
                self.measure(mtu);
                LinkState::Up
            }
            Err(e) => {
                let down = matches!(e, DeviceError::InterfaceDown(_));
                self.fault = Some(e);
                if down { LinkState::Down } else { LinkState::Gone }
            }
        }
    }

    fn measure(&mut self, mtu: usize) {
        self.caps.measure(mtu, self.frame_bytes);
    }

    fn count_drops(&self) {
        if let Some(Ok(n)) = self.sockets.as_ref().map(|s| s.rx.take_drops()) {
            self.missed.set(self.missed.get() + n);
        }
    }
}

/// Which payload of a super-frame is to be cut; `None` for kinds that nobody knows here.
fn told(meta: &Meta) -> Option<Told> {
    let (protocol, ip) = match meta.gso_type {
        GSO_TCPV4 => (TCP, Some(Ip::V4)),
        GSO_TCPV6 => (TCP, Some(Ip::V6)),
        GSO_UDP_L4 => (UDP, None),
        _ => return None,
    };
    Some(Told { protocol, ip, at: meta.partial.map(|(start, _)| start) })
}

impl Device for AfPacket {
    fn name(&self) -> &str {
        self.watch.name()
    }
    fn caps(&self) -> Caps {
        self.caps
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        match self.watch.look_again(self.sockets.as_ref().map(|s| s.index)) {
            Seen::Same(state, mtu) => {
                self.measure(mtu);
                state
            }
            Seen::Back(mtu) => {
                self.measure(mtu);
                LinkState::Down
            }
            Seen::Another => {
                self.count_drops();
                self.sockets = None;
                self.reopen()
            }
            Seen::None => {
                self.count_drops();
                self.sockets = None;
                self.fault = Some(DeviceError::NoInterface(self.name().to_owned()));
                LinkState::Gone
            }
        }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        // Two rounds: what the last call left, and one call of its own.
        for round in 0..2 {
            while self.next < self.got {
                match self.deliver(pool, burst) {
                    Delivery::Done => self.next += 1,
                    Delivery::Later => return burst.len() - before,
                }
            }
            if round == 0 && burst.room() > 0 {
                self.receive(pool);
            }
        }
        burst.len() - before
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let Some(s) = &self.sockets else { return 0 };
        burst.as_mut_slice().iter_mut().for_each(interface::no_runt);
        let mut taken = 0;
        while let Some(rest) = burst.as_slice().get(taken..).filter(|r| !r.is_empty()) {
            match self.tx.send(&s.tx, rest) {
                Ok(0) => break,
                Ok(n) => taken += n,
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN | libc::ENETDOWN | libc::ENXIO | libc::ENODEV) => break,
                    // This frame's own fault (too long), or the driver's queue is full.
                    _ => {
                        self.counters.tx_errors += 1;
                        taken += 1;
                    }
                },
            }
        }
        for frame in burst.drain_front(taken) {
            pool.free(frame);
        }
        taken
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn arrival(&self) -> Arrival<'_> {
        self.sockets.as_ref().map_or(Arrival::Never, |s| Arrival::Told(s.rx.descriptor()))
    }
    fn held(&self) -> usize {
        self.frames.len()
    }
    fn fault(&self) -> Option<String> {
        self.fault.as_ref().map(ToString::to_string)
    }
    fn counters(&self) -> DeviceCounters {
        self.count_drops();
        DeviceCounters { rx_missed: self.missed.get(), ..self.counters }
    }
    fn close(&mut self, pool: &mut Pool) {
        self.count_drops();
        self.sockets = None;
        (self.got, self.next, self.cut) = (0, 0, None);
        for frame in self.frames.drain(..) {
            pool.free(frame);
        }
    }
}
