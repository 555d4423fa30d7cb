//! weir's flow key as the verifier's header: where fields lie, and which keys frames can have.
//!
//! Room: pure. Called by the rest of `verify`.

use weir_classify::{Field, FlowKey, FlowMask, VLAN_PRESENT};
use weir_supervisor::verify::{Bits, FieldAt, Layout, Match, WORDS};

const _: () = assert!(WORDS == weir_classify::WORDS);

/// Where a field of at most 64 bits lies.
pub fn at(f: Field) -> FieldAt {
    let i = f.info();
    FieldAt { word: i.word, shift: i.shift, width: i.width }
}

/// The bits of some fields.
pub fn bits_of(fields: &[Field]) -> Bits {
    let mut m = FlowMask::default();
    fields.iter().for_each(|f| m.set(*f, m.get(*f) | f.full()));
    m.0
}

/// The headers that have `value` under `mask` in a field.
pub fn masked(f: Field, value: u128, mask: u128) -> Match {
    of(&weir_classify::Match::any().with_masked(f, value, mask))
}

/// The headers that have `value` in a field.
pub fn exactly(f: Field, value: u128) -> Match {
    masked(f, value, f.full())
}

/// A rule's match.
pub fn of(m: &weir_classify::Match) -> Match {
    Match::new(m.mask().0, m.value().0)
}

/// The same as a rule's match.
pub fn as_match(m: &Match) -> weir_classify::Match {
    weir_classify::Match::new(FlowKey(m.value), FlowMask(m.mask))
}

/// What holds of keys: none has metadata, a tunnel id or a physical port as it comes in.
pub fn layout() -> Layout {
    let nothing = bits_of(&[Field::Metadata, Field::TunnelId, Field::InPhyPort]);
    Layout { in_port: at(Field::InPort), start: Match::new(nothing, [0; WORDS]), shapes: shapes() }
}

/// The keys that `weir_dataplane::extract` can make, whatever the frame: sets whose union has all.
fn shapes() -> Vec<Match> {
    let mut out = Vec::new();
    for payload in payloads() {
        for tags in tags() {
            out.extend(payload.and(&tags));
        }
    }
    out
}

/// No tag, one, two.
fn tags() -> [Match; 3] {
    let p = u128::from(VLAN_PRESENT);
    let none = |f| exactly(f, 0);
    let tag = |f| masked(f, p, p);
    let both = |a: Match, b: Match| a.and(&b).unwrap_or(a);
    let (outer, inner) = (Field::VlanTci, Field::InnerTci);
    [both(none(outer), none(inner)), both(tag(outer), none(inner)), both(tag(outer), tag(inner))]
}

/// Keys whose fields are free where named and zero elsewhere, Ethernet and tags apart.
fn free(fixed: &[(Field, u128, u128)], free: &[Field]) -> Match {
    let ethernet = [
        Field::InPort,
        Field::EthDst,
        Field::EthSrc,
        Field::EthType,
        Field::VlanTci,
        Field::InnerTci,
        Field::User0,
        Field::User1,
        Field::User2,
        Field::User3,
        Field::UserPresent,
    ];
    let open = bits_of(&ethernet);
    let named = bits_of(free);
    let mut mask = [0; WORDS];
    for (m, (o, n)) in mask.iter_mut().zip(open.into_iter().zip(named)) {
        *m = !(o | n);
    }
    let zero = Match::new(mask, [0; WORDS]);
    fixed.iter().fold(zero, |all, (f, v, m)| {
        let bits = masked(*f, *v, *m);
        // What is fixed stands in the place of the zero.
        all.freed(&bits.mask).and(&bits).unwrap_or(all)
    })
}

