//! A frame as a point of header space: what of it can be matched.
//!
//! Room: reads bytes, keeps nothing. Used where packets are dispatched to slices and where what a slice
//! sends is judged. What a header promises and the bytes do not hold is absent, as for an OpenFlow switch.

use weir_openflow::model::{Field, Match, Port, VLAN_PRESENT};

fn number(b: &[u8], at: usize, len: usize) -> Option<u128> {
    let bytes = b.get(at..at.checked_add(len)?)?;
    Some(bytes.iter().fold(0, |n, x| n << 8 | u128::from(*x)))
}

/// The frame that came by `in_port`, as the match that it alone meets. A frame without a whole Ethernet
/// header has its port and nothing else.
pub fn of_frame(b: &[u8], in_port: Port) -> Match {
    let mut fields = vec![(Field::InPort, u128::from(in_port.0))];
    // What it lacks from there on is not in it.
    let _ = ethernet(b, &mut fields);
    fields.into_iter().fold(Match::default(), |m, (f, v)| m.with(f, v & f.full()))
}

type Fields = Vec<(Field, u128)>;

/// Whether an EtherType is that of a VLAN's tag.
pub(super) fn is_tag(kind: u128) -> bool {
    matches!(kind, 0x8100 | 0x88a8 | 0x9100)
}

/// A tag: its type, and what it holds.
pub(super) type Tag = (u128, u128);

/// A frame's tags from the outermost on, the type behind them, and where that ends.
pub(super) fn tags(b: &[u8]) -> Option<(Vec<Tag>, u128, usize)> {
    let (mut kind, mut at, mut all) = (number(b, 12, 2)?, 14, Vec::new());
    while is_tag(kind) {
        let (Some(tci), Some(next)) = (number(b, at, 2), number(b, at + 2, 2)) else { break };
        all.push((kind, tci));
        (kind, at) = (next, at + 4);
    }
    Some((all, kind, at))
}

fn ethernet(b: &[u8], out: &mut Fields) -> Option<()> {
    let (dst, src) = (number(b, 0, 6)?, number(b, 6, 6)?);
    let (tags, mut kind, mut at) = tags(b)?;
    out.extend([(Field::EthDst, dst), (Field::EthSrc, src)]);
    match tags.first() {
        None => out.push((Field::VlanVid, 0)),
        Some((_, tci)) => {
            let vid = tci & 0xfff | u128::from(VLAN_PRESENT);
            out.extend([(Field::VlanVid, vid), (Field::VlanPcp, tci >> 13)]);
        }
    }
    // A length (IEEE 802.3): behind SNAP's header there may be a type, else OpenFlow calls it 0x05ff.
    if kind < 0x600 {
        let snap = number(b, at, 6) == Some(0xaaaa_0300_0000);
        kind = snap.then(|| number(b, at + 6, 2)).flatten().unwrap_or(0x05ff);
        at += 8;
    }
    out.push((Field::EthType, kind));
    match kind {
        0x0800 => ipv4(b, at, out),
        0x86dd => ipv6(b, at, out),
        0x0806 => arp(b, at, out),
        0x8847 | 0x8848 => {
            let label = number(b, at, 4)?;
            out.push((Field::MplsLabel, label >> 12));
            out.extend([(Field::MplsTc, label >> 9 & 7), (Field::MplsBos, label >> 8 & 1)]);
            Some(())
        }
        0x88e7 => {
            out.push((Field::PbbIsid, number(b, at + 1, 3)?));
            Some(())
        }
        _ => Some(()),
    }
}

fn arp(b: &[u8], at: usize, out: &mut Fields) -> Option<()> {
    // Ethernet and IPv4, or its addresses are elsewhere.
    if number(b, at, 6)? != 0x0001_0800_0604 {
        return None;
    }
    out.push((Field::ArpOp, number(b, at + 6, 2)?));
    out.extend([(Field::ArpSha, number(b, at + 8, 6)?), (Field::ArpSpa, number(b, at + 14, 4)?)]);
    out.extend([(Field::ArpTha, number(b, at + 18, 6)?), (Field::ArpTpa, number(b, at + 24, 4)?)]);
    Some(())
}

