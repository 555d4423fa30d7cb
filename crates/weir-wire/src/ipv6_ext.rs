//! IPv6 extension headers: a bounded walk to the upper layer, the bits of OpenFlow's
//! `OXM_OF_IPV6_EXTHDR`, and the fragment header. Touches bytes.
//!
//! Source: RFC 8200 §4, RFC 4302 §2.2 (the length of AH), OpenFlow 1.3.5 §7.2.3.8 (the bits).

use core::net::Ipv6Addr;
use core::ops::BitOr;

use crate::error::{Error, Kind, Result, at_most, holds, room};
use crate::ip::Protocol;
use crate::view::{get, part, store, view};

const LAYER: &str = "ipv6 extension";

/// The most extension headers that [`walk`] passes over. Any sane chain has at most six; a chain
/// of thousands fits a packet, and costs whoever walks it.
pub const MAX_HEADERS: usize = 16;

/// Which extension headers a packet has: `enum ofp_ipv6exthdr_flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// "No next header" ends the chain.
    pub const NO_NEXT: Flags = Flags(1 << 0);
    /// ESP.
    pub const ESP: Flags = Flags(1 << 1);
    /// Authentication header.
    pub const AUTH: Flags = Flags(1 << 2);
    /// One or two destination options headers.
    pub const DEST: Flags = Flags(1 << 3);
    /// Fragment header.
    pub const FRAG: Flags = Flags(1 << 4);
    /// Routing header.
    pub const ROUTER: Flags = Flags(1 << 5);
    /// Hop-by-hop options, as the first extension header.
    pub const HOP: Flags = Flags(1 << 6);
    /// A header came more often than it may: twice, or thrice for destination options.
    pub const UNREP: Flags = Flags(1 << 7);
    /// The headers were not in the order that RFC 8200 §4.1 prefers.
    pub const UNSEQ: Flags = Flags(1 << 8);

    /// Whether all bits of `other` are set here.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Where in the preferred order the walk stands. The order is that of RFC 8200 §4.1: hop-by-hop,
/// destination, routing, fragment, authentication, ESP, destination. Headers are in order if they
/// appear along it; a repeated header is reported as that and says nothing about the order.
#[derive(Debug, Clone, Copy, Default)]
struct Order {
    flags: Flags,
    /// The place in the list that the next header must lie at or behind.
    next: u8,
    /// Which headers there were: a bit for each, two for destination options.
    seen: u8,
}

impl Order {
    fn set(&mut self, flag: Flags) {
        self.flags = self.flags | flag;
    }

    fn meet(&mut self, header: Protocol) {
        const DESTINATION: u8 = 1;
        const LAST_DESTINATION: u8 = 6;
        let (flag, place) = match header {
            // The bit is for the first header only; anywhere else it is out of order.
            Protocol::HopByHop if self.seen == 0 => (Flags::HOP, 0),
            Protocol::HopByHop => (Flags::default(), 0),
            Protocol::Destination => (Flags::DEST, DESTINATION),
            Protocol::Routing => (Flags::ROUTER, 2),
            Protocol::Fragment => (Flags::FRAG, 3),
            Protocol::Ah => (Flags::AUTH, 4),
            Protocol::Esp => (Flags::ESP, 5),
            _ => return,
        };
        self.set(flag);
        let once = self.seen & 1 << place != 0;
        let twice = self.seen & 1 << LAST_DESTINATION != 0;
        if once && (place != DESTINATION || twice) {
            return self.set(Flags::UNREP);
        }
        self.seen |= 1 << if once { LAST_DESTINATION } else { place };
        let late = place == DESTINATION && self.next > DESTINATION;
        let place = if late { LAST_DESTINATION } else { place };
        if place < self.next {
            self.set(Flags::UNSEQ);
        }
        self.next = self.next.max(place + 1);
    }
}

/// One extension header of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Which one.
    pub kind: Protocol,
    /// What follows it.
    pub next: Protocol,
    /// All its bytes, next-header field included.
    pub bytes: &'a [u8],
}

