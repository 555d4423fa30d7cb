//! A VDP's meters, by number and by place: as many as subscribers, perhaps, and one asked for with every frame.
//!
//! Room: part of a VDP's tables, on both paths. Control puts and takes them. The worker finds a rule's meter by the place that the rule
//! was told when it was installed ([`MeterAt`]): two lines of memory, each asked for ahead, and no hash. A place may have become
//! another meter's; then the number says so, and finds it.

use crate::compile::ActionResult;
use crate::meter::Meter;
use crate::programs::hash::Fold;
use std::collections::HashMap;
use weir_classify::simd::prefetch_read;

/// A meter as a rule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterAt {
    /// Its number.
    pub id: u32,
    /// Where it stood when that was written down.
    pub place: u32,
}

/// No two lines for one of them.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Place {
    id: u32,
    meter: Meter,
}

const _: () = assert!(size_of::<Option<Place>>() == 32);

#[derive(Clone, Debug, Default)]
struct Inner {
    by_id: HashMap<u32, u32, Fold>,
    places: Vec<Option<Place>>,
    free: Vec<u32>,
}

/// A VDP's meters; one without any has a word for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meters(Option<Box<Inner>>);

impl Meters {
    /// How many there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |m| m.by_id.len())
    }
    /// Where a meter stands.
    pub fn place(&self, id: u32) -> Option<u32> {
        self.0.as_ref()?.by_id.get(&id).copied()
    }
    /// What a rule's actions come down to, with the place of the meter that it begins with.
    pub fn placed(&self, r: ActionResult) -> ActionResult {
        let mut r = r;
        if let Some(place) = r.meter().and_then(|m| self.place(m.id)) {
            r.meter_is_at(place);
        }
        r
    }
    /// Whether there is such a meter.
    pub fn contains(&self, id: u32) -> bool {
        self.place(id).is_some()
    }
    /// A meter by its number.
    pub fn get(&self, id: u32) -> Option<&Meter> {
        let m = self.0.as_ref()?;
        let place = *m.by_id.get(&id)?;
        m.places.get(place as usize)?.as_ref().map(|p| &p.meter)
    }
    /// A meter by its number.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Meter> {
        let m = self.0.as_mut()?;
        let place = *m.by_id.get(&id)?;
        m.places.get_mut(place as usize)?.as_mut().map(|p| &mut p.meter)
    }
    /// A meter as a rule names it.
    #[inline(always)]
    pub fn at(&mut self, at: MeterAt) -> Option<&mut Meter> {
        if !self.stands(at) {
            return self.get_mut(at.id);
        }
        let place = self.0.as_mut()?.places.get_mut(at.place as usize)?;
        place.as_mut().map(|p| &mut p.meter)
    }
    #[inline(always)]
    fn stands(&self, at: MeterAt) -> bool {
        let place = self.0.as_ref().and_then(|m| m.places.get(at.place as usize));
        place.and_then(Option::as_ref).is_some_and(|p| p.id == at.id)
    }
    /// Asks for where a meter stands.
    #[inline(always)]
    pub fn prefetch_place(&self, at: MeterAt) {
        if let Some(place) = self.0.as_ref().and_then(|m| m.places.get(at.place as usize)) {
            prefetch_read(place);
        }
    }
    /// Asks for what a frame reads of a meter.
    #[inline(always)]
    pub fn prefetch(&self, at: MeterAt) {
        let place = self.0.as_ref().and_then(|m| m.places.get(at.place as usize));
        match place.and_then(Option::as_ref) {
            Some(p) if p.id == at.id => p.meter.prefetch(),
            _ => self.get(at.id).into_iter().for_each(Meter::prefetch),
        }
    }
    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Meter)> {
        let places = self.0.iter().flat_map(|m| &m.places);
        places.flatten().map(|p| (p.id, &p.meter))
    }
    /// Puts a meter there, in the place of the one that has its number.
    pub fn insert(&mut self, id: u32, meter: Meter) {
        let m = self.0.get_or_insert_default();
        let new = Some(Place { id, meter });
        let place = match m.by_id.get(&id) {
            Some(place) => *place,
            None => {
                let place = m.free.pop().unwrap_or(m.places.len() as u32);
                m.by_id.insert(id, place);
                place
            }
        };
        match m.places.get_mut(place as usize) {
            Some(p) => *p = new,
            None => m.places.push(new),
        }
    }
    /// Takes a meter away.
    pub fn remove(&mut self, id: u32) -> Option<Meter> {
        let m = self.0.as_mut()?;
        let place = m.by_id.remove(&id)?;
        m.free.push(place);
        m.places.get_mut(place as usize)?.take().map(|p| p.meter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Band, BandKind, Unit};
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
            let (mut meters, mut map) = (Meters::default(), BTreeMap::new());
            let mut told = Vec::new();
            for (n, (id, what)) in ops.into_iter().enumerate() {
                let frames = n as u64 + 1;
                if what == 0 {
                    let gone = meters.remove(id).map(|m| m.counted().frames);
                    prop_assert_eq!(gone, map.remove(&id));
                } else {
                    let mut m = meter(1);
                    (0..frames).for_each(|_| _ = m.pass(Nanos(0), 60));
                    meters.insert(id, m);
                    map.insert(id, frames);
                    told.push(MeterAt { id, place: meters.place(id).unwrap() });
                }
                prop_assert_eq!(meters.len(), map.len());
                for at in &told {
                    let want = map.get(&at.id).copied();
                    prop_assert_eq!(meters.at(*at).map(|m| m.counted().frames), want);
                    prop_assert_eq!(meters.get(at.id).map(|m| m.counted().frames), want);
                    prop_assert_eq!(meters.contains(at.id), want.is_some());
                    meters.prefetch_place(*at);
                    meters.prefetch(*at);
                }
                let all: BTreeMap<u32, u64> = meters.iter().map(|(id, m)| (id, m.counted().frames)).collect();
                prop_assert_eq!(&all, &map);
            }
        }
    }
}