fn payloads() -> Vec<Match> {
    let full = |f: Field, v: u128| (f, v, f.full());
    let ports = [Field::TpSrc, Field::TpDst];
    let v4 = [Field::Ipv4Src, Field::Ipv4Dst];
    let v6 = [Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::Ipv6Exthdr];
    let ip = [Field::IpTos, Field::IpTtl];
    let mut out = Vec::new();
    for (ethertype, addresses) in [(0x0800, v4.as_slice()), (0x86dd, v6.as_slice())] {
        let ethertype = full(Field::EthType, ethertype);
        let open = |more: &[Field]| [addresses, &ip, more].concat();
        // Of first fragments and whole packets bit 0 may be set, of later ones both are.
        let first = (Field::IpFrag, 0, 0xfe);
        let of = |proto, more: &[(Field, u128, u128)], open: &[Field]| {
            let fixed = [&[ethertype, first, full(Field::IpProto, proto)], more].concat();
            free(&fixed, open)
        };
        out.push(of(17, &[], &open(&ports)));
        out.push(of(
            6,
            &[(Field::TcpFlags, 0, 0xf000)],
            &open(&[&ports[..], &[Field::TcpFlags]].concat()),
        ));
        out.push(of(132, &[], &open(&ports)));
        // Type and code stand where ports do, and are a byte each.
        let bytes = [(Field::IcmpType, 0, 0xff00), (Field::IcmpCode, 0, 0xff00)];
        out.extend([1, 58].map(|proto| of(proto, &bytes, &open(&ports))));
        for (kind, link) in [(135, Field::NdSll), (136, Field::NdTll)] {
            let fixed = [full(Field::IcmpType, kind), (Field::IcmpCode, 0, 0xff00)];
            out.push(of(58, &fixed, &open(&[Field::TpDst, Field::NdTarget, link])));
        }
        // Any protocol, its header not there or not looked at.
        let open = open(&[Field::IpProto]);
        out.push(free(&[ethertype, first], &open));
        out.push(free(&[ethertype, (Field::IpFrag, 3, 0xff)], &open));
    }
    for ethertype in [0x0806, 0x8035] {
        let fields = [Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha, Field::ArpOp];
        out.push(free(&[full(Field::EthType, ethertype)], &fields));
    }
    for ethertype in [0x8847, 0x8848] {
        let fields = [Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl];
        out.push(free(&[full(Field::EthType, ethertype)], &fields));
    }
    out.push(free(&[full(Field::EthType, 0x88e7)], &[Field::PbbIsid]));
    // Nothing behind the type is known: of any type but lengths, which are 0x05ff.
    let types = [(0x8000, 0x8000), (0x0600, 0xfe00), (0x05ff, 0xffff)];
    let more = [0x4000, 0x2000, 0x1000, 0x0800].map(|bit| (bit, bit));
    out.extend(types.into_iter().chain(more).map(|(v, m)| free(&[(Field::EthType, v, m)], &[])));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_dataplane::extract;

    proptest! {
        /// Every key of every frame is of a shape.
        #[test]
        fn every_key_has_a_shape(
            mut bytes in prop::collection::vec(any::<u8>(), 14..90),
            tags in 0usize..4,
            ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8847, 0x88e7, 0x8100, 0x0100]),
            first in prop::sample::select(vec![0x45u8, 0x46, 0x60, 0x00]),
            proto in prop::sample::select(vec![1u8, 6, 17, 44, 58, 132]),
        ) {
            let mut put = |at: usize, v: &[u8]| {
                v.iter().enumerate().for_each(|(i, b)| if let Some(to) = bytes.get_mut(at + i) { *to = *b });
            };
            (0..tags).for_each(|t| put(12 + 4 * t, &[0x81, 0]));
            put(12 + 4 * tags, &ethertype.to_be_bytes());
            let l3 = 14 + 4 * tags;
            put(l3, &[first]);
            put(l3 + if first == 0x60 { 6 } else { 9 }, &[proto]);
            if first != 0x60 {
                put(l3 + 2, &[0, 60]);
                put(l3 + 6, &[0, 0]);
            }
            let mut key = FlowKey::default();
            extract(&bytes, 3, &mut key).expect("long enough");
            prop_assert!(shapes().iter().any(|s| s.has(&key.0)), "{key:x?}");
        }
    }
}