impl Header<'_> {
    /// Segments left, if this is a routing header: while there are some, the packet's
    /// destination is not the final one.
    pub fn segments_left(&self) -> Option<u8> {
        (self.kind == Protocol::Routing).then(|| get(self.bytes, 3..4))
    }

    /// The final destination, while segments are left, of the routing types that are known: the
    /// old source route (0, RFC 2460), mobile IPv6 (2, RFC 6275) and segment routing (4, RFC 8754,
    /// whose list is backwards).
    pub fn final_destination(&self) -> Option<Ipv6Addr> {
        if self.segments_left()? == 0 {
            return None;
        }
        let at = match get::<u8>(self.bytes, 2..3) {
            0 => self.bytes.len().checked_sub(16)?,
            2 | 4 => 8,
            _ => return None,
        };
        (at >= 8 && self.bytes.len() >= at + 16).then(|| get(self.bytes, at..at + 16))
    }
}

/// Iterator over the extension headers that can be read: it stops before ESP, before the upper
/// layer and after the header of a fragment that is not the first; an error ends it too.
#[derive(Debug, Clone)]
pub struct Headers<'a> {
    next: Protocol,
    bytes: &'a [u8],
    at: usize,
    fragment: Option<FragmentRepr>,
}

impl<'a> Headers<'a> {
    /// `first` is the fixed header's next-header field, `payload` what follows that header.
    #[inline]
    pub const fn new(first: Protocol, payload: &'a [u8]) -> Headers<'a> {
        Headers { next: first, bytes: payload, at: 0, fragment: None }
    }

    fn is_over(&self) -> bool {
        let later = self.fragment.is_some_and(|fragment| fragment.offset > 0);
        later || self.next == Protocol::Esp || !self.next.is_ipv6_extension()
    }

    fn step(&mut self) -> Result<Header<'a>> {
        let kind = self.next;
        let have = self.bytes.len();
        holds(LAYER, "header", self.at + 8, have)?;
        let units = usize::from(get::<u8>(self.bytes, self.at + 1..self.at + 2));
        let len = match kind {
            Protocol::Fragment => 8,
            // AH alone counts in units of four bytes.
            Protocol::Ah => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
        let end = self.at + len;
        holds(LAYER, "header", end, have)?;
        let bytes = part(self.bytes, self.at..end);
        if kind == Protocol::Fragment {
            self.fragment = Some(FragmentRepr::parse(&Fragment::new_unchecked(bytes))?);
        }
        self.next = get(bytes, 0..1);
        self.at = end;
        Ok(Header { kind, next: self.next, bytes })
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<Header<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over() {
            return None;
        }
        let header = self.step();
        if header.is_err() {
            self.next = Protocol::NoNext;
        }
        Some(header)
    }
}

/// What a walk over the extension headers found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// The upper layer, or ESP, or [`Protocol::NoNext`].
    pub protocol: Protocol,
    /// Where its header lies in the payload of the fixed header.
    pub at: usize,
    /// Which extension headers there were.
    pub flags: Flags,
    /// The fragment header, the last if there were several.
    pub fragment: Option<FragmentRepr>,
    /// Of the routing header, or zero. While there are some, the upper layer's checksum covers the
    /// final destination and not the one in the fixed header.
    pub segments_left: u8,
    /// See [`Header::final_destination`].
    pub final_destination: Option<Ipv6Addr>,
}

impl Walk {
    /// The payload begins in the middle of the upper layer: there is no header at [`Self::at`].
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset > 0)
    }
}

/// Walks from the fixed header to the upper layer. Arguments as those of [`Headers::new`].
///
/// # Errors
/// `Truncated` if a header is not all there; `Above` past [`MAX_HEADERS`].
#[inline]
pub fn walk(first: Protocol, payload: &[u8]) -> Result<Walk> {
    let mut order = Order::default();
    let mut headers = Headers::new(first, payload);
    let mut count = 0;
    let mut segments_left = 0;
    let mut final_destination = None;
    for header in headers.by_ref() {
        count += 1;
        at_most(LAYER, "header count", MAX_HEADERS, count)?;
        let header = header?;
        order.meet(header.kind);
        if let Some(left) = header.segments_left() {
            segments_left = left;
            final_destination = header.final_destination();
        }
    }
    let walk = |flags| Walk {
        protocol: headers.next,
        at: headers.at,
        flags,
        fragment: headers.fragment,
        segments_left,
        final_destination,
    };
    match headers.next {
        // Named by a later fragment, but somewhere in the first.
        _ if walk(order.flags).is_later_fragment() => {}
        Protocol::Esp => order.meet(Protocol::Esp),
        Protocol::NoNext => order.set(Flags::NO_NEXT),
        _ => {}
    }
    Ok(walk(order.flags))
}

