//! Packets that wait for a controller's word (1.3 §6.1.2, 1.0 §5.4.1): so many at most, and none for
//! ever. A number is never given twice in a while, so that a late answer meets no other packet.

use std::collections::VecDeque;
use weir_openflow::model::{ErrorCode, Port};
use weir_packet::Nanos;

/// A buffered packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buffered {
    pub in_port: Port,
    pub frame: Vec<u8>,
}

/// After this time a packet makes room for another.
const AGE: Nanos = Nanos::from_secs(1);
/// Bits of a number that are the place; the others count how often that was used.
const PLACE_BITS: u32 = 12;
/// Uses after which a place's count begins again; keeps numbers below NO_BUFFER.
const USES: u32 = 1 << 19;

#[derive(Debug, Default)]
struct Place {
    uses: u32,
    packet: Option<Buffered>,
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
            let gone =
                self.places.get(at as usize).is_none_or(|p| p.uses != uses || p.packet.is_none());
            if !gone && now.since(since) < AGE {
                break;
            }
            self.order.pop_front();
            if let Some(p) = self.places.get_mut(at as usize).filter(|_| !gone) {
                p.packet = None;
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
        p.packet = Some(packet);
        let uses = p.uses;
        self.order.push_back((at, uses, now));
        // What was taken out of order stands there still: no more of it than of the others.
        if self.order.len() > 2 * self.most as usize {
            let places = &self.places;
            self.order.retain(|(at, uses, _)| {
                places.get(*at as usize).is_some_and(|p| p.uses == *uses && p.packet.is_some())
            });
        }
        Some(uses << PLACE_BITS | at)
    }
    /// Takes a packet out.
    ///
    /// # Errors
    /// BUFFER_EMPTY for a number whose packet is gone, BUFFER_UNKNOWN for one that was never given.
    pub fn take(&mut self, id: u32) -> Result<Buffered, ErrorCode> {
        let (at, uses) = (id & ((1 << PLACE_BITS) - 1), id >> PLACE_BITS);
        let p = self.places.get_mut(at as usize).ok_or(ErrorCode::BufferUnknown)?;
        if uses == 0 || uses > p.uses {
            return Err(ErrorCode::BufferUnknown);
        }
        if uses < p.uses {
            return Err(ErrorCode::BufferEmpty);
        }
        let packet = p.packet.take().ok_or(ErrorCode::BufferEmpty)?;
        self.free.push_back(at);
        Ok(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
