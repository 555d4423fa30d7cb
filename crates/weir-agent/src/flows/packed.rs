//! Matches in little memory: which fields under which masks (a shape, shared by all flows that have
//! it), and the values alone, packed into bytes.

use weir_openflow::model::{Field, FieldMatch, Match};

/// Fields and masks of a match, and where each value lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    fields: Box<[Part]>,
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
        Self { fields: fields.collect() }
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

/// A match's values.
pub(crate) fn pack(m: &Match) -> Box<[u8]> {
    let mut out = Vec::with_capacity(m.0.iter().map(|f| bytes_of(f.field)).sum());
    for f in &m.0 {
        out.extend_from_slice(&f.value.to_be_bytes()[16 - bytes_of(f.field)..]);
    }
    out.into_boxed_slice()
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
}
