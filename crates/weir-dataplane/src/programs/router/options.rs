//! IPv4 options on their way through the router and to it: what is wrong with them, and what routers write into them
//! (RFC 791 §3.1, RFC 1812 §5.3.13). Touches a header's option bytes. Called by `ipv4.rs`.
//!
//! Places of faults are those in the header, as an ICMP parameter problem has them.

use std::net::Ipv4Addr;
use weir_packet::Nanos;
use weir_wire::ipv4::{HEADER_LEN, MAX_OPTIONS_LEN};
use weir_wire::ipv4_option::{Place, kind, place, select};

/// The byte of the header that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault(pub u8);

/// Where the route of a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceRoute {
    /// There is none, or it is at its end.
    Done,
    /// By another address than the packet's destination.
    Further,
}

/// What a router has to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// By which address it is known where the packet goes.
    pub own: Ipv4Addr,
    pub time: u32,
}

/// A timestamp that does not count from midnight, as its highest bit says.
pub(super) fn timestamp(now: Nanos) -> u32 {
    0x8000_0000 | (now.0 / 1_000_000) as u32
}

fn fault(at: usize) -> Fault {
    Fault(u8::try_from(HEADER_LEN + at).unwrap_or(u8::MAX))
}

/// The options of more than a byte, from `from` on.
fn next(options: &[u8], from: usize) -> Result<Option<Place>, Fault> {
    place(options, from).map_err(fault)
}

/// The pointer of an option, which counts from 1; `least` is where its data begin by that count.
fn pointer(options: &[u8], p: Place, least: usize) -> Result<usize, Fault> {
    if p.len + 1 < least {
        return Err(fault(p.at + 1));
    }
    let pointer = options.get(p.at + 2).map_or(0, |b| usize::from(*b));
    if pointer < least { Err(fault(p.at + 2)) } else { Ok(pointer) }
}

/// Looks at the options of a packet for the router.
pub(super) fn check(options: &[u8]) -> Result<SourceRoute, Fault> {
    let (mut from, mut route) = (0, SourceRoute::Done);
    while let Some(p) = next(options, from)? {
        from = p.at + p.len;
        let routed = matches!(p.kind, kind::LOOSE_SOURCE_ROUTE | kind::STRICT_SOURCE_ROUTE);
        let least = match p.kind {
            _ if routed => 4,
            kind::RECORD_ROUTE => 4,
            kind::TIMESTAMP => 5,
            _ => continue,
        };
        if pointer(options, p, least)? <= p.len && routed {
            route = SourceRoute::Further;
        }
    }
    Ok(route)
}

/// Writes what recorded routes and timestamps ask for. `ours`: whether an address is the router's.
pub(super) fn fill(
    options: &mut [u8],
    mark: Mark,
    ours: impl Fn(Ipv4Addr) -> bool,
) -> Result<(), Fault> {
    let mut from = 0;
    while let Some(p) = next(options, from)? {
        from = p.at + p.len;
        match p.kind {
            kind::RECORD_ROUTE => {
                let to = pointer(options, p, 4)?;
                write(options, p, to, &mark.own.octets())?;
            }
            kind::TIMESTAMP => stamp(options, p, mark, &ours)?,
            kind::LOOSE_SOURCE_ROUTE | kind::STRICT_SOURCE_ROUTE => drop(pointer(options, p, 4)?),
            _ => {}
        }
    }
    Ok(())
}

/// The options of an echo's reply: the request's recorded route and timestamps, and this router's mark in them (RFC 1122
/// §3.2.2.6). None of them if they are broken. `ours` as in [`fill`].
#[inline(never)]
pub(super) fn sent_back<'a>(
    asked: &[u8],
    mark: Mark,
    ours: impl Fn(Ipv4Addr) -> bool,
    out: &'a mut [u8; MAX_OPTIONS_LEN],
) -> &'a [u8] {
    let marked = |kind| matches!(kind, kind::RECORD_ROUTE | kind::TIMESTAMP);
    let options = select(asked, marked, out);
    match fill(options, mark, ours) {
        Ok(()) => options,
        Err(_) => &[],
    }
}

/// Whether what was to be written has found its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Taken,
    Full,
}

/// Writes where the pointer says, and moves it on. Room for a part alone is a fault.
fn write(options: &mut [u8], p: Place, pointer: usize, bytes: &[u8]) -> Result<Room, Fault> {
    if pointer > p.len {
        return Ok(Room::Full);
    }
    let after = pointer + bytes.len();
    if after > p.len + 1 {
        return Err(fault(p.at + 2));
    }
    let at = p.at + pointer - 1;
    if let Some(to) = options.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
    if let Some(to) = options.get_mut(p.at + 2) {
        *to = after as u8;
    }
    Ok(Room::Taken)
}