fn ipv4(b: &[u8], at: usize, out: &mut Fields) -> Option<()> {
    let first = number(b, at, 1)?;
    let header = usize::try_from(first & 15).ok()? * 4;
    if first >> 4 != 4 || header < 20 {
        return None;
    }
    let tos = number(b, at + 1, 1)?;
    let fragment = number(b, at + 6, 2)?;
    let proto = number(b, at + 9, 1)?;
    let (src, dst) = (number(b, at + 12, 4)?, number(b, at + 16, 4)?);
    out.extend([(Field::IpDscp, tos >> 2), (Field::IpEcn, tos & 3), (Field::IpProto, proto)]);
    out.extend([(Field::Ipv4Src, src), (Field::Ipv4Dst, dst)]);
    if fragment & 0x1fff != 0 {
        // A later fragment has no ports; a switch that is asked takes them for zero.
        return ports(&[0; 4], 0, proto, out);
    }
    if proto == 1 {
        out.push((Field::Icmpv4Type, number(b, at + header, 1)?));
        out.push((Field::Icmpv4Code, number(b, at + header + 1, 1)?));
        return Some(());
    }
    ports(b, at + header, proto, out)
}

fn ports(b: &[u8], at: usize, proto: u128, out: &mut Fields) -> Option<()> {
    let (src, dst) = match proto {
        6 => (Field::TcpSrc, Field::TcpDst),
        17 => (Field::UdpSrc, Field::UdpDst),
        132 => (Field::SctpSrc, Field::SctpDst),
        _ => return None,
    };
    out.extend([(src, number(b, at, 2)?), (dst, number(b, at + 2, 2)?)]);
    Some(())
}

/// Extension headers that are looked behind.
const EXTENSIONS_MAX: usize = 8;

fn ipv6(b: &[u8], at: usize, out: &mut Fields) -> Option<()> {
    let first = number(b, at, 4)?;
    if first >> 28 != 6 {
        return None;
    }
    let mut proto = number(b, at + 6, 1)?;
    let (src, dst) = (number(b, at + 8, 16)?, number(b, at + 24, 16)?);
    let class = first >> 20 & 0xff;
    out.extend([(Field::IpDscp, class >> 2), (Field::IpEcn, class & 3)]);
    out.extend([(Field::Ipv6Flabel, first & 0xf_ffff)]);
    out.extend([(Field::Ipv6Src, src), (Field::Ipv6Dst, dst)]);
    let mut at = at + 40;
    let mut whole = Some(());
    for _ in 0..EXTENSIONS_MAX {
        let (next, len) = match proto {
            0 | 43 | 60 => (number(b, at, 1), number(b, at + 1, 1).map(|n| (n + 1) * 8)),
            51 => (number(b, at, 1), number(b, at + 1, 1).map(|n| (n + 2) * 4)),
            44 => {
                if number(b, at + 2, 2).is_none_or(|n| n & 0xfff8 != 0) {
                    whole = None;
                }
                (number(b, at, 1), Some(8))
            }
            _ => break,
        };
        let (Some(next), Some(len)) = (next, len) else {
            whole = None;
            break;
        };
        (proto, at) = (next, at + usize::try_from(len).ok()?);
    }
    out.push((Field::IpProto, proto));
    whole?;
    if proto != 58 {
        return ports(b, at, proto, out);
    }
    let kind = number(b, at, 1)?;
    out.extend([(Field::Icmpv6Type, kind), (Field::Icmpv6Code, number(b, at + 1, 1)?)]);
    if !matches!(kind, 135 | 136) {
        return Some(());
    }
    out.push((Field::Ipv6NdTarget, number(b, at + 8, 16)?));
    // The option of this kind of message, where it is the first, as most send it.
    let (wanted, field) = if kind == 135 { (1, Field::Ipv6NdSll) } else { (2, Field::Ipv6NdTll) };
    if number(b, at + 24, 2)? == wanted << 8 | 1 {
        out.push((field, number(b, at + 26, 6)?));
    }
    Some(())
}
