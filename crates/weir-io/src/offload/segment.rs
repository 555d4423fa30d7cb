//! Cuts a super-frame (up to 64 KiB, as GSO and GRO make them) into frames of a given payload size.
//!
//! Room: `offload`. Knows TCP over IPv4 and IPv6 and UDP (USO), behind up to two VLAN tags, and the same inside VXLAN; every
//! frame gets its lengths, IP identification, sequence number, flags and checksums, inside and outside. Source: the
//! kernel's Documentation/networking/segmentation-offloads.rst; RFC 3168 §6.1.2 for CWR.

use super::checksum::{Sum, pseudo};
use super::layout::{self, Ip, Layout, TCP, UDP};
use weir_packet::Frame;

/// The longest super-frame, in bytes: an IPv6 packet, an Ethernet header and two tags.
pub const MAX_SUPER: usize = 65_535 + 40 + 14 + 8;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// A super-frame that is being cut. Holds offsets only; the bytes are handed in for each frame.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Of the packet whose payload is cut.
    layout: Layout,
    /// Of the one that carries it by VXLAN.
    outer: Option<Layout>,
    /// Length of all headers.
    headers: usize,
    /// Payload bytes per frame.
    size: usize,
    /// Where the payload of the next frame begins.
    next: usize,
    /// Frames cut so far.
    done: u16,
}

/// What a kernel says of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The transport protocol whose payload is to be cut, and over what where that is said.
    pub protocol: u8,
    /// Over what, where that is said.
    pub ip: Option<Ip>,
    /// Where its header begins, where that is said: in a tunnel it is not the first in the frame.
    pub at: Option<usize>,
}

impl Told {
    /// Its payload, and no more is said.
    pub const fn of(protocol: u8) -> Self {
        Self { protocol, ip: None, at: None }
    }
    fn fits(&self, l: Layout) -> bool {
        self.protocol == l.protocol
            && self.ip.is_none_or(|ip| ip == l.ip)
            && self.at.is_none_or(|at| at == l.l4)
    }
}

impl Cut {
    /// Looks at a super-frame whose payload is to be cut into pieces of `size` bytes: that of its first packet, or of
    /// the one that this carries by VXLAN, whichever is what was told. `None`: neither is, it is in fragments, has broken headers,
    /// or a size of zero.
    pub fn told(frame: &[u8], size: usize, told: Told) -> Option<Self> {
        let first = layout::of_frame(frame, 0)?;
        if told.fits(first) {
            return Self::at(frame, size, first, None);
        }
        let inner = layout::inside_vxlan(frame, first).filter(|l| told.fits(*l))?;
        Self::at(frame, size, inner, Some(first))
    }

    /// The same, of frames whose IP packet has at most `mtu` bytes. For super-frames whose own size
    /// of pieces is not known; only TCP may be cut so, since a datagram's borders have a meaning.
    pub fn to_mtu(frame: &[u8], mtu: usize) -> Option<Self> {
        let cut = Self::told(frame, 1, Told::of(TCP))?;
        let first = cut.outer.unwrap_or(cut.layout);
        let size = mtu.checked_sub(cut.headers - first.l3).filter(|n| *n > 0)?;
        Some(Self { size, ..cut })
    }

