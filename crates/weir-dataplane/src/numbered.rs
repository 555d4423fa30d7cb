//! What rules of a VDP name by numbers, meters and groups, by number and by place: as many as subscribers, perhaps, and one asked for with
//! every frame.
//!
//! Room: part of a VDP's tables, on both paths. Control puts and takes them. The worker finds a rule's by the place that the rule
//! was told when it was installed ([`Named`]): lines of memory that can be asked for ahead, and no search. A place may have become
//! another's; then the number says so, and finds it.

use crate::programs::hash::Fold;
use std::collections::HashMap;
use weir_classify::simd::prefetch_read;

/// A meter or a group as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its number.
    pub id: u32,
    /// Where it stood when that was written down.
    pub place: u32,
}

/// No two lines for a small one.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Place<T> {
    id: u32,
    it: T,
}

const _: () = assert!(size_of::<Option<Place<crate::meter::Meter>>>() == 32);

#[derive(Clone, Debug)]
struct Inner<T> {
    by_id: HashMap<u32, u32, Fold>,
    places: Vec<Option<Place<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Inner<T> {
    fn default() -> Self {
        Self { by_id: HashMap::default(), places: Vec::new(), free: Vec::new() }
    }
}

/// A VDP's meters, or its groups; one without any has a word for them.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T>(Option<Box<Inner<T>>>);

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Numbered<T> {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |m| m.by_id.len())
    }
    /// Where one stands.
    pub fn place(&self, id: u32) -> Option<u32> {
        self.0.as_ref()?.by_id.get(&id).copied()
    }
    /// Whether there is such a one.
    pub fn contains(&self, id: u32) -> bool {
        self.place(id).is_some()
    }
    /// One by its number.
    pub fn get(&self, id: u32) -> Option<&T> {
        let m = self.0.as_ref()?;
        let place = *m.by_id.get(&id)?;
        m.places.get(place as usize)?.as_ref().map(|p| &p.it)
    }
    /// One by its number.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let m = self.0.as_mut()?;
        let place = *m.by_id.get(&id)?;
        m.places.get_mut(place as usize)?.as_mut().map(|p| &mut p.it)
    }
    /// One as a rule names it.
    #[inline(always)]
    pub fn at(&self, at: Named) -> Option<&T> {
        match self.standing(at) {
            Some(p) => Some(&p.it),
            None => self.get(at.id),
        }
    }
    /// One as a rule names it.
    #[inline(always)]
    pub fn at_mut(&mut self, at: Named) -> Option<&mut T> {
        if self.standing(at).is_none() {
            return self.get_mut(at.id);
        }
        let place = self.0.as_mut()?.places.get_mut(at.place as usize)?;
        place.as_mut().map(|p| &mut p.it)
    }
    /// Who stands where a rule was told, if it is who was meant.
    #[inline(always)]
    fn standing(&self, at: Named) -> Option<&Place<T>> {
        let place = self.0.as_ref()?.places.get(at.place as usize)?;
        place.as_ref().filter(|p| p.id == at.id)
    }
    /// Asks for where one stands.
    #[inline(always)]
    pub fn prefetch_place(&self, at: Named) {
        if let Some(place) = self.0.as_ref().and_then(|m| m.places.get(at.place as usize)) {
            prefetch_read(place);
        }
    }
    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = self.0.iter().flat_map(|m| &m.places);
        places.flatten().map(|p| (p.id, &p.it))
    }
    /// All numbers, in their order.
    pub fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
    /// Puts one there, in the place of the one that has its number, which is given back.
    pub fn insert(&mut self, id: u32, it: T) -> Option<T> {
        let m = self.0.get_or_insert_default();
        let new = Some(Place { id, it });
        let place = match m.by_id.get(&id) {
            Some(place) => *place,
            None => {
                let place = m.free.pop().unwrap_or(m.places.len() as u32);
                m.by_id.insert(id, place);
                place
            }
        };
        match m.places.get_mut(place as usize) {
            Some(p) => std::mem::replace(p, new).map(|p| p.it),
            None => {
                m.places.push(new);
                None
            }
        }
    }
    /// Takes one away.
    pub fn remove(&mut self, id: u32) -> Option<T> {
        let m = self.0.as_mut()?;
        let place = m.by_id.remove(&id)?;
        m.free.push(place);
        m.places.get_mut(place as usize)?.take().map(|p| p.it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Band, BandKind, Meter, Unit};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use weir_packet::Nanos;

    fn meter(burst: u32) -> Meter {
        Meter::new(Unit::Packets, &[Band { kind: BandKind::Drop, rate: 1, burst }]).unwrap()
    }

    proptest! {
        /// Whatever was put and taken away, a rule's meter is the one that has its number, wherever it stands now.
        #[test]
        fn as_a_map(ops in prop::collection::vec((0u32..6, 0u32..3), 1..60)) {
            let (mut meters, mut map) = (Numbered::<Meter>::default(), BTreeMap::new());
            let mut told = Vec::new();
            for (n, (id, what)) in ops.into_iter().enumerate() {
                let frames = n as u64 + 1;
                if what == 0 {
                    let gone = meters.remove(id).map(|m| m.counted().frames);
                    prop_assert_eq!(gone, map.remove(&id));
                } else {
                    let mut m = meter(1);
                    (0..frames).for_each(|_| _ = m.pass(Nanos(0), 60));
                    let before = meters.insert(id, m).map(|m| m.counted().frames);
                    prop_assert_eq!(before, map.insert(id, frames));
                    told.push(Named { id, place: meters.place(id).unwrap() });
                }
                prop_assert_eq!(meters.len(), map.len());
                for at in &told {
                    let want = map.get(&at.id).copied();
                    prop_assert_eq!(meters.at(*at).map(|m| m.counted().frames), want);
                    prop_assert_eq!(meters.get(at.id).map(|m| m.counted().frames), want);
                    prop_assert_eq!(meters.contains(at.id), want.is_some());
                    prop_assert_eq!(meters.at_mut(*at).map(|m| m.counted().frames), want);
                    meters.prefetch_place(*at);
                }
                let all: BTreeMap<u32, u64> = meters.iter().map(|(id, m)| (id, m.counted().frames)).collect();
                prop_assert_eq!(&all, &map);
                prop_assert_eq!(meters.ids(), map.keys().copied().collect::<Vec<_>>());
            }
        }
    }
}
