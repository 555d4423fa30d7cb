//! In-memory ports: two rings between two [`Memory`] devices, or between one and a [`MemoryPeer`]
//! that any thread may hold.
//!
//! Room: ports. Touches frames and rings; no system call. Frames cross as bytes in slots of fixed
//! size that go round (full one way, empty back), so two ports of different pools can be joined and
//! nothing is allocated once the rings exist.

use rtrb::{Consumer, Producer, RingBuffer};
use thiserror::Error;
use weir_packet::{Arrival, Burst, Caps, Device, DeviceCounters, Feed, LinkState, Nanos, Pool};

/// The longest packet in an Ethernet frame (IEEE 802.3, 3.2.7).
const ETHERNET_MTU: usize = 1500;

/// Size of a wire between two memory ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireSize {
    /// Frames that fit into each direction; at least one is made.
    pub slots: usize,
    /// The longest frame that crosses, in bytes, without FCS.
    pub max_frame_bytes: usize,
}

impl Default for WireSize {
    /// 1024 frames of 1518 bytes: an Ethernet frame with one VLAN tag.
    fn default() -> Self {
        Self { slots: 1024, max_frame_bytes: 1518 }
    }
}

/// Bytes of one frame on their way through a ring.
#[derive(Debug)]
struct Slot {
    bytes: Box<[u8]>,
    len: usize,
    stamp: Option<Nanos>,
}

/// One end of a wire: where full slots go and empty ones come back, and the reverse.
#[derive(Debug)]
struct End {
    out: Producer<Slot>,
    spare: Consumer<Slot>,
    inn: Consumer<Slot>,
    used: Producer<Slot>,
    max: usize,
}

fn wire(size: WireSize) -> (End, End) {
    let slots = size.slots.max(1);
    let one_way = || {
        let (out, inn) = RingBuffer::new(slots);
        let (mut used, spare) = RingBuffer::new(slots);
        for _ in 0..slots {
            let bytes = vec![0; size.max_frame_bytes].into_boxed_slice();
            // The ring was made for this many slots.
            let _ = used.push(Slot { bytes, len: 0, stamp: None });
        }
        (out, spare, inn, used)
    };
    let (a_out, a_spare, b_inn, b_used) = one_way();
    let (b_out, b_spare, a_inn, a_used) = one_way();
    let max = size.max_frame_bytes;
    (
        End { out: a_out, spare: a_spare, inn: a_inn, used: a_used, max },
        End { out: b_out, spare: b_spare, inn: b_inn, used: b_used, max },
    )
}

impl End {
    /// Sends `bytes` (not longer than `max`) if a slot is free.
    fn push(&mut self, bytes: &[u8], stamp: Option<Nanos>) -> bool {
        let Ok(mut slot) = self.spare.pop() else { return false };
        if let Some(room) = slot.bytes.get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            slot.len = bytes.len();
            slot.stamp = stamp;
        }
        // There are as many slots as places, so a slot in hand has a place.
        self.out.push(slot).is_ok()
    }
    /// Hands the next frame that waits to `take`; puts the slot back into circulation.
    fn pop<T>(&mut self, take: impl FnOnce(&[u8], Option<Nanos>) -> T) -> Option<T> {
        let slot = self.inn.pop().ok()?;
        let got = take(slot.bytes.get(..slot.len).unwrap_or_default(), slot.stamp);
        let _ = self.used.push(slot);
        Some(got)
    }
    fn abandoned(&self) -> bool {
        self.inn.is_abandoned()
    }
}

/// The far end takes no more frames for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// Every slot is full: take frames out at the other end first.
    #[error("the memory port's ring is full")]
    Full,
    /// The frame is longer than the wire's slots.
    #[error("a frame of {len} bytes does not fit into slots of {max}")]
    TooLong {
        /// Length of the frame in bytes.
        len: usize,
        /// Length of a slot in bytes.
        max: usize,
    },
}

/// The program's end of a memory port. Not a device: it needs no pool and may live in any thread.
#[derive(Debug)]
pub struct MemoryPeer {
    end: End,
}

impl MemoryPeer {
    /// Sends one frame to the port (Ethernet header first, no FCS).
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), SendError> {
        if frame.len() > self.end.max {
            return Err(SendError::TooLong { len: frame.len(), max: self.end.max });
        }
        if self.end.push(frame, None) { Ok(()) } else { Err(SendError::Full) }
    }
    /// Replaces `into` by the next frame that the port sent; `false` when none waits.
    pub fn recv(&mut self, into: &mut Vec<u8>) -> bool {
        self.end
            .pop(|bytes, _| {
                into.clear();
                into.extend_from_slice(bytes);
            })
            .is_some()
    }
    /// Whether the port is gone: what waits can still be received, nothing more will come.
    pub fn is_abandoned(&self) -> bool {
        self.end.abandoned()
    }
}

/// Who has the other end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Far {
    /// Another worker, or a program.
    Elsewhere,
    /// The worker that has this one.
    Here,
}

/// A port in memory. Frames wait in its ring for as long as nobody takes them.
#[derive(Debug)]
pub struct Memory {
    name: String,
    end: End,
    far: Far,
    counters: DeviceCounters,
}

