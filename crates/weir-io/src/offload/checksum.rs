//! The Internet checksum (RFC 1071), and completing one that a kernel left partial.
//!
//! Room: `offload`. A partial checksum is what Linux leaves in a TCP or UDP header for hardware to
//! finish: the folded, not complemented sum of the pseudo-header.

use super::layout::{self, Layout, TCP, UDP};

/// One's-complement sum in progress. Sums in the machine's byte order: the result is the same, byte
/// for byte (RFC 1071 §2 B).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes, as 16-bit words; an odd one at the end is followed by a zero.
    #[must_use]
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut sum = self.0;
        let (words, rest) = bytes.as_chunks::<4>();
        // 2^32 words would overflow; a frame has 2^14.
        for w in words {
            sum += u64::from(u32::from_ne_bytes(*w));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        Self(sum + u64::from(u32::from_ne_bytes(last)))
    }
    /// Adds one word, in host order.
    #[must_use]
    #[inline]
    pub fn add_u16(self, v: u16) -> Self {
        Self(self.0 + u64::from(v.to_be()))
    }
    /// The sum in 16 bits, not complemented, as the bytes that stand on the wire.
    #[must_use]
    #[inline]
    pub fn folded(self) -> [u8; 2] {
        let s = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let s = (s & 0xffff_ffff) + (s >> 32);
        let s = (s & 0xffff) + (s >> 16);
        let s = (s & 0xffff) + (s >> 16);
        (s as u16).to_ne_bytes()
    }
    /// The checksum: the complement, as the bytes that stand on the wire.
    #[must_use]
    #[inline]
    pub fn checksum(self) -> [u8; 2] {
        self.folded().map(|b| !b)
    }
    /// The checksum, where zero would mean that there is none (UDP).
    #[must_use]
    #[inline]
    pub fn checksum_not_zero(self) -> [u8; 2] {
        match self.checksum() {
            [0, 0] => [0xff, 0xff],
            c => c,
        }
    }
}

/// The sum over the pseudo-header of `len` bytes of transport (RFC 9293 §3.1, RFC 8200 §8.1).
#[inline]
pub(super) fn pseudo(b: &[u8], l: Layout, protocol: u8, len: usize) -> Sum {
    // The upper half of the length is zero for anything that fits an IP packet.
    Sum::default().bytes(layout::addresses(b, l)).add_u16(protocol.into()).add_u16(len as u16)
}

/// Completes the checksum whose field lies `offset` bytes behind `start` and covers everything
/// from `start` to the end; `false` when the field is not inside the frame.
pub fn complete_at(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = frame.get_mut(start..) else { return false };
    let sum = Sum::default().bytes(covered).checksum_not_zero();
    let Some(field) = covered.get_mut(offset..offset + 2) else { return false };
    field.copy_from_slice(&sum);
    true
}

/// Completes the TCP or UDP checksum when it equals the folded pseudo-header sum; says whether it
/// did.
///
/// This is for ports on which no one says which checksums are partial (AF_XDP on a virtual
/// interface). It is always right for an intact frame: if the checksum was partial, it becomes
/// complete; if it was complete and equals the pseudo-header sum by chance, computing it again
/// gives the same value. Inside VXLAN the inner frame is looked at too.
#[inline]
pub fn complete_if_partial(frame: &mut [u8]) -> bool {
    let Some(l) = layout::of_frame(frame, 0) else { return false };
    if complete_transport(frame, l) {
        return true;
    }
    let Some(l) = layout::inside_vxlan(frame, l) else { return false };
    complete_transport(frame, l)
}