mod field {
    use crate::view::Field;
    pub const NEXT_HEADER: Field = 0..1;
    pub const OFFSET_MORE: Field = 2..4;
    pub const IDENT: Field = 4..8;
}

/// Bytes of a fragment header.
pub const FRAGMENT_LEN: usize = field::IDENT.end;

view! {
    /// A fragment header (RFC 8200 §4.5).
    Fragment
    /// What the whole packet goes on with.
    next_header, set_next_header: Protocol = field::NEXT_HEADER;
    /// Offset, reserved bits and the more-fragments bit in one word.
    offset_more, set_offset_more: u16 = field::OFFSET_MORE;
    /// Identification, for reassembly.
    ident, set_ident: u32 = field::IDENT;
}

impl<T: AsRef<[u8]>> Fragment<T> {
    /// Says whether the buffer holds a fragment header.
    ///
    /// # Errors
    /// `Truncated` below 8 bytes.
    #[inline]
    pub fn check(&self) -> Result<()> {
        holds(LAYER, "fragment header", FRAGMENT_LEN, self.as_bytes().len())
    }
}

/// A fragment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FragmentRepr {
    /// What the whole packet goes on with.
    pub next_header: Protocol,
    /// Where the fragment belongs in the whole, in units of 8 bytes, 13 bits.
    pub offset: u16,
    /// Not the last fragment.
    pub more: bool,
    /// Identification, for reassembly.
    pub ident: u32,
}

