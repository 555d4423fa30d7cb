//! What actions are taken to mean, held against what they do to frames: the key that a frame has
//! after the data plane's function modules must be one that the verifier reckons with.

use super::*;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use weir_classify::FlowKey;
use weir_dataplane::{GreChecksum, Packet, Stale, extract, processing};
use weir_packet::Pool;
use weir_supervisor::verify::Match;

/// The headers that a frame with a header of `from` may have after these acts.
fn after(acts: &[Act], from: Match, out: &mut Vec<Match>) {
    let Some((first, rest)) = acts.split_first() else { return out.push(from) };
    match first {
        Act::Edit(e) => after(rest, edited(e, &from), out),
        Act::Cases(cases) => {
            for c in cases {
                let Some(fit) = from.and(&c.when) else { continue };
                if !c.unless.iter().any(|u| u.covers(&fit)) {
                    after(rest, c.edits.iter().fold(fit, |m, e| edited(e, &m)), out);
                }
            }
        }
        _ => after(rest, from, out),
    }
}

fn edited(e: &Edit, m: &Match) -> Match {
    match e {
        Edit::Set(to) => and(m.freed(&to.mask), **to),
        Edit::Copy(from, to) => {
            let mut out = m.freed(&to.bits());
            for i in 0..from.width {
                let bit =
                    |f: &weir_supervisor::verify::FieldAt| f.word * 64 + (f.shift + i) as usize;
                if let Some(is) = m.bit(bit(from)) {
                    out.demand(bit(to), is);
                }
            }
            out
        }
        Edit::Reveal(bits) | Edit::Unknown(bits) => m.freed(bits),
    }
}

fn changes() -> impl Strategy<Value = Action> {
    let settable: Vec<Field> = Field::ALL
        .iter()
        .copied()
        .filter(|f| {
            processing::compile(&Action::SetField { field: *f, value: 0x1001, mask: 0x1001 })
                .is_ok()
                || processing::compile(&Action::SetField { field: *f, value: 1, mask: 1 }).is_ok()
        })
        .collect();
    let set = (prop::sample::select(settable), any::<u128>(), any::<u128>()).prop_map(
        |(field, value, mask)| {
            let tag = matches!(field, Field::VlanTci | Field::VlanVid | Field::InnerTci);
            let bits = field.full().min(match field {
                Field::IcmpType | Field::IcmpCode => 0xff,
                _ => u128::MAX,
            });
            let value = value & bits | if tag { PRESENT } else { 0 };
            Action::SetField { field, value, mask: mask & bits | u128::from(tag) }
        },
    );
    let outer = |v6: bool| Outer {
        eth_src: [2, 0, 0, 0, 0, 1],
        eth_dst: [2, 0, 0, 0, 0, 2],
        ip: match v6 {
            true => TunnelAddrs::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST),
            false => TunnelAddrs::V4(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST),
        },
        ttl: 9,
        tos: 4,
    };
    // Masks that leave bits make extension headers of what was none.
    let proto = (any::<u8>(), any::<u8>(), prop::sample::select(vec![0u8, 17, 43, 44, 47, 60]))
        .prop_map(|(mask, bits, value)| Action::SetField {
            field: Field::IpProto,
            value: (value & mask).into(),
            mask: (mask | bits).into(),
        });
    prop_oneof![
        8 => set,
        2 => proto,
        1 => Just(Action::DecTtl),
        1 => Just(Action::CopyTtlOut),
        1 => Just(Action::CopyTtlIn),
        2 => prop::sample::select(vec![0x8100, 0x88a8]).prop_map(Action::PushVlan),
        2 => Just(Action::PopVlan),
        1 => Just(Action::PushMpls(0x8847)),
        1 => prop::sample::select(vec![0x0800, 0x8847, 0x86dd]).prop_map(Action::PopMpls),
        1 => Just(Action::DecMplsTtl),
        1 => Just(Action::PushPbb(0x88e7)),
        1 => Just(Action::PopPbb),
        1 => (any::<bool>(), 0u32..1 << 24).prop_map(move |(v6, vni)| Action::EncapVxlan { outer: outer(v6), vni, port: 4789 }),
        1 => Just(Action::DecapVxlan),
        1 => any::<bool>().prop_map(move |v6| Action::EncapGre { outer: outer(v6), key: Some(7), sequence: None, checksum: GreChecksum::Absent }),
        1 => Just(Action::DecapGre),
        1 => (0u16..4096).prop_map(Action::ModVlanVid),
        1 => (0u8..8).prop_map(Action::ModVlanPcp),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(value, mask)| Action::WriteMetadata { value, mask }),
    ]
}

/// Frames of all sorts, whole and cut short.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ethertypes =
        vec![0x0800u16, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8847, 0x88e7, 0x0100, 0x88b5];
    let protos = vec![1u8, 6, 17, 44, 47, 58, 132];
    (
        prop::collection::vec(any::<u8>(), 14..120),
        0usize..4,
        prop::sample::select(ethertypes),
        prop::sample::select(protos),
        any::<bool>(),
    )
        .prop_map(|(mut b, tags, ethertype, proto, whole)| {
            let mut put = |at: usize, v: &[u8]| {
                for (to, from) in b.iter_mut().skip(at).zip(v) {
                    *to = *from;
                }
            };
            (0..tags).for_each(|t| put(12 + 4 * t, &[0x81, 0]));
            put(12 + 4 * tags, &ethertype.to_be_bytes());
            let l3 = 14 + 4 * tags;
            match ethertype {
                0x0800 => {
                    put(l3, &[0x45, 0, 0, 50, 0, 0, if whole { 0 } else { 0x20 }, 0]);
                    put(l3 + 9, &[proto]);
                }
                0x86dd => {
                    put(l3, &[0x60, 0, 0, 0, 0, 40, proto]);
                    put(l3 + 40, &[if proto == 58 { 135 } else { 17 }]);
                }
                0x0806 => put(l3, &[0, 1, 8, 0, 6, 4, 0, 1]),
                _ => {}
            }
            b
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_frames_become_is_reckoned_with(bytes in frame(), actions in prop::collection::vec(changes(), 1..4)) {
        let mut pool = Pool::new(1, 4096).expect("one frame");
        let mut f = pool.alloc().expect("one frame");
        f.copy_from(&bytes).expect("room");
        let mut key = FlowKey::default();
        let layers = extract(&bytes, 3, &mut key).expect("long enough");
        let before = key;
        let mut p = Packet { frame: &mut f, key: &mut key, layers, stale: Stale::No };
        let mut done = Ok(());
        for a in &actions {
            let change = processing::compile(a).expect("valid");
            done = done.and_then(|()| change.map_or(Ok(()), |c| processing::apply(&c, &mut p)));
        }
        let done = done.and_then(|()| p.refresh());
        pool.free(f);
        // What is dropped goes nowhere.
        if done.is_ok() {
            let meaning = Meaning {
                port: &|_| None,
                program: &[],
                remarking: &[],
                invalid_ttl: InvalidTtl::Drop,
                own_fields: OwnFields::None,
            };
            let mut all = Vec::new();
            after(&acts(&actions, &meaning), Match::new([u64::MAX; WORDS], before.0), &mut all);
            prop_assert!(
                all.iter().any(|m| m.has(&key.0)),
                "{actions:?}\n{before:x?}\n{key:x?}\nmay be {all:x?}"
            );
        }
    }
}
