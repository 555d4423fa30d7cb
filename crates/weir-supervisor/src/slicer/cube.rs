//! The algebra of header space: matches as ternary cubes, met, told apart and cut from one another.
//!
//! Room: arithmetic over [`Match`], no state. Used by the flow space, by the judgement of actions and by
//! the book of flows. A cube is a well-formed match: sorted by field, each field behind what it needs,
//! so what is made of well-formed cubes is well-formed again. (Kazemian, Varghese, McKeown, "Header
//! Space Analysis: Static Checking for Networks", NSDI 2012, §3, has the operations.)

use weir_openflow::model::{Field, FieldMatch, Match, VLAN_PRESENT};

/// More cubes than were allowed would be needed to say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than {0} rules would be needed")]
pub struct TooFine(pub usize);

/// What two demands on one field have in common; `None`: nothing.
fn meet_field(a: &FieldMatch, b: &FieldMatch) -> Option<FieldMatch> {
    if (a.value ^ b.value) & a.mask & b.mask != 0 {
        return None;
    }
    canonical(FieldMatch { field: a.field, value: a.value | b.value, mask: a.mask | b.mask })
}

/// Without a tag there is no VLAN id either: "no tag" has one form.
fn canonical(m: FieldMatch) -> Option<FieldMatch> {
    let present = u128::from(VLAN_PRESENT);
    if m.field != Field::VlanVid || m.mask & present == 0 || m.value & present != 0 {
        return Some(m);
    }
    (m.value == 0).then_some(FieldMatch { mask: Field::VlanVid.full(), ..m })
}

/// What both match; `None`: nothing.
pub fn meet(a: &Match, b: &Match) -> Option<Match> {
    let (mut x, mut y) = (a.0.as_slice(), b.0.as_slice());
    let mut out = Vec::with_capacity(x.len() + y.len());
    loop {
        match (x, y) {
            ([f, fs @ ..], [g, gs @ ..]) => {
                if f.field < g.field {
                    out.push(canonical(*f)?);
                    x = fs;
                } else if g.field < f.field {
                    out.push(canonical(*g)?);
                    y = gs;
                } else {
                    out.push(meet_field(f, g)?);
                    (x, y) = (fs, gs);
                }
            }
            (rest, []) | ([], rest) => {
                for f in rest {
                    out.push(canonical(*f)?);
                }
                return Some(Match(out));
            }
        }
    }
}

/// Whether some header is matched by both.
pub fn overlaps(a: &Match, b: &Match) -> bool {
    let (mut x, mut y) = (a.0.as_slice(), b.0.as_slice());
    while let ([f, fs @ ..], [g, gs @ ..]) = (x, y) {
        if f.field < g.field {
            x = fs;
        } else if g.field < f.field {
            y = gs;
        } else {
            if meet_field(f, g).is_none() {
                return false;
            }
            (x, y) = (fs, gs);
        }
    }
    true
}

/// Whether everything that `a` matches is matched by `b`, too.
pub fn is_within(a: &Match, b: &Match) -> bool {
    b.0.iter().all(|g| {
        g.mask == 0
            || a.get(g.field)
                .is_some_and(|f| g.mask & !f.mask == 0 && (f.value ^ g.value) & g.mask == 0)
    })
}

/// What `a` matches and `b` does not, as cubes that do not overlap, appended to `out`.
///
/// Field by field in the order of their numbers, bit by bit from the highest: cut from a prefix, the
/// pieces are prefixes, and each piece has what its fields need.
pub fn cut(a: &Match, b: &Match, out: &mut Vec<Match>) {
    if !overlaps(a, b) {
        out.push(a.clone());
        return;
    }
    let mut common = a.clone();
    for g in &b.0 {
        let has = common.get(g.field).copied();
        let mut value = has.map_or(0, |f| f.value);
        let mut mask = has.map_or(0, |f| f.mask);
        let mut open = g.mask & !mask;
        while open != 0 {
            let bit = 1u128 << (127 - open.leading_zeros());
            open &= !bit;
            mask |= bit;
            let other = FieldMatch { field: g.field, value: value | (!g.value & bit), mask };
            if let Some(m) = canonical(other) {
                out.push(common.clone().with_masked(m.field, m.value, m.mask));
            }
            value |= g.value & bit;
        }
        if mask != 0 {
            common = common.with_masked(g.field, value, mask);
        }
    }
}

