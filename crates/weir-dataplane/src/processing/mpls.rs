//! MPLS labels: push, pop, set fields of the top entry, decrement its TTL (RFC 3032, RFC 5462).
//! Touches label stack entries and the EtherType in front of them.
//!
//! Labels stand behind VLAN tags, as in Open vSwitch's data path. A pushed entry copies label,
//! traffic class and TTL of the entry that was on top; on the bottom of the stack, label and class
//! are zero and the TTL is the IP header's, zero without one (OpenFlow 1.3 §5.12).

use super::bytes::{be16, be32, get, get_mut};
use crate::packet::{Layers, Net, Packet, Stale};
use weir_packet::DropReason;

/// Bytes of a label stack entry.
const ENTRY: usize = 4;
/// The bottom-of-stack bit.
const BOTTOM: u32 = 1 << 8;

/// Pushes an entry; the EtherType becomes `ethertype`.
///
/// # Errors
/// [`DropReason::NoRoom`]. [`DropReason::NoSuchHeader`] for 802.3 frames, which have a length
/// where the EtherType should go. The frame is as it was.
pub fn push(ethertype: u16, p: &mut Packet<'_>) -> Result<(), DropReason> {
    let l3 = usize::from(p.layers.l3);
    let b = p.frame.bytes();
    let entry = match p.layers.net {
        Net::Mpls => be32(b, l3).unwrap_or(0) & !BOTTOM,
        Net::Ipv4 => BOTTOM | u32::from(b.get(l3 + 8).copied().unwrap_or(0)),
        Net::Ipv6 => BOTTOM | u32::from(b.get(l3 + 7).copied().unwrap_or(0)),
        _ => BOTTOM,
    };
    // Addresses, tags and the EtherType in front of the labels.
    let head = head_len(b, p.layers).ok_or(DropReason::NoSuchHeader)?;
    p.frame.push_front(ENTRY).map_err(|_| DropReason::NoRoom)?;
    let b = p.frame.bytes_mut();
    b.copy_within(ENTRY..ENTRY + head, 0);
    write16(b, head - 2, ethertype);
    if let Some(e) = get_mut(b, head) {
        *e = entry.to_be_bytes();
    }
    p.layers = Layers { l4: 0, proto: 0, net: Net::Mpls, ..p.layers };
    p.stale = Stale::Yes;
    Ok(())
}

/// Pops the top entry; the EtherType becomes `ethertype`. A frame without labels is not changed.
///
/// # Errors
/// [`DropReason::Runt`].
pub fn pop(ethertype: u16, p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.net != Net::Mpls {
        return Ok(());
    }
    let Some(head) = head_len(p.frame.bytes(), p.layers) else { return Ok(()) };
    let b = p.frame.bytes_mut();
    if head + ENTRY > b.len() {
        return Ok(());
    }
    b.copy_within(..head, ENTRY);
    p.frame.pull_front(ENTRY).map_err(|_| DropReason::Runt)?;
    write16(p.frame.bytes_mut(), head - 2, ethertype);
    p.relayout()
}

/// Where `l3` begins, if what stands in front of it is an EtherType: of a frame with a length there
/// it would have to be another one.
fn head_len(b: &[u8], l: Layers) -> Option<usize> {
    let head = 14 + usize::from(l.vlans) * 4;
    let ethertype = be16(b, head - 2)?;
    (usize::from(l.l3) == head && ethertype >= 0x600).then_some(head)
}

fn write16(b: &mut [u8], at: usize, value: u16) {
    if let Some(field) = get_mut(b, at) {
        *field = value.to_be_bytes();
    }
}

/// Decrements the top entry's TTL; a frame without labels is not changed.
///
/// # Errors
/// [`DropReason::TtlExpired`] at one or zero; the frame is as it was.
#[inline]
pub fn decrement(p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.net != Net::Mpls {
        return Ok(());
    }
    let Some([ttl]) = get_mut::<1>(p.frame.bytes_mut(), usize::from(p.layers.l3) + 3) else {
        return Ok(());
    };
    if *ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    *ttl -= 1;
    p.stale = Stale::Yes;
    Ok(())
}