fn stamp(
    options: &mut [u8],
    p: Place,
    mark: Mark,
    ours: impl Fn(Ipv4Addr) -> bool,
) -> Result<(), Fault> {
    let to = pointer(options, p, 5)?;
    let flags_at = p.at + 3;
    let flags = options.get(flags_at).copied().unwrap_or_default();
    let time = mark.time.to_be_bytes();
    let mut both = [0; 8];
    let bytes: &[u8] = match flags & 0xf {
        0 => &time,
        1 => {
            let (address, rest) = both.split_at_mut(4);
            address.copy_from_slice(&mark.own.octets());
            rest.copy_from_slice(&time);
            &both
        }
        // Whose turn it is stands there already.
        3 => {
            let at = p.at + to - 1;
            let there = options.get(at..at + 4).filter(|_| to + 3 <= p.len);
            let Some(&[a, b, c, d]) = there else { return Ok(()) };
            if !ours([a, b, c, d].into()) {
                return Ok(());
            }
            let (address, rest) = both.split_at_mut(4);
            address.copy_from_slice(&[a, b, c, d]);
            rest.copy_from_slice(&time);
            &both
        }
        // Unknown: others may know it.
        _ => return Ok(()),
    };
    // Who finds no room is counted, fifteen of them at most.
    if write(options, p, to, bytes)? == Room::Full {
        let more = flags.checked_add(0x10).ok_or(fault(flags_at))?;
        if let Some(to) = options.get_mut(flags_at) {
            *to = more;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);
    const MARK: Mark = Mark { own: OWN, time: 0x8000_0001 };

    fn filled(options: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut out = options.to_vec();
        fill(&mut out, MARK, |a| a == OWN).map(|()| out)
    }

    #[test]
    fn routes_are_recorded_where_there_is_room() {
        let out = filled(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(out, [7, 11, 8, 10, 0, 2, 1, 0, 0, 0, 0, 0]);
        let out = filled(&out).unwrap();
        assert_eq!(out, [7, 11, 12, 10, 0, 2, 1, 10, 0, 2, 1, 0]);
        assert_eq!(filled(&out).unwrap(), out, "full");
        // Behind padding, and with others beside it.
        let out = filled(&[1, 148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0]).unwrap();
        assert_eq!(out, [1, 148, 4, 0, 0, 7, 7, 8, 10, 0, 2, 1]);
    }

    #[test]
    fn times_are_stamped() {
        let out = filled(&[68, 8, 5, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(out, [68, 8, 9, 0, 0x80, 0, 0, 1]);
        // Full: counted.
        assert_eq!(filled(&out).unwrap(), [68, 8, 9, 0x10, 0x80, 0, 0, 1]);
        assert_eq!(filled(&[68, 8, 9, 0xf0, 0, 0, 0, 0]), Err(Fault(23)));
        let out = filled(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(out, [68, 12, 13, 1, 10, 0, 2, 1, 0x80, 0, 0, 1]);
        // By those that are named alone, and in their turn.
        let out = filled(&[68, 12, 5, 3, 10, 0, 2, 1, 0, 0, 0, 0]).unwrap();
        assert_eq!(out, [68, 12, 13, 3, 10, 0, 2, 1, 0x80, 0, 0, 1]);
        let other = [68, 12, 5, 3, 10, 0, 2, 2, 0, 0, 0, 0];
        assert_eq!(filled(&other).unwrap(), other);
        assert_eq!(filled(&out).unwrap(), out);
        let unknown = [68, 8, 5, 2, 0, 0, 0, 0];
        assert_eq!(filled(&unknown).unwrap(), unknown);
        assert_eq!(timestamp(Nanos::from_millis(77)), 0x8000_004d);
    }

    #[test]
    fn faults_have_their_places() {
        for (options, at) in [
            (&[7, 0, 4, 0][..], 21),
            (&[1, 7, 1, 4], 22),
            (&[7, 8, 4, 0], 21),
            (&[1, 1, 1, 7], 23),
            (&[7, 2, 1, 1], 21),
            (&[7, 7, 3, 0, 0, 0, 0, 0], 22),
            (&[7, 7, 6, 0, 0, 0, 0, 0], 22),
            (&[68, 8, 4, 0, 0, 0, 0, 0], 22),
            (&[68, 3, 5, 0], 21),
            (&[68, 8, 5, 1, 0, 0, 0, 0], 22),
            (&[131, 7, 0, 0, 0, 0, 0, 0], 22),
        ] {
            assert_eq!(filled(options), Err(Fault(at)), "{options:?}");
        }
        assert_eq!(check(&[137, 3, 3, 0]), Err(Fault(22)));
        assert_eq!(check(&[68, 4, 4, 0]), Err(Fault(22)));
    }

    #[test]
    fn what_a_reply_brings_back() {
        let mut out = [0; MAX_OPTIONS_LEN];
        let asked = [148, 4, 0, 0, 7, 7, 4, 0, 0, 0, 0, 0];
        assert_eq!(sent_back(&asked, MARK, |a| a == OWN, &mut out), [7, 7, 8, 10, 0, 2, 1, 0]);
        let mut out = [0; MAX_OPTIONS_LEN];
        assert!(sent_back(&[7, 7, 6, 0, 0, 0, 0, 0], MARK, |a| a == OWN, &mut out).is_empty());
        let mut out = [0; MAX_OPTIONS_LEN];
        assert!(sent_back(&[148, 4, 0, 0], MARK, |a| a == OWN, &mut out).is_empty());
    }

    #[test]
    fn source_routes_go_on_or_are_done() {
        for kind in [131, 137] {
            let route = |pointer| check(&[1, kind, 7, pointer, 10, 0, 9, 9]);
            assert_eq!(route(4), Ok(SourceRoute::Further));
            assert_eq!(route(8), Ok(SourceRoute::Done));
        }
        assert_eq!(check(&[7, 7, 4, 0, 0, 0, 0, 0]), Ok(SourceRoute::Done));
    }
}
