//! Numbered frames at full rate: a source that waits, and a sink that misses nothing.
//!
//! Each frame is 60 bytes (64 with FCS): Ethernet, an 802.1Q tag, IPv4, UDP, and in the payload the
//! flow (2 bytes) and its number within the flow (8 bytes), big-endian. Flow `f` carries VLAN id
//! `f % vlans + 1`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weir_packet::{Burst, Caps, Device, DeviceCounters, Feed, LinkState, Pool};

/// Bytes of a frame without FCS.
pub const FRAME: usize = 60;
/// Where the payload begins, in bytes.
const PAYLOAD: usize = 46;
/// Numbers of one flow that are remembered as missing.
const MISSING: usize = 1 << 16;

/// A frame in VLAN `vlan` to the host `host`; the IPv4 header's checksum is right.
pub fn frame(vlan: u16, host: u16) -> [u8; FRAME] {
    let mut f = [0; FRAME];
    let ([v1, v2], [h1, h2]) = (vlan.to_be_bytes(), host.to_be_bytes());
    f[..18].copy_from_slice(&[2, 0, 0, 0, h1, h2, 2, 0, 0, 1, 0, 1, 0x81, 0, v1, v2, 8, 0]);
    f[18..38]
        .copy_from_slice(&[0x45, 0, 0, 42, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, v1, v2, 10, 1, h1, h2]);
    let words = f[18..38].chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[28..30].copy_from_slice(&sum.to_be_bytes());
    // Without a UDP checksum (RFC 768: zero), since the payload changes.
    f[38..46].copy_from_slice(&[0x10, 0, 0x10, 1, 0, 22, 0, 0]);
    f
}

/// What went in and what came out.
#[derive(Debug, Default)]
pub struct Ledger {
    flows: Vec<Flow>,
    /// Frames that came out and are none of those that went in.
    pub damaged: u64,
}

/// One flow.
#[derive(Clone, Debug, Default)]
struct Flow {
    sent: u64,
    next: u64,
    arrived: u64,
    missing: BTreeSet<u64>,
    /// Missing ones that no longer fit the list.
    forgotten: u64,
    duplicated: u64,
    reordered: u64,
}

/// The sums over all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Went in.
    pub sent: u64,
    /// Came out.
    pub arrived: u64,
    /// Did not come out.
    pub lost: u64,
    /// Came out again.
    pub duplicated: u64,
    /// Came out behind a later one.
    pub reordered: u64,
}

impl Flow {
    fn arrive(&mut self, number: u64) {
        self.arrived += 1;
        if number >= self.sent {
            // Never sent: no number of this flow.
            self.duplicated += 1;
        } else if number >= self.next {
            let room = (MISSING - self.missing.len().min(MISSING)) as u64;
            let gap = number - self.next;
            self.missing.extend(self.next..self.next + gap.min(room));
            self.forgotten += gap.saturating_sub(room);
            self.next = number + 1;
        } else if self.missing.remove(&number) {
            self.reordered += 1;
        } else {
            self.duplicated += 1;
        }
    }
}

impl Ledger {
    /// All flows together; what is still on its way counts as lost.
    pub fn sums(&self) -> Sums {
        self.flows.iter().fold(Sums::default(), |s, f| Sums {
            sent: s.sent + f.sent,
            arrived: s.arrived + f.arrived,
            lost: s.lost + f.missing.len() as u64 + f.forgotten + (f.sent - f.next),
            duplicated: s.duplicated + f.duplicated,
            reordered: s.reordered + f.reordered,
        })
    }
}

/// The ledger, shared by source, sink and observer.
#[derive(Clone, Debug)]
pub struct Book(Arc<Mutex<Ledger>>);