impl Memory {
    /// Two ports joined by a wire. They may belong to workers with different pools.
    pub fn pair(names: [&str; 2], size: WireSize) -> (Self, Self) {
        let (a, b) = wire(size);
        (Self::new(names[0], a), Self::new(names[1], b))
    }
    /// Two ports of one worker joined by a wire. Such a port must not be left waiting when outputs are
    /// full, since the full output may be the wire's other end, which only taking frames out here
    /// empties: so it says that it overflows, and what finds no room behind it is dropped there.
    pub fn inside(names: [&str; 2], size: WireSize) -> (Self, Self) {
        let (a, b) = Self::pair(names, size);
        (Self { far: Far::Here, ..a }, Self { far: Far::Here, ..b })
    }
    /// Whether the other end was dropped: what waits can still be received, nothing more will come.
    pub fn is_abandoned(&self) -> bool {
        self.end.abandoned()
    }
    /// A port and the program's end of its wire.
    pub fn with_peer(name: &str, size: WireSize) -> (Self, MemoryPeer) {
        let (a, b) = wire(size);
        (Self::new(name, a), MemoryPeer { end: b })
    }
    fn new(name: &str, end: End) -> Self {
        let counters = DeviceCounters::default();
        Self { name: name.to_owned(), end, far: Far::Elsewhere, counters }
    }
}

impl Device for Memory {
    fn name(&self) -> &str {
        &self.name
    }
    fn caps(&self) -> Caps {
        let feed = match self.far {
            Far::Elsewhere => Feed::Waits,
            Far::Here => Feed::Overflows,
        };
        // A wire stands for an Ethernet cable, however much its slots hold.
        let caps = Caps::new(self.end.max, feed);
        Caps { ip_bytes: caps.ip_bytes.min(ETHERNET_MTU), ..caps }
    }
    /// Down once the other end was dropped.
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        if self.end.abandoned() { LinkState::Down } else { LinkState::Up }
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut got = 0;
        for _ in 0..burst.room() {
            if self.end.inn.is_empty() {
                break;
            }
            // The chunk first: without one the frame stays where it is.
            let Some(mut frame) = pool.alloc() else { break };
            let filled = self.end.pop(|bytes, stamp| {
                frame.copy_from(bytes)?;
                if let Some(t) = stamp {
                    frame.set_stamp(t);
                }
                Ok::<_, weir_packet::NoRoom>(())
            });
            if filled == Some(Ok(())) {
                match burst.push(frame) {
                    Ok(()) => got += 1,
                    Err(frame) => pool.free(frame),
                }
            } else {
                self.counters.rx_errors += 1;
                pool.free(frame);
            }
        }
        got
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        if self.end.abandoned() {
            return 0;
        }
        let mut sent = 0;
        for frame in burst.as_slice() {
            if frame.len() > self.end.max {
                self.counters.tx_errors += 1;
            } else if !self.end.push(frame.bytes(), frame.stamp()) {
                break;
            }
            sent += 1;
        }
        for frame in burst.drain_front(sent) {
            pool.free(frame);
        }
        sent
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    /// What the worker itself has sent needs no telling: it is there or not.
    fn arrival(&self) -> Arrival<'_> {
        match self.far {
            Far::Here if self.end.inn.is_empty() => Arrival::Never,
            Far::Here | Far::Elsewhere => Arrival::Polled,
        }
    }
    fn exhausted(&self) -> bool {
        // In this order: what the other end sent before it went is seen by the second question.
        self.end.abandoned() && self.end.inn.is_empty()
    }
    fn counters(&self) -> DeviceCounters {
        self.counters
    }
    fn close(&mut self, _pool: &mut Pool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_in_order_between_pools() {
        let mut pools = [Pool::new(8, 2048).unwrap(), Pool::new(8, 2048).unwrap()];
        let (mut a, mut b) = Memory::pair(["a", "b"], WireSize { slots: 4, ..WireSize::default() });
        let mut burst = Burst::new();
        for i in 0..6u8 {
            let mut f = pools[0].alloc().unwrap();
            f.copy_from(&[i; 60]).unwrap();
            f.set_stamp(Nanos(i.into()));
            burst.push(f).unwrap();
        }
        assert_eq!(a.tx(&mut pools[0], &mut burst), 4, "a full ring takes no more");
        assert_eq!(burst.len(), 2);
        let mut out = Burst::new();
        assert_eq!(b.rx(&mut pools[1], &mut out), 4);
        assert_eq!(a.tx(&mut pools[0], &mut burst), 2);
        assert_eq!(b.rx(&mut pools[1], &mut out), 2);
        for (i, f) in out.drain().enumerate() {
            assert_eq!(f.bytes(), [i as u8; 60]);
            assert_eq!(f.stamp(), Some(Nanos(i as u64)));
            pools[1].free(f);
        }
        assert_eq!(pools[0].available(), 8);
        assert_eq!(pools[1].available(), 8);
    }

    #[test]
    fn a_peer_sees_what_the_port_sent_and_its_end() {
        let mut pool = Pool::new(2, 2048).unwrap();
        let (mut port, mut peer) =
            Memory::with_peer("m", WireSize { slots: 3, max_frame_bytes: 100 });
        assert_eq!(peer.send(&[0; 101]), Err(SendError::TooLong { len: 101, max: 100 }));
        for i in 0..3u8 {
            peer.send(&[i; 100]).unwrap();
        }
        assert_eq!(peer.send(&[9; 60]), Err(SendError::Full));
        let mut burst = Burst::new();
        assert_eq!(port.rx(&mut pool, &mut burst), 2, "no chunk left: the third waits");
        assert_eq!(port.tx(&mut pool, &mut burst), 2);
        assert_eq!(port.rx(&mut pool, &mut burst), 1);
        let mut got = Vec::new();
        assert!(peer.recv(&mut got));
        assert_eq!(got, [0; 100]);
        assert!(!port.exhausted());
        drop(peer);
        assert_eq!(port.link(&mut pool), LinkState::Down);
        assert!(port.exhausted());
        assert_eq!(port.tx(&mut pool, &mut burst), 0);
        for f in burst.drain() {
            pool.free(f);
        }
        assert_eq!(pool.available(), 2);
    }
}
