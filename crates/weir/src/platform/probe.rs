//! What a program's steps add to a frame's way through the software stage: headers read, checked, written,
//! moved; checksums; lookups in weir's tables. Each is a program that does this step and nothing else, less
//! one that does not, so that what overlaps with the rest of the way is seen to.
//!
//! Room: `platform`'s. The steps are those of `weir-wire` and `weir-dataplane::programs::exact`, which programs
//! are written with; what a program makes of them is nobody's here.

use super::{Fed, Kind, Tables, lasting, point, served, shape, strewn};
use weir_calibrate::shape::{Home, Maker, Shape};
use weir_dataplane::programs::exact::Exact;
use weir_dataplane::{Ahead, PortNo, Program, ProgramCx, SlowFrame};
use weir_packet::{DropReason, Frame};
use weir_wire::checksum::{Delta, internet};
use weir_wire::{EthernetFrame, Ipv4Packet, MacAddr, UdpPacket};

pub(super) fn shapes() -> Vec<Shape> {
    vec![
        parse(),
        deparse(),
        checksum(),
        mend(),
        front("program_prepend", "headers put in front of a frame by a program", prepend),
        front("program_strip", "headers taken from the front of a frame by a program", strip),
        lookup("program_lookup", "asked for before the first of its batch", Asked::Ahead, read),
        lookup(
            "program_renew",
            "and written, asked for before the first of its batch",
            Asked::Ahead,
            renew,
        ),
        lookup("program_walk", "that nobody asked ahead for", Asked::InTurn, read),
    ]
}

/// A step.
pub(super) trait Work: Send + 'static {
    /// Before the batch's first frame.
    fn expect(&self, _bytes: &[u8]) {}
    /// In its turn; what it found out is added up. `None` where the frame is not as it must be.
    fn step(&mut self, frame: &mut Frame) -> Option<u64>;
}

/// No step: what a frame carries is looked at, as every program does, first for all of a batch.
pub(super) struct Glance;

/// The type that a frame's Ethernet header says.
fn carried(bytes: &[u8]) -> Option<u64> {
    let b = bytes.get(12..14)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*b).into())
}

impl Work for Glance {
    fn expect(&self, bytes: &[u8]) {
        std::hint::black_box(carried(bytes));
    }
    fn step(&mut self, frame: &mut Frame) -> Option<u64> {
        carried(frame.bytes())
    }
}

impl<F: FnMut(&mut Frame) -> Option<u64> + Send + 'static> Work for F {
    fn expect(&self, bytes: &[u8]) {
        Glance.expect(bytes);
    }
    fn step(&mut self, frame: &mut Frame) -> Option<u64> {
        self(frame)
    }
}

/// A program that does one step and sends every frame by port 2.
pub(super) struct Probe<W> {
    work: W,
    sum: u64,
}

impl<W: Work> Probe<W> {
    pub(super) fn of(work: W) -> Self {
        Self { work, sum: 0 }
    }
}

impl<W: Work> Program for Probe<W> {
    fn name(&self) -> &'static str {
        "probe"
    }
    fn expect(&self, frame: &Frame, _: PortNo) -> Ahead {
        self.work.expect(frame.bytes());
        Ahead::All
    }
    #[inline]
    fn frame(&mut self, mut rx: SlowFrame, cx: &mut ProgramCx<'_>) {
        match self.work.step(&mut rx.frame) {
            Some(n) => {
                self.sum = self.sum.wrapping_add(n);
                cx.output(rx.frame, PortNo(2));
            }
            None => cx.drop(rx.frame, DropReason::Malformed),
        }
    }
}

/// A data plane whose program does this.
pub(super) fn probing<W: Work>(make: impl Fn(Tables) -> W + 'static) -> Maker {
    probing_of(LEN, make)
}

/// The same, with frames of so many bytes.
fn probing_of<W: Work>(len: usize, make: impl Fn(Tables) -> W + 'static) -> Maker {
    lasting(move |tables| Fed::new(Kind::Udp, len, tables, served(Probe::of(make(tables)))))
}

/// One whose program does no more than look at what frames carry.
pub(super) fn idle() -> Maker {
    probing(|_| Glance)
}

