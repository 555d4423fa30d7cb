//! Who may have how many of the connections that come to the slicer: nobody takes those that are kept for others.
//!
//! Room: arithmetic. Asked by `service` for each connection that comes.
//!
//! A quarter of all is kept for switches, and a quarter for slices, for each the same; the rest is whose who
//! comes first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use weir_supervisor::slicer::space::SliceId;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// A switch's.
    Switches,
    /// A controller's or tool's of this slice.
    Slice(SliceId),
}

/// How many there may be.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Of all.
    pub connections: usize,
    /// Slices to which somebody may come.
    pub slices: usize,
}

impl Room {
    /// What is kept for one side.
    fn kept(self, side: Side) -> usize {
        match side {
            Side::Switches => self.connections / 4,
            Side::Slice(_) => self.connections / 4 / self.slices.max(1),
        }
    }
}

/// Connections that there are.
#[derive(Debug, Default)]
pub struct Places(RefCell<BTreeMap<Side, usize>>);

/// A connection's place, until this is dropped.
#[derive(Debug)]
pub struct Place {
    of: Rc<Places>,
    side: Side,
}

impl Places {
    /// A place for one more connection, where there is one.
    pub fn take(self: &Rc<Self>, side: Side, room: Room) -> Option<Place> {
        let mut all = self.0.borrow_mut();
        let own = all.get(&side).copied().unwrap_or(0);
        let total: usize = all.values().sum();
        // Of what is kept, so much has been taken by those for whom it is.
        let used = |all: &BTreeMap<Side, usize>| -> usize {
            all.iter().map(|(s, n)| (*n).min(room.kept(*s))).sum()
        };
        let slice = room.kept(Side::Slice(SliceId(0))) * room.slices;
        let kept = (room.kept(Side::Switches) + slice).saturating_sub(used(&all));
        let free = if own < room.kept(side) { total } else { total + kept };
        if free >= room.connections {
            return None;
        }
        all.insert(side, own + 1);
        Some(Place { of: Rc::clone(self), side })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.of.0.borrow_mut();
        match all.get_mut(&self.side) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(all.remove(&self.side)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slice(n: u16) -> Side {
        Side::Slice(SliceId(n))
    }
    fn most(places: &Rc<Places>, side: Side, room: Room) -> Vec<Place> {
        std::iter::from_fn(|| places.take(side, room)).collect()
    }

    #[test]
    fn one_slice_leaves_what_is_kept_for_the_others_and_for_switches() {
        let (places, room) = (Rc::<Places>::default(), Room { connections: 1024, slices: 4 });
        let red = most(&places, slice(0), room);
        assert_eq!(red.len(), 1024 - 256 - 3 * 64);
        let others: Vec<_> = (1..4).map(|s| most(&places, slice(s), room)).collect();
        assert!(others.iter().all(|o| o.len() == 64));
        assert_eq!(most(&places, Side::Switches, room).len(), 256);
        drop(red);
        // What has gone leaves its place to whoever comes.
        assert_eq!(most(&places, slice(1), room).len(), 1024 - 256 - 64 - 3 * 64);
    }

    #[test]
    fn few_places_are_whose_who_comes_first() {
        let (places, room) = (Rc::<Places>::default(), Room { connections: 1, slices: 9 });
        let one = places.take(slice(8), room);
        assert!(one.is_some() && places.take(Side::Switches, room).is_none());
        drop(one);
        assert!(places.take(Side::Switches, room).is_some());
    }

    proptest! {
        /// Whoever comes and goes: never more than there may be, and whoever has less than is kept for it gets a place.
        #[test]
        fn what_is_kept_is_there(
            connections in 1_usize..60,
            slices in 1_usize..5,
            steps in prop::collection::vec((0_u16..5, any::<bool>()), 0..200),
        ) {
            let (places, room) = (Rc::<Places>::default(), Room { connections, slices });
            let mut held: Vec<(Side, Place)> = Vec::new();
            for (who, comes) in steps {
                let side = if who == 0 { Side::Switches } else { slice((who - 1) % slices as u16) };
                let of = |held: &[(Side, Place)]| held.iter().filter(|(s, _)| *s == side).count();
                if comes {
                    let before = of(&held);
                    let place = places.take(side, room);
                    prop_assert!(place.is_some() || before >= room.kept(side));
                    held.extend(place.map(|p| (side, p)));
                } else if let Some(at) = held.iter().position(|(s, _)| *s == side) {
                    held.swap_remove(at);
                }
                prop_assert!(held.len() <= connections);
            }
        }
    }
}
