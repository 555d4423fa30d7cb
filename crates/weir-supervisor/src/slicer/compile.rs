//! Pieces of the flow space in the words that a version has: its switch must be able to take each of them.
//!
//! Room: pure. Called by `flows` for every flow: what can't be said is refused, never widened. `packets` widens by
//! [`alike`] where nobody has asked for anything, and cuts it to what is the slice's.

use super::cube::TooFine;
use weir_openflow::codec;
use weir_openflow::model::{
    Field, FieldMatch, FlowCommand, FlowMod, Match, Message, Msg, VLAN_PRESENT, Version,
};

const PRESENT: u128 = VLAN_PRESENT as u128;

/// The same headers as `piece`, in matches that `version` can say: fields that take no mask are listed value by
/// value.
///
/// # Errors
/// More than `limit` would be needed, or no number is enough.
pub fn speakable(version: Version, piece: Match, limit: usize) -> Result<Vec<Match>, TooFine> {
    if can_say(version, &piece) {
        return Ok(vec![piece]);
    }
    let mut all = vec![Match::default()];
    for f in &piece.0 {
        let masked = f.mask != f.field.full() && f.mask != 0;
        let values = match masked && !takes_mask(version, &piece, f) {
            true => values(f, limit)?,
            false => vec![*f],
        };
        let with = |m: &Match| {
            let values = values.clone();
            let m = m.clone();
            values.into_iter().map(move |v| m.clone().with_masked(v.field, v.value, v.mask))
        };
        all = all.iter().flat_map(with).collect();
        if all.len() > limit {
            return Err(TooFine(limit));
        }
    }
    if all.iter().all(|m| can_say(version, m)) { Ok(all) } else { Err(TooFine(limit)) }
}

/// A match for frames like the one of this header: with what `version` can say of it. It may match more than the
/// header does, and of 1.0 it is never all that there is to say: an exact match would go before every other
/// (1.0 §3.4).
#[must_use]
pub fn alike(version: Version, header: &Match) -> Match {
    let mut m = Match::default();
    for f in &header.0 {
        if version == Version::V10 && f.field == Field::IpDscp {
            continue;
        }
        let more = m.clone().with_masked(f.field, f.value, f.mask);
        if can_say(version, &more) {
            m = more;
        }
    }
    m
}

/// Whether `version` has a word for this part of the match: 1.0 masks IPv4's and ARP's addresses alone, and has any tag
/// where a priority is asked for.
fn takes_mask(version: Version, piece: &Match, f: &FieldMatch) -> bool {
    match (version, f.field) {
        (Version::V13, _) => f.field.maskable(),
        (Version::V10, Field::Ipv4Src | Field::Ipv4Dst | Field::ArpSpa | Field::ArpTpa) => true,
        (Version::V10, Field::VlanVid) => f.mask == PRESENT && piece.get(Field::VlanPcp).is_some(),
        (Version::V10, _) => false,
    }
}

/// Every value of a masked field that some frame has: without a tag there is no VLAN.
fn values(f: &FieldMatch, limit: usize) -> Result<Vec<FieldMatch>, TooFine> {
    let open = f.field.full() & !f.mask;
    if open.count_ones() >= 16 || 1usize << open.count_ones() > limit {
        return Err(TooFine(limit));
    }
    let mut all = Vec::new();
    // Counts through the open bits alone, from none of them to all.
    let mut n = 0u128;
    loop {
        let value = f.value | n;
        if f.field != Field::VlanVid || value == 0 || value & PRESENT != 0 {
            all.push(FieldMatch { field: f.field, value, mask: f.field.full() });
        }
        n = n.wrapping_sub(open) & open;
        if n == 0 {
            return Ok(all);
        }
    }
}

fn can_say(version: Version, m: &Match) -> bool {
    let f = FlowMod { matcher: m.clone(), ..FlowMod::new(FlowCommand::Add) };
    let mut bytes = Vec::new();
    let msg = Msg { xid: 0, body: Message::FlowMod(f) };
    if codec::encode(version, &msg, &mut bytes).is_err() {
        return false;
    }
    // 1.0 passes over what it deems meaningless; what comes back another must not be sent.
    matches!(
        codec::decode(version, &bytes),
        Ok(Msg { body: Message::FlowMod(back), .. }) if back.matcher == *m
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ports_is_listed_where_a_mask_can_not_be() {
        let tcp = Match::default().with(Field::EthType, 0x800).with(Field::IpProto, 6);
        let range = tcp.clone().with_masked(Field::TcpDst, 80, 0xfffc);
        for version in [Version::V10, Version::V13] {
            let all = speakable(version, range.clone(), 64).unwrap();
            let wanted: Vec<Match> = (80..84).map(|p| tcp.clone().with(Field::TcpDst, p)).collect();
            assert_eq!(all, wanted);
            assert_eq!(speakable(version, range.clone(), 3), Err(TooFine(3)));
        }
        // 1.0 has no mask for a VLAN either; and a priority needs none for the tag that it is in.
        let vlans = |mask| Match::default().with_masked(Field::VlanVid, 0x1014, mask);
        let two: Vec<Match> =
            [0x1014, 0x1015].map(|v| Match::default().with(Field::VlanVid, v)).into();
        for mask in [0x1ffe, 0x0ffe] {
            assert_eq!(speakable(Version::V10, vlans(mask), 64), Ok(two.clone()));
            assert_eq!(speakable(Version::V13, vlans(mask), 64), Ok(vec![vlans(mask)]));
        }
        assert!(speakable(Version::V10, vlans(0x1ffe), 1).is_err());
        let tag = Match::default().with_masked(Field::VlanVid, 0x1000, 0x1000);
        assert!(speakable(Version::V10, tag.clone(), 64).is_err());
        let priority = tag.with(Field::VlanPcp, 3);
        assert_eq!(speakable(Version::V10, priority.clone(), 64), Ok(vec![priority]));
        let masked = Match::default().with_masked(Field::EthDst, 0, 1 << 40);
        assert_eq!(speakable(Version::V13, masked.clone(), 1), Ok(vec![masked.clone()]));
        assert!(speakable(Version::V10, masked, 64).is_err());
    }
}
