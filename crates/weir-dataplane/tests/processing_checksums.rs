//! What holds for any bytes and any list of changes: no panic, headers where a fresh look finds
//! them, an untouched frame after an error. And for checksums: right ones stay right, wrong ones
//! stay wrong, by a full sum over everything after each list.

mod processing_changes;
mod processing_frames;

use processing_changes::*;
use processing_frames::{Kind, crc32c, internet, kinds, pseudo};
use proptest::prelude::*;
use weir_classify::{Field, VLAN_PRESENT, ones};
use weir_dataplane::Action;
use weir_packet::DropReason;

fn be16(b: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([b[at], b[at + 1]]))
}

/// Where the IP header is, if the outermost network header is one.
fn ip_at(b: &[u8]) -> Option<usize> {
    let mut at = 12;
    let mut tags = 0;
    while tags < 2 && matches!(be16(b, at), 0x8100 | 0x88a8 | 0x9100) && b.len() >= at + 6 {
        (at, tags) = (at + 4, tags + 1);
    }
    let mut ethertype = be16(b, at);
    at += 2;
    if ethertype < 0x600 && b.get(at..at + 6) == Some(&[0xaa, 0xaa, 3, 0, 0, 0]) {
        ethertype = be16(b, at + 6);
        at += 8;
    }
    let version = b.get(at)? >> 4;
    matches!((ethertype, version), (0x800, 4) | (0x86dd, 6)).then_some(at)
}

/// Which checksum of the outermost IP packet is wrong. `rest` is what later fragments carry.
fn wrong(b: &[u8], rest: &[u8]) -> Option<&'static str> {
    let at = ip_at(b)?;
    let (src, mut dst, proto, upper, first);
    if b[at] >> 4 == 4 {
        let ihl = usize::from(b[at] & 15) * 4;
        let header = &b[at..at + ihl];
        if internet(&[header]) != 0 {
            return Some("IPv4 header");
        }
        if be16(header, 6) & 0x1fff != 0 {
            return None;
        }
        first = be16(header, 6) & 0x2000 != 0;
        (src, dst, proto) = (header[12..16].to_vec(), header[16..20].to_vec(), header[9]);
        // The kinds of frame here have a source route alone, in front of all other options.
        if ihl > 20 && matches!(header[20], 131 | 137) && header[22] <= header[21] {
            let last = usize::from(header[21]);
            dst = header[20 + last - 4..20 + last].to_vec();
        }
        upper = &b[at + ihl..at + be16(header, 2)];
    } else {
        let end = at + 40 + be16(b, at + 4);
        (src, dst) = (b[at + 8..at + 24].to_vec(), b[at + 24..at + 40].to_vec());
        let (mut next, mut o, mut more) = (b[at + 6], at + 40, false);
        while matches!(next, 0 | 43 | 44 | 51 | 60) {
            let size = match next {
                44 if be16(b, o + 2) & 0xfff8 != 0 => return None,
                44 => 8,
                51 => (usize::from(b[o + 1]) + 2) * 4,
                _ => (usize::from(b[o + 1]) + 1) * 8,
            };
            more |= next == 44 && b[o + 3] & 1 == 1;
            if next == 43 && b[o + 3] > 0 {
                // Segment routing's list is backwards.
                let last = if b[o + 2] == 4 { o + 8 } else { o + size - 16 };
                dst = b[last..last + 16].to_vec();
            }
            (next, o) = (b[o], o + size);
        }
        (proto, first) = (next, more);
        upper = &b[o..end];
    }
    let whole = if first { [upper, rest].concat() } else { upper.to_vec() };
    let covered = pseudo(&src, &dst, proto, whole.len());
    let name = match proto {
        6 => "TCP",
        17 if be16(upper, 6) == 0 => return None,
        17 => "UDP",
        1 if src.len() == 4 => "ICMP",
        58 if src.len() == 16 => "ICMPv6",
        132 => {
            let mut zeroed = whole.clone();
            zeroed[8..12].fill(0);
            return (crc32c(&zeroed).to_le_bytes() != whole[8..12]).then_some("SCTP");
        }
        _ => return None,
    };
    let covered = if proto == 1 { Vec::new() } else { covered };
    (internet(&[&covered, &whole]) != 0).then_some(name)
}

fn a_field() -> impl Strategy<Value = Action> {
    // What says which header comes next is left alone: behind another, no sum was ever right.
    let says = [Field::EthType, Field::IpProto, Field::MplsBos];
    let rest: Vec<Field> = Field::ALL.iter().copied().filter(|f| !says.contains(f)).collect();
    let fields = (0..rest.len()).prop_map(move |i| rest[i]);
    (fields, any::<u128>(), prop_oneof![Just(u128::MAX), any::<u128>()]).prop_map(
        |(field, v, m)| {
            let width = match field {
                Field::IcmpType | Field::IcmpCode => 8,
                f => f.info().width,
            };
            let tag = matches!(field, Field::VlanTci | Field::VlanVid | Field::InnerTci);
            let present = if tag { u128::from(VLAN_PRESENT) } else { 0 };
            let (value, mask) = ((v | present) & ones(width), m & ones(width));
            Action::SetField { field, value, mask }
        },
    )
}