/// Which of the two that [`swap`] does comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The bits.
    Set,
    /// The TTL.
    Ttl,
}

/// [`SetEntry::apply`] and [`decrement`] in one: what a label's swap comes down to.
///
/// # Errors
/// [`DropReason::TtlExpired`], where [`decrement`] says so; the frame is as it was before both.
#[inline(always)]
pub fn swap(set: &SetEntry, first: First, p: &mut Packet<'_>) -> Result<(), DropReason> {
    if p.layers.net != Net::Mpls {
        return Ok(());
    }
    let l3 = usize::from(p.layers.l3);
    let Some(e) = get_mut::<4>(p.frame.bytes_mut(), l3) else { return Ok(()) };
    let old = u32::from_be_bytes(*e);
    let put = |entry: u32| entry & !set.mask | set.value & set.mask;
    let before = if first == First::Set { put(old) } else { old };
    if before & 0xff <= 1 {
        return Err(DropReason::TtlExpired);
    }
    let after = if first == First::Set { before - 1 } else { put(before - 1) };
    *e = after.to_be_bytes();
    p.stale = Stale::Yes;
    Ok(())
}

/// Bits for the top entry: label 20 bits, class 3, bottom 1, TTL 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetEntry {
    /// Value.
    pub value: u32,
    /// Which bits of it count.
    pub mask: u32,
}

impl SetEntry {
    /// Writes them; a frame without labels is not changed.
    #[inline]
    pub fn apply(&self, p: &mut Packet<'_>) {
        let l3 = usize::from(p.layers.l3);
        if p.layers.net != Net::Mpls {
            return;
        }
        let Some(old) = get(p.frame.bytes(), l3).map(u32::from_be_bytes) else { return };
        if let Some(e) = get_mut::<4>(p.frame.bytes_mut(), l3) {
            *e = (old & !self.mask | self.value & self.mask).to_be_bytes();
            p.stale = Stale::Yes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::extract;
    use proptest::prelude::*;
    use weir_classify::FlowKey;
    use weir_packet::Pool;

    proptest! {
        /// A swap in one is what its two parts come to, one after the other.
        #[test]
        fn a_swap_is_both_of_its_parts(
            entry in any::<u32>(),
            ttl in 0u8..4,
            ethertype in prop::sample::select(vec![0x8847u16, 0x8848, 0x0800]),
            value in any::<u32>(),
            mask in prop::sample::select(vec![0xffff_f000u32, 0xe00, 0xff, 0xffff_ffff, 3]),
            first in prop::sample::select(vec![First::Set, First::Ttl]),
            length in 14usize..24,
        ) {
            let mut bytes = [[2; 12].as_slice(), &ethertype.to_be_bytes()].concat();
            bytes.extend((entry & !0xff | u32::from(ttl)).to_be_bytes());
            bytes.resize(60, 0);
            bytes.truncate(if length == 23 { 60 } else { length });
            let set = SetEntry { value, mask };
            let mut pool = Pool::new(2, 2048).unwrap();
            let mut run = |f: &dyn Fn(&mut Packet<'_>) -> Result<(), DropReason>| {
                let mut frame = pool.alloc().unwrap();
                frame.copy_from(&bytes).unwrap();
                let mut key = FlowKey::default();
                let layers = extract(frame.bytes(), 1, &mut key).unwrap();
                let mut p = Packet { frame: &mut frame, key: &mut key, layers, stale: Stale::No };
                let done = f(&mut p);
                // What is left of a frame that is dropped nobody sees.
                let left = done.map(|()| (p.stale, p.frame.bytes().to_vec()));
                pool.free(frame);
                left
            };
            let at_once = run(&|p| swap(&set, first, p));
            let in_turn = run(&|p| {
                if first == First::Set {
                    set.apply(p);
                    return decrement(p);
                }
                decrement(p)?;
                set.apply(p);
                Ok(())
            });
            prop_assert_eq!(at_once, in_turn);
        }
    }
}