/// What of `from` none of `holes` matches, as cubes that do not overlap.
///
/// # Errors
/// [`TooFine`] where more than `limit` would be needed.
pub fn remainder<'a>(
    from: Vec<Match>,
    holes: impl IntoIterator<Item = &'a Match>,
    limit: usize,
) -> Result<Vec<Match>, TooFine> {
    let mut left = from;
    for hole in holes {
        let mut next = Vec::with_capacity(left.len());
        for piece in &left {
            cut(piece, hole, &mut next);
            if next.len() > limit {
                return Err(TooFine(limit));
            }
        }
        left = next;
    }
    Ok(left)
}

/// Without what it demands of `field`, and of whatever needs that.
#[must_use]
pub fn without(mut m: Match, field: Field) -> Match {
    m.0.retain(|f| f.field != field);
    // What lost its ground goes, too; once through is enough, for needs stand in front.
    let mut kept = Match(Vec::with_capacity(m.0.len()));
    for f in m.0 {
        if f.field.prerequisite().met_by(&kept) {
            kept.0.push(f);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three fields of few bits and their every value: what algebra says of cubes is looked up.
    fn cube() -> impl Strategy<Value = Match> {
        let part =
            |field: Field, bits: u128| (0..=bits, 0..=bits).prop_map(move |(v, m)| (field, v, m));
        (part(Field::EthDst, 7), part(Field::TunnelId, 7), part(Field::Metadata, 3)).prop_map(
            |(a, b, c)| {
                [a, b, c]
                    .into_iter()
                    .filter(|(_, _, m)| *m != 0)
                    .fold(Match::default(), |m, (f, v, mask)| m.with_masked(f, v, mask))
            },
        )
    }

    fn points() -> impl Iterator<Item = Match> {
        (0..8u128).flat_map(|a| {
            (0..8u128).flat_map(move |b| {
                (0..4u128).map(move |c| {
                    let m = Match::default().with(Field::EthDst, a).with(Field::TunnelId, b);
                    m.with(Field::Metadata, c)
                })
            })
        })
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_sets(a in cube(), b in cube()) {
            let met = meet(&a, &b);
            let mut rest = Vec::new();
            cut(&a, &b, &mut rest);
            let (mut both, mut only_a) = (false, false);
            for p in points() {
                let (in_a, in_b) = (is_within(&p, &a), is_within(&p, &b));
                both |= in_a && in_b;
                only_a |= in_a && !in_b;
                prop_assert_eq!(in_a && in_b, met.as_ref().is_some_and(|m| is_within(&p, m)));
                let n = rest.iter().filter(|r| is_within(&p, r)).count();
                prop_assert_eq!(n, usize::from(in_a && !in_b));
            }
            // A point beyond the few bits stands for those that have them all.
            prop_assert_eq!(both, overlaps(&a, &b));
            prop_assert_eq!(!only_a, is_within(&a, &b));
        }
    }

    #[test]
    fn no_tag_has_one_form() {
        let any = Match::default();
        let ten = Match::default().with(Field::VlanVid, 0x100a);
        let mut rest = Vec::new();
        cut(&any, &ten, &mut rest);
        assert_eq!(rest.len(), 13);
        let none = Match::default().with(Field::VlanVid, 0);
        assert_eq!(rest.iter().filter(|r| **r == none).count(), 1);
        let tagless = Match::default().with_masked(Field::VlanVid, 0, 0x1000);
        assert!(meet(&tagless, &ten).is_none());
        assert_eq!(meet(&tagless, &none), Some(none));
    }

    #[test]
    fn what_loses_its_ground_goes() {
        let m = Match::default().with(Field::EthType, 0x800).with(Field::IpProto, 6);
        let m = m.with(Field::TcpDst, 80).with(Field::EthDst, 1);
        assert_eq!(without(m.clone(), Field::IpProto).0.len(), 2);
        assert_eq!(without(m, Field::EthType), Match::default().with(Field::EthDst, 1));
    }
}