impl FragmentRepr {
    /// Takes the values out of a view.
    ///
    /// # Errors
    /// Those of [`Fragment::check`].
    pub fn parse<T: AsRef<[u8]>>(header: &Fragment<T>) -> Result<FragmentRepr> {
        header.check()?;
        let word = header.offset_more();
        Ok(FragmentRepr {
            next_header: header.next_header(),
            offset: word >> 3,
            more: word & 1 != 0,
            ident: header.ident(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        FRAGMENT_LEN
    }

    /// Writes the header.
    ///
    /// # Errors
    /// `NoRoom`; `Above` if the offset does not fit.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, header: &mut Fragment<T>) -> Result<()> {
        room(LAYER, "fragment header", FRAGMENT_LEN, header.as_bytes().len())?;
        at_most(LAYER, "fragment offset", 0x1fff, usize::from(self.offset))?;
        // The reserved byte too: emit leaves nothing of what the buffer held.
        crate::view::put(header.bytes_mut(), 0..2, 0u16);
        header.set_next_header(self.next_header);
        header.set_offset_more(self.offset << 3 | u16::from(self.more));
        header.set_ident(self.ident);
        Ok(())
    }
}

/// An options header (hop-by-hop or destination) or a routing header: everything after its first
/// two bytes is kept as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GenericRepr<'a> {
    /// What follows.
    pub next_header: Protocol,
    /// Bytes after the length: 6, 14, 22 and so on up to 2046.
    pub body: &'a [u8],
}

impl<'a> GenericRepr<'a> {
    /// Takes the header from the front of some bytes.
    ///
    /// # Errors
    /// `Truncated` if it is not all there.
    pub fn parse(bytes: &'a [u8]) -> Result<GenericRepr<'a>> {
        match Headers::new(Protocol::Destination, bytes).next() {
            Some(header) => {
                let header = header?;
                let body = header.bytes.get(2..).unwrap_or(&[]);
                Ok(GenericRepr { next_header: header.next, body })
            }
            None => Err(Error::new(LAYER, "header", Kind::Truncated, 8, bytes.len())),
        }
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn buffer_len(&self) -> usize {
        2 + self.body.len()
    }

    /// Writes the header to the front of a buffer.
    ///
    /// # Errors
    /// `NoRoom`; `Above` past 2048 bytes; `Differs` if the length is not a multiple of 8.
    pub fn emit(&self, out: &mut [u8]) -> Result<()> {
        let len = self.buffer_len();
        crate::error::equals(LAYER, "length modulo 8", 0, len % 8)?;
        crate::error::at_least(LAYER, "length", 8, len)?;
        at_most(LAYER, "length", 2048, len)?;
        room(LAYER, "header", len, out.len())?;
        store(crate::view::part_mut(out, 0..2), &[self.next_header.into(), (len / 8 - 1) as u8]);
        store(crate::view::part_mut(out, 2..len), self.body);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// A chain of these headers, each as short as it can be, with TCP or `last` behind.
    fn chain(kinds: &[Protocol], last: Protocol) -> (Protocol, Vec<u8>) {
        let mut bytes = Vec::new();
        for at in 0..kinds.len() {
            if kinds[at] == Protocol::Esp {
                break;
            }
            let next = kinds.get(at + 1).copied().unwrap_or(last);
            let units = if kinds[at] == Protocol::Ah { 1 } else { 0 };
            bytes.extend([next.into(), units, 0, 0, 0, 0, 0, 0]);
            if kinds[at] == Protocol::Ah {
                bytes.extend([0; 4]);
            }
        }
        (kinds.first().copied().unwrap_or(last), bytes)
    }

    fn flags(kinds: &[Protocol]) -> Flags {
        let (first, bytes) = chain(kinds, Protocol::Tcp);
        walk(first, &bytes).unwrap().flags
    }

    use Protocol::{Ah, Destination, Esp, Fragment as Frag, HopByHop, Routing};

    #[test]
    fn openflow_bits() {
        assert_eq!(flags(&[]), Flags(0));
        assert_eq!(flags(&[HopByHop, Destination, Routing, Frag, Ah, Destination]), Flags(0x07c));
        assert_eq!(flags(&[Destination, HopByHop]), Flags::DEST | Flags::UNSEQ);
        assert_eq!(flags(&[HopByHop, HopByHop]), Flags::HOP | Flags::UNREP);
        assert_eq!(flags(&[Routing, Routing]), Flags::ROUTER | Flags::UNREP);
        assert_eq!(flags(&[Destination; 2]), Flags::DEST);
        assert_eq!(flags(&[Destination; 3]), Flags::DEST | Flags::UNREP);
        assert_eq!(flags(&[Frag, Routing]), Flags::FRAG | Flags::ROUTER | Flags::UNSEQ);
        assert_eq!(flags(&[Ah, Esp]), Flags::AUTH | Flags::ESP);
        let (first, bytes) = chain(&[HopByHop], Protocol::NoNext);
        assert_eq!(walk(first, &bytes).unwrap().flags, Flags::HOP | Flags::NO_NEXT);
    }

    #[test]
    fn later_fragments_hide_the_upper_layer() {
        let bytes = [60, 0, 0, 0x08, 1, 2, 3, 4, 0xff, 0xff];
        let walk = walk(Frag, &bytes).unwrap();
        assert!(walk.is_later_fragment());
        assert_eq!((walk.protocol, walk.at, walk.flags), (Destination, 8, Flags::FRAG));
    }

    #[test]
    fn long_chains_are_refused() {
        let (first, bytes) = chain(&[Destination; MAX_HEADERS], Protocol::Udp);
        assert_eq!(walk(first, &bytes).unwrap().at, 8 * MAX_HEADERS);
        let (first, bytes) = chain(&[Destination; MAX_HEADERS + 1], Protocol::Udp);
        assert_eq!(walk(first, &bytes).unwrap_err().kind, Kind::Above);
    }

    proptest! {
        /// Order and repetition against their definitions: a chain, its repeated headers left out,
        /// is in order exactly if it is a subsequence of RFC 8200's list.
        #[test]
        fn order_is_the_preferred_one(
            kinds in prop::collection::vec(
                prop::sample::select(std::vec![HopByHop, Destination, Routing, Frag, Ah]), 0..7),
        ) {
            let got = flags(&kinds);
            let mut kept = Vec::new();
            for kind in &kinds {
                let allowed = if *kind == Destination { 2 } else { 1 };
                if kept.iter().filter(|other| *other == kind).count() < allowed {
                    kept.push(*kind);
                }
            }
            prop_assert_eq!(got.contains(Flags::UNREP), kept.len() < kinds.len());
            let mut list = [HopByHop, Destination, Routing, Frag, Ah, Destination].into_iter();
            let in_order = kept.iter().all(|kind| list.any(|other| other == *kind));
            prop_assert_eq!(got.contains(Flags::UNSEQ), !in_order);
            prop_assert_eq!(got.contains(Flags::HOP), kinds.first() == Some(&HopByHop));
            prop_assert_eq!(got.contains(Flags::DEST), kinds.contains(&Destination));
        }
    }
}
