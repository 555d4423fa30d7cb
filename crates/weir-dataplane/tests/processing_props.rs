//! Properties of the processing stage: no bytes and no changes lead to a panic or outside a frame,
//! and checksums that were right are right afterwards, by an oracle that sums them from scratch.

mod processing_oracle;
mod processing_rig;

use processing_oracle::{Found, checksums};
use processing_rig::{Rig, outer, unhex};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::sync::OnceLock;
use weir_classify::Field;
use weir_dataplane::processing::{Change, compile};
use weir_dataplane::{Action, GreChecksum};

/// The frames that scapy built for the golden vectors: one of each kind.
fn kinds() -> &'static [(String, Vec<u8>)] {
    static KINDS: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/processing.txt");
        let text = std::fs::read_to_string(path).unwrap();
        let frames = text.lines().filter_map(|l| l.strip_prefix("F ")?.split_once(' '));
        frames.map(|(name, hex)| (name.to_owned(), unhex(hex))).collect()
    })
}

/// Numbers with many zeros and ones, where ones' complement has its edges.
fn edgy() -> impl Strategy<Value = u128> {
    let word = prop_oneof![any::<u16>(), Just(0), Just(1), Just(0xfffe), Just(0xffff)];
    prop::array::uniform8(word).prop_map(|w| w.iter().fold(0, |n, w| n << 16 | u128::from(*w)))
}

/// Any change, as compiled; actions that are refused are no changes.
fn any_change() -> impl Strategy<Value = Change> {
    // What says which header comes next is left alone: behind another, no sum was ever right.
    let says = [Field::EthType, Field::IpProto, Field::MplsBos];
    let fields: Vec<Field> = Field::ALL.iter().copied().filter(|f| !says.contains(f)).collect();
    let set = (select(fields), edgy(), prop_oneof![Just(u128::MAX), edgy()]);
    let set = set.prop_map(|(field, value, mask)| {
        let full = match field {
            Field::IcmpType | Field::IcmpCode => 0xff,
            f => f.full(),
        };
        // A tag stays a tag.
        let tag = matches!(field, Field::VlanTci | Field::VlanVid | Field::InnerTci);
        let value = if tag { value | 0x1000 } else { value };
        Action::SetField { field, value: value & full, mask: mask & full }
    });
    let version = select(&["4", "6"][..]);
    let key = prop::option::of(any::<u32>());
    let gre = (version.clone(), key.clone(), key, any::<bool>()).prop_map(|(v, k, s, sum)| {
        let checksum = if sum { GreChecksum::Present } else { GreChecksum::Absent };
        Action::EncapGre { outer: outer(v), key: k, sequence: s, checksum }
    });
    let vxlan = (version, 0u32..1 << 24, 1u16..).prop_map(|(v, vni, port)| Action::EncapVxlan {
        outer: outer(v),
        vni,
        port,
    });
    let plain = select(vec![
        Action::DecTtl,
        Action::DecMplsTtl,
        Action::CopyTtlIn,
        Action::CopyTtlOut,
        Action::PushVlan(0x8100),
        Action::PushVlan(0x88a8),
        Action::PopVlan,
        Action::PushMpls(0x8847),
        Action::PopMpls(0x0800),
        Action::PopMpls(0x86dd),
        Action::PopMpls(0x8848),
        Action::PushPbb(0x88e7),
        Action::PopPbb,
        Action::DecapVxlan,
        Action::DecapGre,
    ]);
    prop_oneof![8 => set, 4 => plain, 1 => gre, 1 => vxlan]
        .prop_filter_map("refused, or no change", |a| compile(&a).ok().flatten())
}