impl Book {
    /// An empty one for so many flows.
    pub fn new(flows: usize) -> Self {
        let flows = vec![Flow::default(); flows];
        Self(Arc::new(Mutex::new(Ledger { flows, damaged: 0 })))
    }
    /// To look at it.
    pub fn open(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the flows' frames in turn, as fast as they are taken.
pub struct Source {
    frames: Vec<[u8; FRAME]>,
    at: usize,
    book: Book,
    stop: Arc<AtomicBool>,
}

impl Source {
    /// A source of `flows` flows over `vlans` VLANs, and the switch that ends it.
    pub fn new(flows: u16, vlans: u16, book: &Book) -> (Self, Arc<AtomicBool>) {
        let vlans = vlans.max(1);
        let mut frames: Vec<_> = (0..flows).map(|f| frame(f % vlans + 1, f)).collect();
        for (f, id) in frames.iter_mut().zip(0u16..) {
            f[PAYLOAD..PAYLOAD + 2].copy_from_slice(&id.to_be_bytes());
        }
        let stop = Arc::new(AtomicBool::new(false));
        (Self { frames, at: 0, book: book.clone(), stop: Arc::clone(&stop) }, stop)
    }
}

impl Device for Source {
    fn name(&self) -> &str {
        "numbered frames"
    }
    fn caps(&self) -> Caps {
        Caps::new(FRAME, Feed::Waits)
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let before = burst.len();
        if self.stop.load(Ordering::Acquire) {
            return 0;
        }
        let mut book = self.book.open();
        for _ in 0..burst.room() {
            let flow = book.flows.get_mut(self.at);
            let (Some(flow), Some(bytes)) = (flow, self.frames.get_mut(self.at)) else { break };
            let Some(mut f) = pool.alloc() else { break };
            bytes[PAYLOAD + 2..PAYLOAD + 10].copy_from_slice(&flow.sent.to_be_bytes());
            if f.copy_from(bytes).is_err() {
                pool.free(f);
                break;
            }
            if let Err(f) = burst.push(f) {
                pool.free(f);
                break;
            }
            flow.sent += 1;
            self.at = (self.at + 1) % self.frames.len();
        }
        burst.len() - before
    }
    fn tx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    fn flush(&mut self, _pool: &mut Pool) {}
    fn held(&self) -> usize {
        0
    }
    fn exhausted(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _pool: &mut Pool) {}
}

/// Reads every frame's number and writes it down.
pub struct Sink {
    book: Book,
}

impl Sink {
    /// Into `book`.
    pub fn new(book: &Book) -> Self {
        Self { book: book.clone() }
    }
}

fn read(frame: &[u8]) -> Option<(usize, u64)> {
    let payload: &[u8; 10] = frame.get(PAYLOAD..)?.first_chunk()?;
    let [a, b, number @ ..] = *payload;
    (frame.len() == FRAME).then(|| (u16::from_be_bytes([a, b]).into(), u64::from_be_bytes(number)))
}

impl Device for Sink {
    fn name(&self) -> &str {
        "number reader"
    }
    fn caps(&self) -> Caps {
        Caps::new(65535, Feed::Waits)
    }
    fn link(&mut self, _pool: &mut Pool) -> LinkState {
        LinkState::Up
    }
    fn rx(&mut self, _pool: &mut Pool, _burst: &mut Burst) -> usize {
        0
    }
    fn tx(&mut self, pool: &mut Pool, burst: &mut Burst) -> usize {
        let mut book = self.book.open();
        for f in burst.as_slice() {
            let flow = read(f.bytes()).and_then(|(id, n)| Some((book.flows.get_mut(id)?, n)));
            match flow {
                Some((flow, number)) => flow.arrive(number),
                None => book.damaged += 1,
            }
        }
        drop(book);
        let n = burst.len();
        for f in burst.drain() {
            pool.free(f);
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
    fn counters(&self) -> DeviceCounters {
        DeviceCounters::default()
    }
    fn close(&mut self, _pool: &mut Pool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(sent: u64, arrived: &[u64]) -> Sums {
        let mut f = Flow { sent, ..Flow::default() };
        arrived.iter().for_each(|n| f.arrive(*n));
        Ledger { flows: vec![f], damaged: 0 }.sums()
    }

    #[test]
    fn the_ledger_tells_loss_from_doubling_from_disorder() {
        let all = Sums { sent: 4, arrived: 4, ..Sums::default() };
        assert_eq!(ledger(4, &[0, 1, 2, 3]), all);
        assert_eq!(ledger(4, &[0, 2, 1, 3]), Sums { reordered: 1, ..all });
        assert_eq!(ledger(4, &[0, 1, 3]), Sums { arrived: 3, lost: 1, ..all });
        assert_eq!(ledger(4, &[0, 1, 2]), Sums { arrived: 3, lost: 1, ..all });
        assert_eq!(ledger(4, &[0, 1, 1, 2, 3]), Sums { arrived: 5, duplicated: 1, ..all });
        assert_eq!(
            ledger(4, &[3, 0, 0]),
            Sums { arrived: 3, lost: 2, reordered: 1, duplicated: 1, ..all }
        );
        assert_eq!(
            ledger(1, &[0, 7]),
            Sums { sent: 1, arrived: 2, duplicated: 1, ..Sums::default() }
        );
        assert_eq!(ledger(4, &[]), Sums { arrived: 0, lost: 4, ..all });
    }

    #[test]
    fn frames_say_which_they_are() {
        let mut f = frame(3, 0x0102);
        f[PAYLOAD..].copy_from_slice(&[0, 9, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(read(&f), Some((9, 258)));
        assert_eq!(read(&f[..50]), None);
        // RFC 1071: the sum over a header with its checksum is all ones.
        let sum: u32 =
            f[18..38].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}