/// Bytes of a benchmark's frames.
const LEN: usize = 124;

const ETH: usize = 14;
const WORDS: &[(&str, &str)] = &[("base", "1"), ("word", "ceil(b / 8)")];

/// Ethernet's type and addresses, through a view that checks.
fn ethernet(f: &Frame) -> Option<u64> {
    let eth = EthernetFrame::new_checked(f.bytes()).ok()?;
    let [a, b, c, d, e, g] = eth.dst().octets();
    let dst = u64::from_be_bytes([0, 0, a, b, c, d, e, g]);
    Some(dst ^ u64::from(u16::from(eth.ether_type())))
}

/// IPv4's addresses and protocol, through one that checks.
fn ipv4(f: &Frame) -> Option<u64> {
    let ip = Ipv4Packet::new_checked(f.bytes().get(ETH..)?).ok()?;
    let (src, dst) = (ip.src().to_bits(), ip.dst().to_bits());
    Some((u64::from(src) << 32 | u64::from(dst)) ^ u64::from(u8::from(ip.protocol())))
}

/// The ports behind it.
fn ports(f: &Frame) -> Option<u64> {
    let ip = Ipv4Packet::new_checked(f.bytes().get(ETH..)?).ok()?;
    let udp = UdpPacket::new_checked(ip.payload()).ok()?;
    Some(u64::from(udp.src_port()) << 16 | u64::from(udp.dst_port()))
}

fn parse() -> Shape {
    let one = || probing(|_| |f: &mut Frame| ethernet(f));
    let two = || probing(|_| |f: &mut Frame| Some(ethernet(f)? ^ ipv4(f)?));
    let three = || probing(|_| |f: &mut Frame| Some(ethernet(f)? ^ ipv4(f)? ^ ports(f)?));
    let at = |b: f64, make| point(&[("b", b)], make, Some(idle()));
    Shape {
        points: vec![at(8.0, one()), at(16.0, two()), at(24.0, three())],
        ..shape(
            "program_parse",
            WORDS,
            "a header read through a view that checks it, for each 8 bytes of fields",
        )
    }
}

fn deparse() -> Shape {
    let dst = || {
        probing(|_| {
            |f: &mut Frame| {
                let mut eth = EthernetFrame::new_checked(f.bytes_mut()).ok()?;
                eth.set_dst(MacAddr([2, 0, 0, 0, 0, 3]));
                Some(1)
            }
        })
    };
    let both = || {
        probing(|_| {
            |f: &mut Frame| {
                let mut eth = EthernetFrame::new_checked(f.bytes_mut()).ok()?;
                eth.set_dst(MacAddr([2, 0, 0, 0, 0, 3]));
                eth.set_src(MacAddr([2, 0, 0, 0, 0, 4]));
                Some(1)
            }
        })
    };
    let more = || {
        probing(|_| {
            |f: &mut Frame| {
                f.bytes_mut().first_chunk_mut::<64>()?.fill(7);
                Some(1)
            }
        })
    };
    let at = |b: f64, make| point(&[("b", b)], make, Some(idle()));
    Shape {
        points: vec![at(6.0, dst()), at(12.0, both()), at(64.0, more())],
        ..shape(
            "program_deparse",
            WORDS,
            "addresses written through a view, and a header of 64 bytes",
        )
    }
}

fn checksum() -> Shape {
    let of = |b: usize| {
        let len = LEN.max(ETH + b);
        let make = probing_of(len, move |_| {
            let b = std::hint::black_box(b);
            move |f: &mut Frame| Some(u64::from(internet(f.bytes().get(ETH..ETH + b)?)))
        });
        point(&[("b", b as f64)], make, Some(probing_of(len, |_| Glance)))
    };
    // What comes in whole lines is added several words at once.
    const SUMMED: &[(&str, &str)] = &[
        ("base", "1"),
        ("word", "ceil((b - line * floor(b / line)) / 8)"),
        ("line_sum", "floor(b / line)"),
    ];
    Shape {
        points: vec![of(20), of(40), of(100), of(508), of(1460)],
        ..shape("program_checksum", SUMMED, "the Internet checksum as programs compute it")
    }
}