/// A frame of some kind, damaged: bytes replaced, the end cut off.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec((any::<Index>(), any::<u8>()), 0..6);
    (any::<Index>(), bytes, any::<Index>(), any::<bool>()).prop_map(|(kind, bytes, end, cut)| {
        let mut f = kind.get(kinds()).1.clone();
        for (at, b) in bytes {
            let n = f.len().min(90);
            f[at.index(n)] = b;
        }
        if cut {
            f.truncate(end.index(f.len() + 1));
        }
        f
    })
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(any_change(), 1..7)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000, max_local_rejects: u32::MAX, ..ProptestConfig::default()
    })]

    /// The rig checks what each change promises after each change.
    #[test]
    fn any_bytes_any_changes(
        bytes in prop_oneof![
            1 => prop::collection::vec(any::<u8>(), 0..200),
            4 => damaged(),
        ],
        changes in changes(),
    ) {
        Rig::new().run(&bytes, &changes);
    }

    #[test]
    fn right_checksums_stay_right(kind in any::<Index>(), changes in changes()) {
        let (name, bytes) = kind.get(kinds());
        prop_assert!(!checksums(bytes).contains(&Found::Wrong), "{}", name);
        let out = Rig::new().run(bytes, &changes).unwrap();
        let found = checksums(&out.bytes);
        prop_assert!(!found.contains(&Found::Wrong), "{name}: {changes:?}\n{:02x?}", out.bytes);
    }

    /// What somebody else broke is not repaired: the receiver must still notice.
    #[test]
    fn wrong_checksums_stay_wrong(
        kind in any::<Index>(), at in any::<Index>(), flip in 1u8.., changes in changes(),
    ) {
        let (name, bytes) = kind.get(kinds());
        let mut bytes = bytes.clone();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let before = wrong(&bytes);
        let mut rig = Rig::new();
        for c in &changes {
            // Layers that come, go, or come out of hiding have no before to compare with; nor has
            // a field that a change replaces whole, the damage with it.
            let same_fields = matches!(
                c,
                Change::DecTtl | Change::Mac(_) | Change::Tci(_) | Change::MplsEntry(_)
            );
            if !same_fields || before == 0 {
                continue;
            }
            let out = rig.run(&bytes, std::slice::from_ref(c)).unwrap();
            prop_assert_eq!(wrong(&out.bytes), before, "{}: {:?}", name, c);
        }
    }

    /// A tunnel's inside comes out as it went in.
    #[test]
    fn wrapped_and_unwrapped(kind in any::<Index>(), wrap in any_change()) {
        let unwrap = match wrap {
            Change::EncapGre(_) => Change::DecapGre,
            Change::EncapVxlan(_) => Change::DecapVxlan,
            Change::PushVlan(_) => Change::PopVlan,
            Change::PushPbb => Change::PopPbb,
            _ => return Ok(()),
        };
        let (name, bytes) = kind.get(kinds());
        let out = Rig::new().run(bytes, &[wrap.clone(), unwrap]).unwrap();
        prop_assert_eq!(&out.bytes, bytes, "{}: {:?}", name, wrap);
        match wrap {
            Change::EncapVxlan(e) => {
                prop_assert_eq!(out.key.get(Field::TunnelId), e.vni.into());
            }
            Change::EncapGre(e) => {
                prop_assert_eq!(out.key.get(Field::TunnelId), e.key.unwrap_or(0).into());
            }
            _ => {}
        }
    }
}

fn wrong(bytes: &[u8]) -> usize {
    checksums(bytes).iter().filter(|f| **f == Found::Wrong).count()
}

/// Without headroom nothing is pushed, and the frame is as it was.
#[test]
fn no_room() {
    use weir_dataplane::{Packet, Stale, extract};
    use weir_packet::{DropReason, Pool};
    let mut pool = Pool::new(1, 2048).unwrap();
    let (_, bytes) = &kinds()[0];
    let wraps = [
        Action::PushVlan(0x8100),
        Action::PushMpls(0x8847),
        Action::PushPbb(0x88e7),
        Action::EncapVxlan { outer: outer("4"), vni: 1, port: 4789 },
        Action::EncapGre {
            outer: outer("6"),
            key: Some(1),
            sequence: Some(5),
            checksum: GreChecksum::Present,
        },
    ];
    for action in wraps {
        let change = compile(&action).unwrap().unwrap();
        let mut f = pool.alloc().unwrap();
        f.push_front(f.headroom()).unwrap();
        f.copy_from(bytes).unwrap();
        let mut key = weir_classify::FlowKey::default();
        let layers = extract(f.bytes(), 1, &mut key).unwrap();
        let mut p = Packet { frame: &mut f, key: &mut key, layers, stale: Stale::No };
        let got = weir_dataplane::processing::apply(&change, &mut p);
        assert_eq!(got, Err(DropReason::NoRoom), "{action:?}");
        assert_eq!((p.frame.bytes(), p.layers), (&bytes[..], layers));
        if let Change::EncapGre(e) = &change {
            let next = e.sequence.as_ref().map(|s| s.load(std::sync::atomic::Ordering::Relaxed));
            assert_eq!(next, Some(5), "a sequence number was used up");
        }
        pool.free(f);
    }
}
