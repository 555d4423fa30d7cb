//! Which of a namespace's interfaces forward what comes in by them, as the kernel tells in its RTM_NEWNETCONF messages.
//!
//! Room: bytes and arithmetic. Called by [`super::netlink`]. Source: linux/netconf.h, ip-sysctl.

use std::collections::BTreeSet;

/// The request for all of them, and what it is answered by.
const GET: u16 = 82;
const NEW: u16 = 80;
/// Attributes.
const IFINDEX: u16 = 1;
const FORWARDING: u16 = 2;
/// The index that means all interfaces.
const ALL: i32 = -1;
const HEADER: usize = 16;
/// The message's own header: a family, and what fills it up.
const FAMILY_BYTES: usize = 4;
/// Of an attribute: length and kind.
const ATTRIBUTE_BYTES: usize = 4;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;

/// IP's two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Family {
    /// IPv4.
    V4 = 2,
    /// IPv6.
    V6 = 10,
}

/// What is not forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Interfaces by which IPv4's packets come that stay.
    pub v4: BTreeSet<u32>,
    /// No IPv6 is forwarded, by whichever interface: the kernel asks for that of all alone.
    pub v6: bool,
}

/// A request for what holds at every interface.
pub fn request(family: Family, sequence: u32) -> Vec<u8> {
    let len = (HEADER + FAMILY_BYTES) as u32;
    let mut b = Vec::with_capacity(HEADER + FAMILY_BYTES);
    b.extend(len.to_ne_bytes());
    b.extend(GET.to_ne_bytes());
    b.extend((REQUEST | DUMP).to_ne_bytes());
    b.extend(sequence.to_ne_bytes());
    b.extend([0; 4]);
    b.extend([family as u8, 0, 0, 0]);
    b
}

impl Closed {
    /// Takes in a whole message; another's says nothing.
    pub fn add(&mut self, family: Family, message: &[u8]) {
        let kind = message.get(4..6).and_then(|b| b.first_chunk());
        if kind.map(|b| u16::from_ne_bytes(*b)) != Some(NEW) {
            return;
        }
        let (mut index, mut forwards) = (None, None);
        let mut rest = message.get(HEADER + FAMILY_BYTES..).unwrap_or_default();
        while let Some((head, _)) = rest.split_first_chunk::<ATTRIBUTE_BYTES>() {
            let [l0, l1, k0, k1] = *head;
            let len = usize::from(u16::from_ne_bytes([l0, l1]));
            let Some(value) = rest.get(ATTRIBUTE_BYTES..len) else { break };
            let number = value.first_chunk().map(|b| i32::from_ne_bytes(*b));
            match u16::from_ne_bytes([k0, k1]) {
                IFINDEX => index = number,
                FORWARDING => forwards = number,
                _ => {}
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        let (Some(index), Some(0)) = (index, forwards) else { return };
        match (family, u32::try_from(index)) {
            (Family::V4, Ok(link)) => drop(self.v4.insert(link)),
            (Family::V6, _) => self.v6 |= index == ALL,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(attributes: &[(u16, i32)]) -> Vec<u8> {
        let mut m = request(Family::V4, 1);
        m[4..6].copy_from_slice(&NEW.to_ne_bytes());
        for (kind, value) in attributes {
            m.extend(8u16.to_ne_bytes());
            m.extend(kind.to_ne_bytes());
            m.extend(value.to_ne_bytes());
        }
        m
    }

    #[test]
    fn what_does_not_forward_is_found_and_nothing_else() {
        let mut c = Closed::default();
        c.add(Family::V4, &told(&[(IFINDEX, 3), (FORWARDING, 1)]));
        c.add(Family::V6, &told(&[(IFINDEX, 3), (FORWARDING, 0)]));
        c.add(Family::V4, &told(&[(IFINDEX, 5), (3, 2)]));
        c.add(Family::V4, &told(&[(IFINDEX, ALL), (FORWARDING, 0)]));
        assert_eq!(c, Closed::default());
        c.add(Family::V4, &told(&[(IFINDEX, 4), (3, 2), (FORWARDING, 0)]));
        c.add(Family::V6, &told(&[(IFINDEX, ALL), (FORWARDING, 0)]));
        assert_eq!(c, Closed { v4: BTreeSet::from([4]), v6: true });
        // Cut anywhere, it says less and nothing else.
        let whole = told(&[(IFINDEX, 4), (FORWARDING, 0)]);
        for n in 0..whole.len() {
            let mut c = Closed::default();
            c.add(Family::V4, &whole[..n]);
            assert_eq!(c, Closed::default(), "{n}");
        }
    }
}