/// The TTL, an address, and as much in the sum.
fn mended<const N: usize>(f: &mut Frame) -> Option<u64> {
    let h = f.bytes_mut().get_mut(ETH..)?.first_chunk_mut::<20>()?;
    let mut delta = Delta::new();
    for i in 0..N {
        // From the TTL on; the sum itself is passed over.
        let at = if i == 0 { 8 } else { 10 + 2 * i };
        let field = h.get_mut(at..at + 2)?.first_chunk_mut::<2>()?;
        let old = u16::from_be_bytes(*field);
        let new = old.wrapping_sub(0x100);
        delta = delta.u16(old, new);
        *field = new.to_be_bytes();
    }
    let sum = delta.apply(u16::from_be_bytes([h[10], h[11]]));
    [h[10], h[11]] = sum.to_be_bytes();
    Some(sum.into())
}

fn mend() -> Shape {
    let at = |b: f64, make| point(&[("b", b)], make, Some(idle()));
    Shape {
        points: vec![
            at(2.0, probing(|_| mended::<1>)),
            at(4.0, probing(|_| mended::<2>)),
            at(8.0, probing(|_| mended::<4>)),
        ],
        ..shape(
            "program_mend",
            &[("base", "1"), ("word", "ceil(b / 2)")],
            "fields changed, the checksum with them (RFC 1624)",
        )
    }
}

fn prepend(f: &mut Frame, n: usize) -> Option<u64> {
    f.push_front(n).ok()?;
    f.bytes_mut().get_mut(..n)?.fill(9);
    Some(1)
}

fn strip(f: &mut Frame, n: usize) -> Option<u64> {
    f.pull_front(n).ok()?;
    Some(1)
}

fn front(
    eo: &'static str,
    about: &'static str,
    step: fn(&mut Frame, usize) -> Option<u64>,
) -> Shape {
    let of = |n: usize| {
        let make = probing(move |_| {
            let n = std::hint::black_box(n);
            move |f: &mut Frame| step(f, n)
        });
        point(&[("b", n as f64)], make, Some(idle()))
    };
    Shape { points: vec![of(4), of(24), of(48)], ..shape(eo, WORDS, about) }
}

/// Two entries to a line of 64 bytes: a key, and a value of 16 bytes.
type Entries = Exact<u64, [u64; 2], 2>;

/// A table with an entry for each source address, and what is done with one.
struct Asking<S> {
    entries: Entries,
    asked: Asked,
    step: S,
}

/// When a table's line is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Before the first of the batch.
    Ahead,
    /// When it is needed.
    InTurn,
}

fn key(bytes: &[u8]) -> Option<u64> {
    let b = bytes.get(4..12)?.first_chunk::<8>()?;
    Some(u64::from_be_bytes(*b) & 0xffff_ffff_ffff)
}

/// No lookup: the key is read as for one, first for all of a batch.
struct Reading;

impl Work for Reading {
    fn expect(&self, bytes: &[u8]) {
        std::hint::black_box(key(bytes));
    }
    fn step(&mut self, frame: &mut Frame) -> Option<u64> {
        key(frame.bytes())
    }
}

impl<S> Asking<S> {
    fn new(tables: Tables, asked: Asked, step: S) -> Self {
        let n = tables.entries();
        // A seed of its own, so that runs are alike.
        let mut entries = Entries::with_seed(n as usize, 1);
        for entry in 0..n {
            if let Some(k) = key(&super::frame(Kind::Udp, entry, 60)) {
                // There is room for all.
                let _ = entries.insert(k, [entry, 0]);
            }
        }
        Self { entries, asked, step }
    }
}

impl<S: FnMut(&mut Entries, u64) -> Option<u64> + Send + 'static> Work for Asking<S> {
    fn expect(&self, bytes: &[u8]) {
        if self.asked == Asked::Ahead
            && let Some(k) = key(bytes)
        {
            self.entries.prefetch(self.entries.hash(&k));
        }
    }
    fn step(&mut self, frame: &mut Frame) -> Option<u64> {
        (self.step)(&mut self.entries, key(frame.bytes())?)
    }
}