    fn at(frame: &[u8], size: usize, layout: Layout, outer: Option<Layout>) -> Option<Self> {
        let l4 = match layout.protocol {
            TCP => usize::from(frame.get(layout.l4 + 12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let least = if layout.protocol == TCP { 20 } else { 8 };
        let headers = layout.l4 + l4;
        if size == 0 || l4 < least || headers > layout.end {
            return None;
        }
        Some(Self { layout, outer, headers, size, next: headers, done: 0 })
    }

    /// Length of the longest frame that comes out.
    pub fn longest(&self) -> usize {
        self.headers + self.size.min(self.layout.end - self.headers)
    }

    /// Whether every frame has been made.
    pub fn is_done(&self) -> bool {
        // A packet without payload is one frame.
        self.next >= self.layout.end && self.done > 0
    }

    /// Makes the next frame in `out`; `false` when there is none left or `out` is too small, and
    /// then `out` is of no use. `frame` is the super-frame that was looked at.
    pub fn next_frame(&mut self, frame: &[u8], out: &mut Frame) -> bool {
        let l = self.layout;
        if self.is_done() {
            return false;
        }
        let end = l.end.min(self.next + self.size);
        let (Some(headers), Some(payload)) = (frame.get(..self.headers), frame.get(self.next..end))
        else {
            return false;
        };
        if out.set_len(headers.len() + payload.len()).is_err() {
            return false;
        }
        let b = out.bytes_mut();
        let (to_headers, to_payload) = b.split_at_mut(headers.len());
        to_headers.copy_from_slice(headers);
        to_payload.copy_from_slice(payload);
        self.mend(b, end);
        self.next = end;
        self.done = self.done.wrapping_add(1);
        true
    }

    /// Sets what differs from frame to frame. Every field lies in front of `headers`, which `new`
    /// found to be inside the frame.
    fn mend(&self, b: &mut [u8], end: usize) {
        let l = self.layout;
        let transport = b.len() - l.l4;
        self.lengths(b, l);
        let field = if l.protocol == TCP {
            let seq = u32::from_be_bytes(get(b, l.l4 + 4));
            let seq = seq.wrapping_add((self.next - self.headers) as u32);
            put(b, l.l4 + 4, seq.to_be_bytes());
            let [mut flags] = get(b, l.l4 + 13);
            if self.done > 0 {
                flags &= !CWR;
            }
            if end < l.end {
                flags &= !(FIN | PSH);
            }
            put(b, l.l4 + 13, [flags]);
            l.l4 + 16
        } else {
            put(b, l.l4 + 4, (transport as u16).to_be_bytes());
            l.l4 + 6
        };
        put(b, field, [0, 0]);
        let sum = pseudo(b, l, l.protocol, transport).bytes(b.get(l.l4..).unwrap_or_default());
        put(b, field, sum.checksum_not_zero());
        if let Some(outer) = self.outer {
            self.lengths(b, outer);
            let transport = b.len() - outer.l4;
            put(b, outer.l4 + 4, (transport as u16).to_be_bytes());
            // Whose checksum is zero has none (RFC 7348 §5).
            if get(b, outer.l4 + 6) != [0, 0] {
                put(b, outer.l4 + 6, [0, 0]);
                let sum = pseudo(b, outer, UDP, transport);
                let sum = sum.bytes(b.get(outer.l4..).unwrap_or_default());
                put(b, outer.l4 + 6, sum.checksum_not_zero());
            }
        }
    }

    /// Sets what an IP header says of the packet's length, and which of the pieces it is.
    fn lengths(&self, b: &mut [u8], l: Layout) {
        let packet = b.len() - l.l3;
        match l.ip {
            Ip::V4 => {
                put(b, l.l3 + 2, (packet as u16).to_be_bytes());
                let id = u16::from_be_bytes(get(b, l.l3 + 4)).wrapping_add(self.done);
                put(b, l.l3 + 4, id.to_be_bytes());
                put(b, l.l3 + 10, [0, 0]);
                let end = l.l3 + usize::from(b.get(l.l3).copied().unwrap_or(0) & 15) * 4;
                let sum = Sum::default().bytes(b.get(l.l3..end).unwrap_or_default());
                put(b, l.l3 + 10, sum.checksum());
            }
            Ip::V6 => put(b, l.l3 + 4, ((packet - 40) as u16).to_be_bytes()),
        }
    }
}

fn put<const N: usize>(b: &mut [u8], at: usize, v: [u8; N]) {
    if let Some(place) = b.get_mut(at..at + N) {
        place.copy_from_slice(&v);
    }
}

fn get<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    b.get(at..at + N).and_then(|b| b.try_into().ok()).unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_packet::Pool;

    fn sum(words: &[u8]) -> u16 {
        let mut s = 0u64;
        for w in words.chunks(2) {
            s += u64::from(w[0]) << 8 | u64::from(w.get(1).copied().unwrap_or(0));
        }
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    /// What one TCP or UDP packet is made of. The oracle builds each frame from these, from
    /// nothing; the code under test cuts the one that holds everything.
    #[derive(Clone, Debug)]
    struct Spec {
        tags: usize,
        v6: bool,
        udp: bool,
        options: usize,
        ip_options: usize,
        id: u16,
        seq: u32,
        flags: u8,
    }

    fn build(s: &Spec, payload: &[u8]) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for t in 0..s.tags {
            f.extend([0x81, 0, 0x20, t as u8]);
        }
        let mut t = vec![0x30, 0x39, 0, 80];
        if s.udp {
            t.extend((8 + payload.len() as u16).to_be_bytes());
            t.extend([0, 0]);
        } else {
            t.extend(s.seq.to_be_bytes());
            t.extend([0, 0, 0, 9, ((5 + s.options) << 4) as u8, s.flags, 1, 1, 0, 0, 0, 0]);
            t.extend(vec![1; 4 * s.options]);
        }
        t.extend(payload);
        let proto = if s.udp { UDP } else { TCP };
        let addr: Vec<u8> = (1..=if s.v6 { 32 } else { 8 }).collect();
        let mut ph = addr.clone();
        ph.extend((t.len() as u32).to_be_bytes());
        ph.extend([0, proto]);
        ph.extend(&t);
        let mut c = !sum(&ph);
        if c == 0 {
            c = 0xffff;
        }
        let field = if s.udp { 6 } else { 16 };
        t[field..field + 2].copy_from_slice(&c.to_be_bytes());
        if s.v6 {
            // A hop-by-hop header stands for the options.
            let hop = s.ip_options > 0;
            let n = t.len() as u16 + if hop { 8 } else { 0 };
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend(n.to_be_bytes());
            f.extend([if hop { 0 } else { proto }, 64]);
            f.extend(&addr);
            if hop {
                f.extend([proto, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            let mut h = vec![(0x45 + s.ip_options) as u8, 0];
            h.extend((20 + 4 * s.ip_options as u16 + t.len() as u16).to_be_bytes());
            h.extend(s.id.to_be_bytes());
            h.extend([0x40, 0, 64, proto, 0, 0]);
            h.extend(&addr);
            h.extend(vec![1; 4 * s.ip_options]);
            let c = !sum(&h);
            h[10..12].copy_from_slice(&c.to_be_bytes());
            f.extend([8, 0]);
            f.extend(h);
        }
        f.extend(t);
        f
    }

    fn oracle(s: &Spec, payload: &[u8], size: usize) -> Vec<Vec<u8>> {
        let pieces: Vec<&[u8]> =
            if payload.is_empty() { vec![payload] } else { payload.chunks(size).collect() };
        let last = pieces.len() - 1;
        let mut out = Vec::new();
        for (i, piece) in pieces.iter().enumerate() {
            let mut one = s.clone();
            one.id = s.id.wrapping_add(i as u16);
            one.seq = s.seq.wrapping_add((i * size) as u32);
            if i != 0 {
                one.flags &= !0x80;
            }
            if i != last {
                one.flags &= !0x09;
            }
            out.push(build(&one, piece));
        }
        out
    }

    fn spec() -> impl Strategy<Value = Spec> {
        let shape = (0..3usize, any::<bool>(), any::<bool>(), 0..11usize, 0..3usize);
        (shape, any::<u16>(), any::<u32>(), any::<u8>()).prop_map(
            |((tags, v6, udp, options, ip_options), id, seq, flags)| Spec {
                tags,
                v6,
                udp,
                options,
                ip_options,
                id,
                seq,
                flags,
            },
        )
    }

    /// A frame inside VXLAN, built field by field; with a checksum outside or none.
    fn carried(frame: &[u8], v6: bool, id: u16, summed: bool) -> Vec<u8> {
        let mut t = vec![0xc0, 1, 0x12, 0xb5];
        t.extend((16 + frame.len() as u16).to_be_bytes());
        t.extend([0, 0, 8, 0, 0, 0, 0, 0, 7, 0]);
        t.extend(frame);
        let addr: Vec<u8> = (51..=if v6 { 82 } else { 58 }).collect();
        if summed {
            let mut ph = addr.clone();
            ph.extend((t.len() as u32).to_be_bytes());
            ph.extend([0, UDP]);
            ph.extend(&t);
            let c = !sum(&ph);
            t[6..8].copy_from_slice(&if c == 0 { 0xffff } else { c }.to_be_bytes());
        }
        let mut f = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4];
        if v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend((t.len() as u16).to_be_bytes());
            f.extend([UDP, 64]);
            f.extend(&addr);
        } else {
            let mut h = vec![0x45, 0];
            h.extend((20 + t.len() as u16).to_be_bytes());
            h.extend(id.to_be_bytes());
            h.extend([0, 0, 64, UDP, 0, 0]);
            h.extend(&addr);
            let c = !sum(&h);
            h[10..12].copy_from_slice(&c.to_be_bytes());
            f.extend([8, 0]);
            f.extend(h);
        }
        f.extend(t);
        f
    }

    fn cut_all(frame: &[u8], mut cut: Cut) -> Vec<Vec<u8>> {
        let mut pool = Pool::new(1, 4096).unwrap();
        let mut got = Vec::new();
        while !cut.is_done() {
            let mut f = pool.alloc().unwrap();
            assert!(cut.next_frame(frame, &mut f));
            assert!(f.len() <= cut.longest());
            got.push(f.bytes().to_vec());
            pool.free(f);
        }
        got
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]
        #[test]
        fn cutting_gives_what_sending_in_pieces_would_have_given(
            s in spec(), len in 0..65_000usize, size in 536..1449usize, seed in any::<u8>(),
        ) {
            let payload: Vec<u8> = (0..len).map(|i| (i * 31) as u8 ^ seed).collect();
            let frame = build(&s, &payload);
            prop_assert!(frame.len() <= MAX_SUPER);
            let told = Told::of(if s.udp { UDP } else { TCP });
            let cut = Cut::told(&frame, size, told).unwrap();
            prop_assert_eq!(cut_all(&frame, cut), oracle(&s, &payload, size));
        }

        /// What a tunnel carries is cut as it would be without, and each piece is carried.
        #[test]
        fn what_a_tunnel_carries_is_cut_inside(
            s in spec(), len in 0..60_000usize, size in 536..1449usize, v6 in any::<bool>(), id in any::<u16>(), summed in any::<bool>(),
        ) {
            let payload: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
            let inner = build(&s, &payload);
            let frame = carried(&inner, v6, id, summed);
            let l = layout::of_frame(&inner, 0).unwrap();
            let to_inner = frame.len() - inner.len();
            let protocol = if s.udp { UDP } else { TCP };
            let told = |at| Told { protocol, ip: Some(l.ip), at: Some(at) };
            let cut = Cut::told(&frame, size, told(to_inner + l.l4)).unwrap();
            let wanted = |size| -> Vec<Vec<u8>> {
                let pieces = oracle(&s, &payload, size).into_iter().enumerate();
                pieces.map(|(i, f)| carried(&f, v6, id.wrapping_add(i as u16), summed)).collect()
            };
            prop_assert_eq!(cut_all(&frame, cut), wanted(size));
            if s.udp {
                prop_assert!(Cut::to_mtu(&frame, 1500).is_none());
            } else {
                let headers = frame.len() - payload.len() - 14;
                let cut = Cut::to_mtu(&frame, headers + size).unwrap();
                prop_assert_eq!(cut_all(&frame, cut), wanted(size));
            }
            // Nowhere else is what was told of.
            prop_assert!(Cut::told(&frame, size, told(to_inner + l.l4 + 1)).is_none());
            prop_assert!(Cut::told(&inner, size, told(to_inner + l.l4)).is_none());
        }

        #[test]
        fn any_bytes_may_come(
            s in spec(), len in 0..200usize, size in 0..100usize, cut in 0..300usize, inside in any::<bool>(),
            hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut frame = build(&s, &vec![7; len]);
            if inside {
                frame = carried(&frame, s.v6, 9, true);
            }
            frame.truncate(cut.max(1));
            for (at, v) in hits {
                let at = at.index(frame.len());
                frame[at] = v;
            }
            for protocol in [TCP, UDP] {
                if let Some(cut) = Cut::told(&frame, size, Told::of(protocol)) {
                    cut_all(&frame, cut);
                }
            }
            if let Some(cut) = Cut::to_mtu(&frame, size + 60) {
                cut_all(&frame, cut);
            }
        }
    }

    #[test]
    fn an_mtu_bounds_the_ip_packet() {
        let s = Spec {
            tags: 1,
            v6: false,
            udp: false,
            options: 3,
            ip_options: 0,
            id: 1,
            seq: 1,
            flags: 0x18,
        };
        let frame = build(&s, &[5; 10_000]);
        let got = cut_all(&frame, Cut::to_mtu(&frame, 1500).unwrap());
        assert_eq!(got, oracle(&s, &[5; 10_000], 1448));
        assert_eq!(got[0].len(), 1500 + 18);
        assert!(Cut::to_mtu(&build(&Spec { udp: true, ..s }, &[5; 10_000]), 1500).is_none());
    }
}