fn an_action() -> impl Strategy<Value = Action> {
    let all = actions();
    let listed = (0..all.len()).prop_map(move |i| all[i].clone());
    prop_oneof![3 => listed, 2 => a_field()]
}

fn a_kind() -> impl Strategy<Value = Kind> {
    let all = kinds();
    (0..all.len()).prop_map(move |i| all[i].clone())
}

/// Bytes that look like frames: kinds with bytes changed, cut or made longer, and noise.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), any::<u8>());
    let bent = (a_kind(), prop::collection::vec(edit, 0..6), 0..40usize, 0..20usize);
    let bent = bent.prop_map(|(k, edits, cut, more)| {
        let mut b = k.bytes;
        for (at, v) in edits {
            let at = at.index(b.len());
            b[at] = v;
        }
        // Most cuts would leave nothing to look at.
        b.truncate(b.len().saturating_sub(cut.saturating_sub(20)));
        b.resize(b.len() + more.saturating_sub(10), 0xee);
        b
    });
    prop_oneof![4 => bent, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

/// Whether an action says by itself that bytes are another header than they were.
fn renames(a: &Action) -> bool {
    matches!(a, Action::PopMpls(_))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_bytes_any_changes(
        b in bytes(),
        list in prop::collection::vec(an_action(), 0..12),
        headroom in prop_oneof![0..40usize, Just(512)],
    ) {
        // `run` checks layers, keys and frames after errors.
        let changed = run(&b, headroom, &compiled(&list));
        prop_assert_eq!(changed.is_none(), b.len() < 14);
    }

    #[test]
    fn right_checksums_stay_right(k in a_kind(), list in prop::collection::vec(an_action(), 1..8)) {
        prop_assume!(!k.name.contains("three tags") && !list.iter().any(renames));
        let changes = compiled(&list);
        let got = run(&k.bytes, 1024, &changes).unwrap();
        for step in &got.steps {
            // Inside a tunnel a fragment's sums are nobody's to look at.
            prop_assert_eq!(wrong(step, &k.rest), None, "{}: {:?}", k.name, changes);
        }
        let reason = got.dropped.map(|(why, _)| why);
        let known = [DropReason::TtlExpired, DropReason::NoSuchHeader, DropReason::Fragment,
            DropReason::Malformed, DropReason::NoRoom];
        prop_assert!(reason.is_none_or(|why| known.contains(&why)), "{reason:?}");
    }

    #[test]
    fn wrong_checksums_stay_wrong(
        k in a_kind(),
        list in prop::collection::vec(a_field(), 1..8),
        flip in any::<prop::sample::Index>(),
    ) {
        let mut b = k.bytes.clone();
        let at = flip.index(b.len());
        b[at] ^= 0x10;
        let before = run(&b, 0, &[]).unwrap();
        let same = run(&k.bytes, 0, &[]).unwrap().layers == before.layers;
        let Some(what) = wrong_or_none(&b, &k.rest, same) else { return Ok(()) };
        let got = run(&b, 256, &compiled(&list)).unwrap();
        prop_assert_eq!(wrong_or_none(&got.bytes, &k.rest, true), Some(what), "{}", k.name);
    }
}

/// [`wrong`], where a turned bit left the headers where they were.
fn wrong_or_none(b: &[u8], rest: &[u8], same: bool) -> Option<&'static str> {
    if !same {
        return None;
    }
    // A length that was turned has no right sum to lose.
    std::panic::catch_unwind(|| wrong(b, rest)).ok().flatten()
}

#[test]
fn every_kind_is_right_as_it_comes() {
    for k in kinds() {
        assert_eq!(wrong(&k.bytes, &k.rest), None, "{}", k.name);
    }
}

#[test]
fn what_no_frame_can_be_changed_by_is_refused() {
    use weir_dataplane::processing::compile;
    let set = |field, value, mask| Action::SetField { field, value, mask };
    for (a, says) in [
        (set(Field::InPort, 1, 1), "'in_port' can't be set"),
        (set(Field::IpDscp, 64, 0x3f), "too large"),
        (set(Field::IpDscp, 1, 0x40), "too large"),
        (set(Field::VlanVid, 5, 0x1fff), "0x1000"),
        (set(Field::IcmpType, 256, 0xffff), "too large"),
        (Action::PushVlan(0x9100), "0x8100"),
        (Action::PushMpls(0x0800), "0x8847"),
        (Action::PopMpls(5), "0x0600"),
        (Action::PushPbb(0x8100), "0x88e7"),
    ] {
        let why = compile(&a).expect_err("refused").to_string();
        assert!(why.contains(says), "{a:?}: {why}");
    }
}
