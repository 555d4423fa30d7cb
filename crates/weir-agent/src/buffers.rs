//! Packets that wait for a controller's word (1.3 §6.1.2, 1.0 §5.4.1): so many at most, and none for
//! ever. A number is never given twice in a while, so that a late answer meets no other packet.
//!
//! What names a packet is gathered and may yet be refused, so the packet is lent first: it comes back
//! where it was, or is spent.

use std::collections::VecDeque;
use weir_openflow::model::{ErrorCode, Port};
use weir_packet::Nanos;

/// A buffered packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buffered {
    pub in_port: Port,
    pub frame: Vec<u8>,
}

/// A packet that a gathered change or packet-out has taken along.
#[derive(Debug)]
pub(crate) struct Lent {
    pub id: u32,
    pub packet: Buffered,
}

/// After this time a packet makes room for another that has none.
const AGE: Nanos = Nanos::from_secs(1);
/// After this time it is forgotten, whether there is room or not.
const LONGEST: Nanos = Nanos::from_secs(10);
/// Bits of a number that are the place; the others count how often that was used.
const PLACE_BITS: u32 = 12;
/// Uses after which a place's count begins again; keeps numbers below NO_BUFFER.
const USES: u32 = 1 << 19;

#[derive(Debug, Default)]
struct Place {
    uses: u32,
    holds: Holds,
}

