//! Matches: OpenFlow's checked and turned into the data plane's (1.3 §7.2.3, 1.0 §5.2.3).

use crate::fields::{VID_PRESENT, key};
use weir_classify::Match as Keys;
use weir_openflow::model::{ErrorCode, Field, Match, Version};

/// Brings a match into its one form: fields in order, none that says nothing. In 1.0 fields whose
/// prerequisite is not matched are ignored (§3.4); in 1.3 they are refused.
///
/// # Errors
/// BAD_MATCH with the code that fits.
pub(crate) fn check(m: &mut Match, version: Version) -> Result<(), ErrorCode> {
    m.0.retain(|f| f.mask != 0 || !f.field.maskable());
    if !m.0.is_sorted_by(|a, b| a.field < b.field) {
        m.0.sort_by_key(|f| f.field);
        if m.0.windows(2).any(|w| w[0].field == w[1].field) {
            return Err(ErrorCode::MatchDupField);
        }
    }
    if version == Version::V10 {
        drop_unmet(m);
    }
    for f in &m.0 {
        let full = f.field.full();
        if f.mask & !full != 0 || !f.field.maskable() && f.mask != full {
            return Err(ErrorCode::MatchBadMask);
        }
        if f.value & !f.mask != 0 {
            return Err(ErrorCode::MatchBadWildcards);
        }
        if f.field == Field::VlanVid
            && f.mask & VID_PRESENT != 0
            && f.value & VID_PRESENT == 0
            && f.value != 0
        {
            return Err(ErrorCode::MatchBadValue);
        }
        if !f.field.prerequisite().met_by(m) {
            return Err(ErrorCode::MatchBadPrereq);
        }
    }
    Ok(())
}

/// Takes out fields that can't be looked at, and those that only they made possible.
fn drop_unmet(m: &mut Match) {
    loop {
        let (before, old) = (m.0.len(), m.clone());
        m.0.retain(|f| f.field.prerequisite().met_by(&old));
        if m.0.len() == before {
            return;
        }
    }
}

/// What a key has for a physical port beside a port. There are no logical ports: a frame's physical port is its port, and
/// the key's is zero. Zero itself is no port, and is told by what that leaves free: each match has its own key.
pub(crate) fn in_phy_port(value: u128, port: u128) -> u128 {
    match value {
        v if v == port => 0,
        0 => port,
        v => v,
    }
}

/// The same match in the data plane's words.
pub(crate) fn keys(m: &Match) -> Keys {
    let mut out = Keys::any();
    for f in &m.0 {
        let key = key(f.field);
        // ICMP's bytes stand where ports do, which are wider.
        let wide = matches!(
            f.field,
            Field::Icmpv4Type | Field::Icmpv4Code | Field::Icmpv6Type | Field::Icmpv6Code
        );
        let mask = if wide { key.full() } else { f.mask };
        let value = match m.get(Field::InPort) {
            Some(p) if f.field == Field::InPhyPort => in_phy_port(f.value, p.value),
            _ => f.value,
        };
        out = out.with_masked(key, value, mask);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prerequisites_are_demanded_or_ignored() {
        let m = || Match::default().with(Field::TcpDst, 80).with(Field::IpProto, 6);
        assert_eq!(check(&mut m(), Version::V13), Err(ErrorCode::MatchBadPrereq));
        let mut old = m();
        check(&mut old, Version::V10).unwrap();
        assert_eq!(old, Match::default());
        let mut met = m().with(Field::EthType, 0x0800);
        check(&mut met, Version::V13).unwrap();
        assert_eq!(met.0.len(), 3);
        keys(&met).check_prereqs().unwrap();
    }

    #[test]
    fn each_fault_has_its_code() {
        let of = |m: Match| check(&mut { m }, Version::V13);
        let vid = Match::default().with(Field::VlanVid, 5);
        assert_eq!(of(vid), Err(ErrorCode::MatchBadValue));
        let masked = Match::default().with_masked(Field::EthType, 0x0800, 0xff00);
        assert_eq!(of(masked), Err(ErrorCode::MatchBadMask));
        let mut twice = Match::default().with(Field::EthDst, 1);
        twice.0.push(twice.0[0]);
        assert_eq!(of(twice), Err(ErrorCode::MatchDupField));
        let mut wild = Match::default().with_masked(Field::EthDst, 1, 1);
        wild.0[0].value = 3;
        assert_eq!(of(wild), Err(ErrorCode::MatchBadWildcards));
        assert_eq!(of(Match::default().with_masked(Field::VlanVid, 0x1000, 0x1000)), Ok(()));
        assert_eq!(of(Match::default().with(Field::VlanPcp, 3)), Err(ErrorCode::MatchBadPrereq));
    }

    #[test]
    fn every_field_can_be_turned() {
        for f in Field::all() {
            let k = keys(&Match::default().with(f, 1));
            assert_eq!(k.value().get(key(f)), 1, "{f:?}");
            assert!(k.mask().looks_at(key(f)));
        }
    }
}