/// Two tables, both asked for by what the frame says: neither lookup waits for the other's answer.
struct Both<S> {
    one: Asking<S>,
    other: Entries,
}

/// The key in the other table of what has this one in the first.
fn other(key: u64) -> u64 {
    key ^ 0x00a5_a5a5_a5a5
}

impl<S> Both<S> {
    fn new(tables: Tables, step: S) -> Self {
        let n = tables.entries();
        let mut entries = Entries::with_seed(n as usize, 2);
        for entry in 0..n {
            if let Some(k) = key(&super::frame(Kind::Udp, entry, 60)) {
                // There is room for all.
                let _ = entries.insert(other(k), [entry, 0]);
            }
        }
        Self { one: Asking::new(tables, Asked::Ahead, step), other: entries }
    }
}

impl<S: FnMut(&mut Entries, u64) -> Option<u64> + Send + 'static> Work for Both<S> {
    fn expect(&self, bytes: &[u8]) {
        self.one.expect(bytes);
        if let Some(k) = key(bytes) {
            self.other.prefetch(self.other.hash(&other(k)));
        }
    }
    fn step(&mut self, frame: &mut Frame) -> Option<u64> {
        let k = key(frame.bytes())?;
        let found = read(&mut self.one.entries, k)?;
        Some(found ^ (self.one.step)(&mut self.other, other(k))?)
    }
}

fn read(entries: &mut Entries, key: u64) -> Option<u64> {
    entries.get(&key).map(|v| v[0] ^ v[1])
}

fn renew(entries: &mut Entries, key: u64) -> Option<u64> {
    let v = entries.get_mut(&key)?;
    v[1] = v[1].wrapping_add(1);
    Some(v[0])
}

fn lookup(
    eo: &'static str,
    about: &'static str,
    asked: Asked,
    step: fn(&mut Entries, u64) -> Option<u64>,
) -> Shape {
    let make = probing(move |tables| Asking::new(tables, asked, step));
    let given = |beside| [("N", 2.0), ("HE", 32.0), ("max", 64.0), ("beside", beside)];
    let alone = strewn(1.0, LEN, point(&given(0.0), make, Some(probing(|_| Reading))));
    // What a second lookup takes, where a first is under way.
    let beside = || {
        let first = probing(|tables| Asking::new(tables, Asked::Ahead, read));
        point(&given(1.0), probing(move |tables| Both::new(tables, step)), Some(first))
    };
    let points = match asked {
        Asked::Ahead => vec![alone, beside()],
        Asked::InTurn => vec![alone],
    };
    Shape {
        accesses: Some("cold * ceil(HE / line)"),
        home: Home::Table,
        // What is asked for is read by who asks: models say so.
        points,
        ..shape(eo, &[("base", "1 - beside"), ("next", "beside")], about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames that came and were not sent.
    fn lost<W: Work>(work: W) -> u64 {
        let f = Fed::new(Kind::Udp, 124, Tables::Near, served(Probe::of(work))).expect("it");
        let s = f.plane.snapshot();
        s.check().expect("balanced");
        let sent: u64 = s.ports.iter().map(|p| p.counters.tx.frames).sum();
        f.moved().0 - sent
    }

    /// A frame that a step refuses is dropped: then less would be measured than is said.
    #[test]
    fn every_frame_is_as_steps_want_it() {
        // Frames are on their way at the end of a round: all but the last batches are out.
        const UNDER_WAY: u64 = 128;
        assert!(lost(Glance) <= UNDER_WAY);
        assert!(lost(|f: &mut Frame| Some(ethernet(f)? ^ ipv4(f)? ^ ports(f)?)) <= UNDER_WAY);
        assert!(lost(mended::<4>) <= UNDER_WAY);
        assert!(lost(|f: &mut Frame| prepend(f, 48)) <= UNDER_WAY);
        assert!(lost(|f: &mut Frame| strip(f, 48)) <= UNDER_WAY);
        assert!(lost(Reading) <= UNDER_WAY);
        for step in [read, renew] {
            assert!(lost(Asking::new(Tables::Near, Asked::Ahead, step)) <= UNDER_WAY);
            assert!(lost(Both::new(Tables::Near, step)) <= UNDER_WAY);
        }
    }
}
