//! ToS and traffic class, with DSCP and ECN as parts of them, and the remarking of meters. Touches
//! the byte and, for IPv4, the header checksum.

use super::bytes::get_mut;
use crate::packet::{Net, Packet, Stale};
use weir_packet::DropReason;
use weir_wire::checksum::Delta;

/// Bits for the ToS byte or traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetTos {
    /// Value; DSCP is the high six bits, ECN the low two.
    pub value: u8,
    /// Which bits of it count.
    pub mask: u8,
}

impl SetTos {
    /// Writes them into the IP header, if there is one.
    pub fn apply(&self, p: &mut Packet<'_>) {
        change(p, |tos| tos & !self.mask | self.value & self.mask);
    }
}

/// Raises the drop precedence of an assured-forwarding DSCP (AFxy of RFC 2597 §6) by `levels`, to
/// at most 3; OpenFlow 1.3 §5.7.1's DSCP-remark band. Other DSCPs have no drop precedence and stay.
///
/// # Errors
/// None; the type is that of the function modules.
pub fn remark(levels: u8, p: &mut Packet<'_>) -> Result<(), DropReason> {
    change(p, |tos| {
        let (class, precedence) = (tos >> 5, tos >> 3 & 3);
        let assured = (1..=4).contains(&class) && precedence > 0 && tos & 4 == 0;
        if !assured {
            return tos;
        }
        tos & !0x18 | precedence.saturating_add(levels).min(3) << 3
    });
    Ok(())
}

fn change(p: &mut Packet<'_>, new: impl Fn(u8) -> u8) {
    if rewrite(p.frame.bytes_mut(), usize::from(p.layers.l3), p.layers.net, new).is_some() {
        p.stale = Stale::Yes;
    }
}

/// Makes the byte anew in the header at `l3`. `None`: there is none.
pub(super) fn rewrite(b: &mut [u8], l3: usize, net: Net, new: impl Fn(u8) -> u8) -> Option<()> {
    match net {
        Net::Ipv4 => {
            let h = get_mut::<12>(b, l3)?;
            let old = u16::from_be_bytes([h[0], h[1]]);
            h[1] = new(h[1]);
            let delta = Delta::new().u16(old, u16::from_be_bytes([h[0], h[1]]));
            let check = delta.apply(u16::from_be_bytes([h[10], h[11]]));
            [h[10], h[11]] = check.to_be_bytes();
        }
        Net::Ipv6 => {
            let h = get_mut::<2>(b, l3)?;
            let first = u16::from_be_bytes(*h);
            let class = new((first >> 4) as u8);
            *h = (first & 0xf00f | u16::from(class) << 4).to_be_bytes();
        }
        _ => return None,
    }
    Some(())
}