/// What stands at a place.
#[derive(Debug, Default)]
enum Holds {
    #[default]
    Nothing,
    Packet(Buffered),
    /// A packet that is lent.
    Lent,
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Buffers {
    places: Vec<Place>,
    free: VecDeque<u32>,
    /// Taken places, oldest first; some may be free again meanwhile.
    order: VecDeque<(u32, u32, Nanos)>,
    most: u32,
}

impl Buffers {
    /// A pool of `most` packets, as far as numbers reach.
    pub fn new(most: u16) -> Self {
        let most = u32::from(most).min(1 << PLACE_BITS);
        Self { places: Vec::new(), free: VecDeque::new(), order: VecDeque::new(), most }
    }
    /// How many it holds at most.
    pub fn most(&self) -> u32 {
        self.most
    }
    /// Keeps a packet and gives its number; `None` when there is no room.
    pub fn put(&mut self, packet: Buffered, now: Nanos) -> Option<u32> {
        while let Some((at, uses, since)) = self.order.front().copied() {
            let has_room = !self.free.is_empty() || (self.places.len() as u32) < self.most;
            let life = if has_room { LONGEST } else { AGE };
            let place = self.places.get_mut(at as usize).filter(|p| p.uses == uses);
            match place.as_ref().map(|p| &p.holds) {
                Some(Holds::Packet(_)) if now.since(since) < life => break,
                // It is settled before long.
                Some(Holds::Lent) => break,
                _ => {}
            }
            self.order.pop_front();
            if let Some(p) = place.filter(|p| !matches!(p.holds, Holds::Nothing)) {
                p.holds = Holds::Nothing;
                self.free.push_back(at);
            }
        }
        let at = match self.free.pop_front() {
            Some(at) => at,
            None if (self.places.len() as u32) < self.most => {
                self.places.push(Place::default());
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        let p = self.places.get_mut(at as usize)?;
        p.uses = p.uses % USES + 1;
        p.holds = Holds::Packet(packet);
        let uses = p.uses;
        self.order.push_back((at, uses, now));
        // What was taken out of order stands there still: no more of it than of the others.
        if self.order.len() > 2 * self.most as usize {
            let places = &self.places;
            self.order.retain(|(at, uses, _)| {
                let taken = |p: &Place| p.uses == *uses && !matches!(p.holds, Holds::Nothing);
                places.get(*at as usize).is_some_and(taken)
            });
        }
        Some(uses << PLACE_BITS | at)
    }
    /// Lends a packet, to be given back or spent.
    ///
    /// # Errors
    /// BUFFER_EMPTY for a number whose packet is gone or lent, BUFFER_UNKNOWN for one that was never
    /// given.
    pub fn lend(&mut self, id: u32) -> Result<Lent, ErrorCode> {
        let (at, uses) = split(id);
        let p = self.places.get_mut(at as usize).ok_or(ErrorCode::BufferUnknown)?;
        if uses == 0 || uses > p.uses {
            return Err(ErrorCode::BufferUnknown);
        }
        if uses < p.uses {
            return Err(ErrorCode::BufferEmpty);
        }
        match std::mem::replace(&mut p.holds, Holds::Lent) {
            Holds::Packet(packet) => Ok(Lent { id, packet }),
            other => {
                p.holds = other;
                Err(ErrorCode::BufferEmpty)
            }
        }
    }
    /// Every place's number with its packet, if it has one: those first that were taken first.
    pub fn all(&self) -> Vec<(u32, Option<&Buffered>, Nanos)> {
        let mut out = Vec::with_capacity(self.places.len());
        for (p, at) in self.places.iter().zip(0..).filter(|(p, _)| p.uses > 0) {
            let since = self.order.iter().find(|(a, uses, _)| (*a, *uses) == (at, p.uses));
            let packet = match &p.holds {
                Holds::Packet(b) => Some(b),
                Holds::Nothing | Holds::Lent => None,
            };
            out.push((p.uses << PLACE_BITS | at, packet, since.map_or(Nanos(0), |s| s.2)));
        }
        out.sort_by_key(|(_, _, since)| *since);
        out
    }
    /// A place as it was in another pool, with its packet, if it had one. Places beyond this pool's are
    /// left out, with what they hold.
    pub fn restore(&mut self, id: u32, packet: Option<Buffered>, since: Nanos) {
        let (at, uses) = split(id);
        if at >= self.most || uses == 0 || uses > USES {
            return;
        }
        for new in self.places.len() as u32..=at {
            self.places.push(Place::default());
            self.free.push_back(new);
        }
        let Some(p) = self.places.get_mut(at as usize) else { return };
        p.uses = p.uses.max(uses);
        if let Some(b) = packet.filter(|_| p.uses == uses && matches!(p.holds, Holds::Nothing)) {
            p.holds = Holds::Packet(b);
            self.free.retain(|f| *f != at);
            self.order.push_back((at, uses, since));
        }
    }
    /// Whether this packet is lent.
    pub fn is_lent(&self, id: u32) -> bool {
        let (at, uses) = split(id);
        let lent = |p: &Place| p.uses == uses && matches!(p.holds, Holds::Lent);
        self.places.get(at as usize).is_some_and(lent)
    }
    /// What was lent was not used, and is there again.
    pub fn give_back(&mut self, lent: Lent) {
        if self.is_lent(lent.id)
            && let Some(p) = self.places.get_mut(split(lent.id).0 as usize)
        {
            p.holds = Holds::Packet(lent.packet);
        }
    }
    /// What was lent was used.
    pub fn spend(&mut self, id: u32) {
        let (at, _) = split(id);
        if self.is_lent(id)
            && let Some(p) = self.places.get_mut(at as usize)
        {
            p.holds = Holds::Nothing;
            self.free.push_back(at);
        }
    }
}

/// A number's place and use.
fn split(id: u32) -> (u32, u32) {
    (id & ((1 << PLACE_BITS) - 1), id >> PLACE_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Buffers {
        fn take(&mut self, id: u32) -> Result<Buffered, ErrorCode> {
            let lent = self.lend(id)?;
            self.spend(id);
            Ok(lent.packet)
        }
    }

    fn packet(n: u8) -> Buffered {
        Buffered { in_port: Port(n.into()), frame: vec![n] }
    }

    #[test]
    fn a_number_is_good_once() {
        let mut b = Buffers::new(2);
        let one = b.put(packet(1), Nanos(0)).unwrap();
        let two = b.put(packet(2), Nanos(0)).unwrap();
        assert_eq!(b.put(packet(3), Nanos(0)), None);
        assert_eq!(b.take(two).unwrap(), packet(2));
        assert_eq!(b.take(two), Err(ErrorCode::BufferEmpty));
        let three = b.put(packet(3), Nanos(0)).unwrap();
        assert_ne!(two, three);
        assert_eq!(b.take(two), Err(ErrorCode::BufferEmpty));
        assert_eq!(b.take(one).unwrap(), packet(1));
        assert_eq!(b.take(three + (1 << PLACE_BITS)), Err(ErrorCode::BufferUnknown));
        assert_eq!(b.take(77), Err(ErrorCode::BufferUnknown));
        assert_eq!(b.take(u32::MAX), Err(ErrorCode::BufferUnknown));
    }

    #[test]
    fn a_lent_packet_keeps_its_place_and_comes_back() {
        let mut b = Buffers::new(1);
        let id = b.put(packet(1), Nanos(0)).unwrap();
        let lent = b.lend(id).unwrap();
        assert!(b.is_lent(id));
        assert_eq!(b.lend(id).map(|l| l.packet), Err(ErrorCode::BufferEmpty));
        // Neither time nor want of room takes it.
        assert_eq!(b.put(packet(2), Nanos(AGE.0 * 9)), None);
        b.give_back(lent);
        assert_eq!(b.take(id), Ok(packet(1)));
        assert!(b.put(packet(3), Nanos(AGE.0 * 9)).is_some());
        b.spend(id);
        assert_eq!(b.put(packet(4), Nanos(AGE.0 * 9)), None, "spent once");
    }

    #[test]
    fn a_packet_stays_while_there_is_room_but_not_for_ever() {
        let mut b = Buffers::new(2);
        let first = b.put(packet(0), Nanos(0)).unwrap();
        let second = b.put(packet(1), Nanos(5 * AGE.0)).unwrap();
        b.take(second).unwrap();
        assert!(b.take(first).is_ok(), "there was room");
        let first = b.put(packet(0), Nanos(0)).unwrap();
        b.put(packet(1), LONGEST).unwrap();
        assert_eq!(b.take(first), Err(ErrorCode::BufferEmpty));
    }

    #[test]
    fn old_packets_make_room_and_nothing_grows() {
        let mut b = Buffers::new(4);
        let old = b.put(packet(0), Nanos(0)).unwrap();
        for i in 0..10_000u64 {
            let now = Nanos(i * 400_000_000);
            b.put(packet(1), now);
            if i % 3 == 0
                && let Some(n) = b.put(packet(2), now)
            {
                b.take(n).unwrap();
            }
        }
        assert_eq!(b.take(old), Err(ErrorCode::BufferEmpty));
        assert!(b.places.len() <= 4 && b.order.len() <= 8 && b.free.len() <= 4);
    }
}