#[inline]
fn complete_transport(frame: &mut [u8], l: Layout) -> bool {
    let field = match l.protocol {
        TCP => l.l4 + 16,
        UDP => l.l4 + 6,
        _ => return false,
    };
    let Some(&has) = frame.get(field..l.end).and_then(|f| f.first_chunk::<2>()) else {
        return false;
    };
    // No pseudo-header sums to zero, and a UDP checksum of zero means that there is none.
    if has == [0, 0] || has != pseudo(frame, l, l.protocol, l.end - l.l4).folded() {
        return false;
    }
    let Some(packet) = frame.get_mut(..l.end) else { return false };
    complete_at(packet, l.l4, field - l.l4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §1, word by word.
    fn slow(bytes: &[u8]) -> u16 {
        let mut s = 0u32;
        for w in bytes.chunks(2) {
            s += u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)]));
            s = (s & 0xffff) + (s >> 16);
        }
        !(s as u16)
    }

    proptest! {
        #[test]
        fn the_fast_sum_is_the_slow_sum(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(u16::from_be_bytes(Sum::default().bytes(&bytes).checksum()), slow(&bytes));
        }

        #[test]
        fn any_bytes_may_come(
            mut bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in 0..4usize, start in 0..300usize, offset in 0..300usize,
        ) {
            if bytes.len() > 40 {
                let (kind, first) = [(0x0800u16, 0x45), (0x86dd, 0x60), (0x8100, 1), (1, 2)][kind];
                bytes[12..14].copy_from_slice(&kind.to_be_bytes());
                bytes[14] = first;
            }
            complete_if_partial(&mut bytes);
            complete_at(&mut bytes, start, offset);
        }
    }

    /// An Ethernet frame of TCP or UDP over IPv4 or IPv6 with a complete checksum, and with the
    /// partial one. Not looked at by the code under test: built field by field.
    fn frames(
        ip: layout::Ip,
        protocol: u8,
        tags: usize,
        payload: &[u8],
        pad: usize,
    ) -> [Vec<u8>; 2] {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for t in 0..tags {
            f.extend([0x81, 0, 0, t as u8 + 5]);
        }
        let mut t = vec![0x12, 0x34, 0x0, 0x50];
        if protocol == TCP {
            t.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
        } else {
            t.extend((8 + payload.len() as u16).to_be_bytes());
            t.extend([0, 0]);
        }
        t.extend(payload);
        let n = (t.len() as u16).to_be_bytes();
        let field = if protocol == TCP { 16 } else { 6 };
        let mut ph = Vec::new();
        if ip == layout::Ip::V4 {
            let total = (20 + t.len() as u16).to_be_bytes();
            f.extend([8, 0, 0x45, 0, total[0], total[1], 0, 9, 0x40, 0, 64, protocol, 0, 0]);
            f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
            ph.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, protocol, n[0], n[1]]);
        } else {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0, n[0], n[1], protocol, 64]);
            let mut a = [0; 32];
            (a[0], a[15], a[16], a[31]) = (0xfd, 1, 0xfd, 2);
            f.extend(a);
            ph.extend(a);
            ph.extend([0, 0, n[0], n[1], 0, 0, 0, protocol]);
        }
        let l4 = f.len();
        let partial = !slow(&ph);
        ph.extend(&t);
        let mut whole = slow(&ph);
        if whole == 0 {
            whole = 0xffff;
        }
        f.extend(&t);
        f.resize(f.len() + pad, 0);
        [whole, partial].map(|c| {
            let mut f = f.clone();
            f[l4 + field..l4 + field + 2].copy_from_slice(&c.to_be_bytes());
            f
        })
    }

    proptest! {
        #[test]
        fn a_partial_checksum_becomes_whole_and_a_whole_one_stays(
            v6 in any::<bool>(), udp in any::<bool>(), tags in 0..3usize, pad in 0..10usize,
            payload in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let ip = if v6 { layout::Ip::V6 } else { layout::Ip::V4 };
            let [whole, partial] = frames(ip, if udp { UDP } else { TCP }, tags, &payload, pad);
            let mut f = partial;
            prop_assert!(complete_if_partial(&mut f));
            prop_assert_eq!(&f, &whole);
            complete_if_partial(&mut f);
            prop_assert_eq!(&f, &whole);
        }
    }

    #[test]
    fn inside_vxlan_the_inner_checksum_is_completed() {
        let [whole, partial] = frames(layout::Ip::V4, TCP, 0, b"inner", 0);
        let wrap = |inner: &[u8]| {
            let payload = [&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat();
            let [mut f, _] = frames(layout::Ip::V4, UDP, 0, &payload, 0);
            // Destination port VXLAN, no outer checksum, as Linux sends it.
            f[36..38].copy_from_slice(&4789u16.to_be_bytes());
            f[40..42].copy_from_slice(&[0, 0]);
            f
        };
        let mut f = wrap(&partial);
        assert!(complete_if_partial(&mut f));
        assert_eq!(f, wrap(&whole));
    }
}
