//! Matches in little memory: which fields under which masks (a shape, shared by all flows that have
//! it), and the values alone, packed into bytes.

use crate::fields::key;
use crate::matches;
use weir_classify::{FlowKey, FlowMask, Match as Keys};
use weir_openflow::model::{Field, FieldMatch, Match};

/// Fields and masks of a match, and where each value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    fields: Box<[Part]>,
    /// What the data plane looks at for it.
    mask: FlowMask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    field: Field,
    mask: u128,
    at: u16,
}

/// What identifies a shape, taken from a match without making one.
pub(crate) struct ShapeKey<'a>(pub &'a Match);

impl std::hash::Hash for ShapeKey<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for f in &self.0.0 {
            (f.field as u8, f.mask).hash(state);
        }
    }
}

fn bytes_of(f: Field) -> usize {
    f.bits().div_ceil(8) as usize
}

impl Shape {
    pub fn of(m: &Match) -> Self {
        let mut at = 0;
        let fields = m.0.iter().map(|f| {
            let part = Part { field: f.field, mask: f.mask, at };
            at += bytes_of(f.field) as u16;
            part
        });
        Self { fields: fields.collect(), mask: *matches::keys(m).mask() }
    }
    /// Whether it is the shape of `m`.
    pub fn is_of(&self, m: &Match) -> bool {
        self.fields.len() == m.0.len()
            && self.fields.iter().zip(&m.0).all(|(p, f)| p.field == f.field && p.mask == f.mask)
    }
    fn value(&self, p: &Part, values: &[u8]) -> u128 {
        let at = usize::from(p.at);
        let bytes = values.get(at..at + bytes_of(p.field)).unwrap_or_default();
        bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b))
    }
    /// The match with these values.
    pub fn unpack(&self, values: &[u8]) -> Match {
        let of =
            |p: &Part| FieldMatch { field: p.field, value: self.value(p, values), mask: p.mask };
        Match(self.fields.iter().map(of).collect())
    }
    /// The match with these values in the data plane's words: what [`matches::keys`] makes of it.
    pub fn keys(&self, values: &[u8]) -> Keys {
        let mut out = FlowKey::default();
        let mut in_port = None;
        for p in &self.fields {
            let mut value = self.value(p, values);
            match (p.field, in_port) {
                (Field::InPort, _) => in_port = Some(value),
                // The port stands before it.
                (Field::InPhyPort, Some(port)) => value = matches::in_phy_port(value, port),
                _ => {}
            }
            out.set(key(p.field), value);
        }
        Keys::new(out, self.mask)
    }
    /// Whether every frame that fits this match also fits `outer` (1.3 §6.4, non-strict).
    pub fn is_within(&self, values: &[u8], outer: &Match) -> bool {
        outer.0.iter().all(|o| {
            let Ok(i) = self.fields.binary_search_by_key(&o.field, |p| p.field) else {
                return false;
            };
            let p = &self.fields[i];
            p.mask & o.mask == o.mask && self.value(p, values) & o.mask == o.value
        })
    }
    /// Whether it looks at all that `outer` looks at: without that, nothing of it is within.
    pub fn covers(&self, outer: &Match) -> bool {
        outer.0.iter().all(|o| {
            let at = self.fields.binary_search_by_key(&o.field, |p| p.field);
            at.is_ok_and(|i| self.fields[i].mask & o.mask == o.mask)
        })
    }
    /// Whether some frame may fit both (1.3 §6.4, CHECK_OVERLAP).
    pub fn overlaps(&self, values: &[u8], other: &Match) -> bool {
        self.fields.iter().all(|p| {
            other
                .get(p.field)
                .is_none_or(|o| (self.value(p, values) ^ o.value) & p.mask & o.mask == 0)
        })
    }
}

/// A match's values, in place where they are few.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    Short(u8, [u8; SHORT]),
    Long(Box<Box<[u8]>>),
}

/// Bytes that are few: two MAC addresses and a VLAN, or a port with its address and EtherType.
const SHORT: usize = 14;

const _: () = assert!(size_of::<Values>() == 16);

impl Default for Values {
    fn default() -> Self {
        Values::Short(0, [0; SHORT])
    }
}

impl std::ops::Deref for Values {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Values::Short(n, bytes) => bytes.get(..usize::from(*n)).unwrap_or_default(),
            Values::Long(bytes) => bytes,
        }
    }
}

/// A match's values.
pub(crate) fn pack(m: &Match) -> Values {
    let len: usize = m.0.iter().map(|f| bytes_of(f.field)).sum();
    let fill = |mut to: &mut [u8]| {
        for f in &m.0 {
            let n = bytes_of(f.field);
            let Some((here, rest)) = to.split_at_mut_checked(n) else { return };
            here.copy_from_slice(&f.value.to_be_bytes()[16 - n..]);
            to = rest;
        }
    };
    if len <= SHORT {
        let mut bytes = [0; SHORT];
        fill(&mut bytes);
        return Values::Short(len as u8, bytes);
    }
    let mut bytes = vec![0; len].into_boxed_slice();
    fill(&mut bytes);
    Values::Long(Box::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_loses_nothing() {
        let m = Match::default()
            .with(Field::InPort, 0xffff_fffe)
            .with_masked(Field::EthDst, 0x0200_0000_0000, 0xff00_0000_0000)
            .with(Field::EthType, 0x86dd)
            .with_masked(Field::Ipv6Dst, u128::MAX << 64, u128::MAX << 64);
        let (shape, values) = (Shape::of(&m), pack(&m));
        assert_eq!(shape.unpack(&values), m);
        assert_eq!(values.len(), 4 + 6 + 2 + 16);
        assert!(shape.is_of(&m));
        assert!(!shape.is_of(&m.clone().with(Field::EthDst, 1)));
        assert!(shape.is_within(&values, &Match::default().with(Field::EthType, 0x86dd)));
        assert!(!shape.is_within(&values, &Match::default().with(Field::EthDst, 0x0200_0000_0000)));
        assert!(!shape.is_within(&values, &Match::default().with(Field::EthSrc, 0)));
        assert!(shape.overlaps(&values, &Match::default().with(Field::EthSrc, 0)));
        assert!(!shape.overlaps(&values, &Match::default().with(Field::EthType, 0x0800)));
        assert!(shape.overlaps(&values, &Match::default().with(Field::EthDst, 0x0233_0000_0000)));
    }
    #[test]
    fn the_data_planes_words_are_the_same_by_either_way() {
        let of = |m: Match| {
            assert_eq!(Shape::of(&m).keys(&pack(&m)), matches::keys(&m), "{m:?}");
        };
        for f in Field::all() {
            of(Match::default().with(f, 1));
            of(Match::default().with(f, f.full() - 1).with(Field::EthDst, 0x0200_0000_0007));
            of(Match::default().with_masked(f, f.full() >> 1, f.full() >> 1));
        }
        of(Match::default().with(Field::InPort, 3).with(Field::InPhyPort, 3));
        of(Match::default().with(Field::InPort, 3).with(Field::InPhyPort, 4));
        of(Match::default().with(Field::InPort, 3).with(Field::InPhyPort, 0));
        of(Match::default().with(Field::Ipv6Dst, u128::MAX).with(Field::Ipv6Src, 1 << 100));
    }
}
