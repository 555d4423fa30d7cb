//! Sets ToS or traffic class, wholly or in part (DSCP, ECN), and remarks DSCP for meters.

use super::edit;
use crate::packet::{Net, Packet};
use weir_packet::DropReason;

/// ToS or traffic class under a mask.
pub fn set(p: &mut Packet<'_>, value: u8, mask: u8) {
    let at = usize::from(p.layers.l3);
    match p.layers.net {
        Net::Ipv4 => {
            if let Some(d) = edit::masked16(p, at, value.into(), mask.into()) {
                edit::fix_ip(p, d);
            }
        }
        Net::Ipv6 => {
            // Version 4 bits, traffic class 8 bits, flow label.
            edit::masked16(p, at, u16::from(value) << 4, u16::from(mask) << 4);
        }
        Net::Other | Net::Arp | Net::Mpls => {}
    }
}

fn tos(p: &Packet<'_>) -> Option<u8> {
    let (b, at) = (p.frame.bytes(), usize::from(p.layers.l3));
    match p.layers.net {
        Net::Ipv4 => b.get(at + 1).copied(),
        Net::Ipv6 => edit::get16(b, at).map(|v| (v >> 4) as u8),
        Net::Other | Net::Arp | Net::Mpls => None,
    }
}

/// Raises the drop precedence of an assured-forwarding frame by `levels`, at most to the highest
/// (OpenFlow 1.3 §A.3.4.7's DSCP remark band; RFC 2597). Other code points stay.
pub fn remark(levels: u8, p: &mut Packet<'_>) -> Result<(), DropReason> {
    let Some(old) = tos(p) else { return Ok(()) };
    let dscp = old >> 2;
    let (class, precedence) = (dscp >> 3, dscp >> 1 & 3);
    let assured = (1..=4).contains(&class) && precedence != 0 && dscp & 1 == 0;
    if assured {
        let new = class << 3 | (precedence.saturating_add(levels)).min(3) << 1;
        set(p, new << 2, 0xfc);
    }
    Ok(())
}
