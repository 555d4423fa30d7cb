//! Which bucket a frame belongs to: frames of one flow, either way, always to the same.
//!
//! Room: crew. Touches bytes, of frames that nobody has looked at yet. Called for each frame of a port whose frames
//! are dealt out, so it reads no further than addresses and ports and allocates nothing.

use crate::programs::hash::folded;

/// Buckets of a port.
pub const BUCKETS: usize = 256;

/// A bucket. Symmetric: who answers is in the bucket of who asked. Looks at addresses of Ethernet and IP, the VLAN,
/// the protocol and ports, labels; never at what changes within a flow (TTL, ToS, lengths), and not at ports of fragments,
/// of which only the first has any.
#[inline]
pub fn bucket(frame: &[u8]) -> u8 {
    (hash(frame) >> 56) as u8
}

/// What is said of one end of a flow.
#[derive(Clone, Copy, Default)]
struct End {
    mac: u64,
    /// Address and port.
    at: u64,
}

#[inline]
fn hash(frame: &[u8]) -> u64 {
    let Some(macs) = frame.first_chunk::<14>() else { return 0 };
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, k0, k1] = *macs;
    let mut dst = End { mac: u64::from_be_bytes([0, 0, d0, d1, d2, d3, d4, d5]), at: 0 };
    let mut src = End { mac: u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]), at: 0 };
    let (mut kind, mut at) = (u16::from_be_bytes([k0, k1]), 14);
    // What is the same for both ends.
    let mut common = 0u64;
    // Service and customer tags: the VLAN's id, not its priority.
    for _ in 0..2 {
        if !matches!(kind, 0x8100 | 0x88a8 | 0x9100) {
            break;
        }
        let Some([a, b, c, d]) = bytes::<4>(frame, at) else { break };
        common = common << 12 | u64::from(u16::from_be_bytes([a, b]) & 0xfff);
        (kind, at) = (u16::from_be_bytes([c, d]), at + 4);
    }
    common = match kind {
        0x0800 => common << 8 | ipv4(frame, at, &mut src, &mut dst),
        0x86dd => common << 8 | ipv6(frame, at, &mut src, &mut dst),
        0x8847 | 0x8848 => {
            let label = bytes::<4>(frame, at).map_or(0, u32::from_be_bytes) >> 12;
            common << 20 | u64::from(label)
        }
        _ => common << 16 | u64::from(kind),
    };
    let ends = one(src).wrapping_add(one(dst));
    folded(ends ^ common.rotate_left(32), 0x9e37_79b9_7f4a_7c15)
}

/// Says the protocol.
#[inline]
fn ipv4(frame: &[u8], at: usize, src: &mut End, dst: &mut End) -> u64 {
    let Some(h) = bytes::<20>(frame, at) else { return 0 };
    src.at = u64::from(u32::from_be_bytes([h[12], h[13], h[14], h[15]])) << 16;
    dst.at = u64::from(u32::from_be_bytes([h[16], h[17], h[18], h[19]])) << 16;
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff != 0;
    if !fragment {
        ports(frame, at + 4 * usize::from(h[0] & 15), h[9], src, dst);
    }
    h[9].into()
}

/// Says the protocol. Behind an extension header nobody looks: its frames are told apart by their addresses.
#[inline]
fn ipv6(frame: &[u8], at: usize, src: &mut End, dst: &mut End) -> u64 {
    let (Some([.., next, _]), Some(s), Some(d)) =
        (bytes::<8>(frame, at), bytes::<16>(frame, at + 8), bytes::<16>(frame, at + 24))
    else {
        return 0;
    };
    let both_halves = |a: [u8; 16]| {
        let a = u128::from_be_bytes(a);
        folded((a >> 64) as u64 ^ 0x243f_6a88_85a3_08d3, a as u64 ^ 0x9e37_79b9_7f4a_7c15)
    };
    (src.at, dst.at) = (both_halves(s), both_halves(d));
    ports(frame, at + 40, next, src, dst);
    next.into()
}

/// Of TCP, UDP, SCTP and UDP-Lite.
#[inline]
fn ports(frame: &[u8], at: usize, proto: u8, src: &mut End, dst: &mut End) {
    if matches!(proto, 6 | 17 | 132 | 136)
        && let Some([a, b, c, d]) = bytes::<4>(frame, at)
    {
        src.at ^= u64::from(u16::from_be_bytes([a, b]));
        dst.at ^= u64::from(u16::from_be_bytes([c, d]));
    }
}

