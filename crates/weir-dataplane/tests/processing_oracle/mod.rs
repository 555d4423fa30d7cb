//! All checksums of a frame, summed from scratch, slowly, as the RFCs say. Shares no code with what
//! it judges: no flow key, no layers, no incremental sums.

/// One checksum in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Right,
    Wrong,
}

/// Every checksum that can be verified in this frame, from the outside in: IPv4 headers, TCP, UDP,
/// ICMP, ICMPv6, SCTP of whole datagrams, GRE; through VLAN tags, MPLS, PBB, IP in IP, and frames
/// in GRE and VXLAN.
pub fn checksums(frame: &[u8]) -> Vec<Found> {
    let mut found = Vec::new();
    ethernet(frame, &mut found);
    found
}

type Out<'a> = &'a mut Vec<Found>;

fn be16(b: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*b.get(at)?) << 8 | usize::from(*b.get(at + 1)?))
}

/// RFC 1071, a byte pair at a time.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn note(out: Out<'_>, right: bool) {
    out.push(if right { Found::Right } else { Found::Wrong });
}

fn ethernet(b: &[u8], out: Out<'_>) -> Option<()> {
    let (mut at, mut tags) = (12, 0);
    while matches!(be16(b, at)?, 0x8100 | 0x88a8 | 0x9100) && tags < 4 {
        at += 4;
        tags += 1;
    }
    let mut kind = be16(b, at)?;
    at += 2;
    if kind < 0x600 && b.get(at..at + 6)? == [0xaa, 0xaa, 3, 0, 0, 0] {
        kind = be16(b, at + 6)?;
        at += 8;
    }
    let rest = b.get(at..)?;
    match kind {
        0x0800 => ipv4(rest, out),
        0x86dd => ipv6(rest, out),
        0x8847 | 0x8848 => {
            let mut at = 0;
            while rest.get(at + 2)? & 1 == 0 {
                at += 4;
            }
            match rest.get(at + 4)? >> 4 {
                4 => ipv4(rest.get(at + 4..)?, out),
                6 => ipv6(rest.get(at + 4..)?, out),
                _ => None,
            }
        }
        0x88e7 => ethernet(rest.get(4..)?, out),
        _ => None,
    }
}

fn ipv4(b: &[u8], out: Out<'_>) -> Option<()> {
    let ihl = usize::from(b.first()? & 15) * 4;
    let total = be16(b, 2)?;
    if b[0] >> 4 != 4 || ihl < 20 || total < ihl || total > b.len() {
        return None;
    }
    note(out, sum(&b[..ihl]) == 0xffff);
    if be16(b, 6)? & 0x3fff != 0 {
        return None;
    }
    let mut dst = b[16..20].to_vec();
    let mut o = 20;
    while o + 2 < ihl {
        match b[o] {
            0 => break,
            1 => o += 1,
            131 | 137 if b[o + 2] <= b[o + 1] => {
                let end = o + usize::from(b[o + 1]);
                dst = b.get(end.checked_sub(4)?..end)?.to_vec();
                break;
            }
            _ if b[o + 1] < 2 => break,
            _ => o += usize::from(b[o + 1]),
        }
    }
    transport(b[9], &b[12..16], &dst, &b[ihl..total], out)
}

fn ipv6(b: &[u8], out: Out<'_>) -> Option<()> {
    let end = 40 + be16(b, 4)?;
    if b.len() < end || b[0] >> 4 != 6 {
        return None;
    }
    let (src, mut dst) = (b[8..24].to_vec(), b[24..40].to_vec());
    let (mut next, mut at) = (b[6], 40);
    loop {
        let e = b.get(at..end)?;
        let size = match next {
            0 | 43 | 60 => (usize::from(*e.get(1)?) + 1) * 8,
            51 => (usize::from(*e.get(1)?) + 2) * 4,
            44 if be16(e, 2)? & 0xfff9 == 0 => 8,
            44 => return None,
            _ => return transport(next, &src, &dst, e, out),
        };
        if next == 43 && *e.get(3)? > 0 {
            dst = e.get(size.checked_sub(16)?..size)?.to_vec();
        }
        next = e[0];
        at += size;
    }
}

fn transport(proto: u8, src: &[u8], dst: &[u8], b: &[u8], out: Out<'_>) -> Option<()> {
    let v6 = src.len() == 16;
    let len = (b.len() as u32).to_be_bytes();
    let pseudo = [src, dst, &len[..], &[0, 0, 0, proto]].concat();
    let with_pseudo = || sum(&[&pseudo[..], b].concat()) == 0xffff;
    match proto {
        6 if b.len() >= 20 => note(out, with_pseudo()),
        17 if b.len() >= 8 => {
            if be16(b, 6)? != 0 {
                note(out, with_pseudo());
            }
            if b.len() > 30 && b[8] == 8 && matches!(be16(b, 2)?, 4789 | 8472) {
                return ethernet(&b[16..], out);
            }
        }
        1 if b.len() >= 8 && !v6 => note(out, sum(b) == 0xffff),
        58 if b.len() >= 4 && v6 => note(out, with_pseudo()),
        132 if b.len() >= 12 => {
            let mut zeroed = b.to_vec();
            zeroed[8..12].fill(0);
            note(out, crc32c(&zeroed).to_le_bytes() == b[8..12]);
        }
        4 => return ipv4(b, out),
        41 => return ipv6(b, out),
        47 if b.len() >= 4 => {
            let words = [0x80, 0x20, 0x10].iter().filter(|f| b[0] & **f != 0).count();
            if b[0] & 0x80 != 0 {
                note(out, sum(b) == 0xffff);
            }
            let inner = b.get(4 + 4 * words..)?;
            return match be16(b, 2)? {
                0x6558 => ethernet(inner, out),
                0x0800 => ipv4(inner, out),
                _ => None,
            };
        }
        _ => {}
    }
    Some(())
}

/// Bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}