#[inline]
fn one(e: End) -> u64 {
    folded(e.mac ^ 0x243f_6a88_85a3_08d3, e.at ^ 0x9e37_79b9_7f4a_7c15)
}

#[inline]
fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..)?.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made<'a> {
        ends: [u8; 2],
        tags: &'a [u16],
        proto: u8,
        fragment: u16,
        ports: [u16; 2],
        ttl: u8,
    }

    fn made(m: &Made<'_>, six: bool) -> Vec<u8> {
        let [a, b] = m.ends;
        let mut f = vec![2, 0, 0, 0, 0, b, 2, 0, 0, 0, 0, a];
        for t in m.tags {
            f.extend([0x81, 0]);
            f.extend(t.to_be_bytes());
        }
        if six {
            f.extend([0x86, 0xdd, 0x60, m.ttl, 1, 2, 0, 8, m.proto, m.ttl]);
            f.extend([0; 15]);
            f.push(a);
            f.extend([0; 15]);
            f.push(b);
        } else {
            f.extend([8, 0, 0x45, m.ttl, 0, 28, 0, m.ttl]);
            f.extend(m.fragment.to_be_bytes());
            f.extend([m.ttl, m.proto, 0, 0, 10, 0, 0, a, 10, 0, 0, b]);
        }
        m.ports.iter().for_each(|p| f.extend(p.to_be_bytes()));
        f.resize(70, m.ttl);
        f
    }

    #[test]
    fn both_ways_of_a_flow_meet_and_what_changes_within_it_does_not_count() {
        for six in [false, true] {
            for tags in [&[][..], &[5], &[5, 6]] {
                for proto in [1, 6, 17, 132] {
                    for n in 0..50u16 {
                        let (ends, ports) = ([n as u8, 200], [1000 + n, 80]);
                        let there = Made { ends, tags, proto, fragment: 0x4000, ports, ttl: 64 };
                        let swapped = ([ends[1], ends[0]], [ports[1], ports[0]]);
                        let back = Made { ends: swapped.0, ports: swapped.1, ttl: 3, ..there };
                        assert_eq!(bucket(&made(&there, six)), bucket(&made(&back, six)));
                    }
                }
            }
        }
    }

    #[test]
    fn fragments_stay_together_and_priorities_of_vlans_do_not_part() {
        let first =
            Made { ends: [1, 2], tags: &[5], proto: 17, fragment: 0x2000, ports: [1, 2], ttl: 1 };
        let later = Made { fragment: 0x00b9, ports: [77, 99], tags: &[0xe005], ..first };
        assert_eq!(bucket(&made(&first, false)), bucket(&made(&later, false)));
    }

    #[test]
    fn flows_are_spread_evenly_by_each_thing_that_tells_them_apart() {
        let spread = |of: &dyn Fn(u16) -> Vec<u8>| {
            let mut got = [0u32; BUCKETS];
            (0..16384).for_each(|n| got[usize::from(bucket(&of(n)))] += 1);
            // 64 each; a bucket of a fair hash is off by five deviations once in two million.
            assert!(got.iter().all(|n| (24..=104).contains(n)), "{got:?}");
        };
        let base = Made { ends: [1, 2], tags: &[], proto: 17, fragment: 0, ports: [1, 2], ttl: 1 };
        for six in [false, true] {
            spread(&|n| made(&Made { ports: [n, 80], ..base }, six));
            spread(&|n| made(&Made { ports: [80, n], proto: 6, ..base }, six));
        }
        spread(&|n| {
            let mut f = made(&base, false);
            f[28..30].copy_from_slice(&n.to_be_bytes());
            f
        });
        // Ethernet alone, and labels.
        spread(&|n| {
            let mut f = vec![2; 12];
            f[10..12].copy_from_slice(&n.to_be_bytes());
            f.extend([0x88, 0xb5, 0, 0]);
            f
        });
        spread(&|n| {
            let mut f = vec![2; 12];
            f.extend([0x88, 0x47]);
            f.extend((u32::from(n) << 12 | 0x140).to_be_bytes());
            f
        });
    }

    #[test]
    fn any_bytes_have_a_bucket() {
        let whole = made(
            &Made { ends: [1, 2], tags: &[1, 2], proto: 6, fragment: 0, ports: [1, 2], ttl: 1 },
            true,
        );
        for n in 0..whole.len() {
            let _ = bucket(&whole[..n]);
        }
    }
}
